"""Exports of a trained run: they answer like it, and nothing that was changed is read."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import tiny
import torch
from pickles import pickles
from safetensors.torch import load_file

import tonetune
from tonetune.api.export import export
from tonetune.api.loaded import load_proven
from tonetune.errors import GateError, MissingExtraError, ModelError, UsageError
from tonetune.export import gguf as writer
from tonetune.export import parity
from tonetune.model import merged
from tonetune.runtime import OnnxScorer

TEXTS = [text for text, _ in tiny.emotion_rows("en", 30, seed=9)] + ["one <bos> two", "so " * 199 + "so"]


@pytest.fixture(scope="module")
def run(tiny_gemma, emotion_files, tmp_path_factory):
    """A short run of random weights."""
    directory = tmp_path_factory.mktemp("runs")
    config = {
        "model": {"base": str(tiny_gemma), "load_gate": "off", "dtype": "float32"},
        "data": {"train": str(emotion_files["en.csv"]), "max_length": 64},
        "train": {"epochs": 1},
        "run": {"dir": str(directory)},
    }
    return tonetune.train(config).path


@pytest.fixture(scope="module")
def bundle(run, tmp_path_factory):
    directory = tmp_path_factory.mktemp("bundles") / "merged"
    export(run, to="merged", out=directory, force=True)
    return directory


@pytest.fixture
def copy(bundle, tmp_path):
    return shutil.copytree(bundle, tmp_path / "copy")


def test_a_merged_bundle_answers_like_the_run(run, bundle):
    expected = tonetune.load(run).predict_proba(TEXTS)
    np.testing.assert_allclose(tonetune.load(bundle).predict_proba(TEXTS), expected, rtol=0, atol=1e-5)
    report = json.loads((bundle / "parity.json").read_text())
    assert report["passed"] and report["agreement"] == 1.0 and report["max_abs_logit_diff"] < 1e-4
    assert report["rows"] == len(tiny.emotion_rows("en", 200)) - len(
        (run / "splits" / "train.jsonl").read_text().splitlines()
    )
    assert json.loads((run / "exports" / "merged-float32.json").read_text()) == report


def test_transformers_reads_a_merged_bundle_by_itself(run, bundle):
    from transformers import AutoModelForSequenceClassification

    model = AutoModelForSequenceClassification.from_pretrained(bundle).eval()
    classifier = tonetune.load(run)
    ids = classifier.scorer.tokenizer.encode(TEXTS).ids
    with torch.no_grad():
        found = np.concatenate([model(torch.from_numpy(row).long()[None]).logits.numpy() for row in ids])
    np.testing.assert_allclose(found, classifier.logits(TEXTS), rtol=0, atol=1e-4)
    assert model.config.id2label == dict(enumerate(classifier.labels))


def test_a_plain_pipeline_reads_raw_texts_with_a_merged_bundle(run, bundle):
    """Its tokenizer puts the template around a text, and tonetune, which does so itself, does not do it twice."""
    from transformers import pipeline

    classify = pipeline("text-classification", str(bundle), top_k=None, function_to_apply="none")
    found = [sorted(answer, key=lambda score: score["label"]) for answer in classify(TEXTS[:-1])]
    expected = tonetune.load(run).logits(TEXTS[:-1])
    np.testing.assert_allclose([[score["score"] for score in row] for row in found], expected, rtol=0, atol=1e-4)


def test_the_kept_rows_are_the_classifiers_own(run, bundle):
    kept = load_file(bundle / "parity.safetensors")
    ids = np.split(kept["ids"].numpy(), np.cumsum(kept["lengths"].numpy())[:-1])
    found = tonetune.load(bundle).scorer.logits(ids)
    np.testing.assert_allclose(found, kept["logits"].numpy(), rtol=0, atol=1e-4)


def test_a_merge_that_goes_wrong_is_no_export(run, tmp_path, monkeypatch):
    whole = merged.merge

    def wrong(classifier):
        whole(classifier)
        classifier.model.layers[0].mlp.down_proj.weight.data[:8].mul_(1.5)

    monkeypatch.setattr("tonetune.api.bundles.merge", wrong)
    with pytest.raises(GateError, match="held-out rows"):
        export(run, to="merged", out=tmp_path / "out", force=True)
    assert list(tmp_path.iterdir()) == []
    assert not json.loads((run / "exports" / "merged-float32.json").read_text())["passed"]


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json"])
def test_one_changed_byte_is_refused(copy, name):
    content = bytearray((copy / name).read_bytes())
    content[len(content) // 2] ^= 1
    (copy / name).write_bytes(content)
    with pytest.raises(ModelError, match=f"{name} does not match its checksum"):
        tonetune.load(copy)


def test_labels_in_another_order_are_refused(copy):
    manifest = json.loads((copy / "tonetune.json").read_text())
    manifest["labels"].reverse()
    (copy / "tonetune.json").write_text(json.dumps(manifest))
    with pytest.raises(ModelError, match="do not match their hash"):
        tonetune.load(copy)


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"kind": "merged", "schema": 1}', '{"kind": "merged", "schema": 9}']
)
def test_a_damaged_manifest_is_refused(copy, content):
    (copy / "tonetune.json").write_text(content)
    with pytest.raises(ModelError):
        tonetune.load(copy)


def test_a_missing_file_is_refused(copy):
    (copy / "model.safetensors").unlink()
    with pytest.raises(ModelError, match=r"lacks model\.safetensors"):
        tonetune.load(copy)


def test_a_place_that_is_taken_and_a_format_that_is_none_are_refused(run, bundle, tmp_path):
    with pytest.raises(UsageError, match="exists already"):
        export(run, to="merged", out=bundle, force=True)
    for to, precision in (("merged", "int8"), ("onnx", "q8_0"), ("gguf", "int8"), ("tflite", "float32")):
        with pytest.raises(UsageError, match="is no export"):
            export(run, to=to, out=tmp_path / "out", precision=precision, force=True)


def test_a_run_of_random_weights_needs_force(run, tmp_path):
    with pytest.raises(GateError, match=r"not proven \(model\.load_gate: off\)"):
        export(run, to="merged", out=tmp_path / "out")


def test_an_exported_adapter_is_the_runs_own(run, tmp_path):
    export(run, to="adapter", out=tmp_path / "adapter", force=True)
    found = tonetune.load(tmp_path / "adapter")
    np.testing.assert_array_equal(found.predict_proba(TEXTS), tonetune.load(run).predict_proba(TEXTS))
    assert {"adapter_config.json", "README.md", "parity.json"} <= {
        file.name for file in (tmp_path / "adapter").iterdir()
    }
    tensors = tmp_path / "adapter" / "adapter_model.safetensors"
    content = bytearray(tensors.read_bytes())
    content[-1] ^= 1
    tensors.write_bytes(content)
    with pytest.raises(ModelError, match="do not match their checksum"):
        tonetune.load(tmp_path / "adapter")


def test_bfloat16_weights_keep_a_float32_head(run, tmp_path, monkeypatch):
    monkeypatch.setitem(parity.LIMITS, "bfloat16", parity.Limit(0.5))  # random weights stand on an edge
    export(run, to="merged", out=tmp_path / "out", precision="bfloat16", force=True)
    tensors = load_file(tmp_path / "out" / "model.safetensors")
    assert tensors.pop("score.weight").dtype == torch.float32
    assert {tensor.dtype for tensor in tensors.values()} == {torch.bfloat16}


WITHOUT_TORCH = """
import json, sys
NOT_NAMED = (  # what tonetune depends on, less what docs/export.md says a graph needs
    "torch transformers peft safetensors huggingface_hub psutil sklearn scipy polars openpyxl packaging regex ruamel "
    "typer rich"
)
sys.modules.update(dict.fromkeys(NOT_NAMED.split()))
from tonetune.runtime import load_onnx
classifier = load_onnx(sys.argv[1], threads=1)
print(json.dumps(classifier.predict_proba(json.loads(sys.argv[2])).tolist()))
"""


@pytest.fixture(scope="module")
def onnx_bundle(run, tmp_path_factory):
    directory = tmp_path_factory.mktemp("bundles") / "onnx"
    export(run, to="onnx", out=directory, force=True)
    return directory


@pytest.fixture
def quick(onnx_bundle, monkeypatch):
    """Exports take the graph that was written once."""
    monkeypatch.setattr(
        "tonetune.api.bundles.write_onnx", lambda path, *_, **__: shutil.copy(onnx_bundle / path.name, path)
    )


@pytest.mark.slow
def test_onnx_answers_like_the_run_and_without_torch(run, onnx_bundle):
    expected = tonetune.load(run).predict_proba(TEXTS)
    np.testing.assert_allclose(tonetune.load(onnx_bundle).predict_proba(TEXTS), expected, rtol=0, atol=1e-5)
    command = [sys.executable, "-c", WITHOUT_TORCH, str(onnx_bundle), json.dumps(TEXTS)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    np.testing.assert_allclose(json.loads(done.stdout), expected, rtol=0, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("precision", "smaller", "near"), [("int8", 0.75, 0.02), ("int4", 0.71, 0.2)])
def test_a_packed_graph_is_smaller_and_near(run, quick, onnx_bundle, tmp_path, monkeypatch, precision, smaller, near):
    monkeypatch.setitem(parity.LIMITS, precision, parity.Limit(0.2))  # random weights stand on an edge
    export(run, to="onnx", out=tmp_path / "packed", precision=precision, force=True)
    whole, packed = (directory / "model.onnx" for directory in (onnx_bundle, tmp_path / "packed"))
    assert packed.stat().st_size < smaller * whole.stat().st_size
    expected = tonetune.load(run).predict_proba(TEXTS)
    np.testing.assert_allclose(tonetune.load(tmp_path / "packed").predict_proba(TEXTS), expected, rtol=0, atol=near)


@pytest.mark.slow
def test_a_graph_holds_no_path_of_this_machine(onnx_bundle):
    content = (onnx_bundle / "model.onnx").read_bytes()
    assert b"stack_trace" not in content and b"site-packages" not in content and b"/src/tonetune" not in content
    assert b"self_attn.q_proj" in content


@pytest.mark.slow
def test_what_pads_a_batch_is_never_read(onnx_bundle, tmp_path):
    """A graph whose logits hung on the pad's id would give others with another pad."""
    manifest = json.loads((onnx_bundle / "tonetune.json").read_text())
    other = shutil.copytree(onnx_bundle, tmp_path / "other")
    (other / "tonetune.json").write_text(json.dumps(manifest | {"pad_id": 7}))
    np.testing.assert_array_equal(tonetune.load(other).logits(TEXTS), tonetune.load(onnx_bundle).logits(TEXTS))


@pytest.mark.slow
def test_an_onnx_bundle_answers_over_http(onnx_bundle):
    pytest.importorskip("fastapi", reason="the extra serve is not installed")
    pytest.importorskip("httpx2", reason="the HTTP client of the tests is not installed")
    from starlette.testclient import TestClient

    from tonetune.serve.app import create_app
    from tonetune.serve.limits import Limits

    classifier = load_proven(onnx_bundle, force=True)
    with TestClient(create_app({"onnx": classifier}, limits=Limits())) as client:
        answers = client.post("/predict", json={"inputs": [[text] for text in TEXTS]}).json()
    found = [{row["label"]: row["score"] for row in answer} for answer in answers]
    expected = [prediction.scores for prediction in classifier.predict(TEXTS)]
    assert all(row == pytest.approx(scores, abs=1e-5) for row, scores in zip(found, expected, strict=True))


@pytest.mark.slow
def test_a_graph_that_is_padded_on_the_left_is_no_export(run, quick, tmp_path, monkeypatch):
    """Pads then stand where causal attention takes them for text."""

    def left(self, ids):
        width = max(map(len, ids))
        rows = np.array([[3] * (width - len(row)) + row.tolist() for row in ids], dtype=np.int64)
        return self.session.run(["logits"], {"input_ids": rows, "attention_mask": np.ones_like(rows)})[0]

    monkeypatch.setattr(OnnxScorer, "_call", left)
    with pytest.raises(GateError, match="held-out rows"):
        export(run, to="onnx", out=tmp_path / "onnx", force=True)


def test_gguf_without_llama_cpp_names_the_extra_before_any_work(run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "llama_cpp", None)
    with pytest.raises(MissingExtraError, match="extra 'llama'"):
        export(run, to="gguf", out=tmp_path / "gguf", force=True)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def gguf_bundle(run, tmp_path_factory):
    pytest.importorskip("llama_cpp", reason="the extra llama is not installed")
    directory = tmp_path_factory.mktemp("bundles") / "gguf"
    export(run, to="gguf", out=directory, force=True)
    return directory


@pytest.mark.slow
def test_llama_cpp_answers_like_the_run(run, gguf_bundle):
    expected = tonetune.load(run).predict_proba(TEXTS)
    np.testing.assert_allclose(tonetune.load(gguf_bundle).predict_proba(TEXTS), expected, rtol=0, atol=1e-3)
    assert json.loads((gguf_bundle / "parity.json").read_text())["same_ids"] == 1.0


@pytest.mark.slow
def test_the_lines_in_a_gguf_bundles_readme_run(gguf_bundle, monkeypatch):
    code = (gguf_bundle / "README.md").read_text().split("```python\n")[1].split("```")[0]
    monkeypatch.chdir(gguf_bundle)
    names = {}
    exec(code, names)
    classifier = tonetune.load(gguf_bundle)
    for text in TEXTS[:5]:
        found = names["scores"](text)
        assert tuple(found) == classifier.labels
        expected = classifier.logits([text])[0] / classifier.temperature
        np.testing.assert_allclose(list(found.values()), expected, rtol=0, atol=1e-4)


@pytest.mark.slow
def test_a_changed_gguf_file_is_refused(gguf_bundle, tmp_path):
    other = shutil.copytree(gguf_bundle, tmp_path / "other")
    content = bytearray((other / "model.gguf").read_bytes())
    content[-100] ^= 1
    (other / "model.gguf").write_bytes(content)
    with pytest.raises(ModelError, match=r"model\.gguf does not match its checksum"):
        tonetune.load(other)


@pytest.mark.slow
def test_a_file_packed_by_llama_cpp_is_near(run, gguf_bundle, tmp_path, monkeypatch):
    monkeypatch.setitem(parity.LIMITS, "gguf", parity.Limit(0.2, same_ids=0.99))  # random weights stand on an edge
    export(run, to="gguf", out=tmp_path / "packed", precision="q4_k_m", force=True)
    assert (tmp_path / "packed" / "model.gguf").stat().st_size < 0.6 * (gguf_bundle / "model.gguf").stat().st_size
    assert [path.name for path in (tmp_path / "packed").glob("*.gguf")] == ["model.gguf"]
    expected = tonetune.load(run).predict_proba(TEXTS)
    np.testing.assert_allclose(tonetune.load(tmp_path / "packed").predict_proba(TEXTS), expected, rtol=0, atol=0.3)


@pytest.mark.slow
def test_a_gguf_file_with_a_wrong_tensor_or_tokenizer_is_no_export(run, gguf_bundle, tmp_path, monkeypatch):
    tensors, vocabulary_of = writer._tensors, writer.vocabulary_of

    def other_tensors(*args):
        for name, tensor in tensors(*args):
            yield name, (-tensor if name.endswith("1.mlp.down_proj.weight") else tensor)

    def other_merges(*args, **options):
        vocabulary = vocabulary_of(*args, **options)
        return replace(vocabulary, merges=vocabulary.merges[: len(vocabulary.merges) // 2])

    for name, wrong, what in (
        ("_tensors", other_tensors, "held-out rows"),
        ("vocabulary_of", other_merges, "same ids"),
    ):
        with monkeypatch.context() as context:
            context.setattr(writer, name, wrong)
            with pytest.raises(GateError, match=what):
                export(run, to="gguf", out=tmp_path / "gguf", force=True)
        assert list(tmp_path.iterdir()) == []


def test_no_file_for_others_is_a_pickle(run, bundle):
    """Nothing needs unpickling: of a run, an adapter and a merged bundle; the graph has a test of its own."""
    for directory in (run, run / "adapter", bundle):
        assert len(list(directory.rglob("*"))) > 5 and pickles(directory) == []


@pytest.mark.slow
def test_no_file_of_a_graph_is_a_pickle(onnx_bundle):
    assert pickles(onnx_bundle) == []
