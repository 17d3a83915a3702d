"""Prepared rows read back from the run that they were written to."""

from tonetune.data.columns import Columns
from tonetune.data.prepare import Prepared, read_split
from tonetune.data.readers.files import file_sha256
from tonetune.data.splits import SPLITS, TRAIN
from tonetune.labels import LabelSet
from tonetune.rundir import RunDir, read_json, read_jsonl


def read_prepared(run: RunDir) -> Prepared:
    """What training needs of the rows; those that were dropped or changed stay in their files.

    Raises DataError where a file is absent or damaged.
    """
    data = read_json(run.data)
    splits = {name: read_split(run.split(name)) for name in SPLITS if name in data["splits"]}
    first = read_jsonl(run.split(TRAIN))[0]
    columns = data["columns"]
    return Prepared(
        splits=splits,
        label_set=LabelSet(tuple(read_json(run.labels)["names"])),
        dropped=[],
        changed=[],
        leaks=[],
        near_leaks=[],
        near={},
        columns=Columns(tuple(columns["text"]), tuple(columns["label"])) if columns else None,
        files=data["files"],
        cleaning=tuple(data["cleaning"]),
        multi_label="labels" in first,
        num_turns=max(1, sum(key.startswith("turn") for key in first)),
    )


def rows_sha256(run: RunDir) -> dict[str, str]:
    """SHA-256 of each split's file, by the name of the split."""
    paths = {name: run.split(name) for name in SPLITS}
    return {name: file_sha256(path) for name, path in paths.items() if path.is_file()}
