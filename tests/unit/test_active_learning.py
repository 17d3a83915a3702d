"""Laws of the active-learning benchmark: its figures are those of the curves, and every label is bought once."""

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import tiny

ROOT = Path(__file__).resolve().parents[2]
SIZES = [500, 1000, 1500]


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def figure() -> ModuleType:
    return script("active_learning_figure")


def rows(curves: dict[str, list[list[float]]]) -> list[dict[str, object]]:
    return [
        {"set": "tweets", "strategy": strategy, "seed": seed, "labels": size, "accuracy": accuracy}
        for strategy, by_seed in curves.items()
        for seed, curve in enumerate(by_seed)
        for size, accuracy in zip(SIZES, curve, strict=False)
    ]


def test_labels_needed_lie_on_the_line_between_rounds(figure: ModuleType) -> None:
    sizes = [200, 400, 600]
    assert figure.labels_needed(sizes, [0.5, 0.7, 0.8], 0.6) == pytest.approx(300)
    assert figure.labels_needed(sizes, [0.5, 0.7, 0.8], 0.4) == 200
    assert figure.labels_needed(sizes, [0.5, 0.7, 0.8], 0.9) is None


def test_only_seeds_that_every_strategy_finished_count(figure: ModuleType) -> None:
    found = figure.whole_curves(
        rows({"random": [[0.5, 0.6, 0.7], [0.5, 0.8, 0.8]], "margin": [[0.6, 0.8, 0.8], [0.6]]})
    )
    assert found == {"tweets": (SIZES, {"random": {0: [0.5, 0.6, 0.7]}, "margin": {0: [0.6, 0.8, 0.8]}})}
    assert figure.whole_curves(rows({"random": [[0.5]], "margin": [[0.6, 0.7]]})) == {}


def test_the_page_says_what_the_curves_do(figure: ModuleType) -> None:
    curves = {"random": [[0.5, 0.6, 0.7], [0.5, 0.8, 0.8]], "margin": [[0.6, 0.8, 0.8], [0.65, 0.75, 0.8]]}
    curves["entropy"] = [[0.5, 0.7, 0.7], [0.5, 0.6, 0.6]]
    document = figure.summary(*figure.whole_curves(rows(curves))["tweets"])
    assert document["target"] == pytest.approx(0.7)
    assert document["strategies"]["margin"]["needed"] == pytest.approx([750, 750])
    page = figure.with_tables(f"before\n{figure.BEGIN}\nold\n{figure.END}\nafter", {"tweets": document})
    assert page.startswith("before\n") and page.endswith("\nafter") and "old" not in page
    assert "| `margin` | 0.625 ± 0.035 | 0.800 ± 0.000 | 750 ± 0 |" in page
    assert "| over 1,500 in 1 of 2 seeds (1,000) |" in page
    assert figure.with_tables(page, {"tweets": document}) == page
    assert figure.BEGIN in (ROOT / "docs" / "active-learning.md").read_text("utf-8")


def test_the_picture_is_drawn(figure: ModuleType, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    found = figure.whole_curves(rows({"random": [[0.5, 0.6, 0.7]], "margin": [[0.6, 0.8, 0.8]]}))
    figure.draw(tmp_path / "a.png", {"tweets": figure.summary(*found["tweets"])})
    assert (tmp_path / "a.png").stat().st_size > 5000


@pytest.mark.slow
def test_a_curve_buys_each_row_once_and_goes_on_where_it_was_interrupted(tiny_gemma: Path, tmp_path: Path) -> None:
    benchmark = script("active_learning")
    (tmp_path / "set").mkdir()
    tiny.write_rows(tmp_path / "set" / "train.csv", tiny.emotion_rows("en", 200))
    tiny.write_rows(tmp_path / "set" / "test.csv", tiny.emotion_rows("en", 40, seed=5))
    values = {"data": tmp_path, "model": str(tiny_gemma), "pool": 150, "round": 20, "test_rows": 30}
    overrides = ("model.load_gate=off", "train.epochs=1")
    whole = benchmark.Settings(**values, out=tmp_path / "whole.jsonl", rounds=3, overrides=overrides)
    curve = benchmark.Curve("set", 0, "margin")
    assert benchmark.run_curve(whole, curve) == 3
    lines = [json.loads(line) for line in whole.out.read_text("utf-8").splitlines()]
    bought = [i for line in lines for i in line["next"]]
    assert [line["labels"] for line in lines] == [20, 40, 60] and lines[-1]["test_rows"] == 30
    assert len(set(bought)) == 40 and all(0 <= line["accuracy"] <= 1 for line in lines)
    cut = benchmark.replace(whole, out=tmp_path / "cut.jsonl")
    cut.out.write_text(json.dumps(lines[0]) + "\n" + json.dumps(lines[1]), "utf-8")  # killed while it wrote a line
    assert benchmark.run_curve(cut, curve) == 2 and benchmark.run_curve(cut, curve) == 0
    again = [json.loads(line) for line in cut.out.read_text("utf-8").splitlines()]
    assert [line["next"] for line in again] == [line["next"] for line in lines]
    assert np.allclose([line["accuracy"] for line in again], [line["accuracy"] for line in lines])
    assert benchmark.run_curve(benchmark.replace(cut, deadline=0.0, pool=100), curve) == 0
