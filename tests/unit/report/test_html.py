"""Laws of the HTML report: one file, nothing fetched, nothing untrusted that acts, and every gap said plainly."""

import re
import sys
from html.parser import HTMLParser

import pytest

pytest.importorskip("matplotlib", reason="needs the extra report")

from tonetune.errors import DataError, MissingExtraError
from tonetune.report.html import write_report
from tonetune.rundir import RunDir, append_jsonl, read_json, read_jsonl, write_json, write_jsonl

EVERY_FILE = (
    "config.yaml", "env.json", "data.json", "labels.json", "adapters.json", "metrics.jsonl", "watch.jsonl", "best.json",
    "eval/test/report.json", "eval/test/predictions.jsonl", "eval/baselines/report.json",
)  # fmt: skip


class Page(HTMLParser):
    """Elements, references and visible text of a page."""

    VOID = ("meta", "link", "img", "br", "hr", "input")

    def __init__(self, source):
        super().__init__()
        self.tags, self.references, self.open, self.texts = [], [], [], []
        self.feed(source)
        self.text = " ".join("".join(self.texts).split())

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.texts.append(" " if tag == "td" else "")
        self.references += [value for name, value in attrs if name in ("src", "href", "xlink:href", "action")]
        self.references += [value for name, value in attrs if name.startswith("on")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"</{tag}> closes another element"

    def handle_data(self, data):
        if not {"style", "title"} & set(self.open):
            self.texts.append(data)


def written(run):
    report = write_report(run)
    assert report.path == run.report and report.missing == ()
    return report.path.read_text(encoding="utf-8")


def test_page_is_whole_and_fetches_nothing(run):
    source = written(run)
    page = Page(source)
    assert page.open == []
    assert page.tags.count("svg") == 7
    assert not {"script", "link", "img", "iframe", "object"} & set(page.tags)
    assert all(reference.startswith("#") for reference in page.references)
    namespaces = re.findall(r'xmlns(?::xlink)?="[^"]*"', source)
    for namespace in namespaces:
        source = source.replace(namespace, "")
    assert "http:" not in source and "https:" not in source and "@import" not in source and "url(h" not in source


def test_hostile_labels_and_texts_show_as_text(run):
    source = written(run)
    page = Page(source)
    assert "<script>alert(1)</script> {{ 7 * 7 }} [U+001B][2J [U+202E]gnp.exe & 烦死了，等了三个小时😭" in page.text
    assert "<b>$\\frac{[U+001B][31m" in page.text
    assert not {"b", "i", "script"} & set(page.tags)
    assert not re.search("[\x00-\x08\x0b-\x1f\u202e]", source)


def test_numbers_are_those_of_the_files(run):
    text = Page(written(run)).text
    baselines = read_json(run.evaluation("baselines") / "report.json")
    tuned = read_json(run.evaluation("test") / "report.json")
    for summary in (
        tuned["tuned"],
        *(baselines[k] for k in ("majority", "tfidf", "zero_shot", "zero_shot_calibrated")),
    ):
        for metric in ("accuracy", "macro_f1"):
            low, high = summary[f"{metric}_ci95"]
            assert f"{summary[metric]:.3f} [{low:.3f}, {high:.3f}]" in text
    assert f"labels {100 * tuned['tuned']['accuracy']:.1f} % of 240 test texts" in text
    assert f"{text.count(' · predicted ')} of 240 test texts are labelled wrongly" in text
    for expected in ("情绪：", "愤怒", "empty text 3", "no GPU found", "0–17", "18 × 26,624", "3 min 25 s"):
        assert expected in text


@pytest.mark.slow
def test_writing_twice_gives_the_same_file(run):
    assert written(run) == written(run)


def test_no_zero_shot_is_said_plainly(run):
    path = run.evaluation("baselines") / "report.json"
    note = "The labels are numbers, so there is no word to ask for."
    write_json(path, {**read_json(path), "zero_shot": None, "zero_shot_calibrated": None, "zero_shot_note": note})
    run.update_record(prompt={"template": "{text}", "language": "en", "words": None}, head_init="random")
    text = Page(written(run)).text
    assert note in text
    assert text.count("not measured") == 2
    assert "could not be asked before tuning" in text and "Before tuning, the same model" not in text


def test_a_run_that_stopped_early_still_has_a_report(run):
    for name in ("baselines", "validation", "test"):
        (run.evaluation(name) / "report.json").unlink()
    for path in (run.evaluation("test") / "predictions.jsonl", run.best, run.env, run.adapters):
        path.unlink()
    run.update_record(status="failed", train=None)
    page = Page(written(run))
    assert "This run has no test results" in page.text and "failed" in page.text
    assert page.tags.count("svg") == 3  # loss, gradient and memory so far


def test_steps_that_were_skipped_are_said(run):
    assert "were skipped" not in Page(written(run)).text
    append_jsonl(
        run.metrics, {"event": "skipped", "step": 7, "loss": 1.0, "not_finite": "the gradient of score.weight"}
    )
    assert "1 steps were skipped, because their gradient was not finite: step 7." in Page(written(run)).text


def test_cost_is_price_times_hours(run):
    config = run.config.read_text(encoding="utf-8")
    assert "no price given" in Page(written(run)).text
    run.config.write_text(config.replace("price_per_hour: null", "price_per_hour: 36"), encoding="utf-8")
    assert "Cost 2.05" in Page(written(run)).text  # 205 s


@pytest.mark.slow
def test_no_mistakes_and_no_predictions_are_different_things(run):
    path = run.evaluation("test") / "predictions.jsonl"
    write_jsonl(path, [row for row in read_jsonl(path) if row["label"] == row["gold"]])
    assert "Every test text is labelled correctly." in Page(written(run)).text
    path.unlink()
    assert "The predictions were not kept." in Page(written(run)).text


def test_leaks_are_not_hidden(run):
    write_json(run.data, {**read_json(run.data), "leaks": {"exact": 4, "near": None}})
    assert "4 texts are in more than one split" in Page(written(run)).text


def test_alarms_stand_at_the_top(run):
    path = run.evaluation("test") / "report.json"
    alarm = {"code": "collapsed", "what": "99% of the answers are 'joy'", "advice": "train longer"}
    assert "Alarm:" not in Page(written(run)).text
    write_json(path, {**read_json(path), "alarms": [alarm]})
    text = Page(written(run)).text
    assert text.index("Alarm: 99% of the answers are 'joy'. To do: train longer.") < text.index("Against the baselines")


@pytest.mark.slow
def test_what_was_learnt_and_forgotten_is_shown(run):
    assert "Learnt and forgotten" not in Page(written(run)).text
    rows = read_jsonl(run.evaluation("test") / "predictions.jsonl")
    for step, wrong in ((10, 5), (50, 3), (60, 200)):  # the last is after the step that was kept
        changed = [{**row, "label": row["gold"] if i >= wrong else "nobody"} for i, row in enumerate(rows)]
        write_jsonl(run.evaluation("validation") / f"step-{step}.jsonl", changed)
    text = Page(written(run)).text
    assert "2 learnt: wrong at first, right at last" in text and "0 forgotten" in text and "3 never learnt" in text
    assert "235 right from the beginning" in text


@pytest.mark.parametrize("module", ["jinja2", "matplotlib"])
def test_without_the_extra_the_error_says_what_to_install(run, monkeypatch, module):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match="HTML report") as error:
        write_report(run)
    assert "tonetune[report]" in error.value.hint
    assert not run.report.exists()


GONE = {
    "eval/test/report.json": ["uncalibrated", "abstention", "mistakes", "mcc", "alarms"],
    "eval/baselines/report.json": ["zero_shot_calibrated", "zero_shot_note"],
    "data.json": ["leaks"],
    "env.json": ["placement"],
    "adapters.json": ["kinds", "weights"],
    "run.json": ["head_init", "started", "versions"],
}


def test_a_run_of_another_version_shows_what_it_has_and_names_what_it_lacks(run):
    for file, keys in GONE.items():
        path = run.path / file
        write_json(path, {key: value for key, value in read_json(path).items() if key not in keys})
    config = run.config.read_text(encoding="utf-8")
    run.config.write_text(config.replace("lora:", "lora:\n  of_another_version: 1"), encoding="utf-8")
    report = write_report(run)
    page = Page(report.path.read_text(encoding="utf-8"))
    assert page.open == []
    assert [gap.split(":")[0] for gap in report.missing] == [
        "Gradient", "Class by class", "Can its confidence be believed?",
        "What abstaining buys", "Where it errs", "Data", "Prompt and words", "What was adapted",
        "What training did to the weights", "Time, memory and cost", "Environment",
    ]  # fmt: skip
    assert "Data: data.json: there is no 'leaks'" in report.missing
    assert any("of_another_version" in gap for gap in report.missing)
    for shown in ("The tuned model labels", "Learning", "The mistakes", "Every value of this run", "What is missing"):
        assert shown in page.text
    for gap in report.missing:
        assert " ".join(gap.split()) in page.text


@pytest.mark.parametrize("file", EVERY_FILE)
def test_no_missing_file_stops_the_report(run, file):
    (run.path / file).unlink()
    assert Page(write_report(run).path.read_text(encoding="utf-8")).open == []


def test_a_damaged_run_is_named(run):
    (run.evaluation("test") / "report.json").write_text("{", encoding="utf-8")
    with pytest.raises(DataError, match="damaged") as error:
        write_report(RunDir.open(run.path))
    assert error.value.where.endswith("report.json")
