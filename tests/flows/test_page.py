"""The page as a person uses it, in headless Chromium: type, submit, read, open a file, download, on a phone too."""

import csv
import json
import shutil

import counting
import pytest

from tonetune.serve.limits import Limits

pytest.importorskip("fastapi", reason="the extra serve is not installed")
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")]

HOSTILE = "<img src=x onerror=\"document.title='owned'\"> & =1+1"
PHONE = {"width": 360, "height": 740}


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def classifier(tiny_tokenizer, request):
    """Multi-label where the test names thresholds."""
    return counting.classifier(tiny_tokenizer, thresholds=getattr(request, "param", None))


@pytest.fixture
def page(browser, classifier):
    """The page in a new window; a request to elsewhere and an error of a script fail the test."""
    faults = []
    with counting.serving(classifier, limits=Limits()) as address:
        page = browser.new_page(base_url=address)
        page.set_default_timeout(20_000)
        page.on(
            "request", lambda request: request.url.startswith((address, "data:", "blob:")) or faults.append(request.url)
        )
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda message: message.type == "error" and faults.append(message.text))
        page.goto("/")
        yield page
        page.close()
    assert faults == []


def done(page, count):
    page.get_by_text(f"{count} {'text' if count == 1 else 'texts'} classified").wait_for()


@pytest.mark.parametrize(
    "classifier", [dict(zip(counting.LABELS, (0.45, 0.55, 0.5), strict=True))], indirect=True, ids=["multi-label"]
)
def test_a_text_has_a_chip_for_each_of_its_labels(page, classifier):
    texts = ["I was so happy", "they were shouting", "so sad", "the train", "angry"]
    expected = classifier.predict(texts)
    assert len({len(one.labels) for one in expected}) > 1
    page.keyboard.press("Tab")
    page.keyboard.type("\n".join(texts))
    page.keyboard.press("Control+Enter")
    done(page, len(texts))
    for row, one in zip(page.locator("#rows > li").all(), expected, strict=True):
        assert row.locator(".chip").all_text_contents() == one.labels
        assert row.get_by_text("no label").count() == (0 if one.labels else 1)
    with page.expect_download() as download:
        page.click("#download")
    with open(download.value.path(), encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [json.loads(row["labels"]) for row in rows] == [one.labels for one in expected]
    assert [float(row["confidence"]) for row in rows] == pytest.approx([one.confidence for one in expected])


def test_typed_texts_are_labelled_with_the_keyboard_alone(page, classifier):
    texts = ["I was so happy", HOSTILE]
    page.keyboard.press("Tab")
    page.keyboard.type("\n".join(texts))
    page.keyboard.press("Control+Enter")
    done(page, 2)
    rows = page.locator("#rows > li")
    for i, prediction in enumerate(classifier.predict(texts)):
        assert rows.nth(i).locator(".text").inner_text() == texts[i]
        assert rows.nth(i).locator(".chip").inner_text() == prediction.label
        assert rows.nth(i).locator("meter").count() == len(counting.LABELS)
        assert f"{100 * prediction.confidence:.1f} %" in rows.nth(i).inner_text()
    assert page.title() == "tonetune" and page.locator("img").count() == 0


def test_a_csv_is_read_and_its_predictions_are_downloaded(page, classifier, tmp_path):
    texts = ['two\nlines, and "quotes"', HOSTILE, "=SUM(A1)", "难过", *(f"text {i}" for i in range(120))]
    file = tmp_path / "rows.csv"
    with open(file, "w", encoding="gb18030", newline="") as opened:
        csv.writer(opened).writerows([("id", "content"), *enumerate(texts)])
    page.set_input_files("#file", file)
    assert page.locator("#column").evaluate("e => e.selectedOptions[0].text") == "content"
    page.click("#submit")
    done(page, len(texts))
    with page.expect_download() as download:
        page.click("#download")
    with open(download.value.path(), encoding="utf-8-sig", newline="") as opened:
        rows = list(csv.DictReader(opened))
    assert [row["text"] for row in rows] == [f"'{text}" if text.startswith("=") else text for text in texts]
    for row, prediction in zip(rows, classifier.predict(texts), strict=True):
        assert row["label"] == prediction.label
        assert float(row["confidence"]) == pytest.approx(prediction.confidence)
        assert {label: float(row[f"score_{label}"]) for label in counting.LABELS} == pytest.approx(prediction.scores)


def test_a_phone_shows_it_without_scrolling_aside_in_light_and_dark(page):
    page.set_viewport_size(PHONE)
    page.fill("#texts", "happy " * 60 + "x" * 300)
    page.click("#submit")
    done(page, 1)
    papers = set()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        papers.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert len(papers) == 2


def test_what_goes_wrong_is_said(page):
    page.click("#submit")
    page.get_by_text("Write a text first").wait_for()


def test_who_is_quicker_than_the_list_of_models_is_answered_all_the_same(browser, classifier):
    with counting.serving(classifier, limits=Limits()) as address:
        page = browser.new_page(base_url=address)
        page.set_default_timeout(20_000)
        page.route("**/v1/models", lambda route: (page.wait_for_timeout(300), route.continue_()))
        page.goto("/", wait_until="commit")
        page.click("#submit")
        page.get_by_text("Write a text first").wait_for()
        page.close()


def test_the_routes_can_be_read(page):
    page.goto("/docs")
    page.get_by_role("heading", name="POST /v1/classify").wait_for()
    assert page.locator("section").count() == 9


def test_a_service_with_keys_asks_for_one(browser, classifier):
    with counting.serving(classifier, limits=Limits(), keys=["secret"]) as address:
        page = browser.new_page(base_url=address)
        page.set_default_timeout(20_000)
        page.goto("/")
        page.get_by_text("no known API key").wait_for()
        page.fill("#key", "secret")
        page.fill("#texts", "so sad")
        page.click("#submit")
        done(page, 1)
        page.close()
