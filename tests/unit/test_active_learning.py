"""Laws of benchmarks/active_learning.py: its figures are those of the curves, and every label is bought once."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import tiny

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    spec = importlib.util.spec_from_file_location("active_learning", ROOT / "benchmarks" / "active_learning.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_labels_needed_lie_on_the_line_between_rounds(benchmark: ModuleType) -> None:
    sizes = [200, 400, 600]
    assert benchmark.labels_needed(sizes, [0.5, 0.7, 0.8], 0.6) == pytest.approx(300)
    assert benchmark.labels_needed(sizes, [0.5, 0.7, 0.8], 0.4) == 200
    assert benchmark.labels_needed(sizes, [0.5, 0.7, 0.8], 0.9) is None


def test_the_summary_is_that_of_the_curves(benchmark: ModuleType, tmp_path: Path) -> None:
    sizes = [500, 1000, 1500]
    curves = {"random": [[0.5, 0.6, 0.7], [0.5, 0.8, 0.8]], "margin": [[0.6, 0.8, 0.8], [0.6, 0.8, 0.8]]}
    document = benchmark.summary(sizes, curves)
    assert document["target_accuracy"] == pytest.approx(0.7)
    assert document["strategies"]["random"]["labels_needed"] == pytest.approx(1000)
    assert document["strategies"]["margin"]["labels_needed"] == pytest.approx(750)
    assert document["strategies"]["random"]["accuracy_sd"] == pytest.approx(np.std(curves["random"], axis=0, ddof=1))
    pytest.importorskip("matplotlib")
    benchmark.draw(tmp_path / "a.png", document)
    assert (tmp_path / "a.png").stat().st_size > 5000


@pytest.mark.slow
def test_a_simulation_buys_what_it_says(
    benchmark: ModuleType, tiny_gemma: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = benchmark.read_distinct(tiny.write_rows(tmp_path / "pool.csv", tiny.emotion_rows("en", 200)))
    test = tiny.write_rows(tmp_path / "test.csv", tiny.emotion_rows("en", 40, seed=5))
    bought = []

    def spy(path: Path, rows: object) -> None:
        listed = list(rows)  # type: ignore[call-overload]
        bought.append([row["text"] for row in listed])
        path.write_text("".join(json.dumps(row) + "\n" for row in listed), encoding="utf-8")

    monkeypatch.setattr(benchmark, "write_jsonl", spy)
    settings = ["model.load_gate=off", "train.epochs=1", f"model.base={json.dumps(str(tiny_gemma))}"]
    curve = benchmark.simulate(pool, test, strategy="margin", seed=0, sizes=[60, 80, 100], overrides=settings)
    assert len(curve) == 3 and all(0 <= accuracy <= 1 for accuracy in curve)
    assert [len(set(texts)) for texts in bought] == [60, 80, 100] and set(bought[0]) < set(bought[1]) < set(bought[2])
