"""How a step is cut: the usual size where it fits, then smaller, then with activations computed again."""

import pytest
import torch

from tonetune.device.choose import Choice
from tonetune.device.fit import USUAL_TOKENS, choose_fit, texts_at_once, usual_fit

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)


def fit(available_tokens, *, tokens="auto", checkpointing="auto", device=GPU, longest=256, batch=1000, saving=10):
    """A machine on which each token takes a MiB, or a part of it with checkpointing, and nothing else takes any."""
    asked = []

    def need(tokens, way):
        asked.append((tokens, way))
        return (tokens << 20) // (saving if way else 1)

    found = choose_fit(
        tokens, checkpointing, device, longest=longest, batch=batch, available=available_tokens << 20, need=need
    )
    return found.micro_batch_tokens.value, found.checkpointing.value, found, asked


@pytest.mark.parametrize(
    ("available", "tokens", "checkpointing"),
    [
        (8192, 8192, False),
        (8191, 4096, False),
        (2048, 2048, False),
        (2047, 8192, True),
        (300, 2048, True),
        (26, 256, True),
    ],
)
def test_the_first_that_fits_is_taken(available, tokens, checkpointing):
    assert fit(available)[:2] == (tokens, checkpointing)


def test_where_nothing_fits_the_least_is_taken_and_the_reason_says_so():
    tokens, checkpointing, found, _ = fit(1)
    assert (tokens, checkpointing) == (256, True)
    assert f"1 texts of 256 tokens take {25.6 / 1024:.1f} of {1 / 1024:.1f} GiB" in found.checkpointing.reason


def test_what_the_user_sets_is_taken_and_nothing_is_asked():
    tokens, checkpointing, found, asked = fit(1, tokens=777, checkpointing=False)
    assert (tokens, checkpointing, asked) == (777, False, [])
    assert found.micro_batch_tokens.reason == "set by train.micro_batch_tokens"
    assert found.checkpointing.reason == "set by train.checkpointing"


@pytest.mark.parametrize(("available", "checkpointing"), [(3000, True), (4096, False)])
def test_a_size_that_is_set_stays_and_checkpointing_is_chosen_for_it(available, checkpointing):
    assert fit(available, tokens=4096)[:2] == (4096, checkpointing)


@pytest.mark.parametrize(("way", "tokens"), [(False, 256), (True, 2048)])
def test_checkpointing_that_is_set_stays_and_the_size_is_chosen_for_it(way, tokens):
    assert fit(300, checkpointing=way)[:2] == (tokens, way)


def test_a_pass_holds_no_more_than_a_batch_of_whole_texts():
    assert texts_at_once(8192, longest=256, batch=1000) == 32
    assert texts_at_once(8192, longest=256, batch=4) == 4
    assert texts_at_once(100, longest=256, batch=4) == 1
    assert fit(10**6, batch=4)[3] == [(4 * 256, False)]


def test_a_cpu_computes_less_at_once():
    assert fit(10**6, device=CPU)[0] == USUAL_TOKENS["cpu"].value < USUAL_TOKENS["cuda"].value
    assert fit(10**6, device=CPU)[2].micro_batch_tokens is USUAL_TOKENS["cpu"]


def test_reasons_name_amounts():
    _, _, found, _ = fit(2047)
    assert found.checkpointing == Choice(
        True, f"activations are computed again to fit: 32 texts of 256 tokens take 0.8 of {2047 / 1024:.1f} GiB"
    )


@pytest.mark.parametrize(("tokens", "way"), [("auto", "auto"), (77, "auto"), ("auto", True), ("auto", False)])
def test_where_nothing_is_known_it_is_the_usual(tokens, way):
    found = usual_fit(tokens, way, CPU, "no dry run")
    assert found.micro_batch_tokens.value == (1024 if tokens == "auto" else tokens)
    assert found.checkpointing == Choice(way is True, "no dry run")
