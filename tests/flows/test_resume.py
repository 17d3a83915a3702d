"""`--resume`: the result is that of a run left alone, byte for byte, or the reason why not is said."""

import errno
import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch

from tonetune.lock import held
from tonetune.rundir import read_json
from tonetune.training import loop

KILLING = Path(__file__).parents[1] / "killing.py"
EVERY = ["--set", "train.evaluate_every=5", "--set", "run.checkpoint_steps=2", "--set", "run.keep_checkpoints=1"]
LEFT_AT = 8


@contextmanager
def happens_at(step: int, error: BaseException) -> Iterator[None]:
    """Inside, `error` is raised while the gradient of an optimiser step is computed."""
    whole, left = loop.accumulate_if_it_fits, [step]

    def accumulate(*args: Any, **how: Any) -> Any:
        left[0] -= 1
        if not left[0]:
            raise error
        return whole(*args, **how)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "accumulate_if_it_fits", accumulate)
        yield


@pytest.fixture(scope="session")
def stopped(
    cli: Any, emotion_files: dict[str, Path], quick: list[str], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A run like `run` that was interrupted in step 8 of 10; copy it, never write into it."""
    root = tmp_path_factory.mktemp("stopped")
    with happens_at(LEFT_AT, KeyboardInterrupt()):
        result = cli("train", "--data", emotion_files["en.csv"], *quick, *EVERY, "--set", f"run.dir={root}", "--json")
    error = result.error(code=130)
    assert error["hint"].endswith(f"go on with: tonetune train --resume {error['where']}")
    return Path(error["where"])


@pytest.fixture
def copy(stopped: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(stopped, tmp_path / "runs" / stopped.name))


def record(run: Path) -> Any:
    return json.loads((run / "run.json").read_text(encoding="utf-8"))


def assert_equal(found: Path, alone: Path) -> None:
    """What a repeat reproduces is the same."""
    names = [str(path.relative_to(alone)) for path in alone.rglob("*") if path.is_file()]
    varying = (
        "run.json",
        "env.json",
        "run.log",
        "watch.jsonl",
        "README.md",
        "report.html",
        "config.yaml",
        "checkpoints",
        "seeds",
    )
    names = [name for name in names if name.split("/")[0] not in varying]
    assert len(names) > 15
    assert [name for name in names if (found / name).read_bytes() != (alone / name).read_bytes()] == []


def test_trap_19_an_interrupted_run_goes_on_to_the_same_result(cli: Any, copy: Path, run: Path) -> None:
    """A resumed run replays other data, or forgets head, schedule or random state."""
    before = record(copy)
    assert before["status"] == "interrupted"
    assert sorted(p.name for p in (copy / "checkpoints").iterdir()) == ["step-5", "step-7"]  # the best and the newest
    with open(copy / "metrics.jsonl", "a", encoding="utf-8") as file:  # as if killed a little later
        file.write('{"event": "step", "step": 8}\n{"event": "st')
    (copy / "eval/validation/step-9.jsonl").write_text("{}\n")
    (copy / "eval/.step-9.jsonl.0123456789abcdef").write_text("{")
    result = cli("train", "--resume", copy, "--json")
    assert result.code == 0, result.err
    assert "goes on after step 7" in result.err
    assert_equal(copy, run)
    after = record(copy)
    assert after["status"] == "finished" and after["started"] == before["started"] and "error" not in after
    assert [again["step"] for again in after["resumed"]] == [7]
    assert result.document["tuned"] == read_json(run / "eval/test/report.json")["tuned"]
    assert result.document["train"]["steps"] == 10 and result.document["train"]["epochs"] == 2.0
    watched = [json.loads(line) for line in (copy / "watch.jsonl").read_text().splitlines()]
    steps = [row["step"] for row in watched if "texts_per_s" in row]
    assert steps == list(range(1, 11))
    assert list(copy.rglob(".*")) == []
    assert "finished" in cli("train", "--resume", copy, "--json").error(code=2)["what"]


@pytest.mark.slow
def test_a_damaged_checkpoint_is_said_and_the_one_before_is_taken(cli: Any, copy: Path, run: Path) -> None:
    (copy / "checkpoints/step-7/optimizer.safetensors").write_bytes(b"")
    result = cli("train", "--resume", "auto", "--set", f"run.dir={copy.parent}", "--json")
    assert result.code == 0, result.err
    said = " ".join(result.err.split())
    assert "goes on after step 5" in said and "optimizer.safetensors does not match" in said
    assert_equal(copy, run)


def _edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


CHANGES: dict[str, tuple[Callable[[Path], Any], list[str], int, str]] = {
    "--set": (lambda run: None, ["--set", "lora.rank=4"], 2, "lora.rank: the run has 8, found 4"),
    "--model": (lambda run: None, ["--model", "demo"], 2, "model.base"),
    "--data": (lambda run: None, ["--data", "other.csv"], 2, "data.train"),
    "config.yaml": (lambda run: _edit(run / "config.yaml", "rank: 8", "rank: 16"), [], 2, "lora.rank"),
    "rows": (lambda run: _edit(run / "splits/train.jsonl", "joy", "fear"), [], 3, "splits/train.jsonl"),
    "labels": (lambda run: _edit(run / "labels.json", "joy", "joys"), [], 3, "labels.json"),
    "base": (lambda run: None, [], 5, "not the one that the run began with"),
    "tracker": (lambda run: None, ["--set", "run.trackers=[wandb]"], 2, "wandb is not installed"),
}


@pytest.mark.parametrize("case", CHANGES)
def test_what_differs_is_named_and_nothing_is_touched(
    cli: Any, copy: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    change, flags, code, named = CHANGES[case]
    change(copy)
    monkeypatch.setattr("tonetune.api.trackers.find_spec", lambda package: None)
    if case == "base":
        monkeypatch.setattr("tonetune.api.resume.fingerprint", lambda source: "another")
    before = {path: path.stat().st_mtime_ns for path in copy.rglob("*") if path.is_file()}
    error = cli("train", "--resume", copy, *flags, "--json").error(code=code)
    assert named in error["what"] and error["hint"]
    assert {path: path.stat().st_mtime_ns for path in copy.rglob("*") if path.is_file()} == before


def test_a_file_of_rows_that_has_changed_is_named(cli: Any, copy: Path, tmp_path: Path) -> None:
    data = read_json(copy / "data.json")
    (tmp_path / "rows.csv").write_text("other rows")
    data["files"][0]["path"] = str(tmp_path / "rows.csv")
    (copy / "data.json").write_text(json.dumps(data))
    assert str(tmp_path / "rows.csv") in cli("train", "--resume", copy, "--json").error(code=3)["what"]


def test_there_is_nothing_to_resume(cli: Any, run: Path, tmp_path: Path) -> None:
    assert "finished" in cli("train", "--resume", run, "--json").error(code=2)["what"]
    assert cli("train", "--resume", tmp_path, "--json").error(code=3)["hint"]
    error = cli("train", "--resume", "auto", "--set", f"run.dir={run.parent}", "--json").error(code=2)
    assert "ended before its time" in error["what"] and error["where"] == str(run.parent)
    assert "own config" in cli("train", "--resume", run, "--config", "x.yaml", "--json").error(code=2)["what"]


CARD_LOST = torch.AcceleratorError("CUDA error: device-side assert triggered\nCompile with TORCH_USE_CUDA_DSA")
FAULTS: dict[str, tuple[Exception, int, str]] = {
    "assert": (CARD_LOST, 4, "the GPU failed: CUDA error: device-side assert triggered"),
    "launch": (RuntimeError("HIP error: unspecified launch failure (hipErrorLaunchFailure)"), 4, "the GPU failed: HIP"),
    "memory": (torch.cuda.OutOfMemoryError("CUDA out of memory"), 6, "the GPU is out of memory"),
    "vanished": (FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), "/a/base"), 6, "gone or out of reach"),
    "read-only": (OSError(errno.EROFS, os.strerror(errno.EROFS), "/a/file"), 6, "Read-only"),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_leaves_a_status_and_the_line_that_goes_on(cli: Any, copy: Path, fault: str) -> None:
    error, code, said = FAULTS[fault]
    with happens_at(1, error):
        found = cli("train", "--resume", copy, "--json").error(code=code)
    assert said in found["what"] and found["hint"].endswith(f"go on with: tonetune train --resume {copy}")
    assert (record(copy)["status"], record(copy)["error"]) == ("failed", found)
    assert (copy / "checkpoints/step-7").is_dir() and not (copy / ".lock").exists()


def test_a_run_that_somebody_removed_does_not_come_back(cli: Any, copy: Path) -> None:
    def remove(*args: Any) -> None:
        shutil.rmtree(copy)
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(copy))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tonetune.api.job.append_jsonl", remove)
        assert cli("train", "--resume", copy, "--json").error(code=6)["where"] == str(copy)
    assert not copy.exists()


@pytest.mark.slow
def test_smaller_micro_batches_are_no_other_meaning(cli: Any, copy: Path, run: Path) -> None:
    result = cli("train", "--resume", copy, "--set", "train.micro_batch_tokens=64", "--json")
    assert result.code == 0, result.err
    found, alone = ((path / "metrics.jsonl").read_text().splitlines()[-1] for path in (copy, run))
    assert json.loads(found)["loss"] == pytest.approx(json.loads(alone)["loss"], rel=1e-3)


@pytest.mark.slow
def test_seeds_that_are_done_stay_and_the_others_go_on(
    cli: Any, emotion_files: dict[str, Path], quick: list[str], tmp_path: Path
) -> None:
    settings = ["evaluate.seeds=2", "train.epochs=0.8", "train.evaluate_every=2"]
    flags = ["--data", emotion_files["en.csv"], *quick, *(part for s in settings for part in ("--set", s)), "--json"]
    alone = Path(cli("train", *flags, "--set", f"run.dir={tmp_path}/alone").document["run"])
    with happens_at(4 + 3, KeyboardInterrupt()):
        error = cli("train", *flags, "--set", f"run.dir={tmp_path}/killed").error(code=130)
    found = Path(error["where"])
    assert found.parent.name == "killed" and error["hint"].endswith(f"--resume {found}")
    first = (found / "seeds/42/run.json").read_bytes()
    assert cli("train", "--resume", found, "--json").code == 0
    assert (found / "seeds/42/run.json").read_bytes() == first
    for seed in ("42", "43"):
        assert_equal(found / "seeds" / seed, alone / "seeds" / seed)
    assert_equal(found, alone)
    assert record(found)["status"] == "finished"


@pytest.mark.slow
def test_a_run_of_several_labels_goes_on_to_the_same_thresholds(cli: Any, quick: list[str], tmp_path: Path) -> None:
    rows = tiny.write_sets(tmp_path / "multi.csv", tiny.emotion_sets("en", 120))
    settings = ["train.evaluate_every=2", "evaluate.select_by=micro_f1"]
    flags = ["--data", rows, *quick, *(part for s in settings for part in ("--set", s)), "--json"]
    alone = Path(cli("train", *flags, "--set", f"run.dir={tmp_path}/alone").document["run"])
    with happens_at(5, KeyboardInterrupt()):
        found = Path(cli("train", *flags, "--set", f"run.dir={tmp_path}/stopped").error(code=130)["where"])
    result = cli("train", "--resume", found, "--json")
    assert result.code == 0 and "goes on after step 4" in result.err
    assert_equal(found, alone)
    assert "thresholds" in read_json(found / "eval/test/report.json")
    (row,) = _runs(cli, found.parent)["runs"]
    assert row["metric"] == "micro_f1" and f"micro-F1 {row['best']:.3f}" in cli("runs", found.parent).err


def _runs(cli: Any, *arguments: object) -> Any:
    return cli("runs", *arguments, "--json").document


def test_runs_are_listed_and_cleaned(cli: Any, copy: Path, run: Path) -> None:
    finished = Path(shutil.copytree(run, copy.parent / "finished"))
    lost = Path(shutil.copytree(copy, copy.parent / "lost"))
    (lost / "run.json").write_text(json.dumps({**record(lost), "status": "running"}))
    begun = copy.parent / "begun"
    begun.mkdir()
    with held(begun):
        ours = (begun / ".lock").read_text()
    (begun / ".lock").write_text(json.dumps({**json.loads(ours), "boot": "an earlier one"}))
    document = _runs(cli, copy.parent)
    rows = {Path(row["path"]).name: row for row in document["runs"]}
    status = {name: row["status"] for name, row in rows.items()}
    assert status == {copy.name: "interrupted", "finished": "finished", "lost": "lost"}
    assert rows["finished"]["best"] == read_json(run / "best.json")["value"] and rows["lost"]["step"] == 7
    size = sum(path.stat().st_size for path in run.rglob("*") if path.is_file())
    assert rows["finished"]["size_mib"] == pytest.approx(size / (1 << 20), abs=0.01)
    assert _runs(cli, finished)["runs"] == [rows["finished"] | {"age_s": _runs(cli, finished)["runs"][0]["age_s"]}]
    before = sorted(copy.parent.rglob("*"))
    said = _runs(cli, copy.parent, "--clean", "--dry-run")
    assert sorted(copy.parent.rglob("*")) == before
    gone = {str(Path(row["path"]).relative_to(copy.parent)) for row in said["removed"]}
    kept = {f"finished/checkpoints/{path.name}" for path in (run / "checkpoints").iterdir()}
    assert gone == kept | {f"{name}/checkpoints/step-5" for name in (copy.name, "lost")} | {"begun"}
    assert _runs(cli, copy.parent, "--clean")["removed"] == said["removed"]
    assert not (finished / "checkpoints").exists() and not begun.exists()
    assert [path.name for path in (copy / "checkpoints").iterdir()] == ["step-7"]
    assert _runs(cli, copy.parent, "--clean")["removed"] == []
    table = cli("runs", copy.parent)
    assert table.code == 0 and "lost" in table.err and table.out == "" and "macro-F1 0." in table.err
    assert cli("runs", copy.parent / "absent", "--json").error(code=3)["hint"]
    assert "--clean" in cli("runs", copy.parent, "--dry-run", "--json").error(code=2)["hint"]


@pytest.mark.parametrize("lock", ["", "{}", '{"pid": 1}'])
def test_cleaning_leaves_directories_whose_lock_another_program_wrote(cli: Any, tmp_path: Path, lock: str) -> None:
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / ".lock").write_text(lock)
    assert _runs(cli, tmp_path, "--clean")["removed"] == []
    assert (tmp_path / ".venv" / ".lock").read_text() == lock


@pytest.mark.parametrize(("name", "text"), [("run.json", "{}"), ("run.json", "[]"), ("metrics.jsonl", '{"a": 1}\n')])
def test_a_run_edited_by_hand_hides_no_other(cli: Any, copy: Path, run: Path, name: str, text: str) -> None:
    edited = Path(shutil.copytree(run, copy.parent / "edited"))
    (edited / name).write_text(text)
    assert [Path(row["path"]) for row in _runs(cli, copy.parent)["runs"]] == [copy]
    assert "damaged" in cli("runs", copy.parent).err


@pytest.mark.slow
def test_killed_at_any_moment_a_run_goes_on_to_the_same_result() -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(KILLING), "--kills", "3", "--signals", "KILL,TERM,INT"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "3 runs, all equal to the one left alone"


@pytest.mark.slow
def test_a_machine_without_memory_ends_the_run_and_not_its_files(
    cli: Any, copy: Path, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Allocations really fail: the process may have no more address space."""

    def accumulate(*args: Any, **how: Any) -> Any:
        before = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (1 << 20, before[1]))
        try:
            return torch.empty(1 << 30)
        finally:
            resource.setrlimit(resource.RLIMIT_AS, before)

    with monkeypatch.context() as patch:
        patch.setattr("tonetune.training.gradient.accumulate", accumulate)
        error = cli("train", "--resume", copy, "--json").error(code=6)
    assert error["what"] == "the machine is out of memory" and error["hint"].endswith(f"--resume {copy}")
    assert record(copy)["status"] == "failed" and record(copy)["error"] == error
    halved = [json.loads(line) for line in (copy / "watch.jsonl").read_text().splitlines() if "out_of_memory" in line]
    assert halved and halved[-1]["micro_batch_tokens"] < 64
    assert cli("train", "--resume", copy, "--json").code == 0
    assert_equal(copy, run)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """Mounts a file system of so many KiB; skips where that is not allowed."""
    place = tmp_path / "disk"
    place.mkdir()

    def mount(size_kib: int) -> Path:
        options = f"size={size_kib}k"
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)], capture_output=True, check=False
        )
        if done.returncode:
            pytest.skip(f"a small file system cannot be mounted: {done.stderr.decode().strip()}")
        return place

    yield mount
    subprocess.run(["umount", str(place)], capture_output=True, check=False)


def test_a_disk_that_is_full_ends_the_run_and_not_its_files(
    cli: Any, stopped: Path, run: Path, small_disk: Callable[[int], Path], tmp_path: Path
) -> None:
    """The run has room for its reserve, but not for its next checkpoint."""
    used_kib = sum(-(-path.stat().st_size // 4096) * 4 for path in stopped.rglob("*") if path.is_file())
    disk = small_disk(used_kib + 64 + 40)
    found = Path(shutil.copytree(stopped, disk / "run"))
    error = cli("train", "--resume", found, "--json").error(code=6)
    assert "disk is full" in error["what"] and error["hint"].endswith(f"go on with: tonetune train --resume {found}")
    assert (record(found)["status"], record(found)["error"]) == ("failed", error)
    assert list(found.rglob(".*")) == []
    assert (found / "checkpoints/step-7").is_dir()
    elsewhere = Path(shutil.copytree(found, tmp_path / "elsewhere"))
    assert cli("train", "--resume", elsewhere, "--json").code == 0
    assert_equal(elsewhere, run)
