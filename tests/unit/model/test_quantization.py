"""Quantised bases: packed layers compute what they hold, adapters train on them, and what is not proven is refused."""

import json
import shutil
import sys
from types import SimpleNamespace

import pytest
import tiny
import torch

from tonetune.errors import ConfigError, DeviceError, MissingExtraError, ModelError
from tonetune.model import quantization
from tonetune.model.adapters import inject_lora, settle, target_names
from tonetune.model.audit import audit
from tonetune.model.classifier import Classifier
from tonetune.model.families import family_of
from tonetune.model.loading import load_base
from tonetune.model.quantization import (
    EIGHT_BIT,
    ERROR_LIMITS,
    FOUR_BIT,
    check_bitsandbytes,
    num_elements,
    quantization_of,
    unpack,
)
from tonetune.model.source import find_base
from tonetune.training.guard import FirstSteps

CPU = torch.device("cpu")
IDS = torch.tensor([[tiny.BOS, *range(300, 330)]])
MASK = torch.ones_like(IDS, dtype=torch.bool)
KINDS = (FOUR_BIT, EIGHT_BIT)
KEPT = ["lm_head", "embed_vision", "per_layer_projection", "per_layer_input_gate", "per_layer_model_projection"]


@pytest.fixture
def bitsandbytes():
    return pytest.importorskip("bitsandbytes")


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """Directory of a random model by family whose layers are as wide as a block of 4 bits, made once."""
    root = tmp_path_factory.mktemp("wide")

    def of(family):
        shape = {"hidden_size": 64, "intermediate_size": 128, "head_dim": 32}
        return root / family if (root / family).is_dir() else tiny.write_model(root / family, family, **shape)

    return of


def load(directory, kind):
    source = find_base(str(directory))
    kernel = family_of(source.config, where="").kernel
    return load_base(source, dtype=torch.float32, device=CPU, attention=kernel, quantization=kind, gate=False)


@torch.no_grad()
def states(base):
    return base.body(input_ids=IDS, use_cache=False).last_hidden_state


def relative(found, expected):
    return float((found - expected).norm() / expected.norm())


# --- what is packed


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", ["gemma3_text", "gemma4", "gemma4_moe", "qwen2"])
def test_targets_are_packed_and_nothing_else(bitsandbytes, wide, family, kind):
    base, plain = load(wide(family), kind), load(wide(family), "none")
    assert (base.quantization, plain.quantization) == (kind, "none")
    quantised = states(base)
    expected_elements = {name: p.numel() for name, p in plain.body.named_parameters()}
    assert {name: num_elements(p) for name, p in base.body.named_parameters()} == expected_elements
    packed = {n for n, p in base.body.named_parameters() if p.dtype in (torch.int8, torch.uint8)}
    targets = target_names(plain.body, plain.family, "all-linear")
    assert packed == {f"{name.removeprefix('model.')}.weight" for name in targets}
    unpack(base.body, torch.float32)
    assert relative(states(base), quantised) < (1e-5 if kind == FOUR_BIT else 0.2), "layers compute what they hold"
    original = dict(plain.body.named_parameters())
    for name, parameter in base.body.named_parameters():
        assert not parameter.requires_grad
        if name in packed:
            assert 0 < relative(parameter, original[name]) < (0.1 if kind == FOUR_BIT else 0.01), name
        else:
            assert torch.equal(parameter, original[name]), name


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_adapters_train_on_a_base_that_stays_as_it_is(bitsandbytes, wide, kind):
    """As a run does it: a baseline is computed without gradients first."""
    from peft.tuners.lora import bnb

    def grads(*, baseline: bool):
        torch.manual_seed(0)
        base = load(wide("gemma3_text"), kind)
        classifier = Classifier(base.body, torch.randn(3, base.hidden))
        if baseline:
            with torch.no_grad():
                classifier.eval()(IDS, MASK)
        names = target_names(base.body, base.family, "attention")
        inject_lora(classifier, names, rank=2, alpha=4.0, dropout=0.0, variant="lora")
        layers = {type(classifier.get_submodule(name)) for name in names}
        assert layers == {bnb.Linear4bit if kind == FOUR_BIT else bnb.Linear8bitLt}
        before = {name: p.clone() for name, p in classifier.named_parameters() if not p.requires_grad}
        assert {p.dtype for p in classifier.trainable().values()} == {torch.float32}
        optimizer = torch.optim.SGD(classifier.trainable().values(), lr=0.1)
        classifier.train()
        for _ in range(2):
            optimizer.zero_grad()
            classifier(IDS, MASK).pow(2).sum().backward()
            optimizer.step()
        for name, p in classifier.named_parameters():
            assert name not in before or torch.equal(p, before[name]), f"{name} is frozen"
        return {name: p.grad for name, p in classifier.trainable().items()}

    found, expected = grads(baseline=True), grads(baseline=False)
    assert all(gradient.isfinite().all() and gradient.any() for gradient in found.values())
    for name, gradient in found.items():
        torch.testing.assert_close(gradient, expected[name])


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_pissa_starts_from_what_packed_layers_hold(bitsandbytes, wide, kind):
    """It changes nothing at first, the first steps are watched to the bit, and its plain form says the same."""
    base = load(wide("gemma3_text"), kind)
    classifier = Classifier(base.body, torch.randn(3, base.hidden)).eval()
    with torch.no_grad():
        before = classifier(IDS, MASK)
        names = target_names(base.body, base.family, "all-linear")
        layers = inject_lora(classifier, names, rank=4, alpha=8.0, dropout=0.0, variant="pissa")
        torch.testing.assert_close(classifier(IDS, MASK), before, rtol=0, atol=1e-3)
    audit(classifier, base.family, layers, targets="all-linear")
    guard = FirstSteps(classifier, num_steps=2)
    optimizer = torch.optim.AdamW(classifier.trainable().values(), lr=1e-3)
    for step in (1, 2):
        classifier(IDS, MASK).square().sum().backward()
        optimizer.step()
        guard.step(step)
    with torch.no_grad():
        trained = classifier(IDS, MASK)
        assert relative(trained, before) > 0.01
        settle(classifier, rank=4, alpha=8.0, variant="pissa")
        torch.testing.assert_close(classifier(IDS, MASK), trained, rtol=0, atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", ["gemma3_text", "gemma4"])
def test_a_checkpoint_that_is_stored_packed_is_taken_as_it_is(bitsandbytes, wide, tmp_path, family, kind):
    from transformers import AutoModelForCausalLM, BitsAndBytesConfig

    stored = {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4"} if kind == FOUR_BIT else {"load_in_8bit": True}
    directory = shutil.copytree(wide(family), tmp_path / "model")
    config = BitsAndBytesConfig(**stored, llm_int8_skip_modules=KEPT)
    model = AutoModelForCausalLM.from_pretrained(directory, quantization_config=config, dtype=torch.float32)
    model.save_pretrained(directory)
    base = load(directory, "none")
    assert base.quantization == kind
    assert relative(states(base), states(load(wide(family), kind))) < (1e-5 if kind == FOUR_BIT else 0.2)
    with pytest.raises(ConfigError, match=f"checkpoint is stored in {kind}"):
        load(directory, EIGHT_BIT if kind == FOUR_BIT else FOUR_BIT)


@pytest.mark.slow
def test_layers_that_no_block_fits_stay_as_they_are(bitsandbytes, tiny_model, tmp_path):
    """A block over two rows is unpacked wrongly on a CPU: the widths here are 64 and, of one layer, 48."""
    directory = tiny.write_model(tmp_path / "model", "qwen3", hidden_size=64, head_dim=32)
    base, plain = load(directory, FOUR_BIT), load(directory, "none")
    kept = {n for n, p in base.body.named_parameters() if n.endswith("down_proj.weight")}
    assert all(torch.equal(base.body.get_parameter(n), plain.body.get_parameter(n)) for n in kept) and kept
    assert base.body.get_parameter("layers.0.mlp.up_proj.weight").dtype == torch.uint8
    with pytest.raises(ConfigError, match="no linear layer is a multiple of 64 wide"):
        load(tiny_model("qwen3"), FOUR_BIT)


# --- what is refused


@pytest.mark.parametrize("method", ["gptq", "awq", "fp8", "compressed-tensors", "bitsandbytes"])
def test_other_kinds_are_refused_by_name(tiny_gemma, tmp_path, method):
    directory = shutil.copytree(tiny_gemma, tmp_path / "model")
    path = directory / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"quantization_config": {"quant_method": method}}))
    with pytest.raises(ModelError, match=f"quantised with '{method}'") as caught:
        load(directory, "none")
    assert caught.value.where == f"{directory}/config.json" and "4bit" in caught.value.hint


def test_what_is_requested_is_done_unless_it_is_stored_otherwise():
    stored = {"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True, "load_in_8bit": False}}
    assert [quantization_of(kind, {}, where="") for kind in ("none", *KINDS)] == ["none", *KINDS]
    assert [quantization_of(kind, stored, where="") for kind in ("none", FOUR_BIT)] == [FOUR_BIT] * 2
    with pytest.raises(ConfigError):
        quantization_of(EIGHT_BIT, stored, where="")


def check(kind=FOUR_BIT, device=CPU):
    check_bitsandbytes(kind, device=device, dtype=torch.float32)


@pytest.fixture
def installed(monkeypatch):
    """A bitsandbytes of a version and an error of its layers; without it, for what does not compute."""

    def of(version="0.50.2", error=0.09):
        linear = SimpleNamespace(Linear4bit=lambda *_, **__: None, Linear8bitLt=lambda *_, **__: None)
        monkeypatch.setitem(sys.modules, "bitsandbytes", SimpleNamespace(nn=linear))
        monkeypatch.setattr(quantization, "version", lambda name: version)

        def layer_error(*_, **__):
            if isinstance(error, Exception):
                raise error
            return error

        monkeypatch.setattr(quantization, "layer_error", layer_error)

    return of


def test_without_the_extra_it_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "bitsandbytes", None)
    with pytest.raises(MissingExtraError, match=r"model\.quantization: 4bit needs the extra 'quant'"):
        check()


@pytest.mark.parametrize("version", ["0.49.2", "0.9.0"])
def test_an_old_version_is_refused(installed, version):
    installed(version=version)
    with pytest.raises(ConfigError, match=rf"bitsandbytes {version} is older than 0\.50"):
        check()


@pytest.mark.parametrize("version", ["0.50.0", "0.50.1.dev0", "1.0.0"])
def test_a_new_version_is_taken(installed, version):
    installed(version=version)
    check()


@pytest.mark.parametrize("error", [float("nan"), 0.2, RuntimeError("no kernel\nfor this card")])
def test_a_layer_that_does_not_compute_is_refused(installed, error):
    installed(error=error)
    with pytest.raises(DeviceError, match=r"relative error of (nan|0\.200)|fails: no kernel") as caught:
        check()
    assert caught.value.hint.startswith("model.quantization: none")


def test_macos_is_refused(monkeypatch):
    monkeypatch.setattr(quantization.sys, "platform", "darwin")
    with pytest.raises(ConfigError, match="does not compute on this system"):
        check()


def errors(bitsandbytes, device):
    return {
        (kind, dtype): quantization.layer_error(
            quantization._layer(kind, bitsandbytes, dtype), device=device, dtype=dtype
        )
        for kind in KINDS
        for dtype in (torch.float32, torch.bfloat16)
    }


@pytest.mark.slow
def test_the_limits_are_what_the_number_of_bits_calls_for(bitsandbytes):
    """Sixteen NF4 levels for a normal number leave 9 % of error, 255 levels below 1 %."""
    for (kind, _), error in errors(bitsandbytes, CPU).items():
        assert ERROR_LIMITS[kind] / 10 < error < ERROR_LIMITS[kind]


@pytest.mark.gpu
def test_the_layers_compute_on_a_gpu(bitsandbytes):
    for (kind, _), error in errors(bitsandbytes, torch.device("cuda")).items():
        assert error < ERROR_LIMITS[kind]
