"""P3, P6 and P10: a small random Gemma 3 of transformers computes, compiles and learns as it should."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from tonetune.cache import use_private_compile_cache
from tonetune.device.choose import choose_cudnn_attention, settle_cudnn_attention
from tonetune.device.finite import FirstNonFinite
from tonetune.device.probes.gemm import HEALTHY_ERROR
from tonetune.device.probes.result import Measurement

# B = texts, T = tokens, D = hidden width, C = labels

TEXTS, TOKENS, LABELS = 4, 24, 3
LOUD = 2e5
"""The largest hidden value that is tried: Gemma 3 reaches values beyond float16's largest, 65,504."""
COMPILED_ERROR = 4.0
"""Times what rounding does to one product."""
LEARNING_RATE = 1e-3

Body = Callable[[str, torch.dtype], nn.Module]


def small_gemma(device: str, dtype: torch.dtype) -> nn.Module:
    """Two layers, one sliding and one full, random and frozen; always the same numbers.

    torch may choose among the attention kernels that it may choose from in training.
    """
    from transformers import AutoModel, Gemma3TextConfig

    settle_cudnn_attention(choose_cudnn_attention(torch.device(device)))
    config = Gemma3TextConfig(
        vocab_size=256,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=32,
        sliding_window=8,
        layer_types=["sliding_attention", "full_attention"],
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        body: nn.Module = AutoModel.from_config(config, dtype=torch.float32, attn_implementation="sdpa")
    return body.requires_grad_(False).to(device, dtype)


def loud_gemma(device: str, dtype: torch.dtype) -> nn.Module:
    """The same with a residual stream as loud as the real one's: what its last MLP adds is of the size `LOUD`."""
    body = small_gemma(device, dtype)
    with torch.no_grad():
        body.get_parameter("layers.1.post_feedforward_layernorm.weight").fill_(LOUD / 4)  # a norm's peaks are about 4
    return body


def probe_overflow(device: str, *, thorough: bool, body: Body = loud_gemma) -> Measurement:
    """Forward and backward in the format that training takes, bfloat16 or float32; float16 is tried and told of."""
    found = {dtype: _loudest(body(device, dtype), device) for dtype in HEALTHY_ERROR}
    parts = []
    for dtype, (largest, culprit) in found.items():
        name = str(dtype).removeprefix("torch.")
        parts.append(f"{name}: {culprit} is not finite" if culprit else f"{name}: largest value {largest:.2g}")
    used = {dtype: largest / torch.finfo(dtype).max for dtype, (largest, _) in found.items()}
    must = (torch.float32, torch.bfloat16)
    passed = all(found[dtype][1] is None for dtype in must)
    facts = {f"{str(d).removeprefix('torch.')}_finite": float(culprit is None) for d, (_, culprit) in found.items()}
    return Measurement(passed, max(used[d] for d in must) if passed else None, 1.0, "; ".join(parts), facts)


def _loudest(body: nn.Module, device: str) -> tuple[float, str | None]:
    """The largest finite value of any module's output, and the first module whose output or gradient is not finite."""
    embeddings = body.get_parameter("embed_tokens.weight").requires_grad_()
    with FirstNonFinite(body) as watch:
        hidden_BTD = body(input_ids=_ids(device), use_cache=False).last_hidden_state
        hidden_BTD[:, -1].float().sum().backward()
    gradient = embeddings.grad
    if watch.name is None and gradient is not None and not bool(gradient.isfinite().all()):
        return watch.largest, "the gradient"
    return watch.largest, watch.name


def _ids(device: str) -> Tensor:
    return torch.arange(TEXTS * TOKENS, device=device).reshape(TEXTS, TOKENS) % 250 + 1  # 0 is the pad, whose row is 0


def probe_compile(device: str, *, thorough: bool, compiler: Callable[[nn.Module], Any] = torch.compile) -> Measurement:
    """One decoder layer, compiled and not: the difference of output and gradient, and what compiling took."""
    from transformers.models.gemma3.modeling_gemma3 import Gemma3RotaryEmbedding

    use_private_compile_cache()
    body: Any = small_gemma(device, torch.float32)
    layer = body.layers[1]
    rng = torch.Generator().manual_seed(0)
    hidden_BTD = torch.randn(TEXTS, TOKENS, 64, generator=rng).to(device)
    places_1T = torch.arange(TOKENS, device=device)[None]
    rotary: Any = Gemma3RotaryEmbedding(body.config).to(device)
    turns = rotary(hidden_BTD, places_1T, "full_attention")

    def once(call: Any) -> list[Tensor]:
        leaf_BTD = hidden_BTD.clone().requires_grad_()
        out = call(leaf_BTD, position_embeddings=turns, position_ids=places_1T)
        out_BTD = out[0] if isinstance(out, tuple) else out
        (gradient_BTD,) = torch.autograd.grad(out_BTD.square().sum(), leaf_BTD)
        return [out_BTD.detach(), gradient_BTD]

    expected = once(layer)
    compiled = compiler(layer)
    began_s = time.perf_counter()
    found = once(compiled)
    facts = {"warmup_s": time.perf_counter() - began_s}
    error = max(float((a - b).norm() / b.norm()) for a, b in zip(found, expected, strict=True))
    used = error / (COMPILED_ERROR * HEALTHY_ERROR[torch.float32])
    detail = f"error {error:.1e} after {facts['warmup_s']:.1f} s of compiling"
    return Measurement(used <= 1.0, used, 1.0, detail, facts)


class Learner(nn.Module):
    """A body with adapters, as PEFT injects them, and a float32 head on each text's last token."""

    def __init__(self, device: str, dtype: torch.dtype) -> None:
        from peft import LoraConfig, inject_adapter_in_model

        super().__init__()
        self.model = small_gemma(device, dtype)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1)
            config = LoraConfig(r=4, target_modules=["q_proj", "v_proj", "o_proj"])
            inject_adapter_in_model(config, self.model)
            self.score = nn.Linear(64, LABELS, bias=False).to(device)
        for parameter in self.trainable().values():
            parameter.data = parameter.data.float()

    def trainable(self) -> dict[str, nn.Parameter]:
        return {name: p for name, p in self.named_parameters() if p.requires_grad}

    def forward(self, ids_BT: Tensor) -> Tensor:
        hidden_BTD = self.model(input_ids=ids_BT, use_cache=False).last_hidden_state
        logits_BC: Tensor = self.score(hidden_BTD[:, -1].float())
        return logits_BC


Optimiser = Callable[[Iterator[nn.Parameter]], Any]


def adamw(parameters: Iterator[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=LEARNING_RATE)


def probe_step(device: str, *, thorough: bool, optimiser: Optimiser = adamw) -> Measurement:
    """One step must move every B and the head, must leave the base alone, and must not make the loss larger.

    Every A stays too: B is zero in the first step, and so is A's gradient, so AdamW only decays A.
    """
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    learner = Learner(device, dtype)
    before = {name: p.detach().clone() for name, p in learner.named_parameters()}
    labels_B = torch.arange(TEXTS, device=device) % LABELS
    steps = optimiser(iter(learner.trainable().values()))
    loss = nn.functional.cross_entropy(learner(_ids(device)), labels_B)
    loss.backward()
    steps.step()
    after = nn.functional.cross_entropy(learner(_ids(device)), labels_B)
    moved = {name for name, p in learner.named_parameters() if not torch.equal(p.detach(), before[name])}
    due = {name for name in before if ".lora_B." in name or name == "score.weight"}
    allowed = due | {name for name in before if ".lora_A." in name}
    wrong = sorted(due - moved) + sorted(moved - allowed)
    falls = float(after.detach()) < float(loss.detach())
    detail = (
        f"loss {float(loss.detach()):.4f}, then {float(after.detach()):.4f}; {len(moved & due)} of {len(due)} moved"
    )
    if wrong:
        detail += f"; wrong: {', '.join(wrong[:3])}"
    return Measurement(not wrong and falls, float(len(wrong)), 0.0, detail)
