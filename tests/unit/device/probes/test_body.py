"""P3, P6 and P10 pass transformers' Gemma and catch one that overflows, miscompiles, or does not learn as it should."""

import pytest
import torch

from tonetune.device.probes.body import adamw, loud_gemma, probe_compile, probe_overflow, probe_step, small_gemma


def test_the_probes_compute_with_the_attention_kernels_of_training():
    """Where a device is not NVIDIA's, or torch is one whose cuDNN is wrong, cuDNN is out."""
    torch.backends.cuda.enable_cudnn_sdp(True)
    small_gemma("cpu", torch.float32)
    assert not torch.backends.cuda.cudnn_sdp_enabled()


def test_a_loud_body_is_finite_but_not_in_float16():
    found = probe_overflow("cpu", thorough=False)
    assert found.passed and found.value < 1.0
    assert found.facts == {"float32_finite": 1.0, "bfloat16_finite": 1.0, "float16_finite": 0.0}
    assert "float16: layers.1.post_feedforward_layernorm is not finite" in found.detail


def test_a_quiet_body_is_finite_in_float16_too():
    assert probe_overflow("cpu", thorough=False, body=small_gemma).facts["float16_finite"] == 1.0


def test_the_first_module_that_overflows_is_named():
    def body(device, dtype):
        model = loud_gemma(device, dtype)
        model.get_submodule("layers.0.mlp.down_proj").register_forward_hook(lambda module, inputs, out: out / 0)
        return model

    found = probe_overflow("cpu", thorough=False, body=body)
    assert not found.passed and found.value is None
    assert "bfloat16: layers.0.mlp.down_proj is not finite" in found.detail


def test_a_gradient_that_is_not_finite_is_caught():
    def body(device, dtype):
        model = small_gemma(device, dtype)
        model.get_submodule("layers.0").register_full_backward_pre_hook(lambda module, grad: (grad[0] / 0,))
        return model

    found = probe_overflow("cpu", thorough=False, body=body)
    assert not found.passed and "the gradient is not finite" in found.detail


def test_a_layer_that_computes_what_it_did_before_passes():
    found = probe_compile("cpu", thorough=False, compiler=lambda layer: layer)
    assert found.passed and found.value == 0.0


def test_a_miscompiled_layer_is_caught():
    def compiler(layer):
        return lambda *args, **kwargs: torch.utils._pytree.tree_map(lambda out: out * 1.001, layer(*args, **kwargs))

    assert not probe_compile("cpu", thorough=False, compiler=compiler).passed


@pytest.mark.slow
def test_one_step_moves_the_adapter_and_the_head():
    found = probe_step("cpu", thorough=False)
    assert found.passed and (found.value, found.limit) == (0.0, 0.0)
    assert "7 of 7 moved" in found.detail


class Still:
    def __init__(self, parameters):
        pass

    def step(self):
        pass


class Forgetful(torch.optim.SGD):
    """Leaves the last parameter, the head, as it is."""

    def __init__(self, parameters):
        super().__init__([*parameters][:-1], lr=1e-3)


class Backwards(torch.optim.SGD):
    def __init__(self, parameters):
        super().__init__(parameters, lr=0.5, maximize=True)


@pytest.mark.parametrize(("optimiser", "wrong"), [(Still, 7), (Forgetful, 1), (Backwards, 0)])
def test_a_step_that_does_not_learn_is_caught(optimiser, wrong):
    found = probe_step("cpu", thorough=False, optimiser=optimiser)
    assert not found.passed and found.value == wrong


def test_a_base_that_moves_is_caught(monkeypatch):
    def loosen(parameters):
        first = next(parameters)
        base = next(p for p in _everything if not p.requires_grad and p.is_floating_point())

        class Step(torch.optim.SGD):
            def step(self):
                super().step()
                base.data.add_(1.0)

        return Step([first, *parameters], lr=1e-3)

    _everything: list[torch.nn.Parameter] = []
    from tonetune.device.probes import body

    class Seen(body.Learner):
        def __init__(self, *args):
            super().__init__(*args)
            _everything.extend(self.parameters())

    monkeypatch.setattr(body, "Learner", Seen)
    found = probe_step("cpu", thorough=False, optimiser=loosen)
    assert not found.passed and "embed_tokens" in found.detail


def test_the_optimiser_is_the_one_that_training_uses():
    assert type(adamw(iter([torch.nn.Parameter(torch.ones(1))]))) is torch.optim.AdamW
