"""The service as its clients meet it: real sockets, public clients, a browser, and an end by signal."""

import json
import re
import signal
import socket
import threading
import time
import urllib.request

import counting
import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")

from tonetune.serve.limits import Limits

PATIENCE_S = 60.0


@pytest.fixture
def classifier(tiny_tokenizer):
    return counting.classifier(tiny_tokenizer)


@pytest.fixture
def live(classifier):
    with counting.serving(classifier, limits=Limits()) as address:
        yield address


def post(address: str, path: str, document: object) -> object:
    body = json.dumps(document).encode()
    request = urllib.request.Request(address + path, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        return json.load(answer)


def wait_until(condition, *, seconds: float = PATIENCE_S) -> bool:
    end = time.monotonic() + seconds
    while not (met := condition()) and time.monotonic() < end:
        time.sleep(0.02)
    return bool(met)


@pytest.mark.slow
def test_the_hubs_client_works_unchanged(live, classifier, monkeypatch):
    from huggingface_hub import InferenceClient, constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    client = InferenceClient(model=live)
    expected = classifier.predict("I was so happy")
    found = client.text_classification("I was so happy")
    assert found[0].label == expected.label
    assert {row.label: row.score for row in found} == pytest.approx(expected.scores)
    assert len(client.text_classification("I was so happy", top_k=1)) == 1
    raw = client.text_classification("I was so happy", function_to_apply="none")
    assert sum(row.score for row in raw) != pytest.approx(1.0)


def test_a_client_that_goes_away_is_not_scored(live, classifier):
    classifier.scorer.hold()
    threading.Thread(target=lambda: post(live, "/", {"inputs": "first"}), daemon=True).start()
    assert classifier.scorer.begun.wait(10)
    body = json.dumps({"inputs": ["a"] * 50}).encode()
    head = f"POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    host, port = live.removeprefix("http://").split(":")

    def queued() -> str:
        with urllib.request.urlopen(f"{live}/metrics", timeout=10) as page:
            return re.search(r'tonetune_queue_texts\{model="demo"\} (\S+)', page.read().decode())[1]

    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(head.encode() + body)
        assert wait_until(lambda: queued() == "50.0")
    assert wait_until(lambda: queued() == "0.0")
    classifier.scorer.let_go()
    assert post(live, "/", {"inputs": "next"})
    assert [len(call) for call in classifier.scorer.calls] == [1, 1]


def test_a_body_cut_off_or_slow_holds_nobody_up(classifier):
    with counting.serving(classifier, limits=Limits(timeout_s=1)) as live:
        host, port = live.removeprefix("http://").split(":")
        head = b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(head)
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(head)
            assert post(live, "/predict", {"inputs": "others go on"})
            connection.settimeout(10)
            answer = b""
            while not answer.endswith(b"}"):  # head and body may come one after the other
                part = connection.recv(10_000)
                assert part, "closed before an answer"
                answer += part
        assert answer.startswith(b"HTTP/1.1 400") and b"did not arrive within 1 s" in answer


@pytest.fixture
def served(program, run, tmp_path):
    """The program serving a run; its process and address."""
    log = tmp_path / "log"
    with open(log, "w") as file:
        child = program("serve", f"tiny={run}", "--port", "0", "--force", stdout=file, stderr=file)
    try:
        assert wait_until(lambda: child.poll() is not None or "serves tiny" in log.read_text())
        address = re.search(r"http://127\.0\.0\.1:\d+", log.read_text())
        assert address, log.read_text()
        assert wait_until(lambda: answers(f"{address[0]}/ready"))
        yield child, address[0], log
    finally:
        child.kill()
        child.wait()


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except OSError:
        return False


@pytest.mark.slow
def test_the_program_serves_a_run_and_ends_well_when_told(served, run, cli):
    child, address, log = served
    texts = ["I was so happy and laughing", "难过", "angry &amp; <b>furious</b>"]
    expected = cli("predict", run, "--json", *(part for text in texts for part in ("-i", text))).document["rows"]
    document = post(address, "/v1/classify", {"model": "tiny", "input": texts})
    assert [row["label"] for row in document["data"]] == [row["label"] for row in expected]
    for found, row in zip(document["data"], expected, strict=True):
        assert found["probs"] == pytest.approx(list(row["scores"].values()), abs=1e-5)
    results = []
    many = [["so " * 100 + str(i)] for i in range(600)]
    asking = threading.Thread(target=lambda: results.append(post(address, "/predict", {"inputs": many})))
    asking.start()
    assert wait_until(lambda: not queue_is_empty(address))
    child.send_signal(signal.SIGTERM)
    asking.join(PATIENCE_S)
    assert len(results[0]) == 600
    assert child.wait(PATIENCE_S) == 0, log.read_text()
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    assert {"path", "status", "seconds", "texts", "tokens", "model"} <= set(lines[-1])
    assert "happy" not in log.read_text() and "Traceback" not in log.read_text()


def queue_is_empty(address: str) -> bool:
    with urllib.request.urlopen(f"{address}/metrics", timeout=10) as page:
        return 'tonetune_queue_texts{model="tiny"} 0.0' in page.read().decode()


def test_a_run_of_random_weights_is_not_served_without_force(cli, run):
    error = cli("serve", run, "--port", "0", "--json").error(code=7)
    assert "not proven" in error["what"] and error["hint"] == "--force"


@pytest.mark.parametrize(
    ("flags", "code"),
    [
        (["nowhere"], 3),
        ([], 2),
        (["a=x", "a=y"], 2),
        (["x", "--limit", "texts=none"], 2),
        (["x", "--api-keys", "absent"], 3),
        (["x", "--port", "99999"], 2),
    ],
)
def test_what_cannot_be_served_is_said_before_anything_is_loaded(cli, flags, code):
    cli("serve", *flags, "--json").error(code=code)


@pytest.mark.slow
def test_no_request_like_the_documented_ones_is_a_bug(live):
    schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")
    from hypothesis import HealthCheck, given, settings

    seen: dict[str, set[int]] = {}
    quick = settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    for found in schemathesis.openapi.from_url(f"{live}/openapi.json").get_all_operations():
        operation = found.ok()
        modes = (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE)
        for mode in modes if operation.method == "post" else modes[:1]:

            @quick
            @given(case=operation.as_strategy(generation_mode=mode))
            def check(case):
                answer = case.call()
                seen.setdefault(case.path, set()).add(answer.status_code)
                assert answer.status_code < 500, answer.text

            check()
    assert len(seen) == 9
    assert all({200, 422} <= seen[path] for path in ("/", "/predict"))
    assert all({200, 400} <= seen[path] for path in ("/classify", "/v1/classify"))
