"""The parity gate says yes to the same answers and no to others, and counts them right."""

from pathlib import Path

import numpy as np
import pytest

from tonetune.errors import GateError, ModelError
from tonetune.evaluation.multi_label import MultiLabel
from tonetune.evaluation.single_label import SingleLabel
from tonetune.export.parity import LIMITS, Limit, limit_of, measure_parity, require_parity
from tonetune.labels import LabelSet

GOLD = np.arange(1000) % 3
TASK = SingleLabel(LabelSet(("a", "b", "c")))


def logits(seed=0):
    return np.random.default_rng(seed).normal(size=(1000, 3)).astype(np.float32)


def test_the_same_logits_pass_every_limit():
    for limit in LIMITS.values():
        parity = measure_parity(TASK, logits(), logits(), GOLD, limit)
        assert parity.passed and parity.agreement == 1.0 and parity.max_abs_logit_diff == 0.0
        require_parity(parity, kept=Path("kept.json"))


@pytest.mark.parametrize("flipped", [0, 1, 2, 10, 11, 20, 21, 30, 31])
def test_agreement_is_the_share_of_rows_with_the_same_label(flipped):
    """Rows whose best and second logit change places."""
    before = logits()
    after = before.copy()
    for row in range(flipped):
        best, second = np.argsort(before[row])[::-1][:2]
        after[row, [best, second]] = after[row, [second, best]]
    for limit in (Limit(0.999), Limit(0.99), Limit(0.98), Limit(0.97)):
        parity = measure_parity(TASK, before, after, GOLD, limit)
        assert parity.agreement == pytest.approx(1 - flipped / 1000)
        assert parity.passed == (flipped <= round(1000 * (1 - limit.agreement)))


def test_logits_that_are_off_fail_where_the_limit_says_so():
    before = logits()
    after = before + 0.002
    assert measure_parity(TASK, before, after, GOLD, LIMITS["float32"]).agreement == 1.0
    assert not measure_parity(TASK, before, after, GOLD, LIMITS["float32"]).passed
    assert measure_parity(TASK, before, after, GOLD, LIMITS["bfloat16"]).passed


def test_a_logit_that_is_no_number_fails():
    after = logits()
    after[7, 1] = np.inf
    assert not measure_parity(TASK, logits(), after, GOLD, LIMITS["bfloat16"]).passed
    after[7, 1] = np.nan
    with pytest.raises(ModelError, match="not numbers"):
        measure_parity(TASK, logits(), after, GOLD, LIMITS["bfloat16"])


def test_accuracies_are_of_the_true_labels():
    right = np.eye(3, dtype=np.float32)[GOLD]
    parity = measure_parity(TASK, right, -right, GOLD, LIMITS["float32"])
    assert parity.accuracy_before == 1.0 and parity.accuracy_after == 0.0
    low, high = measure_parity(TASK, logits(), right, GOLD, LIMITS["float32"]).accuracy_before_ci95
    assert low < 1 / 3 < high


def test_a_refusal_says_what_was_found_and_what_is_asked():
    parity = measure_parity(TASK, logits(0), logits(1), GOLD, LIMITS["float32"])
    with pytest.raises(GateError, match=r"held-out rows, and logits differ .* at least 99\.9% and") as caught:
        require_parity(parity, kept=Path("run/exports/x.json"))
    assert caught.value.exit_code == 7 and caught.value.where == "run/exports/x.json"


def test_a_gguf_file_of_any_format_has_its_own_limit_and_must_read_texts_alike():
    assert {limit_of("gguf", precision) for precision in ("float32", "q8_0")} == {LIMITS["gguf"]}
    assert limit_of("onnx", "int8") == LIMITS["int8"]
    same = measure_parity(TASK, logits(), logits(), GOLD, LIMITS["gguf"], same_ids=0.99)
    other = measure_parity(TASK, logits(), logits(), GOLD, LIMITS["gguf"], same_ids=0.989)
    assert same.passed and not other.passed
    with pytest.raises(GateError, match=r"same ids on 98\.90% of the rows.*and the same ids on 99\.0%"):
        require_parity(other, kept=Path("kept.json"))


def test_of_several_labels_the_one_that_changes_most_decides():
    """One decision in a thousand of one label of three is what the gate counts, not a third of that."""
    task = MultiLabel(TASK.label_set, 2.0, (0.5, 0.3, 0.6))
    cut = 2.0 * np.log(0.3 / 0.7)
    before = logits()
    after = before.copy()
    flipped = np.flatnonzero(before[:, 1] > cut)[:11]
    after[flipped, 1] = cut - 0.1
    parity = measure_parity(task, before, after, before > 0, LIMITS["bfloat16"])
    assert parity.agreement == pytest.approx(1 - 11 / 1000) and not parity.passed
