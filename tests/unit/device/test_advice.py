"""The rules: each is sound, fires on what it is about and on nothing else; conditions are data."""

import re
from typing import Any

import pytest
from machines import MACHINES, described, host_of

from tonetune.device.advice import TESTS, VERDICTS, advise, filled, holds, rules, verdict_of
from tonetune.device.facts import facts_of
from tonetune.device.machine import examine

OPEN = ("env.", "probe.", "packages.")  # facts of any name
TEXTS = ("evidence", "advice", "command")


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    """The names of all facts: every machine has the same, but variables, packages and probes."""
    names = []
    for path in MACHINES:
        machine = examine(host_of(described(path), tmp_path_factory.mktemp("machine")))
        names.append({name for name in facts_of(machine) if not name.startswith(("env.", "probe."))})
    assert all(other == names[0] for other in names)
    return names[0] | {"probe.wrong"}


def test_there_are_rules_and_their_names_differ():
    names = [rule.id for rule in rules()]
    assert len(names) > 40 and len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name) for name in names)


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.id)
def test_a_rule_is_sound(rule, known):
    assert rule.verdict in VERDICTS and rule.when
    for test in rule.when.values():
        assert not isinstance(test, dict) or (len(test) == 1 and set(test) <= set(TESTS))
    texts = [text for name in TEXTS if (text := getattr(rule, name)) is not None]
    named = [*rule.when, *(place for text in texts for place in re.findall(r"\{([^}]*)\}", text))]
    assert all(name in known or name.startswith(OPEN[:2]) for name in named), named
    assert len(rule.evidence) < 260 and "\n" not in "".join(texts)


SATISFYING: dict[str, Any] = {
    "given": lambda operand: "x" if operand else None,
    "in": lambda values: values[0],
    "not": lambda value: f"not {value}",
    "below": lambda limit: limit - 1,
    "above": lambda limit: limit + 1,
    "any_of": lambda values: [*values[:1], "other"],
    "version": lambda text: next(
        v
        for v in ("2.7", "2.13.1", "5.4", "5.5.0", "5.5.2", "5.6", "5.10.1", "0.49", "7.14")
        if TESTS["version"](v, text)
    ),
    "matches": lambda pattern: (
        {"rocm|hip|cuda": "/opt/rocm/lib", "MI250": "AMD Instinct MI250X"}.get(
            pattern, {"invalid device function|symbol|version": "symbol"}.get(pattern)
        )
        or next(w for w in ("invalid device function", "memory access fault", "permission") if re.search(pattern, w))
    ),
}


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.id)
def test_a_rule_applies_where_all_its_facts_hold_and_not_where_one_is_missing(rule):
    facts = {}
    for name, test in rule.when.items():
        (operator, operand), *_ = test.items() if isinstance(test, dict) else [(None, test)]
        facts[name] = operand if operator is None else SATISFYING[operator](operand)
    assert rule.applies(facts)
    for name, test in rule.when.items():
        if not holds(None, test):
            assert not rule.applies({**facts, name: None})
    shown = rule.filled({**facts, "wheel.command": "pip install torch"})
    assert not any("{" in str(shown[name]) for name in TEXTS)


@pytest.mark.parametrize(
    ("fact", "test", "expected"),
    [
        ("a", "a", True),
        (None, "a", False),
        (False, False, True),
        (None, False, False),
        ("a", {"not": "b"}, True),
        ("b", {"not": "b"}, False),
        (None, {"not": "b"}, False),
        ("a", {"in": ["a", None]}, True),
        (None, {"in": ["a", None]}, True),
        (None, {"in": ["a"]}, False),
        ("", {"given": True}, True),
        (0, {"given": True}, True),
        (None, {"given": True}, False),
        (None, {"given": False}, True),
        ("2.13.0+cu130", {"version": ">=2.13,<2.14"}, True),
        (None, {"version": ">=2.13"}, False),
        (0, {"above": 0}, False),
        (1, {"above": 0}, True),
        (None, {"above": 0}, False),
        (0, {"below": 1}, True),
        (None, {"below": 1}, False),
        ("HIP error: Invalid Image", {"matches": "invalid ?image"}, True),
        (None, {"matches": "x"}, False),
        (["a", "b"], {"any_of": ["b", "c"]}, True),
        (["a"], {"any_of": ["b"]}, False),
        (None, {"any_of": ["b"]}, False),
        ("x", {"matches": "x", "in": ["y"]}, False),
    ],
)
def test_a_condition_is_data(fact, test, expected):
    assert holds(fact, test) is expected


def test_a_text_takes_facts_as_a_person_writes_them():
    facts = {"a.b": ["gfx90a", "gfx942"], "c": 64.0, "d": None, "e": "{c}", "f": 3}
    assert filled("{a.b}; {c} {d} {e} {f} {nothing}", facts) == "gfx90a, gfx942; 64 unknown {c} 3 unknown"


def test_the_worst_advice_is_the_verdict_and_comes_first():
    facts = {
        "torch.status": "missing",
        "shared_memory_mib": 64.0,
        "cards.first_is_integrated": True,
        "torch.kernel": None,
    }
    advice = advise(facts)
    assert [row["verdict"] for row in advice] == ["unable", "limited", "ready"]
    assert (verdict_of(advice), verdict_of(advice[1:]), verdict_of(advice[2:])) == VERDICTS[::-1]
    assert verdict_of([]) == "ready"


WORKS = {
    "torch.status": "works",
    "torch.version": "2.12.0+rocm7.2",
    "torch.backend": "rocm",
    "torch.archs": ["gfx90a"],
    "torch.kernel": "works",
    "amd.count": 1,
    "amd.archs": ["gfx90a"],
    "amd.kfd": True,
    "amd.access": "open",
    "cards.count": 1,
    "cards.open": 1,
    "cards.seen": 1,
    "cards.first_is_integrated": False,
    "wheel.fits": True,
    "wheel.archs": ["gfx90a"],
    "wheel.targets": "AMD Instinct MI210",
    "wheel.machine": "AMD, ROCm 7.2",
    "visibility.count": 0,
    "driver.too_old": False,
    "allocator.expandable_segments": False,
    "packages.transformers": "5.24.0",
}
FAILS = {**WORKS, "torch.kernel": "failed"}
UNSEEN = {**WORKS, "cards.seen": 0, "torch.kernel": None}
DENIED = {**UNSEEN, "cards.open": 0, "amd.access": "denied", "amd.refused": "/dev/kfd"}


@pytest.mark.parametrize(
    ("facts", "found"),
    [
        (WORKS, []),
        ({**WORKS, "env.HSA_OVERRIDE_GFX_VERSION": "9.0.8"}, ["stale-hsa-override"]),
        ({**WORKS, "env.HSA_OVERRIDE_GFX_VERSION": ""}, ["stale-hsa-override"]),
        ({**WORKS, "env.HSA_OVERRIDE_GFX_VERSION": "10.3.0", "wheel.fits": None}, ["hsa-override"]),
        ({**WORKS, "wheel.fits": False, "wheel.lacking": ["gfx950"]}, ["wheel-without-arch"]),
        ({**WORKS, "wheel.fits": False}, ["wheel-for-another-vendor"]),
        ({**WORKS, "visibility.count": 2}, ["several-visibility-variables"]),
        ({**WORKS, "allocator.expandable_segments": True}, ["expandable-segments"]),
        ({**WORKS, "cards.first_is_integrated": True}, ["integrated-first"]),
        ({**WORKS, "packages.bitsandbytes": "0.49.2"}, ["bitsandbytes-old"]),
        ({**WORKS, "packages.bitsandbytes": "0.50.0"}, []),
        ({**WORKS, "packages.transformers": "5.17.0"}, ["transformers-tokenizer"]),
        ({**WORKS, "packages.transformers": "5.5.1"}, ["transformers-kv-sharing"]),
        ({**WORKS, "packages.transformers": "5.18.0"}, []),
        ({**WORKS, "shared_memory_mib": 64.0}, ["small-shared-memory"]),
        ({**WORKS, "torch.backend": "cuda", "torch.version": "2.13.0+cu130"}, ["cudnn-attention"]),
        ({**WORKS, "torch.backend": "cuda", "torch.version": "2.14.0+cu130"}, []),
        ({**WORKS, "probe.P7": "failed", "probe.wrong": ["P7"]}, ["tokenizer-fault", "probes-not-passed"]),
        (DENIED, ["no-render-group"]),
        (
            {**DENIED, "container": "docker"},
            ["no-render-group-in-container"],
        ),
        ({**UNSEEN, "visibility.count": 1}, ["cards-hidden"]),
        (UNSEEN, ["card-not-seen"]),
        ({**UNSEEN, "amd.kfd": False, "amd.access": None, "cards.open": 0}, ["amdgpu-not-loaded"]),
        ({**FAILS, "torch.error": "HIP error: out of memory"}, ["kernel-fails"]),
        (
            {**FAILS, "torch.error": "hipErrorInvalidImage", "torch.hip": "7.14.1"},
            ["kernel-fails", "kernel-package-missing"],
        ),
        (
            {**FAILS, "torch.error": "invalid device function", "env.LD_LIBRARY_PATH": "/opt/rocm/lib"},
            ["kernel-fails", "kernel-library-clash"],
        ),
        (
            {**FAILS, "torch.error": "invalid device function", "wheel.fits": False, "wheel.lacking": ["gfx1103"]},
            ["kernel-fails", "wheel-without-arch"],
        ),
        ({**FAILS, "torch.error": "Memory access fault by GPU node-1"}, ["kernel-fails", "kernel-memory-fault"]),
        ({**FAILS, "torch.error": "hipErrorNoDevice"}, ["kernel-fails", "kernel-permission"]),
    ],
)
def test_a_trap_is_told_by_its_own_rule_alone(facts, found):
    assert [row["id"] for row in advise(facts)] == found
