"""A report names neither users nor hosts nor cards nor paths, and still says what is wrong."""

import json
import random

import pytest
from machines import MACHINES, described, host_of

from tonetune.device import redact
from tonetune.device.advice import rules
from tonetune.device.doctor import diagnose
from tonetune.device.redact import host_names, private_values, redacted, user_names

USERS, HOSTS = {"ada", "Jane Doe"}, {"node7.example.org", "node7", "example.org"}


def clean(value, values=()):
    return redacted(value, users=USERS, hosts=HOSTS, values=values)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/home/ada/venv/lib/libtorch.so: undefined symbol", "<path>: undefined symbol"),
        ("/home/Jane Doe/venv/x.py", "<path>"),
        ("ADA@node7.example.org", "<user>@<host>"),
        ("on Node7, as ada", "on <host>, as <user>"),
        ("~/x and ~ada/y and ./z/w and ../up", "<path> and <path> and <path> and <path>"),
        (r"C:\Users\ada\torch", "<path>"),
        (r"\\fileserver\share\ada", "<path>"),
        ("https://ada:secret@pypi.example.org/simple", "<url>"),
        ("file:///home/ada", "<url>"),
        ("/opt/rocm-6.4/lib:/home/x", "<path>:<path>"),
        ("/dev/kfd-of-ada and /dev/kfd/x", "<path> and <path>"),
        # paths that do not begin at the root
        ('File "/data/Secret Project/train.py", line 3', "File <path>, line 3"),
        ("File 'C:\\My Work\\x.py'", "File <path>"),
        ("venv/lib/python3.11/site-packages/torch/lib/libc10.so", "<path>"),
        ("Processing wheels/torch-2.9.1.whl", "Processing <path>"),
        ("in secret/run.py", "in <path>"),
        ("index pypi.corp.example.org/simple", "index <path>"),
        # people and machines beside this one
        ("git@git.lab.io:team/private.git", "<address>"),
        ("bob@10.1.2.3:/data", "<address>"),
        ("ssh -J bob@gate bob@inner.site", "ssh -J <address> <address>"),
        ("no route to node12, node007 or node12.example.org", "no route to <host>, <host> or <host>"),
        ("connect gpu3.cluster.local:29500 failed", "connect <host> failed"),
        ("db.uni-ulm.de answers", "<host> answers"),
        ("backup.example.com", "<host>"),
        # addresses and numbers of things
        ("Bootstrap: Using eth0:10.12.0.7<0>", "Bootstrap: Using eth0:<ip><0>"),
        ("fe80::1ff:fe23:4567:890a%eth0 and ::1", "<ip>%eth0 and <ip>"),
        ("2001:db8:0:0:0:0:2:1", "<ip>"),
        ("link 00:1B:44:11:3A:B7 and 00-1b-44-11-3a-b7", "link <mac> and <mac>"),
        ("GPU-8f6d3c1a-1111-2222-3333-444455556666 fell off", "<uuid> fell off"),
        ("74ff7408-0000-1000-80ab-cdef01234567", "<uuid>"),
        ("MIG-8f6d3c1a-1111-2222-3333-444455556666, GPU-1e4f9a2b3c4d5e6f", "<uuid>, <uuid>"),
        ("Serial Number: 1650924023456", "<serial>"),
        ("asic_serial 0x5F3A9C1D2E4B6A70, serial: PCB-77", "asic_serial <number>, <serial>"),
        ("container 3f9a0c1d2e4b", "container <number>"),
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
        "RuntimeError: c10::Error in at::native::mm, torch.nn.functional.linear, libtorch_hip.so, model.py:17",
        "6.4.43484-123eb5128, 580.95.05, 2.14.0.dev20261001+rocm7.2, gfx90a:sramecc+:xnack-",
        "float32: error 1.2e-07, scale off by 1e-08, 0.0123 TFLOP/s; 12:34:56 at 2026-12-01",
        "HIP error: invalid device function; Memory access fault by GPU node-1",
        "out of memory: tried to allocate 2.50 GiB of 139.81 GiB",
        '{"memory_bytes": 150109106995, "pci": "0000:19:00"}',
    ],
)
def test_what_tells_a_fault_stays(text):
    assert redacted(text, users={"grace"}, hosts={"box9"}) == text


def test_every_rule_reads_as_before():
    texts = [t for rule in rules() for t in (rule.evidence, rule.advice, rule.command) if t]
    assert len(texts) > 100
    assert [redacted(text, users={"grace"}, hosts={"box9"}) for text in texts] == texts


SECRETS = (
    *("ada", "node7", "/home/ada/x", "Jane Doe", "node7.example.org", "~/home", "/home/Jane Doe/y", "node12"),
    *("10.12.0.7", "00:1b:44:11:3a:b7", "GPU-8f6d3c1a-1111-2222-3333-444455556666", "bob@gate.home", "git@x.io:home/y"),
    *("3f9a0c1d2e4b", "file:///home/z", "wheels/home/torch.whl", "2001:db8::7"),
)


def test_no_secret_survives_wherever_it_stands():
    rng = random.Random(0)
    for _ in range(2000):
        pieces = rng.choices([*SECRETS, "torch", "failed", "2.9.1"], k=5)
        text = "".join(
            part for piece in pieces for part in (piece, rng.choice([" ", " x=", ", ", " (", ") ", '"', "\n", "]"]))
        )
        shown = clean(text)
        words = "".join(c if c.isalnum() else " " for c in shown).split()
        assert not {"ada", "node7", "node12", "home", "Doe", "Jane", "bob", "8f6d3c1a", "3f9a0c1d2e4b"} & set(words), (
            text
        )
        assert not any(secret in shown for secret in ("10.12.0.7", "00:1b", "2001:db8")), text


def test_values_of_variables_are_shown_where_they_are_numbers_and_switches():
    plain = {"A": "9.0.10", "B": "0,1", "C": "1", "D": "expandable_segments:True, max_split_size_mb:128", "E": "INFO"}
    plain |= {"F": "", "G": "gfx90a;gfx942", "H": "-1", "I": "garbage_collection_threshold:0.8"}
    private = {
        "K": "eth0",
        "L": "/opt/rocm/lib",
        "M": "10.0.0.1",
        "N": "team-blue",
        "O": "GPU-abc",
        "P": "1650924023456",
    }
    assert private_values(plain | private) == set(private.values())
    assert clean({"K": "eth0", "text": "NCCL_IFNAME=eth0, not eth01"}, values={"eth0"}) == {
        "K": "<set>",
        "text": "NCCL_IFNAME=<set>, not eth01",
    }


def test_keys_numbers_and_the_shape():
    document = {"verdict": [1, 2.5, None, True, {"x": ("ada", 3)}], "HIP_OF_ADA": "node7"}
    assert clean(document) == {"verdict": [1, 2.5, None, True, {"x": ["<user>", 3]}], "HIP_OF_<user>": "<host>"}
    plain = {"torch.version": "2.13.0", "env.HSA_OVERRIDE_GFX_VERSION": "9.0.8", "probe.P1": "passed"}
    assert redacted(plain, users=(), hosts=()) == json.loads(json.dumps(plain))


@pytest.mark.parametrize("path", MACHINES, ids=lambda path: path.stem)
def test_a_report_of_a_machine_full_of_secrets_has_none_and_the_same_advice(path, tmp_path, monkeypatch):
    """They stand in variables, in what torch says, in versions and in names."""
    monkeypatch.setattr("tonetune.device.doctor.user_names", lambda: USERS)
    monkeypatch.setattr("tonetune.device.doctor.host_names", lambda: HOSTS)
    description = described(path)
    secrets = dict(zip([f"NCCL_{i}" for i in range(len(SECRETS))], SECRETS, strict=True))
    description["environ"] = {**description.get("environ", {}), **secrets, "HIP_OF_ADA": "1", "HF_HUB_SSH_KEY": "hush"}
    error = json.dumps({"error": "ImportError: " + " | ".join(SECRETS)})
    description["torch"]["out"] += error + "\n"
    diagnosis = diagnose("none", host_of(description, tmp_path))
    report = diagnosis.report()
    text = json.dumps(report, ensure_ascii=False).replace("<", " ").replace(">", " ")
    for secret in (*SECRETS, "ada", "ADA", "Jane", "bob", "hush", "home/", str(tmp_path)):
        assert secret not in text, secret
    assert [row["id"] for row in report["advice"]] == [row["id"] for row in diagnosis.advice]
    assert [row["command"] for row in report["advice"]] == [row["command"] for row in diagnosis.advice]
    assert report["devices"] == diagnosis.as_dict()["devices"]


def test_the_names_of_this_user_and_machine_are_found(monkeypatch):
    monkeypatch.setenv("USER", "grace")
    monkeypatch.setenv("SUDO_USER", "root")
    monkeypatch.setenv("SLURMD_NODENAME", "rack3")
    monkeypatch.setattr("socket.gethostname", lambda: "box.lab.example")
    monkeypatch.setattr(redact.pwd, "getpwuid", lambda number: type("pwd", (), {"pw_gecos": "Grace Hopper,,,"})())
    assert {"grace", "Grace Hopper"} <= user_names() and not {"root", ""} & user_names()
    assert {"box", "box.lab.example", "lab.example", "rack3"} <= host_names() and "" not in host_names()
