"""The runs of a directory: what became of each, what it holds, and the room that old checkpoints take."""

import contextlib
import shutil
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from tonetune.errors import DataError, TonetuneError, UsageError
from tonetune.lock import LOCK, has_finished, held, holder, is_lock, status_of
from tonetune.rundir import SEEDS, RunDir, read_json, read_jsonl, writing
from tonetune.training.checkpoints import (
    PREFIX,
    checkpoints_in,
    newest_whole,
    remove_checkpoint,
    remove_leftovers,
    step_of,
)


def list_runs(
    directory: str | Path,
    *,
    clean: bool = False,
    dry_run: bool = False,
    say: Callable[[str], None] = lambda message: None,
) -> dict[str, Any]:
    """The document of `runs --json`: the runs in a directory, or that it is, the newest first.

    With `clean` goes what no run needs: all checkpoints of finished runs, all but the newest whole one of those that
    were ended before their time, and what killed processes left half written or barely begun; a run at work is left
    alone. With `dry_run` nothing goes, and "removed" lists what would. `say` hears of what could not be read or
    removed. Raises DataError where there is no such directory.
    """
    root = Path(directory).expanduser().resolve()
    if not root.is_dir():
        raise DataError("no such directory", where=str(directory), hint="name the one that holds the runs (run.dir)")
    if dry_run and not clean:
        raise UsageError("--dry-run shows what --clean would remove", where="runs", hint="add --clean")
    runs, removed = [], []
    for run in _find(root):
        with _going_on(run, say):
            if clean:
                removed += _clean(run, dry_run=dry_run)
            runs.append(_row(run))
    if clean:
        removed += _clear_beginnings(root, dry_run=dry_run)
    runs.sort(key=lambda row: (row["started"], row["path"]), reverse=True)
    document: dict[str, Any] = {"runs": runs}
    return document | ({"removed": removed, "dry_run": dry_run} if clean else {})


@contextlib.contextmanager
def _going_on(run: RunDir, say: Callable[[str], None]) -> Any:
    """One bad run is no reason not to show the others."""
    try:
        yield
    except TonetuneError as error:
        say(f"warning: {str(error).splitlines()[0]}")
    except (KeyError, TypeError, ValueError, AttributeError) as error:  # JSON of another shape, edited by hand
        say(f"warning: {run.path}: damaged: {type(error).__name__}: {error}; put its files back or remove it")


def _find(root: Path) -> list[RunDir]:
    """The runs in a directory or in its directory "runs", as sweeps and annotation loops have one; or the run it is."""
    if (root / "run.json").is_file():
        return [RunDir(root)]
    return [RunDir(path.parent) for pattern in ("*/run.json", "runs/*/run.json") for path in sorted(root.glob(pattern))]


def _row(run: RunDir) -> dict[str, Any]:
    """One run as the table shows it; `best` is the best validation so far, and `age_s` seconds since it began."""
    record = read_json(run.record)
    steps = [row["step"] for row in read_jsonl(run.metrics)] if run.metrics.is_file() else []
    best = read_json(run.best) if run.best.is_file() else None
    age = datetime.now(timezone.utc) - datetime.fromisoformat(record["started"])
    kept = [step_of(path) for path in checkpoints_in(run.checkpoints)]
    return {
        "path": str(run.path),
        "status": status_of(run),
        "size_mib": round(_bytes_of(run.path) / (1 << 20), 2),
        "best": best["value"] if best else None,
        "metric": best["metric"] if best else None,
        "base": record["base"],
        "step": max(steps, default=0),
        "checkpoints": kept,
        "started": record["started"],
        "age_s": max(0, round(age.total_seconds())),
        "error": record.get("error", {}).get("what"),
    }


def _bytes_of(path: Path) -> int:
    """Size of a file, or of all below a directory; what vanishes while it is counted counts nothing."""
    total = 0
    for file in [path, *path.rglob("*")]:
        with contextlib.suppress(FileNotFoundError):
            total += file.lstat().st_size if not file.is_dir() else 0
    return total


def _clean(run: RunDir, *, dry_run: bool) -> list[dict[str, Any]]:
    """Remove what a run does not need, seeds of it included; what went, or would."""
    if holder(run.path) is not None:
        return []
    removed = []
    with contextlib.nullcontext() if dry_run else held(run.path):
        for path in _unneeded(run):
            removed.append({"path": str(path), "size_mib": round(_bytes_of(path) / (1 << 20), 2)})
            if not dry_run and not path.name.startswith("."):
                remove_checkpoint(path)
        if not dry_run:
            remove_leftovers(run.checkpoints)
            if run.checkpoints.is_dir() and not any(run.checkpoints.iterdir()):
                with writing(run.checkpoints):
                    shutil.rmtree(run.checkpoints)
    for path in sorted((run.path / SEEDS).glob("*/run.json")):
        removed += _clean(RunDir(path.parent), dry_run=dry_run)
    return removed


def _clear_beginnings(root: Path, *, dry_run: bool) -> list[dict[str, Any]]:
    """Remove directories whose processes were killed before there was a run in them; what went, or would."""
    removed = []
    for path in sorted(lock.parent for lock in root.glob(f"*/{LOCK}") if is_lock(lock)):
        if not (path / "run.json").exists() and holder(path) is None:
            removed.append({"path": str(path), "size_mib": round(_bytes_of(path) / (1 << 20), 2)})
            if not dry_run:
                with writing(path):
                    shutil.rmtree(path)
    return removed


def _unneeded(run: RunDir) -> list[Path]:
    """Checkpoints that nobody goes on from, and what killed processes left."""
    found = checkpoints_in(run.checkpoints)
    if not has_finished(run):
        newest, _ = newest_whole(run.checkpoints)
        found = [path for path in found if newest is not None and path != newest.path]
    return found + sorted(run.checkpoints.glob(f".{PREFIX}*"))
