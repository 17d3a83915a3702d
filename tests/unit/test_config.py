"""Laws of the config: what a file says is what a run gets, and everything that does not fit is said at once."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pydantic
import pytest
from ruamel.yaml import YAML

from tonetune.config import RunConfig, keys_of, load_config, starter_yaml, to_yaml
from tonetune.errors import ConfigError

KEYS = keys_of(RunConfig)

# The contract's example, word for word but for the file of reviews, which is null by default, and keys added since.
CONTRACT = """
model:    {base: demo, revision: null, dtype: auto, attention: auto, quantization: none, load_gate: strict}
data:     {train: null, validation: null, test: null, text: auto, label: auto, labels: null, rename: {},
           group: null, task: auto, max_length: 256, urls: keep, mentions: keep}
prompt:   {template: auto, words: auto}
head:     {init: words}
lora:     {rank: 8, alpha: 16, dropout: 0.0, targets: attention, variant: lora}
train:    {epochs: 3, batch: 32, learning_rate: 5e-4, schedule: cosine, warmup: 0.05, weight_decay: 0.01, clip: 1.0,
           class_weights: none, seed: 42, evaluate_every: 50, patience: null, micro_batch_tokens: auto,
           checkpointing: auto, compile: auto}
evaluate: {select_by: macro_f1, seeds: 1}
run:      {dir: runs, checkpoint_steps: null, checkpoint_minutes: 10, keep_checkpoints: 2, price_per_hour: null,
           trackers: []}
"""


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def write(text: str | bytes) -> Path:
        path = tmp_path / "c.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def problems(source: Any = None, *overrides: str) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        load_config(source, overrides=overrides)
    return caught.value.problems


# --- the schema is the contract's


def test_the_contract_names_every_key_and_its_default():
    expected = YAML(typ="safe", pure=True).load(CONTRACT)
    assert json.loads(load_config(None).model_dump_json()) == expected


def test_every_key_has_one_line_of_help():
    assert len(KEYS) > 35
    for key in KEYS.values():
        assert key.help and "\n" not in key.help, key.name


def test_names_of_keys_are_unique_without_their_section():
    words = [key.word for key in KEYS.values()]
    assert len(set(words)) == len(words)


def test_a_config_cannot_be_changed():
    with pytest.raises(pydantic.ValidationError, match="frozen"):
        load_config(None).lora.rank = 4  # type: ignore[misc]


# --- files


def test_no_is_a_word_and_1e_4_is_a_number(write):
    config = load_config(write("data: {label: no, labels: [yes, no, off]}\ntrain: {learning_rate: 1e-4}"))
    assert config.data.label == "no"
    assert config.data.labels == ("yes", "no", "off")
    assert config.train.learning_rate == 0.0001


def test_a_whole_number_is_a_number(write):
    epochs = load_config(write("train: {epochs: 2}")).train.epochs
    assert (epochs, type(epochs)) == (2.0, float)


@pytest.mark.parametrize("text", ["", "# nothing\n", "{}", "---\n", "\ufefflora: {rank: 8}"])
def test_what_is_left_out_has_its_default(write, text):
    assert load_config(write(text)) == load_config(None) == load_config({})


def test_a_file_and_the_same_mapping_give_the_same_config(write):
    values = {"data": {"train": ["a.csv", "b.csv"], "rename": {"喜": "joy"}}, "lora": {"targets": ["q_proj"]}}
    assert (
        load_config(values) == load_config(write(json.dumps(values))) == RunConfig.from_yaml(write(json.dumps(values)))
    )


def test_a_path_stands_for_its_text():
    assert load_config({"data": {"train": Path("a.csv")}}).data.train == "a.csv"


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"prompt": {"template": "{text}\n\n情绪：'\"#\t "}, "data": {"label": "no"}},
        {"data": {"labels": ["1", "null", "true", "~", "1e3", " a: b"], "rename": {"0": "1", "- x": "喜 😀"}}},
        {"data": {"text": ["t1", "t2"]}, "prompt": {"template": "{turn1}\n{turn2} ->", "words": {"a": "好"}}},
        {"train": {"learning_rate": 1e-7, "epochs": 1 / 3, "compile": True, "micro_batch_tokens": 512}},
    ],
)
def test_a_written_config_reads_back_equal(write, values):
    config = load_config(values)
    assert load_config(write(to_yaml(config))) == config


def test_the_starter_file_holds_every_key_with_its_help_and_means_the_defaults(write):
    starter = starter_yaml()
    assert load_config(write(starter)) == load_config(None)
    written = YAML(typ="safe", pure=True).load(starter)
    assert [f"{section}.{word}" for section in written for word in written[section]] == list(KEYS)
    assert all(f"# {key.help}" in starter for key in KEYS.values())


# --- values on top


def test_an_override_wins_over_the_file_and_the_last_over_the_first(write):
    path = write("lora: {rank: 4, alpha: 4}")
    config = load_config(path, overrides=["lora.rank=16", "lora.rank=32", "train.learning_rate=1e-3"])
    assert (config.lora.rank, config.lora.alpha, config.train.learning_rate) == (32, 4.0, 0.001)


def test_the_right_side_of_an_override_is_yaml():
    config = load_config(
        None, overrides=["data.labels=[no, yes]", "data.rename={a: b}", "run.dir='1'", "data.text=x=y"]
    )
    assert (config.data.labels, config.data.rename) == (("no", "yes"), {"a": "b"})
    assert (config.run.dir, config.data.text) == ("1", "x=y")


def test_an_override_of_a_section_sets_only_the_keys_it_names(write):
    lora = load_config(write("lora: {alpha: 4}"), overrides=["lora={rank: 2}"]).lora
    assert (lora.rank, lora.alpha) == (2, 4.0)


def test_an_override_mends_a_wrong_value(write):
    assert load_config(write("lora: {rank: no}"), overrides=["lora.rank=2"]).lora.rank == 2


def test_a_bad_override_is_named_as_it_was_typed():
    assert problems(None, "lora.rnk=16") == ("--set lora.rnk=16: lora.rnk: unknown key (try: lora.rank)",)
    (wrong,) = problems({"lora": {"rank": 4}}, "lora.rank=0")
    assert wrong.startswith("--set lora.rank=0: lora.rank: found 0, allowed: whole number, >= 1")


@pytest.mark.parametrize("override", ["lora.rank", "=3", "lora.rank=[", "lora.rank=*x", "rank=3", "lora=3"])
def test_an_override_that_makes_no_sense_is_one_problem(override):
    (problem,) = problems(None, override)
    assert problem.startswith(f"--set {override}: ")


def test_resolved_values_make_a_checked_copy():
    config = load_config(None)
    assert config.with_values({"model.dtype": "float32"}).model.dtype == "float32"
    assert config.model.dtype == "auto"
    with pytest.raises(ConfigError, match=r"model\.dtype"):
        config.with_values({"model.dtype": "float8"})
    with pytest.raises(ConfigError, match="unknown key"):
        config.with_values({"modl.dtype": "float32"})


# --- what is refused


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("train.epochs", '"3"'),
        ("train.epochs", "0"),
        ("train.epochs", ".inf"),
        ("train.epochs", "true"),
        ("train.learning_rate", ".nan"),
        ("train.learning_rate", "2e4"),
        ("train.warmup", "1"),
        ("train.warmup", "-0.1"),
        ("train.batch", "0"),
        ("train.batch", "1.0"),
        ("train.clip", "0"),
        ("train.seed", "-1"),
        ("train.seed", "true"),
        ("train.patience", "0"),
        ("train.micro_batch_tokens", "0"),
        ("train.micro_batch_tokens", "many"),
        ("train.checkpointing", "1"),
        ("train.compile", "on"),
        ("train.schedule", "cosin"),
        ("lora.rank", "0"),
        ("lora.rank", "true"),
        ("lora.dropout", "1"),
        ("lora.alpha", "0"),
        ("lora.targets", "[]"),
        ("lora.targets", "q_proj"),
        ("lora.targets", "[q_proj, 1]"),
        ("lora.variant", "olora"),
        ("data.max_length", "15"),
        ("data.labels", "[only]"),
        ("data.labels", "[0, joy]"),
        ("data.rename", "{0: neg}"),
        ("data.text", "1"),
        ("data.train", '""'),
        ("data.label", "null"),
        ("data.task", "regression"),
        ("prompt.template", "{text}"),
        ("prompt.template", "no slot"),
        ("prompt.template", '"{text} and {text}"'),
        ("prompt.words", "good"),
        ("head.init", "zeros"),
        ("model.dtype", "float8"),
        ("model.load_gate", "false"),
        ("model.base", "2024-01-01"),
        ("train.seed", "99999999999999999999"),
        ("run.trackers", "[2024-01-01]"),
        ("prompt.words", "{joy: [a]}"),
        ("evaluate.seeds", "0"),
        ("evaluate.select_by", "f1"),
        ("run.price_per_hour", "-1"),
        ("run.trackers", "wandb"),
    ],
)
def test_a_wrong_value_is_reported_with_its_line(write, key, value):
    section, word = key.split(".")
    (problem,) = problems(path := write(f"# comment\n\n{section}:\n  {word}: {value}\n"))
    assert problem.startswith(f"{path}:4: {key}")


def test_a_wrong_item_of_a_list_is_reported_with_its_own_line(write):
    (problem,) = problems(path := write("data:\n  labels:\n    - joy\n    - 3\n    - anger\n"))
    assert problem.startswith(f"{path}:4: data.labels[1]: found 3, ")
    assert "quotes" in problem


@pytest.mark.parametrize("template", ["{text}", "{turn1}", "{turn1} {turn1} {turn2}"])
def test_a_template_takes_every_column_once(template):
    config = load_config({"data": {"text": ["a", "b"]}, "prompt": {"template": "{turn1} {turn2}"}})
    assert config.prompt.template == "{turn1} {turn2}"
    (problem,) = problems({"data": {"text": ["a", "b"]}, "prompt": {"template": template}})
    assert problem.startswith("prompt.template: ")


def test_every_problem_is_said_at_once_in_the_order_of_the_lines(write):
    text = "\n".join(
        [
            "train: {epochs: 0}",
            "rank: 8",
            "lora:",
            "  rank: 8",
            "  rank: 9",
            "  lora_r: 8",
            "data: {max_length: 1}",
            "prompt: {template: hello}",
            "model: some/model",
            "7: 8",
        ]
    )
    path = write(text)
    found = problems(path, "run.dri=x", "nonsense")
    assert [problem.split(": ")[0] for problem in found] == [
        *(f"{path}:{line}" for line in (1, 2, 5, 6, 7, 8, 9, 10)),
        "--set nonsense",
        "--set run.dri=x",
    ]


def test_an_error_is_at_most_a_dozen_lines():
    with pytest.raises(ConfigError) as caught:
        load_config({f"key{i}": i for i in range(500)})
    assert len(caught.value.problems) == 500
    assert len(str(caught.value).splitlines()) <= 12
    assert str(caught.value).endswith("and 491 more")


def test_a_single_problem_says_where_what_and_what_to_do(write):
    with pytest.raises(ConfigError) as caught:
        load_config(path := write("lora:\n  rnk: 3\n"))
    error = caught.value
    assert (error.where, error.what, error.hint) == (f"{path}:2", "lora.rnk: unknown key", "lora.rank")
    assert error.problems == (f"{path}:2: lora.rnk: unknown key (try: lora.rank)",)


def test_every_wrong_item_of_a_list_is_a_problem_of_its_own():
    found = problems({"data": {"labels": [0, "joy", 1], "rename": {"a": 1, 2: "b"}}, "lora": {"targets": [1, "q", 2]}})
    places = [
        "data.labels[0]",
        "data.labels[2]",
        "data.rename[a]",
        "data.rename[2]",
        "lora.targets[0]",
        "lora.targets[2]",
    ]
    assert [problem.split(":")[0] for problem in found] == places


@pytest.mark.parametrize("key", ["2024-01-01", "3", "null", "true", "1.5", "<<"])
def test_a_key_that_is_no_word_is_a_problem_like_any_other(write, key):
    text = f"{key}: 1\nlora: {{{key}: 1}}\ndata: {{rename: {{{key}: {{{key}: [{key}]}}}}}}\n"
    assert [problem.split(":")[1] for problem in problems(write(text))] == ["1", "2", "3"]


def test_a_long_wrong_value_is_cut_short():
    (problem,) = problems({"lora": {"rank": "x" * 10_000}})
    assert len(problem) < 200


# --- texts that are no config


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("lora:\n\trank: 8\n", 2, "spaces, not tabs"),
        ("lora: {rank: 8", 1, "broken YAML"),
        ("lora:\n  rank: 8\n alpha: 2\n", 3, "broken YAML"),
        ("- lora\n- train\n", 1, "mapping of sections"),
        ("hello", 1, "mapping of sections"),
        ("lora: {rank: 8}\n---\nlora: {rank: 9}\n", 2, "document"),
        ("lora: &a {rank: 8}\n", 1, "anchors"),
        ("lora: {rank: 8}\ntrain: *a\n", 2, "anchors"),
        ("lora:\n  rank: 8\n  rank: 9\n", 3, "twice"),
        ("lora: {rank: 8}\nlora: {alpha: 9}\n", 2, "twice"),
        ("lora:\n  rank: !!python/object:os.system 8\n", 2, "tags"),
        ("lora:\n  ? [a, b]\n  : 8\n", 2, "a key is a word"),
        ("%YAML 1.1\n---\ndata: {label: no}\n", None, "YAML 1.2"),
        ("run: {dir: 2024-13-45}\n", 1, "cannot be read"),
        (b"data: {label: \xb1\xea\xc7\xa9}\n", 1, "UTF-8"),
        (b"a: 1\nb: \x00\n", None, "broken YAML"),
        ("lora:\n  rank: " + "[" * 5000, 2, "deep"),
        ("lora: {rank: " + "9" * 5000 + "}", 1, "cannot be read"),
        ("lora:\n", 1, "found null, allowed: a section with the keys rank"),
    ],
)
def test_a_text_that_is_no_config_is_refused_with_its_line(write, text, line, says):
    path = write(text)
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    assert says in str(caught.value)
    assert str(caught.value).startswith(f"{path}:{line}: " if line else f"{path}")
    assert caught.value.exit_code == 2


def test_an_anchor_bomb_is_refused_before_it_is_built(write):
    bomb = "a: &a [x, x]\n" + "".join(
        f"{c}: &{c} [*{p}, *{p}]\n" for p, c in zip("abcdefghijklmnopqrst", "bcdefghijklmnopqrstu", strict=False)
    )
    (problem,) = problems(write(bomb))
    assert ":1: anchors" in problem


def test_a_file_that_is_not_there_or_is_a_directory(tmp_path):
    (absent,) = problems(tmp_path / "none.yaml")
    assert absent.startswith(f"{tmp_path / 'none.yaml'}: ") and "no such config file" in absent
    (directory,) = problems(tmp_path)
    assert "cannot be read" in directory


# --- imports


def test_importing_the_config_loads_nothing_heavy():
    heavy = "{'torch', 'transformers', 'numpy', 'polars', 'sklearn'} & set(sys.modules)"
    code = f"import sys, tonetune.config; sys.exit(str({heavy}) if {heavy} else 0)"
    subprocess.run([sys.executable, "-c", code], check=True)
