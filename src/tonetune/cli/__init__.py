"""The command line: verbs over the Python interface. stdout carries data, stderr talk; imports no torch for --help."""

import os


def main() -> None:
    """Run the program; the exit code follows tonetune.errors."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # threads that spin stall each other beside another program
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    from tonetune.cli.app import run

    run()
