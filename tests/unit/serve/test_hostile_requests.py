"""Laws of requests from strangers: each is answered, none is a bug, and none reaches a file that is not the page's."""

import json

import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")
pytest.importorskip("httpx2", reason="the HTTP client of the tests is not installed")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from tonetune.serve.app import create_app
from tonetune.serve.limits import Limits

LIMITS = Limits(body_bytes=200_000, texts=20, characters=2000, queue_texts=30, batch_tokens=256, timeout_s=20)
PATHS = ("/predict", "/", "/classify", "/v1/classify")
DEEP = 10_000
BODIES = {
    "deep lists": b'{"inputs": ' + b"[" * DEEP + b"]" * DEEP + b"}",
    "deep objects": b'{"inputs": ' + b'{"a":' * DEEP + b"1" + b"}" * DEEP + b"}",
    "a number without end": b'{"inputs": ' + b"9" * 5000 + b"}",
    "a huge exponent": b'{"inputs": "a", "parameters": {"top_k": 1e999}}',
    "a huge top_k": b'{"inputs": "a", "parameters": {"top_k": ' + b"9" * 4000 + b"}}",
    "no number": b'{"inputs": "a", "truncate": NaN}',
    "half a character": b'{"inputs": "\\ud800", "input": "\\ud800"}',
    "no UTF-8": b'{"inputs": "\xff"}',
    "a key a thousand times": b"{" + b'"inputs": "a", ' * 1000 + b'"input": "a"}',
}


@pytest.fixture
def client(classifier):
    with TestClient(create_app({"demo": classifier}, limits=LIMITS), raise_server_exceptions=False) as client:
        yield client


@pytest.mark.parametrize("path", PATHS)
def test_a_body_that_is_too_much_is_the_clients_fault(client, path):
    for name, body in BODIES.items():
        answer = client.post(path, content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code in (200, 400, 413, 422), name
        assert answer.json()


@pytest.mark.parametrize("length", ["9" * 5000, "-1", "٣", "1e3", ""])
def test_a_length_that_is_none_is_no_bug(client, length):
    body = json.dumps({"inputs": "so sad"})
    answer = client.post(
        "/predict", content=body, headers={"Content-Length": length.encode(), "Content-Type": "application/json"}
    )
    assert answer.status_code in (200, 400, 413)


def test_a_flood_of_headers_is_no_bug(client):
    headers = {f"X-{i}": "x" * 100 for i in range(2000)} | {"Content-Type": "application/json"}
    assert client.post("/predict", json={"inputs": "so sad"}, headers=headers).status_code == 200


ESCAPES = [
    "..",
    "%2e%2e",
    "%2e%2e%2f",
    "..%5c",
    "%00",
    "%2fetc%2fpasswd",
    "//etc/passwd",
    "....//",
    "a" * 5000,
    "%c0%ae%c0%ae",
]


@pytest.mark.parametrize("part", ESCAPES)
def test_no_path_leads_out_of_the_pages_files(client, part):
    for path in (f"/static/{part}/routes.py", f"/static/{part}", f"/{part}", f"/static/{part}/../app.py"):
        answer = client.get(path)
        of_the_page = answer.status_code == 200 and answer.text == client.get("/").text  # the client resolves ".."
        assert of_the_page or answer.status_code in (400, 404, 405), path


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
KEYS = st.sampled_from(["inputs", "input", "parameters", "truncate", "raw_scores", "model", "use_activation", "x"])


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(
    path=st.sampled_from(PATHS), body=st.dictionaries(KEYS, VALUES, max_size=4), raw=st.binary(max_size=60) | st.none()
)
def test_any_body_is_answered(client, path, body, raw):
    content = json.dumps(body).encode() if raw is None else raw
    answer = client.post(path, content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code in (200, 400, 404, 413, 422)
