"""The table of probes names functions that exist, for ten probes."""

import importlib
import inspect

import pytest

from tonetune.device.probes.catalogue import PROBES


def test_there_are_ten_probes_and_five_are_quick():
    assert {p.id for p in PROBES} == {f"P{i}" for i in range(1, 11)} and len(PROBES) == 10
    assert [p.id for p in PROBES if p.quick] == ["P1", "P2", "P4", "P7", "P10"]


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.id)
def test_a_probe_is_a_function_of_the_device(probe):
    module, name = probe.function.split(":")
    parameters = inspect.signature(getattr(importlib.import_module(module), name)).parameters
    assert list(parameters)[:2] == ["device", "thorough"]
    assert probe.title and probe.advice and 0 < probe.limit_s <= 300
