"""The first module that computes something not finite is named, the innermost where modules are nested."""

import pytest
import torch
from torch import nn

from tonetune.device.finite import FirstNonFinite


class Block(nn.Module):
    def __init__(self, first: nn.Module, second: nn.Module) -> None:
        super().__init__()
        self.first, self.second = first, second

    def forward(self, x):
        return self.second(self.first(x)), None


class Divide(nn.Module):
    def forward(self, x):
        return x / 0


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (Block(nn.Identity(), nn.Identity()), None),
        (Block(Divide(), nn.Identity()), "first"),
        (Block(nn.Identity(), Divide()), "second"),
        (Block(nn.Sequential(nn.Identity(), Divide()), Divide()), "first.1"),
    ],
)
def test_the_first_is_named(model, name):
    with FirstNonFinite(model) as watch:
        model(torch.tensor([3.0, -7.0]))
    assert watch.name == name
    assert watch.largest == (0.0 if name == "first" else 7.0)


def test_a_sum_outside_any_inner_module_is_the_outer_ones():
    class Residual(Block):
        def forward(self, x):
            return super().forward(x)[0] * torch.inf

    model = Residual(nn.Identity(), nn.Identity())
    with FirstNonFinite(model) as watch:
        model(torch.ones(2))
    assert watch.name == ""


def test_afterwards_nothing_is_watched():
    model = Block(Divide(), nn.Identity())
    with FirstNonFinite(model) as watch:
        pass
    model(torch.ones(2))
    assert watch.name is None and not model.first._forward_hooks
