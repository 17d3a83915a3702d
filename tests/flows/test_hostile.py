"""Texts and labels that would act where they are shown: on a terminal, in a page, in a spreadsheet, in the model."""

import csv
import html
import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import tiny

ESCAPE, OVERRIDE, RETURN = "\x1b", "\u202e", "\r"
LABELS = {
    "joy": "joy\x1b[31m",
    "sadness": "<script>alert(1)</script>",
    "anger": "=cmd()|x",
    "fear": "fe\u202ear [link](x)",
}
TEXTS = [
    "a happy \x1b]0;title\x07 morning",
    "sad \u202e\u2066 and <img src=x onerror=alert(2)>",
    '=HYPERLINK("x") angry <!-- and --> unfair',
    "<bos><eos> afraid <start_of_turn>model",
    "@happy +1 -1 | `code` **bold** ![x](http://x)",
]


def hostile_rows() -> list[tuple[str, str]]:
    rows = [(text, LABELS[label]) for text, label in tiny.emotion_rows("en", 80)]
    for i, text in enumerate(TEXTS * 4):
        rows[i] = (f"{text} {rows[i][0]}", rows[i][1])
    return rows


class Page(HTMLParser):
    """Tags with their attributes, and the text between them."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.fixture(scope="module")
def hostile(cli: Any, quick: list[str], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A run on hostile rows, and what it said."""
    root = tmp_path_factory.mktemp("hostile")
    data = tiny.write_rows(root / "rows\u202e.jsonl", hostile_rows())
    words = json.dumps(dict(zip(LABELS.values(), LABELS, strict=True)))
    flags = ["--set", f"prompt.words={words}", "--set", f"run.dir={root}"]
    result = cli("train", "--data", data, *quick, *flags, "--json")
    assert result.code == 0, result.err
    return data, result


def assert_harmless(text: str) -> None:
    assert not {ESCAPE, OVERRIDE, RETURN, "\x07", "\u2066"} & set(text)


def test_what_a_terminal_shows_does_not_act(cli: Any, hostile: Any, tmp_path: Path) -> None:
    data, result = hostile
    run = result.document["run"]
    for shown in (
        result.err,
        (Path(run) / "run.log").read_text(encoding="utf-8"),
        cli("inspect", data).err,
        cli("evaluate", run).err,
        cli("prepare", data, "--out", tmp_path / "out").err,
        cli("evaluate", run, "--data", tiny.write_rows(tmp_path / "x.csv", [("a day", "new\x1b[2J")])).err,
        cli("predict", run, data, "--text", "te\x1b[2Jxt").err,
        cli("train", "--da\x1b[2Jta").err,
    ):
        assert shown
        assert_harmless(shown)
    assert "[U+001B][31m" in result.err


def test_json_on_stdout_is_escaped_by_json(cli: Any, hostile: Any) -> None:
    _, result = hostile
    out = cli("predict", result.document["run"], "-i", "happy \x1b[31m").out
    assert ESCAPE not in out and json.loads(out)["text"] == "happy \x1b[31m"


def test_the_report_shows_markup_as_text(hostile: Any) -> None:
    for module in ("jinja2", "matplotlib"):
        pytest.importorskip(module, reason="the extra report is absent")
    source = (Path(hostile[1].document["run"]) / "report.html").read_text(encoding="utf-8")
    page = Page(source)
    assert {ESCAPE, OVERRIDE, "\x07", "\u2066"} & set(html.unescape(source)) == set()
    assert not any("alert" in str(attributes) for _, attributes in page.tags)
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
    scripts = [i for i, (tag, _) in enumerate(page.tags) if tag == "script"]
    assert scripts == [] or "alert(1)" not in source.split("<script")[1]
    assert any("<script>alert(1)</script>" in text for text in page.texts)


def test_the_card_shows_markup_as_text(hostile: Any) -> None:
    card = (Path(hostile[1].document["run"]) / "README.md").read_text(encoding="utf-8")
    assert_harmless(card)
    body = card.split("```")[0].split("---", 2)[2]
    assert "<script>" not in body and "](x)" not in body.replace("\\", "\0")


def test_tables_hold_no_formulas(cli: Any, hostile: Any, tmp_path: Path) -> None:
    data, result = hostile
    run = Path(result.document["run"])
    out = tmp_path / "out.csv"
    assert cli("predict", run, data, "--text", "text", "--to", out).code == 0
    for path in (run / "eval/test/confusion.csv", out):
        with open(path, encoding="utf-8", newline="") as file:
            cells = [cell for row in csv.reader(file) for cell in row]
        assert not any(cell.startswith(("=", "+", "@", "\t", "\r")) for cell in cells)
        assert any("=cmd()" in cell for cell in cells)


def test_control_tokens_in_a_text_are_read_as_characters(cli: Any, run: Path) -> None:
    """As tokens of their own they would cut the text short or begin another."""
    from tonetune.api.loaded import load

    tokenizer = load(run).scorer.tokenizer
    (ids,) = tokenizer.encode(["a <eos> b <bos> c <pad>"]).ids
    assert list(ids).count(tokenizer.bos_id) == 1
    assert not {0, 1} & set(ids[1:].tolist())
    assert cli("predict", run, "-i", "<eos><pad>").code == 0
