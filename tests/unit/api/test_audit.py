"""Laws of the audit of files: learning rates follow their schedule, and our own reports are held to the same."""

import json

import pytest

from tonetune.api.audit import audit, refuse_impossible
from tonetune.errors import GateError
from tonetune.training.schedule import learning_rate_factor

SCHEDULE = {"peak": 2e-4, "warmup_steps": 100, "total_steps": 1000}


def audited(tmp_path, document):
    path = tmp_path / "numbers.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return audit(path)


def rates(kind, steps, *, offset=0):
    factors = [learning_rate_factor(step + offset, total_steps=1000, warmup_steps=100, schedule=kind) for step in steps]
    return [{"step": step, "lr": float(f"{2e-4 * factor:.3g}")} for step, factor in zip(steps, factors, strict=True)]


def test_a_rate_that_warm_up_cannot_have_reached(tmp_path):
    document = {"learning_rates": [{"step": 10, "lr": 1.98e-4}], "schedule": {"kind": "cosine", **SCHEDULE}}
    found = audited(tmp_path, document)
    (finding,) = found["findings"]
    assert found["verdict"] == "impossible" and finding["consistent"] == [1.8e-5, 2.2e-5]
    assert "2e-05" in finding["what"] and "100 warm-up steps" in finding["rule"]


@pytest.mark.parametrize("offset", [-1, 0, 1])
@pytest.mark.parametrize("kind", ["constant", "linear", "cosine"])
def test_the_rates_of_a_schedule_are_never_doubted(tmp_path, kind, offset):
    document = {"learning_rates": rates(kind, range(2, 999, 7), offset=offset), "schedule": {"kind": kind, **SCHEDULE}}
    assert audited(tmp_path, document) == {"verdict": "possible", "findings": []}


def test_rates_of_another_schedule_are_found(tmp_path):
    document = {"learning_rates": rates("linear", [250, 550, 1000]), "schedule": {"kind": "constant", **SCHEDULE}}
    assert len(audited(tmp_path, document)["findings"]) == 3


@pytest.mark.parametrize("schedule", [{"kind": "polynomial", **SCHEDULE}, {"kind": "cosine", "peak": 2e-4}])
def test_what_a_schedule_does_not_say_is_open(tmp_path, schedule):
    document = {"learning_rates": [{"step": 500, "lr": 1.1e-4}], "schedule": schedule}
    assert audited(tmp_path, document)["verdict"] == "possible"
    document["learning_rates"][0]["lr"] = 2.1e-4  # more than the peak
    assert audited(tmp_path, document)["verdict"] == "impossible"


def test_a_report_of_ours_that_contradicts_itself_is_refused():
    report = {"labels": ["a", "b"], "confusion": [[8, 2], [2, 8]], "tuned": {"accuracy": 0.8, "n": 20}}
    refuse_impossible(report, where="test")
    with pytest.raises(GateError, match=r"accuracy cannot be 0\.85") as error:
        refuse_impossible({**report, "tuned": {"accuracy": 0.85, "n": 20}}, where="the report on test")
    assert error.value.exit_code == 7 and error.value.where == "the report on test"
