"""What a person sees at a terminal: a bar that moves and goes, and lines that stay."""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
import tiny

pytestmark = pytest.mark.slow


def at_a_terminal(*args: object, columns: int) -> tuple[int, str]:
    """Exit code and screen traffic of `python -m tonetune ARGS` on a terminal of its own."""
    leader, follower = pty.openpty()
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TERM": "xterm", "COLUMNS": str(columns), "LINES": "24"}
    command = [sys.executable, "-m", "tonetune", *map(str, args)]
    child = subprocess.Popen(command, stdin=follower, stdout=follower, stderr=follower, env=environment)
    os.close(follower)
    traffic = b""
    try:
        while block := os.read(leader, 65536):
            traffic += block
    except OSError:  # what Linux says where the other side has closed
        pass
    os.close(leader)
    return child.wait(), traffic.decode()


@pytest.mark.parametrize("columns", [80, 200])
def test_a_live_bar_fits_the_terminal(quick: list[str], tmp_path: Path, columns: int) -> None:
    data = tiny.write_rows(tmp_path / "rows.csv", tiny.emotion_rows("zh", 120))
    flags = ["--data", data, *quick, "--set", f"run.dir={tmp_path}", "--set", "train.epochs=20"]
    code, traffic = at_a_terminal("train", *flags, columns=columns)
    assert code == 0, traffic
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", traffic)
    frames = [line for line in re.split(r"[\r\n]+", shown) if line.startswith("training")]
    assert len(frames) > 2 and "…" not in "".join(frames)
    assert all(re.search(r"\d+/60 .*loss \d.* texts/s .*\d:\d\d:\d\d left", frame) for frame in frames[1:-1])
    assert all(len(line.rstrip()) <= columns for line in frames)
    assert "Tuned" in shown and "report" in shown
