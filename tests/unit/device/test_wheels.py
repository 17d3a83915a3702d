"""The torch build that a machine needs, from the one table."""

import itertools

import pytest
from packaging.specifiers import SpecifierSet

from tonetune.device.cards import Card
from tonetune.device.wheels import (
    archs_of,
    driver_for,
    in_range,
    needed_wheel,
    runs_on,
    target_cards,
    version,
    wheels,
)

ROCM, CUDA = ([w for w in wheels() if w.backend == backend] for backend in ("rocm", "cuda"))


def amd(*archs: str, integrated: bool = False) -> list[Card]:
    return [Card("amd", arch=arch, integrated=integrated) for arch in archs]


def nvidia(*archs: str) -> list[Card]:
    return [Card("nvidia", arch=arch, integrated=False) for arch in archs]


def suffix(cards: list[Card], driver: str | None = None, system: str = "Linux") -> str | None:
    wheel = needed_wheel(cards, driver=driver, system=system)
    return wheel.suffix if wheel else None


def test_the_table_has_every_backend_and_architectures_where_there_are_kernels():
    assert len(ROCM) >= 5 and len(CUDA) >= 3
    assert [w.backend for w in wheels() if not w.archs] == [None, "cpu"]
    assert all(arch.startswith("gfx") for wheel in ROCM for arch in wheel.archs)
    assert all(arch.startswith("sm_") and wheel.driver for wheel in CUDA for arch in wheel.archs)


def test_builds_of_a_backend_stand_from_old_to_new_and_never_lose_an_architecture_of_amd():
    for rows in (ROCM, CUDA):
        versions = [float(wheel.suffix.lstrip("rocmu")) for wheel in rows]
        assert versions == sorted(versions)
    for older, newer in itertools.pairwise(ROCM):
        assert set(older.archs) <= set(newer.archs)


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201", "gfx1151"])
def test_an_amd_card_needs_the_newest_build_with_its_kernels(arch):
    wheel = needed_wheel(amd(arch), driver=None, system="Linux")
    assert wheel == next(wheel for wheel in reversed(ROCM) if arch in wheel.archs)


@pytest.mark.parametrize(
    ("arch", "driver", "needed"),
    [
        ("sm_90", "580.95.05", "cu132"),
        ("sm_90", None, "cu132"),
        ("sm_90", "550.163.01", "cu128"),
        ("sm_89", "535.1", "cu128"),
        ("sm_61", "580.95.05", "cu126"),
        ("sm_70", "580.95.05", "cu126"),
        ("sm_90", "470.1", None),
        ("sm_35", "580.95.05", None),
    ],
)
def test_an_nvidia_card_needs_the_newest_build_that_its_driver_runs(arch, driver, needed):
    assert suffix(nvidia(arch), driver) == needed


def test_one_build_must_do_for_all_cards():
    assert suffix(amd("gfx90a", "gfx1151")) == "rocm7.2"
    assert suffix(amd("gfx90a", "gfx1103")) is None
    assert suffix(nvidia("sm_61", "sm_120"), "580.1") is None


def test_a_machine_without_cards_needs_the_processor_s_build():
    assert (suffix([]), suffix([], system="Darwin")) == ("cpu", "")


def test_kernels_run_on_later_cards_of_a_generation_of_nvidia_and_on_none_other_of_amd():
    assert runs_on("sm_89", ["sm_80", "sm_86"]) and runs_on("sm_86", ["sm_86"]) and runs_on("sm_121", ["sm_120"])
    assert not runs_on("sm_80", ["sm_86"]) and not runs_on("sm_90", ["sm_80", "compute_80"])
    assert not runs_on("sm_100", ["sm_90"]) and not runs_on("sm_90", [])
    assert runs_on("gfx90a", ["gfx90a"]) and not runs_on("gfx1103", ["gfx1102"])


def test_training_uses_cards_before_graphics_and_what_the_build_is_for():
    card, other, useful, useless = (
        *amd("gfx1100"),
        *nvidia("sm_90"),
        *amd("gfx1151", integrated=True),
        *amd("gfx1036", integrated=True),
    )
    everything = [useless, useful, card, other]
    assert target_cards(everything, "rocm") == target_cards(everything, None) == [card]
    assert target_cards(everything, "cuda") == [other]
    assert target_cards([useless, useful], "cpu") == [useful]
    assert target_cards([useless], None) == target_cards([], None) == []


def test_the_line_that_installs_a_build():
    wheel = ROCM[-1]
    assert wheel.command() == f'pip install "torch{wheel.torch}" --index-url {wheel.index_url}'
    assert wheel.command(replace=True).startswith("pip install --force-reinstall ")
    assert "--index-url" not in wheels()[0].command()


def test_an_installed_build_is_known_by_its_suffix():
    assert "gfx90a" in archs_of("2.9.1+rocm6.4")
    assert [archs_of(name) for name in ("2.13.0", "2.13.0+git123", "2.13.0+cpu", None)] == [()] * 4


def test_a_driver_is_asked_for_by_the_major_version_of_cuda():
    assert [driver_for(cuda) for cuda in ("13.0", "13.9", "12.6", "12.4", "11.8", None)] == [
        *("580", "580", "525", "525"),
        *(None, None),
    ]


@pytest.mark.parametrize("text", ["2.13.0", "2.13.0+cu130", "2.13.0a0+git1234", "2.13", "2.13.0.post1"])
def test_a_version_is_compared_by_its_numbers(text):
    assert in_range(text, ">=2.13,<2.14") and not in_range(text, "<2.13")
    assert version(text) in SpecifierSet("==2.13.*")


def test_what_is_no_version_is_the_oldest():
    assert version("unknown") == version("") == version("0") and version("6.4.43484-123abc") == version("6.4.43484")
