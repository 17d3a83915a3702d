"""An adapter that PEFT saved by itself: evaluated and used by the verbs, its labels named or numbered."""

import json
from pathlib import Path
from typing import Any

import pytest
import tiny

from tonetune.model import loading, tokenizer_checks

pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")  # PEFT 0.21, 12/2026

LABELS = "anger,fear,joy,sadness"


@pytest.fixture(autouse=True)
def a_random_model_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such an adapter has no config that could say that its base is meant to be random."""
    monkeypatch.setattr(loading, "GATE_LOSS", float("inf"))
    monkeypatch.setattr(tokenizer_checks, "MOST_TOKENS_PER_CHARACTER", float("inf"))


@pytest.fixture(scope="module")
def adapter(tiny_gemma: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForSequenceClassification

    body = AutoModelForSequenceClassification.from_pretrained(tiny_gemma, num_labels=4)
    directory = tmp_path_factory.mktemp("peft") / "adapter"
    get_peft_model(body, LoraConfig(task_type="SEQ_CLS", target_modules=["q_proj"])).save_pretrained(directory)
    return directory


def test_its_labels_are_numbered_until_they_are_named(cli: Any, adapter: Path) -> None:
    numbered = cli("predict", adapter, "-i", "so happy")
    assert "LABEL_0" in json.loads(numbered.out)["scores"] and "note: neither adapter nor base" in numbered.err
    named = cli("predict", adapter, "-i", "so happy", "--labels", LABELS)
    assert list(json.loads(named.out)["scores"]) == LABELS.split(",") and "note" not in named.err
    assert list(json.loads(named.out)["scores"].values()) == list(json.loads(numbered.out)["scores"].values())


def test_it_is_evaluated_on_a_file(cli: Any, adapter: Path, emotion_files: dict[str, Path]) -> None:
    report = cli("evaluate", adapter, "--data", emotion_files["en.csv"], "--labels", LABELS, "--json").document
    assert report["labels"] == LABELS.split(",")
    assert report["tuned"]["n"] == 200 and report["temperature"] == 1.0
    error = cli("evaluate", adapter, "--data", emotion_files["en.csv"], "--json").error(code=3)
    assert "not one of LABEL_0, LABEL_1" in error["what"]
    assert "--data" in cli("evaluate", adapter, "--labels", LABELS, "--json").error(code=2)["hint"]


def test_wrong_labels_are_wrong_usage(cli: Any, adapter: Path, run: Path) -> None:
    error = cli("predict", adapter, "-i", "x", "--labels", "a,b", "--json").error(code=2)
    assert "2 labels for a head of 4 rows" in error["what"]
    error = cli("predict", run, "-i", "x", "--labels", LABELS, "--json").error(code=2)
    assert "knows its labels" in error["what"]


def test_its_texts_are_read_as_they_are(adapter: Path) -> None:
    import tonetune

    classifier = tonetune.load(adapter, labels=LABELS.split(","))
    assert classifier.cleaned("<b>so</b>  happy\u200b", place="text") == "<b>so</b>  happy"
    assert tiny.BOS in classifier.scorer.tokenizer.encode(["x"]).ids[0]


def test_it_answers_over_http(adapter: Path) -> None:
    pytest.importorskip("fastapi", reason="the extra serve is not installed")
    pytest.importorskip("httpx2", reason="the HTTP client of the tests is not installed")
    from starlette.testclient import TestClient

    from tonetune.api.loaded import load_proven
    from tonetune.serve.app import create_app
    from tonetune.serve.limits import Limits

    classifier = load_proven(adapter, force=False)
    with TestClient(create_app({"peft": classifier}, limits=Limits())) as client:
        answer = client.post("/predict", json={"inputs": "so happy"}).json()
    expected = classifier.predict("so happy").scores
    assert {row["label"]: row["score"] for row in answer} == pytest.approx(expected)
