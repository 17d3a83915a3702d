"""Laws of scoring: the order of the texts, the cut, and the mode the classifier was in make no difference."""

import types

import numpy as np
import pytest
import tiny
import torch

from tonetune.data.batches import TokenStore
from tonetune.data.template import Template
from tonetune.evaluation import predict
from tonetune.evaluation.predict import Scorer, score
from tonetune.model.adapters import inject_lora, target_names
from tonetune.model.artefact import text_tokenizer
from tonetune.model.classifier import Classifier

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def classifier(tiny_gemma):
    base = tiny.load(tiny_gemma)
    rng = torch.Generator().manual_seed(1)
    classifier = Classifier(base.body, torch.randn(4, base.hidden, generator=rng))
    names = target_names(base.body, base.family, "all-linear")
    inject_lora(classifier, names, rank=4, alpha=8.0, dropout=0.5, variant="lora")
    with torch.no_grad():
        for parameter in classifier.trainable().values():
            parameter.add_(torch.randn(parameter.shape, generator=rng) * 0.1)
    return classifier


@pytest.fixture(scope="module")
def ids():
    rng = np.random.default_rng(0)
    return [rng.integers(6, 1000, size=n).astype(np.int32) for n in rng.integers(1, 40, size=23)]


def scored(classifier, ids, *, budget=256):
    return score(classifier, TokenStore(ids, pad_id=0, device=CPU), budget_tokens=budget, call_tokens=8)


@pytest.fixture(scope="module")
def expected(classifier, ids):
    """Each text alone through the classifier."""
    classifier.eval()
    rows = [torch.from_numpy(row).long()[None] for row in ids]
    with torch.no_grad():
        return np.concatenate([classifier(r, torch.ones_like(r, dtype=torch.bool)).numpy() for r in rows])


@pytest.mark.parametrize("budget", [1, 64, 10_000])
@pytest.mark.parametrize("window", [1, 7, 2048])
def test_logits_come_in_the_order_of_the_texts_however_they_are_cut(
    classifier, ids, expected, budget, window, monkeypatch
):
    monkeypatch.setattr(predict, "WINDOW", window)
    found = scored(classifier, ids, budget=budget)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


def test_shuffled_texts_have_their_logits_with_them(classifier, ids, expected):
    order = np.random.default_rng(3).permutation(len(ids))
    found = scored(classifier, [ids[i] for i in order])
    np.testing.assert_allclose(found, expected[order], rtol=0, atol=1e-5)


@pytest.mark.parametrize("training", [True, False])
def test_dropout_is_off_while_scoring_and_the_mode_is_put_back(classifier, ids, expected, training):
    classifier.train(training)
    once, again = scored(classifier, ids), scored(classifier, ids)
    assert np.array_equal(once, again)
    np.testing.assert_allclose(once, expected, rtol=0, atol=1e-5)
    assert classifier.training is training
    assert {m.training for m in classifier.modules() if isinstance(m, torch.nn.Dropout)} == {training}


def test_a_scorer_is_tokens_store_and_score_in_one(classifier, tiny_gemma):
    texts = [text for text, _ in tiny.emotion_rows("zh", 5)]
    tokenizer = text_tokenizer(tiny.load(tiny_gemma), template=Template.parse("{text}\n情感："), max_length=32)
    scorer = Scorer(classifier, tokenizer, budget_tokens=100, call_tokens=8)
    expected = scored(classifier, tokenizer.encode(texts).ids, budget=100)
    told = []
    assert np.array_equal(scorer.score(scorer.store(tokenizer.encode(texts).ids), done=told.append), expected)
    assert sum(told) == 5


@pytest.mark.parametrize(("window", "copies"), [(5, 5), (12, 2), (2048, 1)])
def test_the_host_waits_for_the_device_once_a_window(classifier, ids, monkeypatch, window, copies):
    calls = []
    to_host = torch.Tensor.cpu
    monkeypatch.setattr(predict, "WINDOW", window)
    monkeypatch.setattr(torch.Tensor, "cpu", lambda tensor: calls.append(tensor.shape[0]) or to_host(tensor))
    scored(classifier, ids, budget=40)
    assert len(calls) == copies and sum(calls) == len(ids)


def test_scoring_leaves_no_gradient_and_no_text_gives_no_row(classifier, ids):
    scored(classifier, ids[:2])
    assert all(p.grad is None for p in classifier.parameters())
    assert scored(classifier, []).shape == (0, 4)


def test_states_are_what_the_head_turns_into_logits(classifier, ids, expected):
    pads = types.SimpleNamespace(pad_id=0)  # all that a scorer of ids asks of a tokenizer
    states_ND = Scorer(classifier, pads, 64, 8).states(ids)
    assert states_ND.shape == (len(ids), classifier.score.in_features)
    np.testing.assert_allclose(states_ND @ classifier.score.weight.detach().numpy().T, expected, rtol=0, atol=1e-4)
