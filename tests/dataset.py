"""Hugging Face datasets as `save_to_disk` writes them, for tests: Arrow files, state.json and dataset_info.json."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars


def write(
    directory: Path,
    columns: Mapping[str, Sequence[Any]],
    *,
    features: Mapping[str, Any] | None = None,
    num_files: int = 1,
) -> Path:
    """A dataset of one split; the directory. `features` describe class labels as the datasets library does."""
    directory.mkdir(parents=True)
    frame = polars.DataFrame(columns)
    step = -(-len(frame) // num_files)
    names = [f"data-{i:05}-of-{num_files:05}.arrow" for i in range(num_files)]
    for i, name in enumerate(names):
        frame[i * step : (i + 1) * step].write_ipc_stream(directory / name)
    state = {"_data_files": [{"filename": name} for name in names], "_split": None}
    (directory / "state.json").write_text(json.dumps(state))
    (directory / "dataset_info.json").write_text(json.dumps({"features": features or {}}))
    return directory


def write_splits(directory: Path, splits: Mapping[str, Mapping[str, Sequence[Any]]]) -> Path:
    """A dataset of several splits; the directory."""
    for name, columns in splits.items():
        write(directory / name, columns)
    (directory / "dataset_dict.json").write_text(json.dumps({"splits": list(splits)}))
    return directory
