"""What a newcomer gets wrong: each is one short error, what and where and what to do, and leaves nothing behind."""

import errno
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from huggingface_hub import errors

ENGLISH = tiny.emotion_rows("en", 40)


@pytest.fixture(autouse=True)
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test here runs in a directory of its own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def said(error: dict[str, Any]) -> str:
    return " ".join(str(error[key]) for key in ("what", "where", "hint") if error[key])


def train(cli: Any, quick: list[str], *flags: object) -> Any:
    return cli("train", *quick, *flags, "--json")


def with_rows(rows: list[tuple[str, str]], name: str = "rows.csv") -> Callable[[], list[str]]:
    return lambda: ["--data", str(tiny.write_rows(Path(name), rows))]


def plain_file(content: str, name: str = "rows.csv") -> Callable[[], list[str]]:
    def write() -> list[str]:
        Path(name).write_text(content, encoding="utf-8")
        return ["--data", name]

    return write


def no_flags() -> list[str]:
    return []


DATA_ERRORS = {
    "no file named": (no_flags, 2, ["data.train", "--data"]),
    "missing file": (lambda: ["--data", "absent.csv"], 3, ["absent.csv", "no such file"]),
    "directory": (lambda: ["--data", "."], 3, ["directory"]),
    "unknown ending": (plain_file("text,label\na,b\n", "rows.docx"), 3, [".docx", ".csv"]),
    "empty file": (plain_file(""), 3, ["empty"]),
    "header alone": (plain_file("text,label\n"), 3, ["no rows"]),
    "broken line": (plain_file('{"text": "a", "label": "b"}\n{"text": \n', "rows.jsonl"), 3, ["rows.jsonl:2"]),
    "no usable row": (with_rows([("", "joy"), ("a text", "")]), 3, ["no usable row", "inspect"]),
    "all texts empty": (with_rows([("", label) for _, label in ENGLISH]), 3, ["empty_text 40"]),
    "one class": (with_rows([(text, "joy") for text, _ in ENGLISH]), 3, ["two classes", "'joy'"]),
    "class too small": (
        with_rows([*ENGLISH, ("a strange day", "odd"), ("an odd day", "odd")]),
        3,
        ["'odd' has 2", "3"],
    ),
}


@pytest.mark.parametrize("case", DATA_ERRORS)
def test_rows_that_cannot_be_used(cli: Any, quick: list[str], workplace: Path, case: str) -> None:
    make, code, words = DATA_ERRORS[case]
    flags = make()
    before = sorted(workplace.rglob("*"))
    error = train(cli, quick, *flags).error(code=code)
    assert error["where"]
    for word in words:
        assert word in said(error)
    assert sorted(workplace.rglob("*")) == before


@pytest.mark.parametrize("key", ["data.text", "data.label", "data.group"])
def test_a_missing_column_lists_those_there_are(cli: Any, quick: list[str], workplace: Path, key: str) -> None:
    error = train(cli, quick, *with_rows(ENGLISH)(), "--set", f"{key}=Texts").error(code=3)
    assert "text, label" in error["what"] and "'Texts'" in error["what"]
    assert error["where"].endswith("rows.csv")
    assert not (workplace / "runs").exists()


@pytest.mark.parametrize("split", ["validation", "test"])
def test_an_unknown_label_in_a_given_split_names_its_row(
    cli: Any, quick: list[str], workplace: Path, split: str
) -> None:
    tiny.write_rows(Path("other.csv"), [("a good day", "joy"), ("hm", "boredom")])
    error = train(cli, quick, *with_rows(ENGLISH)(), "--set", f"data.{split}=other.csv").error(code=3)
    assert error["where"] == "other.csv:3" and "'boredom'" in error["what"] and "data.rename" in error["hint"]
    assert not (workplace / "runs").exists()


def test_leaks_stop_until_they_are_allowed(cli: Any, quick: list[str], workplace: Path) -> None:
    tiny.write_rows(Path("other.csv"), ENGLISH[:8])
    flags = [*with_rows(ENGLISH)(), "--set", "data.test=other.csv", "--set", "train.epochs=0.5"]
    error = train(cli, quick, *flags).error(code=7)
    assert "8 texts" in error["what"] and "--allow-leaks" in error["hint"]
    assert not (workplace / "runs").exists()
    assert cli("prepare", "rows.csv", "--test", "other.csv", "--out", "out", "--json").error(code=7)
    assert not (workplace / "out").exists()
    allowed = train(cli, quick, *flags, "--allow-leaks")
    assert allowed.code == 0
    data = json.loads((Path(allowed.document["run"]) / "data.json").read_text(encoding="utf-8"))
    assert data["leaks"]["exact"] == 8
    assert cli("prepare", "rows.csv", "--test", "other.csv", "--out", "out", "--allow-leaks", "--json").code == 0


def _model(tiny_gemma: Path, *, without: str = "", **changes: object) -> None:
    shutil.copytree(tiny_gemma, "model")
    if without:
        Path("model", without).unlink()
    if changes:
        path = Path("model/config.json")
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


MODEL_ERRORS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "no weights": ({"without": "model.safetensors"}, ["no weights", "model.safetensors"]),
    "no tokenizer": ({"without": "tokenizer.json"}, ["tokenizer.json"]),
    "no config": ({"without": "config.json"}, ["config.json"]),
    "other family": ({"model_type": "bert"}, ["bert", "gemma3_text"]),
    "other shape": ({"hidden_size": 64}, ["shape"]),
}


@pytest.mark.parametrize("case", MODEL_ERRORS)
def test_a_model_directory_that_is_not_whole(
    cli: Any, quick: list[str], tiny_gemma: Path, workplace: Path, case: str
) -> None:
    changes, words = MODEL_ERRORS[case]
    _model(tiny_gemma, **changes)
    error = train(cli, quick, *with_rows(ENGLISH)(), "--set", "model.base=model", "--model", "model").error(code=5)
    assert "model" in error["where"]
    for word in words:
        assert word in said(error)
    assert not (workplace / "runs").exists()


def test_a_random_model_is_refused_by_the_gate(cli: Any, quick: list[str], workplace: Path) -> None:
    flags = [*with_rows(ENGLISH)(), "--set", "model.load_gate=strict"]
    error = train(cli, quick, *flags).error(code=5)
    assert "model.load_gate" in error["hint"] and "nats" in error["what"]
    assert not (workplace / "runs").exists()


@pytest.mark.parametrize("name", ["no/such/directory", "./model", "gemma", "model.gguf"])
def test_a_model_that_does_not_exist(cli: Any, quick: list[str], workplace: Path, name: str) -> None:
    error = train(cli, quick, *with_rows(ENGLISH)(), "--model", name).error(code=5)
    assert name in error["where"] and error["hint"]
    assert not (workplace / "runs").exists()


HUB_ERRORS: dict[str, tuple[type[Exception], int, str]] = {
    "offline": (errors.LocalEntryNotFoundError, 5, "hf download"),
    "missing": (errors.RepositoryNotFoundError, 5, "check the name"),
    "gated": (errors.GatedRepoError, 5, "accept the licence"),
    "no revision": (errors.RevisionNotFoundError, 5, "branches"),
    "not a name": (errors.HFValidationError, 5, "huggingface.co"),
    "refused": (errors.HfHubHTTPError, 5, "huggingface.co"),
    "full disk": (OSError, 6, "HF_HOME"),
}


def _hub_error(kind: type[Exception]) -> Exception:
    """An error as the hub's client raises it, but for the response, which few of its versions make the same way."""
    error = kind.__new__(kind, errno.ENOSPC, "No space left on device") if kind is OSError else kind.__new__(kind, "no")
    return error


@pytest.mark.parametrize("kind", HUB_ERRORS)
def test_a_hub_model_that_cannot_be_had(
    cli: Any, quick: list[str], workplace: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    raised, code, hint = HUB_ERRORS[kind]

    def refuse(*args: object, **options: object) -> str:
        raise _hub_error(raised)

    monkeypatch.setattr("huggingface_hub.hf_hub_download", refuse)
    error = train(cli, quick, *with_rows(ENGLISH)(), "--model", "google/gemma-3-9t").error(code=code)
    assert error["where"] and hint in error["hint"]
    assert not (workplace / "runs").exists()


def test_a_half_downloaded_hub_model(
    cli: Any, quick: list[str], tiny_gemma: Path, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A snapshot of the hub's cache whose weights have not arrived yet."""
    snapshot = workplace / "hub/models--org--small/snapshots/0123456789abcdef0123456789abcdef01234567"
    shutil.copytree(tiny_gemma, snapshot)
    (snapshot / "model.safetensors").unlink()
    (snapshot.parents[1] / "refs").mkdir()
    (snapshot.parents[1] / "refs/main").write_text(snapshot.name)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(workplace / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    error = train(cli, quick, *with_rows(ENGLISH)(), "--model", "org/small").error(code=5)
    assert "no weights" in error["what"] and "download" in error["hint"]
    (snapshot / "model.safetensors").write_bytes((tiny_gemma / "model.safetensors").read_bytes()[:5000])
    assert "small" in train(cli, quick, "--data", "rows.csv", "--model", "org/small").error(code=5)["where"]
    assert not (workplace / "runs").exists()


@pytest.mark.parametrize("place", ["file", "file/below", "/proc/runs"])
def test_a_place_that_cannot_be_written(cli: Any, quick: list[str], workplace: Path, place: str) -> None:
    Path("file").write_text("in the way")
    error = train(cli, quick, *with_rows(ENGLISH)(), "--set", f"run.dir={place}").error(code=6)
    assert place.split("/")[-1] in error["where"] and error["hint"]
    assert sorted(path.name for path in workplace.iterdir()) == ["file", "rows.csv"]
    assert cli("prepare", "rows.csv", "--out", "file/below", "--json").error(code=6)["where"].startswith("file/below")
    assert cli("inspect", "rows.csv", "--to", "file/below/rows.jsonl").code == 6
    assert sorted(path.name for path in workplace.iterdir()) == ["file", "rows.csv"]


def test_a_disk_without_room_for_a_run_gets_none(
    cli: Any, quick: list[str], workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    error = train(cli, quick, *with_rows(ENGLISH)()).error(code=6)
    assert "disk is full" in error["what"] and "run.dir" in error["hint"]
    assert list((workplace / "runs").iterdir()) == []


def test_a_disk_that_fills_up_later_leaves_whole_files(
    cli: Any, quick: list[str], workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the first step on there is no room but what the run has set aside for its last words."""

    def full(descriptor: int) -> None:
        (run,) = (workplace / "runs").iterdir()
        if (run / "metrics.jsonl").exists() and (run / ".reserve").exists():
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    error = train(cli, quick, *with_rows(ENGLISH)(), "--set", "train.epochs=0.5").error(code=6)
    assert "disk is full" in error["what"]
    (run,) = (workplace / "runs").iterdir()
    record = json.loads((run / "run.json").read_text(encoding="utf-8"))
    assert (record["status"], record["error"]) == ("failed", error)
    assert list(run.rglob(".*")) == []
    assert "trained to its end" in cli("predict", run, "-i", "x", "--json").error(code=3)["what"]


CONFIG = """\
model: {base: demo, dtyp: float32}
train:
  epochs: none
  batch: 0
lora_r: 8
"""


def test_every_problem_of_a_config_is_said_at_once_with_its_line(cli: Any, workplace: Path) -> None:
    Path("bad.yaml").write_text(CONFIG, encoding="utf-8")
    error = cli("train", "--config", "bad.yaml", "--json").error(code=2)
    for place in ("bad.yaml:1", "bad.yaml:3", "bad.yaml:4", "bad.yaml:5"):
        assert place in said(error)
    for word in ("dtype", "train.epochs", "lora.rank"):
        assert word in said(error)
    assert [path.name for path in workplace.iterdir()] == ["bad.yaml"]
    assert "absent.yaml" in said(cli("train", "--config", "absent.yaml", "--json").error(code=2))


USAGE_ERRORS = {
    "unknown flag": (["train", "--dta", "x.csv"], ["--dta", "--data", "tonetune train --help"]),
    "unknown verb": (["trian"], ["trian", "tonetune --help"]),
    "missing argument": (["predict"], ["RUN", "tonetune predict --help"]),
    "typo in --set": (["train", "--set", "lora.rnak=4"], ["lora.rnak", "rank"]),
    "--set without a value": (["train", "--set", "lora.rank"], ["lora.rank", "="]),
    "wrong value": (["train", "--set", "train.batch=many"], ["train.batch", "many"]),
    "an unknown tracker": (["train", "--set", "run.trackers=[wandbb]"], ["run.trackers", "wandbb"]),
    "no model": (["train", "--model", ""], ["model.base", "not empty"]),
}


@pytest.mark.parametrize("case", USAGE_ERRORS)
def test_wrong_usage(cli: Any, workplace: Path, case: str) -> None:
    arguments, words = USAGE_ERRORS[case]
    error = cli(*arguments, "--json").error(code=2)
    for word in words:
        assert word in said(error)
    plain = cli(*arguments)
    assert plain.code == 2 and plain.out == "" and "error: " in plain.err
    assert list(workplace.iterdir()) == []


def test_no_verb_shows_the_verbs(cli: Any) -> None:
    result = cli()
    assert result.code == 2 and "predict" in result.err
    assert cli("--help").code == 0 and cli("train", "-h").code == 0
    assert cli("--version").out.startswith("tonetune ")


def test_a_metric_of_several_labels_needs_rows_of_several(cli: Any, quick: list[str], workplace: Path) -> None:
    flags = [*with_rows(ENGLISH)(), "--set", "evaluate.select_by=micro_f1"]
    error = train(cli, quick, *flags).error(code=2)
    assert error["where"] == "evaluate.select_by" and "multi-label" in error["what"]
    assert not (workplace / "runs").exists()


def _host_full() -> None:
    torch.empty(1 << 55)


def _card_full() -> None:
    raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.\nDetails follow.")


def _python_full() -> None:
    raise MemoryError


@pytest.mark.parametrize("fill", [_host_full, _card_full, _python_full])
@pytest.mark.parametrize("stage", ["training", "scoring"])
def test_memory_that_runs_out_is_an_error_with_a_way_out(
    cli: Any, quick: list[str], workplace: Path, monkeypatch: pytest.MonkeyPatch, fill: Callable[[], None], stage: str
) -> None:
    place = {"training": "tonetune.training.gradient.accumulate", "scoring": "tonetune.evaluation.predict.Scorer.score"}
    monkeypatch.setattr(place[stage], lambda *args, **options: fill())
    error = train(cli, quick, *with_rows(ENGLISH)()).error(code=6)
    assert "out of memory" in error["what"] and "data.max_length" in error["hint"]
    (run,) = (workplace / "runs").iterdir()
    record = json.loads((run / "run.json").read_text(encoding="utf-8"))
    assert (record["status"], record["error"]) == ("failed", error)


def test_memory_that_runs_out_in_a_prediction(cli: Any, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tonetune.evaluation.predict.Scorer.score", lambda *args, **options: _host_full())
    assert "out of memory" in cli("predict", run, "-i", "x", "--json").error(code=6)["what"]


def test_a_loss_that_is_not_finite_fails_the_run(
    cli: Any, quick: list[str], workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tonetune.training.gradient.accumulate", lambda *args, **options: torch.tensor(float("nan")))
    error = train(cli, quick, *with_rows(ENGLISH)()).error(code=6)
    assert "nan" in error["what"] and error["where"] == "step 1"
    (run,) = (workplace / "runs").iterdir()
    record = json.loads((run / "run.json").read_text(encoding="utf-8"))
    assert (record["status"], record["error"]) == ("failed", error)


def test_a_bug_is_called_one(cli: Any, quick: list[str], workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: object, **options: object) -> None:
        raise ZeroDivisionError("of our own making")

    monkeypatch.setattr("tonetune.training.gradient.accumulate", broken)
    error = train(cli, quick, *with_rows(ENGLISH)()).error(code=1)
    assert error["type"] == "Bug" and "of our own making" in error["what"] and "-v" in error["hint"]
    (run,) = (workplace / "runs").iterdir()
    record = json.loads((run / "run.json").read_text(encoding="utf-8"))
    assert record["status"] == "failed" and "of our own making" in record["error"]["what"]
    shown = cli("train", *quick, "--data", "rows.csv", "-v")
    assert shown.code == 1 and "Traceback" in shown.err


def test_layers_that_do_not_exist_are_said_before_anything_is_written(
    cli: Any, quick: list[str], workplace: Path
) -> None:
    error = train(cli, quick, *with_rows(ENGLISH)(), "--set", "lora.targets=[nonsense]").error(code=2)
    assert "'nonsense'" in error["what"] and "q_proj" in error["what"]
    assert not (workplace / "runs").exists()


def test_one_word_for_two_labels_and_words_of_unknown_labels(cli: Any, quick: list[str], workplace: Path) -> None:
    for words in ('{"joy": "happy"}', '{"joy": "a", "sadness": "a", "anger": "b", "fear": "c"}', '{"glee": "x"}'):
        error = train(cli, quick, *with_rows(ENGLISH)(), "--set", f"prompt.words={words}").error(code=2)
        assert "prompt.words" in said(error)
        assert not (workplace / "runs").exists()
