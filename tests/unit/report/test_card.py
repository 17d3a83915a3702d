"""Laws of the model card."""

import io
import re

import pytest
from ruamel.yaml import YAML

from tonetune.model.families import OWN_CLASS
from tonetune.report.card import write_card
from tonetune.rundir import read_json, write_json


def card(run):
    path = write_card(run)
    assert path == run.card
    text = path.read_text(encoding="utf-8")
    _, front, body = text.split("---\n", 2)
    return YAML(typ="safe").load(io.StringIO(front)), body


def with_base(run, base):
    run.config.write_text(
        run.config.read_text(encoding="utf-8").replace("base: demo", f"base: {base}"), encoding="utf-8"
    )
    return card(run)


def test_front_matter_is_what_the_hub_reads(run):
    front, _ = card(run)
    assert front["base_model"] == "google/gemma-3-270m"
    assert front["library_name"] == "peft"
    assert front["language"] == ["zh"]
    assert {"lora", "text-classification"} <= set(front["tags"])


@pytest.mark.parametrize(("base", "named"), [("google/gemma-4-E2B", True), ("/models/gemma", False), ("a/b/c", False)])
def test_only_a_hub_name_is_a_base_model(run, base, named):
    front, body = with_base(run, base)
    assert front.get("base_model") == (base if named else None)
    assert "its licence applies" in body and "Gemma Terms" not in body


@pytest.mark.parametrize("base", ["demo", "models/gemma.Q8_0.gguf"])
def test_a_base_of_a_gguf_file_is_known_by_its_checksum_and_is_nothing_for_peft(run, base):
    run.update_record(revision="ab" * 32)
    front, body = with_base(run, base)
    assert front.get("base_model") == ("google/gemma-3-270m" if base == "demo" else None)
    assert f"SHA-256 `{'ab' * 32}`" in body and "models/" not in body
    assert "PeftModel" not in body


def test_results_are_those_of_the_files(run):
    _, body = card(run)
    tuned = read_json(run.evaluation("test") / "report.json")["tuned"]
    low, high = tuned["accuracy_ci95"]
    assert f"| Tuned | {tuned['accuracy']:.3f} [{low:.3f}, {high:.3f}] |" in body
    assert body.count("| Zero-shot") == 2 and "Gemma Terms of Use" in body


def test_numbers_are_called_what_they_are(run):
    """The time is of loading, baselines and evaluation too, the total of frozen parameters alone."""
    _, body = with_base(run, "google/gemma-3-270m")
    adapters, length = read_json(run.adapters), 256
    assert f"Trained parameters: {adapters['trainable']:,}, next to {adapters['total']:,} frozen ones." in body
    assert "The whole job took 3 min 25 s." in body
    assert f"of more than {length} tokens, the template\nincluded" in body


def test_hostile_labels_cannot_act(run):
    _, body = card(run)
    assert "\x1b" not in body and "<b>" not in body
    assert "\\<b\\>$\\\\frac\\{\\[U\\+001B\\]\\[31m" in body


def test_a_hostile_template_cannot_act(run):
    prompt = read_json(run.record)["prompt"]
    run.update_record(prompt={**prompt, "template": "{text}\n```\n<b>\x1b[31m"})
    _, body = card(run)
    assert "\x1b" not in body and "<b>" not in body and body.count("```") % 2 == 0


# --- who can load it


def programs(body):
    return re.findall(r"```python\n(.*?)```", body, re.S)


@pytest.mark.parametrize("base", ["/models/gemma", "google/gemma-3-270m"])
def test_a_base_that_peft_finds_comes_with_a_program_for_peft_alone(run, base):
    write_json(run.adapter / "config.json", {"architectures": ["Gemma3TextForSequenceClassification"]})
    _, body = with_base(run, base)
    ours, plain = programs(body)
    for program in (ours, plain):
        compile(program, "card", "exec")
    assert "tonetune" not in plain and "0.8000" in plain, "its temperature"
    assert "only the beginning" in body


@pytest.mark.parametrize("base", ["demo", "/models/gemma-4.gguf"])
def test_a_base_made_from_a_gguf_file_is_for_tonetune_until_it_is_merged(run, base):
    write_json(run.adapter / "config.json", {"architectures": ["Gemma3TextForSequenceClassification"]})
    _, body = with_base(run, base)
    assert len(programs(body)) == 1
    assert "GGUF" in body and "tonetune export path/to/this/directory --to merged" in body


@pytest.mark.parametrize("base", ["google/gemma-4-E2B", "/models/gemma-4.gguf"])
def test_a_family_that_transformers_has_no_classifier_of_is_for_tonetune_alone(run, base):
    write_json(run.adapter / "config.json", {"architectures": [OWN_CLASS]})
    _, body = with_base(run, base)
    (ours,) = programs(body)
    assert "tonetune.load" in ours
    assert "transformers has no classifier" in body and "merged" not in body


def test_a_run_without_results_says_so(run):
    (run.evaluation("test") / "report.json").unlink()
    run.update_record(status="interrupted")
    assert "None: the run's status is “interrupted”." in card(run)[1]
