"""Thirty ways in which a fine-tuning run fails in silence, each with a test, or with the reason why it cannot happen.

A test is named for the number of its trap, and its docstring is the trap in one line. They are thin: each plants the
fault where it is small and asks the real check; the laws around it have their own tests beside the modules.
"""

import dataclasses
import functools
import json
import re
from pathlib import Path

import numpy as np
import pytest
import tiny
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from torch.utils.checkpoint import checkpoint

from tonetune.data.batches import TokenStore
from tonetune.data.duplicates import find_leaks, text_key
from tonetune.data.example import Example
from tonetune.data.near_duplicates import near_groups
from tonetune.data.splits import split_examples
from tonetune.data.template import Template
from tonetune.data.tokens import TextTokenizer
from tonetune.device.advice import advise
from tonetune.device.probes.attention import fused_attention, probe_attention
from tonetune.errors import ConfigError, GateError, ModelError, TrainingError
from tonetune.evaluation.alarms import alarms
from tonetune.evaluation.audit import audit as audit_shares
from tonetune.evaluation.predict import score
from tonetune.evaluation.reported import Reported
from tonetune.evaluation.single_label import SingleLabel
from tonetune.export.parity import LIMITS, measure_parity, require_parity
from tonetune.labels import LabelSet
from tonetune.model.adapters import inject_lora, target_names
from tonetune.model.artefact import Manifest, fingerprint, load_artefact, read_tensors
from tonetune.model.audit import audit
from tonetune.model.classifier import Classifier
from tonetune.model.families import FAMILIES, check_kernel
from tonetune.model.source import find_base
from tonetune.model.tokenizer_checks import check_tokenizer
from tonetune.training.gradient import accumulate
from tonetune.training.loop import Plan, SkippedEvent, StepEvent, steps_for, train

TRAPS = 30
CANNOT = {
    10: "Rows are resampled or augmented before the split, so that copies of one are on both sides: tonetune neither "
    "repeats nor makes rows; against imbalance it weighs classes, counted on the training split alone.",
    27: "Several processes count padding duplicates in a metric, or share their dropout: training and evaluation are "
    "one process here, and each text is scored once, in the order of its file.",
}
"""Traps that cannot occur, each in one line with the reason."""
ELSEWHERE = {19: "test_resume.py"}
"""Traps whose test stands beside this file, with what it needs."""

CPU = torch.device("cpu")
TASK = SingleLabel(LabelSet(("a", "b", "c")))
LABELS = ("anger", "fear", "joy")
PLAN = Plan(
    num_steps=4, batch=4, learning_rate=5e-3, rate_ratio=1.0, schedule="linear", warmup_steps=1, weight_decay=0.0,
    clip=1.0, evaluate_every=100, patience=None, select_by="accuracy", budget_tokens=64, call_tokens=8,
)  # fmt: skip


@pytest.fixture(scope="module")
def base(tiny_gemma):
    return tiny.load(tiny_gemma)


def classifier_of(directory, *, targets="attention", dtype=torch.float32):
    """A classifier with adapters that matter, ready to train."""
    loaded = tiny.load(directory)
    rng = torch.Generator().manual_seed(7)
    classifier = Classifier(loaded.body.to(dtype), torch.randn(3, loaded.hidden, generator=rng) * 0.1)
    names = target_names(loaded.body, loaded.family, targets)
    layers = inject_lora(classifier, names, rank=4, alpha=8.0, dropout=0.1, variant="lora")
    with torch.no_grad():
        for parameter in classifier.trainable().values():
            parameter.add_(torch.randn(parameter.shape, generator=rng) * 0.1)
    return classifier, loaded.family, layers


def texts_of(lengths):
    rng = np.random.default_rng(0)
    return [rng.integers(6, 1000, size=length).astype(np.int32) for length in lengths]


def stored(texts):
    return TokenStore(texts, pad_id=tiny.PAD, device=CPU)


def gradient_of(classifier, lengths, *, budget):
    """All gradients of one step on texts, as one vector."""
    store, gold = stored(texts_of(lengths)), torch.arange(len(lengths)) % 3
    accumulate(classifier.eval(), store, gold, np.arange(len(lengths)), budget_tokens=budget, call_tokens=8)
    vector = torch.cat([parameter.grad.flatten() for parameter in classifier.trainable().values()])
    classifier.zero_grad(set_to_none=True)
    return vector


def events(classifier, *, texts=14, **changes):
    rng = np.random.default_rng(0)
    store = stored(texts_of([9] * texts))
    plan = dataclasses.replace(PLAN, **changes)
    return list(train(classifier, store, np.arange(texts) % 3, plan, evaluate=lambda: {"accuracy": 0.0}, rng=rng))


def reader(tokenizer, *, max_length=40, template="{text}\nSentiment:"):
    return TextTokenizer(
        tokenizer, template=Template.parse(template), bos_id=tiny.BOS, pad_id=tiny.PAD, max_length=max_length
    )


def test_trap_01_backbone_of_random_weights(tiny_gemma):
    """The backbone is loaded with random weights, and training crawls along at chance."""
    with pytest.raises(ModelError, match=r"predicts an ordinary sentence with a loss of"):
        tiny.load(tiny_gemma, gate=True)


def test_trap_02_head_not_trained_or_not_saved(tiny_gemma, run):
    """The head is frozen, or missing in what was saved, and a reloaded classifier answers by chance."""
    classifier, family, layers = classifier_of(tiny_gemma)
    assert "base_model.model.score.weight" in read_tensors(run / "adapter", expected_sha256=None)
    classifier.score.requires_grad_(False)
    with pytest.raises(ModelError, match=r"the head, score\.weight, is frozen"):
        audit(classifier, family, layers, targets="attention")


def test_trap_03_adapters_on_too_few_layers(tiny_gemma):
    """LoRA lies on the embeddings, a tower or some of the layers alone: the loss moves and the metric does not."""
    classifier, family, layers = classifier_of(tiny_gemma)
    with pytest.raises(ModelError):
        audit(classifier, family, layers[:3], targets="attention")
    with pytest.raises(ConfigError):
        target_names(tiny.load(tiny_gemma).body, family, ["embed_tokens"])


@torch.no_grad()
def test_trap_04_pooled_token_is_a_pad(tiny_gemma):
    """The state that is pooled is that of a pad, so that the answer depends on the batch."""
    classifier, texts = classifier_of(tiny_gemma)[0].eval(), texts_of([3, 12, 7])
    alone = np.concatenate([score(classifier, stored([text]), budget_tokens=64, call_tokens=8) for text in texts])
    together = score(classifier, stored(texts), budget_tokens=64, call_tokens=8)
    np.testing.assert_allclose(together, alone, atol=3e-5)


@pytest.mark.parametrize("adds_bos", [True, False])
def test_trap_05_bos_missing_doubled_or_written_over(adds_bos):
    """BOS is missing, doubled, or takes the place of the first token of the text."""
    tokenizer = tiny.tokenizer(bos=adds_bos)
    (ids,) = reader(tokenizer).encode(["happy <bos> day"]).ids
    assert list(ids).count(tiny.BOS) == 1 and ids[0] == tiny.BOS
    assert tokenizer.decode(list(ids[1:])).startswith("happy")


def test_trap_06_the_ending_is_cut_off():
    """A long text loses its ending, where the verdict stands."""
    tokenizer = tiny.tokenizer()
    encoded = reader(tokenizer).encode(["so " * 200 + "but terrible", "short"])
    assert encoded.truncated.tolist() == [True, False]
    assert "but terrible\nSentiment:" in tokenizer.decode(list(encoded.ids[0]))


def test_trap_07_labels_in_another_order():
    """Labels are in another order in training than in evaluation or serving, and accuracy is below chance."""
    (alarm,) = alarms(np.array([[2, 40, 3], [1, 2, 45], [44, 3, 1]]), LABELS)
    assert alarm["code"] == "permuted_labels"
    assert alarms(np.array([[40, 2, 3], [1, 45, 2], [3, 1, 44]]), LABELS) == []


def test_trap_08_label_names_lost(run, tmp_path):
    """Names of labels turn into LABEL_0, LABEL_1 … where a library is told their number alone."""
    config = json.loads((run / "adapter" / "config.json").read_text())
    labels = json.loads((run / "labels.json").read_text())["names"]
    assert [config["id2label"][str(i)] for i in range(len(labels))] == labels
    for path in (run / "adapter").iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    config["id2label"] = {str(i): f"LABEL_{i}" for i in range(len(labels))}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match="id2label is"):
        load_artefact(tmp_path, device=CPU)


def test_trap_09_duplicates_across_splits():
    """The same text, nearly the same, or one author's is in training and test, and the test flatters."""
    texts = [text for text, _ in tiny.emotion_rows("en", 60)]
    rows = [Example(text + end, (LABELS[i % 3],), f"a:{i}{end}") for i, text in enumerate(texts) for end in ("", " !")]
    groups = {row.origin: str(i // 6) for i, row in enumerate(rows)}
    near = near_groups([text_key(row.text) for row in rows])
    rng = np.random.default_rng(0)
    splits = split_examples(rows, held_out={"validation": 0.2, "test": 0.2}, groups=groups, near=near, rng=rng)
    for of in (lambda row: groups[row.origin], lambda row: text_key(row.text)):
        sides = [{of(row) for row in part} for part in splits.values()]
        assert len(set.union(*sides)) == sum(map(len, sides))
    assert find_leaks({"train": rows, "test": rows[:1]}, near)[0]


def test_trap_11_overflow_of_gradients(tiny_gemma):
    """Gradients overflow while the loss stays finite: every step is skipped and nothing is learnt."""
    classifier = classifier_of(tiny_gemma)[0]
    name = next(iter(classifier.trainable()))
    classifier.get_parameter(name).register_hook(lambda gradient: gradient * torch.inf)
    with pytest.raises(TrainingError):
        events(classifier, num_steps=40)
    assert not any(isinstance(event, SkippedEvent) for event in events(classifier_of(tiny_gemma)[0]))


def test_trap_12_a_merge_that_changes_answers(tmp_path):
    """Weights merged in a short number format give other labels than the adapter does."""
    logits = np.random.default_rng(0).normal(size=(400, 3)).astype(np.float32)
    other = logits.copy()
    other[:20] = other[:20, ::-1]
    gold = logits.argmax(axis=1)
    require_parity(measure_parity(TASK, logits, logits, gold, LIMITS["bfloat16"]), kept=tmp_path)
    with pytest.raises(GateError):
        require_parity(measure_parity(TASK, logits, other, gold, LIMITS["bfloat16"]), kept=tmp_path)


def test_trap_13_schedule_counts_micro_steps(tiny_gemma):
    """The schedule counts micro-batches for steps: warm-up takes too long, and the rate never comes down."""
    rates = [e.learning_rate for e in events(classifier_of(tiny_gemma)[0]) if isinstance(e, StepEvent)]
    peak = PLAN.learning_rate
    assert rates == pytest.approx([peak, peak, peak * 2 / 3, peak / 3]) or rates[-1] < rates[1] == max(rates)
    assert len(rates) == PLAN.num_steps and rates[-1] <= peak / 3 + 1e-12


def test_trap_14_what_is_left_at_the_end_of_a_pass(tiny_gemma):
    """What is left at the end of a pass leaks into the next one, and the count of steps is wrong."""
    assert steps_for(14, epochs=2, batch=4) == 8
    found = [e for e in events(classifier_of(tiny_gemma)[0], num_steps=8) if isinstance(e, StepEvent)]
    assert [e.num_texts for e in found] == [4, 4, 4, 2] * 2


def test_trap_15_evaluation_with_dropout(tiny_gemma):
    """Evaluation runs with dropout, and two evaluations differ."""
    classifier, store = classifier_of(tiny_gemma)[0].train(), stored(texts_of([9, 4]))
    first, second = (score(classifier, store, budget_tokens=64, call_tokens=8) for _ in range(2))
    assert (first == second).all() and classifier.training


def test_trap_16_short_numbers_and_the_batch(tiny_gemma):
    """In a short number format the answer depends on batch and padding, and ties flip."""
    classifier, texts = classifier_of(tiny_gemma, dtype=torch.bfloat16)[0].eval(), texts_of([3, 12, 7, 30])
    assert classifier.score.weight.dtype == torch.float32
    alone = np.concatenate([score(classifier, stored([text]), budget_tokens=64, call_tokens=8) for text in texts])
    together = score(classifier, stored(texts), budget_tokens=256, call_tokens=8)
    assert together.dtype == np.float32
    np.testing.assert_allclose(together, alone, atol=0.1)


def test_trap_17_reentrant_checkpointing(tiny_gemma):
    """Reentrant checkpointing gives wrong gradients with shared keys and values, at a loss that looks normal."""
    classifier = classifier_of(tiny_gemma)[0]
    classifier.recompute_activations()
    for layer in classifier.model.layers:
        layer._gradient_checkpointing_func = functools.partial(checkpoint, use_reentrant=True)
    with pytest.raises(TrainingError, match="reentrant"):
        events(classifier)


def test_trap_18_checkpointing_of_frozen_inputs(tiny_gemma):
    """Checkpointing with frozen inputs cuts off every gradient."""
    classifier = classifier_of(tiny_gemma)[0]
    plain = gradient_of(classifier, [9, 5], budget=64)
    classifier.recompute_activations()
    torch.testing.assert_close(gradient_of(classifier, [9, 5], budget=64), plain)
    assert plain.abs().max() > 0


def test_trap_20_another_attention_kernel_than_in_training():
    """The classifier is served with another attention kernel than it was trained with."""
    check_kernel(FAMILIES["gemma2"], "eager")
    with pytest.raises(ConfigError, match="sdpa is wrong for Gemma 2"):
        check_kernel(FAMILIES["gemma2"], "sdpa")


def test_trap_21_attention_that_is_wrong_with_padding():
    """Attention is wrong on some card where rows are padded, and on padded rows alone."""
    assert not probe_attention(
        "cpu", thorough=False, attention=lambda q, k, v, mask: fused_attention(q, k, v, None)
    ).passed


def test_trap_22_another_revision_of_the_base(tiny_gemma, run, tmp_path):
    """The adapter is put on another revision of its base, and answers drift a little."""
    manifest = Manifest.read(run / "adapter")
    assert manifest.base_fingerprint == fingerprint(find_base(str(tiny_gemma)))
    other = tiny.write_model(tmp_path / "other", "gemma3_text", seed=1)
    assert fingerprint(find_base(str(other))) != manifest.base_fingerprint


def test_trap_23_chosen_on_the_test_split(run):
    """The best state is chosen on the test split, which then flatters."""
    validations = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    scored = {e["step"]: e["macro_f1"] for e in validations if "macro_f1" in e}
    best = json.loads((run / "best.json").read_text())
    assert scored[best["step"]] == max(scored.values())
    rows = {p.stem: len(p.read_text().splitlines()) for p in (run / "splits").iterdir()}
    assert {len(p.read_text().splitlines()) for p in (run / "eval" / "validation").glob("step-*.jsonl")} == {
        rows["validation"]
    }
    assert not list((run / "eval" / "test").glob("step-*.jsonl"))


def test_trap_24_one_answer_for_all():
    """The classifier gives one answer for all, and accuracy hides it."""
    (alarm,) = alarms(np.array([[90, 0, 0], [6, 0, 0], [4, 0, 0]]), LABELS)
    assert alarm["code"] == "collapsed"


def test_trap_25_the_task_is_guessed_from_a_number_format(run):
    """A library chooses the loss by the number format of the labels, and stores the guess."""
    config = json.loads((run / "adapter" / "config.json").read_text())
    assert config["problem_type"] == "single_label_classification"
    assert Manifest.read(run / "adapter").task == "single-label"


def test_trap_26_another_device_than_meant():
    """The run computes on the processor or another card than was meant, twenty times slower."""
    facts = {"torch.backend": "cpu", "wheel.fits": False, "wheel.machine": "MI210", "wheel.command": "pip install x"}
    assert "wheel-for-another-vendor" in {advice["id"] for advice in advise(facts)}


def test_trap_28_numbers_that_cannot_be_true():
    """Reported numbers contradict each other, and nobody looks."""
    report = {"accuracy": 0.734, "confusion": [[78, 10, 12], [9, 82, 9], [10, 10, 80]]}
    assert list(audit_shares(Reported.of(report, where="x")))
    assert not list(audit_shares(Reported.of(report | {"accuracy": 0.8}, where="x")))


def test_trap_29_the_gradient_depends_on_the_cut(tiny_gemma):
    """The gradient is a sum over micro-batches, so that learning rate and clipping depend on how a batch was cut."""
    classifier = classifier_of(tiny_gemma)[0]
    lengths = [9, 5, 14, 3] * 4
    whole = gradient_of(classifier, lengths, budget=10_000)
    for budget in (64, 16):
        torch.testing.assert_close(gradient_of(classifier, lengths, budget=budget), whole, rtol=1e-4, atol=1e-5)


def test_trap_30_a_tokenizer_in_fragments(tiny_gemma):
    """A tokenizer rebuilt from another file reads English in fragments, and nothing complains."""
    whole = tiny.tokenizer()
    check_tokenizer(whole, bos_id=tiny.BOS, embeddings=tiny.VOCABULARY, directory=tiny_gemma, fluent=True)
    letters = {letter: i for i, letter in enumerate([*tiny.SPECIALS, *sorted(pre_tokenizers.ByteLevel.alphabet())])}
    broken = Tokenizer(models.BPE(letters, []))
    broken.pre_tokenizer, broken.decoder = whole.pre_tokenizer, whole.decoder
    with pytest.raises(ModelError, match="tokens a character"):
        check_tokenizer(broken, bos_id=tiny.BOS, embeddings=tiny.VOCABULARY, directory=tiny_gemma, fluent=True)


def test_every_trap_has_a_test_or_a_reason():
    statements = {name: test.__doc__ for name, test in globals().items() if name.startswith("test_trap_")}
    for file in ELSEWHERE.values():
        source = Path(__file__).with_name(file).read_text(encoding="utf-8")
        statements |= dict(re.findall(r'^def (test_trap_\w+)\(.*\n    """(.*)"""', source, re.MULTILINE))
    numbers = [int(name.split("_")[2]) for name in statements]
    assert set(ELSEWHERE) <= set(numbers)
    assert sorted([*numbers, *CANNOT]) == list(range(1, TRAPS + 1))
    for statement in (*CANNOT.values(), *statements.values()):
        assert statement and statement.endswith(".") and "\n" not in statement
