"""Laws of the routes: their clients' shapes, predict's own answers, limits, keys, and hostile requests."""

import json
import math
import threading

import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")
pytest.importorskip("httpx2", reason="the HTTP client of the tests is not installed")

import counting
from counting import LABELS
from starlette.testclient import TestClient

from tonetune.errors import DeviceError
from tonetune.serve.app import create_app
from tonetune.serve.limits import Limits
from tonetune.serve.routes import STATIC

TEXTS = [
    "I was so happy",
    "  they were <b>angry</b>\u200b &amp; shouting ",
    "因为难过",
    "a <bos> text <eos>",
    "so " * 100,
]
LIMITS = Limits(body_bytes=200_000, texts=20, characters=2000, queue_texts=30, batch_tokens=256, timeout_s=20)
POSTS = {"/predict": "inputs", "/": "inputs", "/classify": "input", "/v1/classify": "input"}


@pytest.fixture
def client(classifier):
    with client_of(classifier) as client:
        yield client


def client_of(classifier, *, limits=LIMITS, **options):
    app = create_app({"demo": classifier}, limits=limits, **options)
    return TestClient(app, raise_server_exceptions=False)


def error_of(path, answer):
    """The message of an error, which has the shape of its path."""
    document = answer.json()
    if path == "/predict":
        assert set(document) == {"error", "error_type"}
        return document["error"]
    assert set(document) == {"error"}
    if "classify" in path:
        assert set(document["error"]) == {"message", "type", "param", "code"}
        assert document["error"]["code"] == answer.status_code
        return document["error"]["message"]
    assert set(document["error"]) == {"type", "what", "hint"}
    return f"{document['error']['what']}: {document['error']['hint']}"


def by_label(ranked):
    return {row["label"]: row["score"] for row in ranked}


@pytest.mark.parametrize("text", TEXTS)
def test_every_route_gives_the_answer_of_predict(client, classifier, text):
    expected = classifier.predict(text)
    tei = client.post("/predict", json={"inputs": text}).json()
    (hugging_face,) = client.post("/", json={"inputs": text}).json()
    assert tei == hugging_face and tei[0]["label"] == expected.label
    assert [row["score"] for row in tei] == sorted(expected.scores.values(), reverse=True)
    assert by_label(tei) == pytest.approx(expected.scores, abs=1e-12)
    for path in ("/classify", "/v1/classify"):
        document = client.post(path, json={"model": "demo", "input": text}).json()
        (row,) = document["data"]
        assert row["label"] == expected.label and row["num_classes"] == 3 and row["index"] == 0
        assert row["probs"] == pytest.approx(list(expected.scores.values()), abs=1e-12)


def test_every_route_gives_the_sigmoids_of_a_multi_label_classifier(tiny_tokenizer):
    """Their sum is not 1; the softmax, on request, has another."""
    thresholds = dict(zip(LABELS, (0.45, 0.55, 0.5), strict=True))
    classifier = counting.classifier(tiny_tokenizer, thresholds=thresholds)
    expected = classifier.predict(TEXTS)
    assert {len(one.labels) for one in expected} > {1}
    with client_of(classifier) as client:
        tei = client.post("/predict", json={"inputs": [[text] for text in TEXTS]}).json()
        hugging_face = client.post("/", json={"inputs": TEXTS}).json()
        vllm = client.post("/classify", json={"input": TEXTS}).json()["data"]
        softmax = client.post("/", json={"inputs": TEXTS, "parameters": {"function_to_apply": "softmax"}}).json()
        assert client.get("/info").json()["models"]["demo"]["thresholds"] == thresholds
        counted = client.get("/metrics").text
    for one, ranked, same, row, other in zip(expected, tei, hugging_face, vllm, softmax, strict=True):
        assert by_label(ranked) == by_label(same) == pytest.approx(one.scores, abs=1e-12)
        assert row["probs"] == pytest.approx(list(one.scores.values())) and row["label"] == ranked[0]["label"]
        assert sum(by_label(other).values()) == pytest.approx(1.0) and sum(row["probs"]) != pytest.approx(1.0)
    joys = sum("joy" in one.labels for one in expected)
    assert f'tonetune_labels_total{{label="joy",model="demo"}} {3.0 * joys + joys}' in counted


def test_batches_keep_their_order(client, classifier):
    expected = [prediction.label for prediction in classifier.predict(TEXTS)]
    tei = client.post("/predict", json={"inputs": [[text] for text in TEXTS]}).json()
    hugging_face = client.post("/", json={"inputs": TEXTS}).json()
    vllm = client.post("/v1/classify", json={"input": TEXTS}).json()
    assert [ranked[0]["label"] for ranked in tei] == expected
    assert tei == hugging_face
    assert [row["label"] for row in vllm["data"]] == expected
    assert [row["index"] for row in vllm["data"]] == list(range(len(TEXTS)))


def test_the_vllm_document_is_whole(client, classifier):
    document = client.post("/classify", json={"model": "demo", "input": TEXTS[:2], "user": "x"}).json()
    assert set(document) == {"id", "object", "created", "model", "data", "usage"}
    assert document["id"].startswith("classify-") and document["object"] == "list" and document["model"] == "demo"
    tokens = int(classifier.encode(TEXTS[:2]).lengths.sum())
    usage = {"prompt_tokens": tokens, "total_tokens": tokens, "completion_tokens": 0, "prompt_tokens_details": None}
    assert document["usage"] == usage


def test_the_softmax_of_raw_scores_is_the_scores(client):
    text = TEXTS[0]
    probs = by_label(client.post("/predict", json={"inputs": text}).json())
    raw = by_label(client.post("/predict", json={"inputs": text, "raw_scores": True}).json())
    (none,) = client.post("/", json={"inputs": text, "parameters": {"function_to_apply": "none"}}).json()
    (sigmoid,) = client.post("/", json={"inputs": text, "parameters": {"function_to_apply": "sigmoid"}}).json()
    (row,) = client.post("/classify", json={"input": text, "use_activation": False}).json()["data"]
    total = sum(math.exp(score) for score in raw.values())
    assert {label: math.exp(score) / total for label, score in raw.items()} == pytest.approx(probs)
    assert by_label(none) == raw and row["probs"] == [raw[label] for label in LABELS]
    assert by_label(sigmoid) == pytest.approx({label: 1 / (1 + math.exp(-score)) for label, score in raw.items()})


def test_top_k_keeps_the_most_probable(client):
    (every,) = client.post("/", json={"inputs": "so sad", "parameters": {"top_k": None}}).json()
    (best,) = client.post("/", json={"inputs": "so sad", "parameters": {"top_k": 2}}).json()
    assert len(every) == 3 and best == every[:2]


def test_one_text_in_a_list_is_one_text_to_tei(client):
    assert (
        client.post("/predict", json={"inputs": ["so sad"]}).json()
        == client.post("/predict", json={"inputs": "so sad"}).json()
    )


@pytest.mark.parametrize(
    "inputs", [["a", "b"], ["a", "b", "c"], [["a", "b"]], [["a"], ["b", "c"]], [["a"], ["b", "c"], ["d"]]]
)
def test_pairs_are_refused_with_the_form_to_use(client, inputs):
    answer = client.post("/predict", json={"inputs": inputs})
    assert answer.status_code == 422
    assert '[["one"], ["two"]]' in error_of("/predict", answer)


def test_a_long_text_is_cut_unless_that_is_forbidden(client):
    text = "so " * 200
    assert client.post("/predict", json={"inputs": text}).status_code == 200
    assert client.post("/predict", json={"inputs": text, "truncate": True}).status_code == 200
    answer = client.post("/predict", json={"inputs": text, "truncate": False})
    assert answer.status_code == 413 and "48 tokens" in error_of("/predict", answer)
    assert client.post("/predict", json={"inputs": "short", "truncate": False}).status_code == 200


BAD_BODIES = {
    "no JSON": b'{"inputs": ',
    "no object": b"[]",
    "a number": b"7",
    "nothing": b"",
    "nothing in it": b"{}",
    "null": b'{"inputs": null, "input": null}',
    "a number for a text": b'{"inputs": 5, "input": 5}',
    "an object for a text": b'{"inputs": {"text": "a"}, "input": {"text": "a"}}',
    "numbers for texts": b'{"inputs": [1, 2], "input": [1, 2]}',
    "no texts": b'{"inputs": [], "input": []}',
    "half of a character": b'{"inputs": "\\ud800", "input": "\\ud800"}',
    "no UTF-8": b'{"inputs": "\xff\xfe", "input": "\xff\xfe"}',
    "deeply nested": b'{"inputs": ' + b"[" * 50_000,
    "an empty text": b'{"inputs": "", "input": ""}',
    "a blank text": b'{"inputs": " \\n\\u200b ", "input": " \\n\\u200b "}',
    "markup alone": b'{"inputs": "<br>", "input": "<br>"}',
}


@pytest.mark.parametrize("path", POSTS)
@pytest.mark.parametrize("body", BAD_BODIES.values(), ids=BAD_BODIES)
def test_a_bad_body_is_the_clients_fault(client, path, body):
    answer = client.post(path, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in {400, 422}
    assert error_of(path, answer)


@pytest.mark.parametrize("path", POSTS)
def test_a_form_is_no_json(client, path):
    answer = client.post(path, content=b'{"inputs": "a", "input": "a"}', headers={"Content-Type": "text/plain"})
    assert answer.status_code in {400, 422}
    assert "application/json" in error_of(path, answer)


@pytest.mark.parametrize("path", POSTS)
def test_too_much_is_refused_before_it_is_scored(client, classifier, path):
    field = POSTS[path]
    many = [["a"]] * 10_000 if path == "/predict" else ["a"] * 10_000
    for inputs in ("a" * (1 << 20), "a" * 5000, many):
        answer = client.post(path, json={field: inputs})
        assert answer.status_code == 413
        assert error_of(path, answer)
    assert classifier.scorer.calls == []


def test_a_body_without_a_declared_length_is_measured_too(client):
    answer = client.post("/predict", content=(b"x" * 50_000 for _ in range(10)))
    assert answer.status_code == 413


@pytest.mark.parametrize("path", POSTS)
def test_an_unknown_model_is_404_and_names_those_there_are(client, path):
    body = {POSTS[path]: "a"} | ({"model": "nope\x1b[31m"} if "classify" in path else {})
    answer = client.post(path, json=body, params={} if "classify" in path else {"model": "nope"})
    assert answer.status_code == 404 and "demo" in error_of(path, answer)


def test_several_models_answer_by_name(classifier):
    from dataclasses import replace

    other = replace(classifier, temperature=4.0)
    app = create_app({"one": classifier, "two": other}, limits=LIMITS)
    with TestClient(app) as client:
        for name, expected in (("one", classifier), ("two", other)):
            scores = expected.predict("so sad").scores
            assert by_label(client.post(f"/predict?model={name}", json={"inputs": "so sad"}).json()) == pytest.approx(
                scores
            )
            document = client.post("/classify", json={"model": name, "input": "so sad"}).json()
            assert document["model"] == name and document["data"][0]["probs"] == pytest.approx(list(scores.values()))
        assert [row["id"] for row in client.get("/v1/models").json()["data"]] == ["one", "two"]
        assert client.post("/classify", json={"input": "so sad"}).json()["model"] == "one"


def test_what_the_service_says_of_itself(client, classifier):
    assert client.get("/health").json() == {"status": "alive"}
    assert client.get("/ready").json() == {"status": "ready"}
    info = client.get("/info").json()
    assert info["model_type"]["classifier"]["id2label"] == {"0": "anger", "1": "joy", "2": "sadness"}
    assert info["max_input_length"] == 48 and info["max_client_batch_size"] == LIMITS.texts
    assert (
        info["models"]["demo"]["labels"] == list(LABELS)
        and info["models"]["demo"]["temperature"] == classifier.temperature
    )


@pytest.mark.parametrize(("method", "path"), [("GET", "/nope"), ("GET", "/predict"), ("PUT", "/"), ("DELETE", "/info")])
def test_what_there_is_not_is_said_in_the_same_shape(client, method, path):
    answer = client.request(method, path)
    assert answer.status_code in {404, 405}
    assert error_of(path, answer)


def test_a_stopped_service_is_not_ready(classifier):
    with client_of(classifier) as client:
        pass
    for path in ("/health", "/ready"):
        answer = client.get(path)
        assert answer.status_code == 503 and error_of(path, answer)


@pytest.mark.parametrize("path", POSTS)
def test_short_memory_is_503_and_a_bug_is_500(client, classifier, path):
    body = {POSTS[path]: "a"}
    classifier.scorer.failure = DeviceError("memory ran out", hint="a smaller batch")
    answer = client.post(path, json=body)
    assert answer.status_code == 503 and "memory ran out" in error_of(path, answer) and answer.headers["Retry-After"]
    classifier.scorer.failure = ZeroDivisionError("secret of the machine")
    answer = client.post(path, json=body)
    assert answer.status_code == 500 and "secret" not in error_of(path, answer)
    classifier.scorer.failure = None
    assert client.post(path, json=body).status_code == 200


def in_background(function):
    answers = []
    thread = threading.Thread(target=lambda: answers.append(function()), daemon=True)
    thread.start()
    return thread, answers


@pytest.mark.parametrize("path", POSTS)
def test_a_full_queue_is_429_and_says_when_to_come_again(client, classifier, path):
    classifier.scorer.hold()
    texts = ["a"] * 15
    first = in_background(lambda: client.post("/", json={"inputs": "first"}))
    assert classifier.scorer.begun.wait(10)
    waiting = [in_background(lambda: client.post("/", json={"inputs": texts})) for _ in range(2)]
    batcher = client.app.state.service.models[0].batcher
    assert wait_until(lambda: batcher.queued_texts == 30)
    answer = client.post(path, json={POSTS[path]: "one more"})
    assert answer.status_code == 429 and int(answer.headers["Retry-After"]) >= 1
    assert error_of(path, answer)
    classifier.scorer.let_go()
    for thread, answers in (first, *waiting):
        thread.join(20)
        assert answers[0].status_code == 200


def wait_until(condition, *, seconds=10):
    pause = threading.Event()
    return any(condition() or pause.wait(0.01) for _ in range(int(seconds / 0.01)))


def test_texts_of_different_requests_share_a_batch(client, classifier):
    classifier.scorer.hold()
    first = in_background(lambda: client.post("/", json={"inputs": "first"}))
    assert classifier.scorer.begun.wait(10)
    others = [in_background(lambda text=text: client.post("/", json={"inputs": text})) for text in TEXTS[:4]]
    assert wait_until(lambda: client.app.state.service.models[0].batcher.queued_texts == 4)
    classifier.scorer.let_go()
    for (thread, answers), text in zip((first, *others), ("first", *TEXTS[:4]), strict=True):
        thread.join(20)
        assert by_label(answers[0].json()[0]) == pytest.approx(classifier.predict(text).scores)
    assert [len(call) for call in classifier.scorer.calls[:2]] == [1, 4]


def test_what_takes_too_long_is_503_and_is_not_scored(classifier):
    classifier.scorer.hold()
    with client_of(classifier, limits=Limits(timeout_s=1)) as client:
        first = in_background(lambda: client.post("/", json={"inputs": "first"}))
        assert classifier.scorer.begun.wait(10)
        answer = client.post("/predict", json={"inputs": "late"})
        assert answer.status_code == 503 and "1 s" in error_of("/predict", answer)
        assert client.app.state.service.models[0].batcher.queued_texts == 0
        classifier.scorer.let_go()
        first[0].join(20)
    assert len(classifier.scorer.calls) == 1


def test_stopping_answers_what_was_accepted(classifier):
    classifier.scorer.hold()
    with client_of(classifier) as client:
        first = in_background(lambda: client.post("/", json={"inputs": "first"}))
        assert classifier.scorer.begun.wait(10)
        second = in_background(lambda: client.post("/", json={"inputs": "second"}))
        batcher = client.app.state.service.models[0].batcher
        assert wait_until(lambda: batcher.queued_texts == 1)
        stopping = in_background(batcher.close)
        assert wait_until(lambda: not batcher.alive)
        assert client.post("/", json={"inputs": "too late"}).status_code == 503
        classifier.scorer.let_go()
        for thread, answers in (first, second):
            thread.join(20)
            assert answers[0].status_code == 200
        stopping[0].join(20)


KEYS = ["right-key", "another"]
GUARDED = [
    *(("POST", path) for path in POSTS),
    ("GET", "/info"),
    ("GET", "/v1/models"),
    ("GET", "/metrics"),
    ("GET", "/nope"),
]


def test_without_a_known_key_nothing_is_told(classifier):
    with client_of(classifier, keys=KEYS) as client:
        for header in (None, "right-key", "Bearer", "Bearer ", "Bearer wrong", "Basic right-key", "Bearer RIGHT-KEY"):
            for method, path in GUARDED:
                answer = client.request(method, path, headers={"Authorization": header} if header else {})
                assert answer.status_code == 401 and error_of(path, answer)
                assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert classifier.scorer.calls == []


def test_each_key_opens_and_probes_need_none(classifier):
    with client_of(classifier, keys=KEYS) as client:
        for key in KEYS:
            headers = {"Authorization": f"Bearer {key}"}
            assert client.post("/predict", json={"inputs": "a"}, headers=headers).status_code == 200
        for path in ("/", "/health", "/ready", "/docs", "/openapi.json", "/static/page.js"):
            assert client.get(path).status_code == 200


def test_keys_are_compared_in_constant_time(classifier, monkeypatch):
    import hmac

    compared = []
    whole = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", lambda a, b: compared.append((len(a), len(b))) or whole(a, b))
    with client_of(classifier, keys=KEYS) as client:
        client.get("/info", headers={"Authorization": "Bearer right-key"})
    assert compared == [(32, 32)] * len(KEYS)  # every key, at one length, even after the right one


def test_metrics_count_what_happened(client, classifier):
    texts = TEXTS[:3]
    client.post("/", json={"inputs": texts})
    client.post("/predict", json={"inputs": ["a", "b"]})
    client.get("/surely/not/a/route")
    page = client.get("/metrics").text
    labels = [prediction.label for prediction in classifier.predict(texts)]
    confidence = sum(prediction.confidence for prediction in classifier.predict(texts))
    values = {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in page.splitlines() if line[0] != "#"}
    assert values['tonetune_requests_total{route="/",status="200"}'] == 1
    assert values['tonetune_requests_total{route="/predict",status="422"}'] == 1
    assert values['tonetune_requests_total{route="other",status="404"}'] == 1
    assert values['tonetune_request_seconds_count{route="/"}'] == 1
    assert values['tonetune_queue_texts{model="demo"}'] == 0
    assert values['tonetune_texts_total{model="demo"}'] == 3
    assert values['tonetune_batch_tokens_sum{model="demo"}'] == classifier.encode(texts).lengths.sum()
    for label in set(labels):
        assert values[f'tonetune_labels_total{{label="{label}",model="demo"}}'] == labels.count(label)
    assert values['tonetune_confidence_sum{model="demo"}'] == pytest.approx(confidence)
    assert "surely" not in page


def test_the_log_holds_texts_only_when_asked(classifier, caplog):
    caplog.set_level("INFO", logger="tonetune.serve")
    for log_texts in (False, True):
        caplog.clear()
        with client_of(classifier, log_texts=log_texts) as client:
            client.post("/predict", json={"inputs": "secret \u202e words"})
        (line,) = [record.message for record in caplog.records if record.name == "tonetune.serve"]
        document = json.loads(line)
        assert document["status"] == 200 and document["texts"] == 1 and document["model"] == "demo"
        assert ("secret" in line) == log_texts and line.isascii()


def test_pages_load_nothing_from_elsewhere(client):
    for path in ("/", "/docs"):
        answer = client.get(path)
        assert answer.headers["Content-Type"].startswith("text/html")
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    files = sorted(STATIC.iterdir())
    assert len(files) >= 4
    for file in files:
        content = file.read_text(encoding="utf-8")
        assert "//" not in content.replace("// ", "") and "innerHTML" not in content
        assert client.get(f"/static/{file.name}").status_code == 200
    assert client.get("/static/../app.py").status_code == 404


def test_the_openapi_document_names_every_route(client):
    document = client.get("/openapi.json").json()
    assert set(document["paths"]) == {*POSTS, "/health", "/ready", "/info", "/v1/models", "/metrics"}
    for path in POSTS:
        assert {"200", "400", "401", "413", "429", "503"} <= set(document["paths"][path]["post"]["responses"])
