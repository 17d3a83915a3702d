"""A report names neither users nor hosts nor paths, and still says what is wrong."""

import json
import random

import pytest

from tonetune.device.redact import host_names, redacted, user_names

USERS, HOSTS = {"ada", "Jane Doe"}, {"node7.example.org", "node7"}


def clean(value):
    return redacted(value, users=USERS, hosts=HOSTS)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/home/ada/venv/lib/libtorch.so: undefined symbol", "<path>: undefined symbol"),
        ("/home/Jane Doe/venv/x.py", "<path>"),
        ("ADA@node7.example.org", "<user>@<host>"),
        ("on Node7, as ada", "on <host>, as <user>"),
        ("~/x and ~ada/y and ./z/w and ../up", "<path> and <path> and <path> and <path>"),
        (r"C:\Users\ada\torch", "<path>"),
        ("https://ada:secret@pypi.example.org/simple", "<url>"),
        ("file:///home/ada", "<url>"),
        ("/opt/rocm-6.4/lib:/home/x", "<path>:<path>"),
        ("/dev/kfd-of-ada and /dev/kfd/x", "<path> and <path>"),
    ],
)
def test_what_is_private_is_taken_out(text, shown):
    assert clean(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        'pip install "torch>=2.11,<2.14" --index-url https://download.pytorch.org/whl/rocm7.2',
        "this process may not open /dev/kfd, which belongs to group 109",
        "/dev/dri/renderD128 and /dev/shm and /sys/class/kfd: nothing",
        "adapters, Canada, 3/4 of and/or, 2 × AMD Instinct MI250X, torch 2.9.1+rocm6.4",
        "pytorch#192259, trl#7181",
    ],
)
def test_what_tells_a_fault_stays(text):
    assert clean(text) == text


def test_no_secret_survives_wherever_it_stands():
    rng = random.Random(0)
    pieces = ["ada", "node7", "/home/ada/x", "Jane Doe", "node7.example.org", "torch", "~/home", "/home/Jane Doe/y"]
    for _ in range(2000):
        text = "".join(part for piece in rng.choices(pieces, k=5) for part in (piece, rng.choice(' =:@,()"[]\n')))
        words = "".join(c if c.isalnum() else " " for c in clean(text)).split()
        assert not {"ada", "node7", "home", "Doe", "Jane"} & set(words), text


def test_keys_numbers_and_the_shape_stay():
    document = {"ada": [1, 2.5, None, True, {"x": ("ada", 3)}], "/home": "node7"}
    shown = clean(document)
    assert shown == {"ada": [1, 2.5, None, True, {"x": ["<user>", 3]}], "/home": "<host>"}
    assert redacted(document, users=(), hosts=()) == json.loads(json.dumps(document))


def test_the_names_of_this_user_and_machine_are_found(monkeypatch):
    monkeypatch.setenv("USER", "grace")
    monkeypatch.setenv("SUDO_USER", "root")
    monkeypatch.setattr("socket.gethostname", lambda: "box.lab.example")
    assert "grace" in user_names() and "root" not in user_names() and "" not in user_names()
    assert {"box", "box.lab.example"} <= host_names()
