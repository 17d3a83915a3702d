"""The command line: verbs over the Python interface. stdout carries data, stderr talk; imports no torch for --help."""


def main() -> None:
    """Run the program; the exit code follows tonetune.errors."""
    from tonetune.cli import annotate, doctor, plan, results, runs, serve, sweep  # noqa: F401  # add their verbs to the app
    from tonetune.cli.app import run

    run()
