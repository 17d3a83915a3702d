"""Facts are what the rules are judged by: each says what its name says, and what is not known is None."""

import dataclasses
from typing import Any

import pytest
from machines import host_of, machine

from tonetune.device.cards import Card
from tonetune.device.facts import Fact, facts_of
from tonetune.device.machine import Machine, examine
from tonetune.device.torch_build import TorchBuild


@pytest.fixture
def facts(tmp_path):
    """Facts of a described machine, parts of which are changed."""

    def of(name: str, environ: dict[str, str] | None = None, **changes: Any) -> dict[str, Fact]:
        found: Machine = examine(host_of({**machine(name), "environ": environ or {}}, tmp_path))
        return facts_of(dataclasses.replace(found, **changes))

    return of


@pytest.mark.parametrize(
    ("value", "arch"),
    [("9.0.10", "gfx90a"), ("10.3.0", "gfx1030"), ("11.0.0", "gfx1100"), ("9.0.a", None), ("", None), (None, None)],
)
def test_an_override_is_the_architecture_that_it_pretends(facts, value, arch):
    environ = {} if value is None else {"HSA_OVERRIDE_GFX_VERSION": value}
    assert facts("mi250x", environ)["override.arch"] == arch


@pytest.mark.parametrize(
    ("environ", "expandable"),
    [
        ({}, False),
        ({"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:False"}, False),
        ({"PYTORCH_HIP_ALLOC_CONF": "max_split_size_mb:128,expandable_segments:True"}, True),
        ({"PYTORCH_ALLOC_CONF": " Expandable_Segments : true "}, True),
    ],
)
def test_the_allocator_s_settings_are_read_in_every_variable(facts, environ, expandable):
    assert facts("cpu", environ)["allocator.expandable_segments"] is expandable


def test_variables_that_select_cards_are_counted(facts):
    found = facts("mi250x", {"HIP_VISIBLE_DEVICES": "", "ROCR_VISIBLE_DEVICES": "0,1", "HIP_PATH": "x"})
    assert found["visibility.count"] == 2
    assert found["visibility.names"] == ["ROCR_VISIBLE_DEVICES=0,1", "HIP_VISIBLE_DEVICES="]


@pytest.mark.parametrize(("name", "variable"), [("mi250x", "HIP"), ("h200", "CUDA"), ("mi300x_cuda", "CUDA")])
def test_a_card_is_hidden_from_the_build_that_would_use_it(facts, name, variable):
    assert facts(name)["visibility.hide"] == f"export {variable}_VISIBLE_DEVICES=-1"


def test_the_first_device_is_the_first_of_torch_whatever_the_kernel_s_order(facts):
    cards = (
        Card("amd", "card", "gfx1100", integrated=False, access="open", torch="cuda:1"),
        Card("amd", "graphics", "gfx1036", integrated=True, access="open", torch="cuda:0"),
    )
    found = facts("laptop_igpu", cards=cards)
    assert found["cards.first_is_integrated"] is True and found["cards.first_discrete"] == 1
    assert found["device.name"] == "graphics"
    alone = facts("laptop_igpu", cards=cards[1:])
    assert alone["cards.first_is_integrated"] is False, "there is no other card to use"


@pytest.mark.parametrize(
    ("access", "best"), [(["denied", "open", "absent"], "open"), (["absent", "denied"], "denied"), ([None], None)]
)
def test_one_card_that_may_be_used_is_enough(facts, access, best):
    cards = tuple(Card("amd", arch="gfx90a", access=each) for each in access)
    assert facts("mi250x", cards=cards)["amd.access"] == best


@pytest.mark.parametrize(
    ("torch", "fits", "lacking"),
    [
        (TorchBuild("works", "2.13.0+rocm7.2", hip="7.2", archs=("gfx90a", "gfx942")), True, None),
        (TorchBuild("works", "2.13.0+rocm7.2", hip="7.2", archs=("gfx1100",)), False, ["gfx90a"]),
        (TorchBuild("works", "2.13.0+rocm7.2", hip="7.2"), True, None),  # by the table
        (TorchBuild("works", "2.13.0+own", hip="7.2"), True, None),  # what is not known is not held against it
        (TorchBuild("works", "2.13.0+cu130", cuda="13.0", archs=("sm_90",)), False, None),
        (TorchBuild("works", "2.13.0+cpu"), False, None),
        (TorchBuild("missing"), None, None),
    ],
)
def test_a_build_fits_where_it_is_for_the_card_and_has_its_kernels(facts, torch, fits, lacking):
    found = facts("mi250x", torch=torch)
    assert (found["wheel.fits"], found["wheel.lacking"]) == (fits, lacking)


def test_any_build_fits_a_machine_without_cards(facts):
    assert facts("cpu")["wheel.fits"] is None


def test_results_of_probes_are_facts(tmp_path):
    found = facts_of(examine(host_of(machine("cpu"), tmp_path)), {"P1": "passed", "P5": "skipped", "P7": "timeout"})
    assert (found["probe.P1"], found["probe.P7"], found["probe.wrong"]) == ("passed", "timeout", ["P7"])
