"""Laws of adapters: they change nothing when fresh, are where they were asked for, and are counted right."""

import pytest
import tiny
import torch
from torch import nn

from tonetune.errors import ConfigError
from tonetune.model.adapters import ADAPTER, START, AdaptedLayer, inject_lora, settle, target_names
from tonetune.model.classifier import Classifier
from tonetune.model.families import BY_MODEL_TYPE, FAMILIES

VARIANTS = ["lora", "rslora", "dora", "loraplus", "pissa"]


SHAPES = {  # heads of 16, of 512 in the full layers of gemma4_text, of 32 in those of the other Gemma 4
    "gemma4_text": 512,
    "gemma4": 32,
    "gemma4_moe": 32,
    "gemma4_unified": 32,
}
SHARED = {"gemma3n_text": (2, 3), "gemma4": (2, 3), "gemma4_moe": (1, 3)}
"""Layers without a v_proj: they share keys and values, or take the keys as values."""


def expected_shapes(family):
    """(in, out) of every q, v and o by full name, from the shapes of tests/tiny.py alone."""
    shapes = {}
    for i in range(4 if family.startswith(("gemma3n", "gemma4")) else 2):
        width = SHAPES.get(family, 16) if i % 2 else 16
        leaves = {"q_proj": (32, 2 * width), "v_proj": (32, width), "o_proj": (2 * width, 32)}
        for leaf, shape in leaves.items():
            if leaf != "v_proj" or i not in SHARED.get(family, ()):
                shapes[f"model.layers.{i}.self_attn.{leaf}"] = shape
    return shapes


def classifier_of(directory, *, dtype=torch.float32):
    base = tiny.load(directory)
    head = torch.randn(3, base.hidden, generator=torch.Generator().manual_seed(1))
    return Classifier(base.body.to(dtype), head).eval()


def adapted(directory, *, targets="attention", variant="lora", rank=4, alpha=8.0, dropout=0.1, dtype=torch.float32):
    classifier = classifier_of(directory, dtype=dtype)
    family = FAMILIES[classifier.model.config.model_type]
    names = target_names(classifier.model, family, targets)
    return classifier, inject_lora(classifier, names, rank=rank, alpha=alpha, dropout=dropout, variant=variant)


@torch.no_grad()
def logits(classifier):
    ids = torch.tensor([[2, 10, 11, 12, 400, 31, 32], [2, 700, 11, 9, 8, 7, 6]])
    return classifier(ids, torch.ones_like(ids, dtype=torch.bool), right_padded=True)


# --- what it computes


@pytest.mark.parametrize("family", tiny.FAMILIES)
@pytest.mark.parametrize("targets", ["attention", "all-linear"])
def test_a_fresh_adapter_changes_nothing(tiny_model, family, targets):
    before = logits(classifier_of(tiny_model(family)))
    classifier, _ = adapted(tiny_model(family), targets=targets)
    assert torch.equal(logits(classifier), before)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("family", ["gemma3_text", "gemma4"])  # PEFT shortens lists of twenty names and more
def test_a_fresh_adapter_of_each_variant_changes_nothing(tiny_model, family, variant):
    before = logits(classifier_of(tiny_model(family)))
    classifier, layers = adapted(tiny_model(family), variant=variant, targets="all-linear")
    assert (len(layers) >= 20) == (family == "gemma4")
    torch.testing.assert_close(logits(classifier), before, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("variant", "scale"), [("lora", 8 / 4), ("rslora", 8 / 2)])
def test_an_adapter_adds_its_update_to_the_weight(tiny_gemma, variant, scale):
    """The same logits from plain layers with W + scale · B A."""
    classifier, layers = adapted(tiny_gemma, targets="all-linear", variant=variant)
    plain = classifier_of(tiny_gemma)
    rng = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for layer in layers:
            a, b = (classifier.get_parameter(f"{layer.name}.lora_{x}.default.weight") for x in "AB")
            b.copy_(torch.randn(b.shape, generator=rng) * 0.1)
            plain.get_parameter(f"{layer.name}.weight").add_(scale * b @ a)
    torch.testing.assert_close(logits(classifier), logits(plain), rtol=0, atol=2e-5)


@pytest.mark.parametrize("variant", VARIANTS)
def test_adapters_and_head_are_float32_whatever_the_body_is(tiny_gemma, variant):
    classifier, _ = adapted(tiny_gemma, variant=variant, dtype=torch.bfloat16)
    beside = classifier.added()
    assert {p.dtype for p in beside.values()} == {torch.float32}
    assert {p.dtype for n, p in classifier.named_parameters() if n not in beside} == {torch.bfloat16}
    assert logits(classifier).dtype == torch.float32


def test_an_adapter_takes_the_mode_of_the_classifier(tiny_gemma):
    classifier, _ = adapted(tiny_gemma, dropout=0.5)
    assert not any(module.training for module in classifier.modules())


# --- PiSSA


def moved(classifier):
    """As if training had moved the adapter."""
    rng = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in classifier.trainable().values():
            parameter.add_(torch.randn(parameter.shape, generator=rng) * 0.1)
    return classifier


def product(layer, name):
    return layer.scaling[name] * layer.lora_B[name].weight @ layer.lora_A[name].weight


def test_pissa_starts_from_the_largest_singular_values(tiny_gemma):
    """No matrix of rank 4 is nearer than the exact decomposition's."""
    plain = classifier_of(tiny_gemma)
    classifier, layers = adapted(tiny_gemma, targets="all-linear", variant="pissa")
    for layer in layers:
        weight = plain.get_parameter(f"{layer.name}.weight").detach()
        adapter = product(classifier.get_submodule(layer.name), ADAPTER)
        assert torch.linalg.matrix_rank(adapter) == 4
        assert (weight - adapter).norm() <= 1.001 * torch.linalg.svdvals(weight)[4:].norm()


def test_pissa_leaves_the_base_as_it_is_and_trains_the_difference(tiny_gemma):
    plain = classifier_of(tiny_gemma)
    classifier, layers = adapted(tiny_gemma, targets="all-linear", variant="pissa", dropout=0.5)
    for name, parameter in plain.model.named_parameters():
        layer, _, leaf = f"model.{name}".rpartition(".")
        inside = f"{layer}.base_layer" if layer in {row.name for row in layers} else layer
        assert torch.equal(parameter, classifier.get_parameter(f"{inside}.{leaf}"))
    assert not any(START in name for name in classifier.trainable())
    moved(classifier)
    with torch.no_grad():
        for row in layers:
            layer = classifier.get_submodule(row.name)
            assert layer.lora_dropout[START](torch.ones(99)).all(), "what is subtracted is never dropped"
            plain.get_parameter(f"{row.name}.weight").add_(product(layer, ADAPTER) + product(layer, START))
        plain.score.weight.copy_(classifier.score.weight)
    torch.testing.assert_close(logits(classifier), logits(plain), rtol=0, atol=1e-4)


def test_settled_pissa_is_plain_lora_of_twice_the_rank(tiny_gemma):
    classifier, _ = adapted(tiny_gemma, targets="all-linear", variant="pissa")
    before = logits(moved(classifier))
    rank, alpha, variant = settle(classifier, rank=4, alpha=8.0, variant="pissa")
    assert (rank, alpha, variant) == (8, 16.0, "lora")
    torch.testing.assert_close(logits(classifier), before, rtol=0, atol=1e-4)
    plain, _ = adapted(tiny_gemma, targets="all-linear", rank=rank, alpha=alpha)
    assert {n: p.shape for n, p in plain.trainable().items()} == {n: p.shape for n, p in classifier.added().items()}
    plain.restore(classifier.snapshot())
    assert torch.equal(logits(plain), logits(classifier))


def test_pissa_of_a_rank_beyond_the_layer_takes_all_its_singular_values(tiny_gemma):
    before = logits(classifier_of(tiny_gemma))
    classifier, layers = adapted(tiny_gemma, targets=["v_proj"], variant="pissa", rank=20)  # of 32 · 16
    torch.testing.assert_close(logits(classifier), before, rtol=0, atol=1e-4)
    layer = classifier.get_submodule(layers[0].name)
    torch.testing.assert_close(product(layer, ADAPTER), layer.base_layer.weight, rtol=0, atol=1e-4)


def test_a_snapshot_holds_what_pissa_started_with(tiny_gemma):
    """The decomposition is not exact, so another machine's may differ."""
    classifier, _ = adapted(tiny_gemma, variant="pissa")
    expected = logits(moved(classifier))
    torch.manual_seed(1)
    other, _ = adapted(tiny_gemma, variant="pissa")
    other.restore(classifier.snapshot())
    assert torch.equal(logits(other), expected)


@pytest.mark.parametrize("variant", [v for v in VARIANTS if v != "pissa"])
def test_settling_leaves_the_other_variants_as_they_are(tiny_gemma, variant):
    classifier, _ = adapted(tiny_gemma, variant=variant)
    before = {name: id(p) for name, p in classifier.named_parameters()}
    form = "lora" if variant == "loraplus" else variant
    assert settle(classifier, rank=4, alpha=8.0, variant=variant) == (4, 8.0, form)
    assert {name: id(p) for name, p in classifier.named_parameters()} == before


# --- where it is


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_every_layer_is_adapted_and_only_adapter_and_head_are_trained(tiny_model, family):
    classifier, layers = adapted(tiny_model(family))
    assert {layer.name for layer in layers} == expected_shapes(family).keys()
    assert all("lora_" in name or name == "score.weight" for name in classifier.trainable())
    assert len(classifier.trainable()) == 2 * len(layers) + 1


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_all_linear_means_attention_and_mlp_of_every_layer(tiny_model, family):
    body = classifier_of(tiny_model(family)).model
    expected = [
        f"model.{name}"
        for name, module in body.named_modules()
        if isinstance(module, nn.Linear) and (".self_attn." in name or ".mlp." in name)
    ]
    assert target_names(body, BY_MODEL_TYPE[body.config.model_type], "all-linear") == expected


@pytest.mark.parametrize(
    ("targets", "expected"),
    [
        (["q_proj"], ["model.layers.0.self_attn.q_proj", "model.layers.1.self_attn.q_proj"]),
        (["self_attn.q_proj"], ["model.layers.0.self_attn.q_proj", "model.layers.1.self_attn.q_proj"]),
        (["layers.1.mlp.up_proj"], ["model.layers.1.mlp.up_proj"]),
        (["model.layers.1.mlp.up_proj", "1.mlp.up_proj"], ["model.layers.1.mlp.up_proj"]),
    ],
)
def test_a_list_names_layers_by_the_end_of_their_name(tiny_gemma, targets, expected):
    assert target_names(classifier_of(tiny_gemma).model, FAMILIES["gemma3_text"], targets) == expected


def test_names_that_match_nothing_are_all_told_with_what_is_near(tiny_gemma):
    body = classifier_of(tiny_gemma).model
    with pytest.raises(ConfigError) as caught:
        target_names(body, FAMILIES["gemma3_text"], ["q_porj", "v_proj", "roj", "embed_tokens", "wx"])
    assert caught.value.where == "lora.targets"
    assert len(caught.value.problems) == 4
    assert "'q_porj' matches no linear layer; there are q_proj" in caught.value.problems[0]
    assert all("_proj" in problem for problem in caught.value.problems)


@pytest.mark.parametrize(
    ("family", "leaf", "number"),
    [
        ("gemma4", "per_layer_input_gate", 4),
        ("gemma4", "per_layer_projection", 4),
        ("gemma4", "per_layer_model_projection", 1),
        ("gemma3n_text", "per_layer_input_gate", 4),
        ("gemma3n_text", "laurel.linear_left", 4),
        ("gemma4_moe", "router.proj", 4),
    ],
)
def test_layers_of_one_family_alone_can_be_named(tiny_model, family, leaf, number):
    body = classifier_of(tiny_model(family)).model
    assert len(target_names(body, BY_MODEL_TYPE[body.config.model_type], [leaf])) == number


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_a_pattern_is_refused_with_the_name_to_write(tiny_model, family):
    body = classifier_of(tiny_model(family)).model
    for entry in (".*q_proj", "*.q_proj", r"layers\.\d+\.self_attn\.q_proj$", "(q_proj|v_proj)", "q_proj "):
        with pytest.raises(ConfigError, match="without wildcards") as caught:
            target_names(body, BY_MODEL_TYPE[body.config.model_type], [entry])
        assert "q_proj" in caught.value.problems[0].partition("there are ")[2]


@pytest.mark.parametrize(
    ("family", "entry", "near"),
    [
        ("gemma4", "per_layer_inputs_gate", "per_layer_input_gate"),
        ("gemma4", "model.per_layer_model_proj", "model.per_layer_model_projection"),
        ("gemma3n_text", "laurel.linear_up", "laurel.linear_left"),
        ("gemma4_moe", "experts.gate_up_proj", "mlp.gate_proj"),
        ("qwen3", "attn.q_proj", "self_attn.q_proj"),
        ("llama", "layers.9.mlp.up_proj", "layers.0.mlp.up_proj"),
        ("mistral", "c_attn", "q_proj"),
    ],
)
def test_the_near_misses_are_as_long_as_the_entry(tiny_model, family, entry, near):
    body = classifier_of(tiny_model(family)).model
    with pytest.raises(ConfigError) as caught:
        target_names(body, BY_MODEL_TYPE[body.config.model_type], [entry])
    assert near in caught.value.problems[0].partition("there are ")[2].split(", ")


@pytest.mark.parametrize("family", tiny.FAMILIES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_parameters_follow_from_the_shapes(tiny_model, family, variant):
    """Rank 4 has 4 · (in + out) parameters, and DoRA a magnitude per output."""
    _, layers = adapted(tiny_model(family), variant=variant)
    for layer, (name, (inputs, outputs)) in zip(layers, expected_shapes(family).items(), strict=True):
        parameters = 4 * (inputs + outputs) + (outputs if variant == "dora" else 0)
        assert layer == AdaptedLayer(name, inputs, outputs, 4, parameters)
