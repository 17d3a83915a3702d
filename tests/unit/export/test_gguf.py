"""A GGUF file holds the classifier: its shape, its tensors as llama.cpp stores them, and its head."""

from types import SimpleNamespace

import numpy as np
import pytest
import tiny
import torch

pytest.importorskip("gguf", reason="the extra gguf is not installed")

import gguf

from tonetune.data.template import Template
from tonetune.errors import ModelError
from tonetune.evaluation.predict import Scorer
from tonetune.export.gguf import ARCHITECTURES, write_gguf
from tonetune.labels import LabelSet
from tonetune.llamacpp import load_llama
from tonetune.model.artefact import text_tokenizer
from tonetune.model.classifier import Classifier
from tonetune.model.gguf_config import config_of
from tonetune.model.gguf_header import read_header

LABELS = LabelSet(("anger", "fear", "joy"))
FACTS = {"labels": list(LABELS.names), "temperature": 1.5}


@pytest.fixture(scope="module")
def loaded_of(tiny_model):
    """A classifier of a tiny model with a head of its own, by family."""

    def loaded(family):
        base = tiny.load(tiny_model(family))
        head_CD = torch.randn(len(LABELS), base.hidden, generator=torch.Generator().manual_seed(1))
        tokenizer = text_tokenizer(base, template=Template.parse("{text}\nEmotion:"), max_length=64)
        manifest = SimpleNamespace(base="tiny")
        return SimpleNamespace(
            classifier=Classifier(base.body, head_CD), base=base, tokenizer=tokenizer, labels=LABELS, manifest=manifest
        )

    return loaded


@pytest.mark.parametrize("family", sorted(ARCHITECTURES))
def test_the_file_says_what_the_model_is(loaded_of, tmp_path, family):
    loaded = loaded_of(family)
    write_gguf(tmp_path / "x.gguf", loaded, precision="float32", facts=FACTS)
    header = read_header(tmp_path / "x.gguf")
    assert header.metadata["tonetune.temperature"] == 1.5
    pattern = f"{header.architecture}.attention.sliding_window_pattern"  # two layers, unlike any real model
    if slides := header.metadata.pop(pattern, None):
        assert slides == [True, False]
    said, config = config_of(header), loaded.base.body.config
    for name in ("hidden_size", "intermediate_size", "num_hidden_layers", "num_key_value_heads", "vocab_size"):
        assert said[name] == getattr(config, name)
    rope = said["rope_parameters"]
    assert (
        rope.get("full_attention", rope)["rope_theta"]
        == config.rope_parameters.get("full_attention", config.rope_parameters)["rope_theta"]
    )
    assert said["bos_token_id"] == tiny.BOS if loaded.base.bos_id is not None else True


def test_the_head_stands_where_no_text_has_tokens(loaded_of, tmp_path):
    loaded = loaded_of("gemma3_text")
    label_ids = write_gguf(tmp_path / "x.gguf", loaded, precision="float32", facts=FACTS)
    assert min(label_ids) >= loaded.base.tokenizer.get_vocab_size()
    (table,) = (t for t in gguf.GGUFReader(tmp_path / "x.gguf").tensors if t.name == "token_embd.weight")
    expected = loaded.base.body.embed_tokens.weight.detach().clone()
    expected[label_ids] = loaded.classifier.score.weight.detach()
    np.testing.assert_array_equal(np.array(table.data), expected.numpy())


def test_norms_are_stored_with_what_the_family_adds(loaded_of, tmp_path):
    loaded = loaded_of("gemma3_text")
    write_gguf(tmp_path / "x.gguf", loaded, precision="q8_0", facts=FACTS)
    tensors = {t.name: t for t in gguf.GGUFReader(tmp_path / "x.gguf").tensors}
    np.testing.assert_array_equal(tensors["output_norm.weight"].data, loaded.base.body.norm.weight.numpy() + 1)
    assert tensors["blk.0.attn_q.weight"].tensor_type == gguf.GGMLQuantizationType.Q8_0
    found = gguf.dequantize(tensors["blk.0.attn_q.weight"].data, gguf.GGMLQuantizationType.Q8_0)
    expected = loaded.base.body.layers[0].self_attn.q_proj.weight.numpy()
    np.testing.assert_allclose(found, expected, rtol=0, atol=np.abs(expected).max() / 100)


def test_what_llama_cpp_would_compute_otherwise_is_refused(loaded_of, tmp_path):
    with pytest.raises(ModelError, match="Gemma 4 is not written as GGUF"):
        write_gguf(tmp_path / "x.gguf", loaded_of("gemma4_text"), precision="float32", facts=FACTS)
    loaded = loaded_of("gemma3_text")
    loaded.base.body.config.query_pre_attn_scalar = 99
    with pytest.raises(ModelError, match=r"llama\.cpp computes with 16"):
        write_gguf(tmp_path / "x.gguf", loaded, precision="float32", facts=FACTS)


@pytest.mark.slow
@pytest.mark.parametrize("family", sorted(ARCHITECTURES))
def test_llama_cpp_computes_the_same(loaded_of, tmp_path, family):
    """Longer than the window of sliding layers, so that these are told from full ones."""
    pytest.importorskip("llama_cpp", reason="the extra llama is not installed")
    loaded = loaded_of(family)
    label_ids = write_gguf(tmp_path / "x.gguf", loaded, precision="float32", facts=FACTS)
    texts = [text for text, _ in tiny.emotion_rows("en", 8)] + [text for text, _ in tiny.emotion_rows("zh", 8)]
    encoded = loaded.tokenizer.encode(texts).ids
    assert max(map(len, encoded)) > 2 * tiny.WINDOW
    llama = load_llama(tmp_path / "x.gguf", loaded.tokenizer, label_ids, threads=1)
    expected = Scorer(loaded.classifier, loaded.tokenizer, 256, 8).logits(encoded)
    np.testing.assert_allclose(llama.logits(encoded), expected, rtol=0, atol=0.01 * np.abs(expected).max())
    assert all(np.array_equal(a, b) for a, b in zip(llama.own_ids(texts), encoded, strict=True))
