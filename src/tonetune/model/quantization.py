"""Quantised bases: bitsandbytes in 4 bits (NF4) or 8, proven on the device first; others are refused by name."""

import logging
import math
import sys
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from tonetune.errors import ConfigError, DeviceError, MissingExtraError, ModelError

if TYPE_CHECKING:
    from transformers import BitsAndBytesConfig

NONE, FOUR_BIT, EIGHT_BIT = "none", "4bit", "8bit"
KEY = "model.quantization"
OLDEST = (0, 50)
"""Of bitsandbytes: older ones compute NaN in 4 bits on AMD's CDNA cards."""
ERROR_LIMITS = {FOUR_BIT: 0.15, EIGHT_BIT: 0.04}
"""Relative error of a product with a quantised matrix of normal numbers: 0.094 and 0.008 where all is well."""
WIDTH = 256
BLOCK = 64
"""Numbers that share a scale in 4 bits."""


def quantization_of(requested: str, config: dict[str, Any], *, where: str) -> str:
    """How the base is to be loaded: as requested, or as its checkpoint is stored: none, 4bit or 8bit.

    Raises ModelError for a checkpoint that is stored in another kind, ConfigError where it is stored quantised and the
    other number of bits is requested.
    """
    stored = _stored(config, where=where)
    if NONE not in (stored, requested) and stored != requested:
        raise ConfigError([f"{requested}, and the checkpoint is stored in {stored}"], where=KEY, hint="leave it out")
    return requested if stored == NONE else stored


def _stored(config: dict[str, Any], *, where: str) -> str:
    found = config.get("quantization_config")
    if not found:
        return NONE
    for kind, flag in ((FOUR_BIT, "load_in_4bit"), (EIGHT_BIT, "load_in_8bit")):
        if found.get("quant_method") == "bitsandbytes" and found.get(flag):
            return kind
    raise ModelError(
        f"the checkpoint is quantised with {found.get('quant_method', 'an unnamed method')!r}; only what bitsandbytes "
        "quantised to 4 or 8 bits can be trained on",
        where=f"{where}/config.json",
        hint=f"use the checkpoint it was made from, with {KEY}: 4bit where memory is short",
    )


def check_bitsandbytes(kind: str, *, device: torch.device, dtype: torch.dtype) -> None:
    """Prove that a quantised layer computes on this device.

    Raises MissingExtraError without bitsandbytes, ConfigError for one that is too old and on macOS, DeviceError where
    the layer fails or its error is not that of its number of bits.
    """
    if sys.platform == "darwin":
        raise ConfigError([f"{kind}: bitsandbytes does not compute on this system"], where=KEY, hint=f"{KEY}: none")
    try:
        import bitsandbytes
    except ModuleNotFoundError as missing:
        raise MissingExtraError("quant", needed_for=f"{KEY}: {kind}") from missing
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)  # it repeats one sentence per layer and call
    name = f"bitsandbytes {version('bitsandbytes')}"
    if tuple(int(part) for part in version("bitsandbytes").split(".")[:2]) < OLDEST:
        hint = "pip install --upgrade 'tonetune[quant]'"
        raise ConfigError([f"{kind}: {name} is older than {'.'.join(map(str, OLDEST))}"], where=KEY, hint=hint)
    try:
        error = layer_error(_layer(kind, bitsandbytes, dtype), device=device, dtype=dtype)
    except RuntimeError as failure:
        what = f"a {kind} layer of {name} fails: {str(failure).splitlines()[0]}"
        raise DeviceError(what, where=str(device), hint=f"{KEY}: none") from failure
    if not error <= ERROR_LIMITS[kind]:
        what = f"a {kind} layer of {name} has a relative error of {error:.3f} (limit {ERROR_LIMITS[kind]})"
        raise DeviceError(what, where=str(device), hint=f"{KEY}: none, or another version of bitsandbytes")


def _layer(kind: str, bitsandbytes: Any, dtype: torch.dtype) -> nn.Linear:
    """An empty layer; its weight is packed on its way to a device."""
    if kind == FOUR_BIT:
        layer: nn.Linear = bitsandbytes.nn.Linear4bit(WIDTH, WIDTH, bias=False, compute_dtype=dtype, quant_type="nf4")
    else:
        layer = bitsandbytes.nn.Linear8bitLt(WIDTH, WIDTH, bias=False, has_fp16_weights=False, threshold=6.0)
    return layer


def layer_error(layer: nn.Linear, *, device: torch.device, dtype: torch.dtype) -> float:
    """|layer(x) - W x| / |W x| for normal W and x, with W packed by the layer and W x in float64."""
    keep_trainable_on_cpu(layer)
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(layer.out_features, layer.in_features, generator=generator)
    inputs = torch.randn(16, layer.in_features, generator=generator).to(dtype)
    layer.load_state_dict({"weight": weight})
    exact = inputs.double() @ weight.double().T
    with torch.no_grad():
        found = layer.to(device)(inputs.to(device)).cpu().double()
    return float((found - exact).norm() / exact.norm())


def packs(layer: nn.Linear, kind: str) -> bool:
    """Whether a layer can be packed: bitsandbytes 0.50 unpacks 4-bit blocks that span two rows wrongly on a CPU."""
    return kind != FOUR_BIT or layer.in_features % BLOCK == 0


def packed_bytes(layer: nn.Linear, kind: str) -> int:
    """Bytes of a layer's weight once it is packed: in 4 bits with a float32 scale a block, in 8 bits with one a row."""
    numbers = layer.weight.numel()
    if kind == FOUR_BIT:
        return numbers // 2 + numbers // BLOCK * 4
    return numbers + layer.out_features * 4


def keep_trainable_on_cpu(model: nn.Module) -> None:
    """Keep 4-bit layers in the one layout of their weights that gradients flow through.

    On processors with AVX-512 BF16, bitsandbytes 0.50 lays them out anew when they first compute without gradients, as
    for a baseline, and passes no gradient to their input from then on.
    """
    modules: Iterable[Any] = model.modules()
    for module in modules:
        if hasattr(module, "support_avx512bf16_for_cpu"):
            module.support_avx512bf16_for_cpu = False


def unpack(body: Any, dtype: torch.dtype) -> None:
    """Put plain linear layers with what they hold in `dtype` in place of a body's quantised ones, if it has any."""
    if getattr(body, "hf_quantizer", None) is not None:
        body.dequantize(dtype).requires_grad_(False)


def weight_of(layer: Any) -> Tensor:
    """The weight of a linear layer, unpacked where it is packed, and the layer left as it is.

    PEFT's function for a whole layer puts an 8-bit layer on a CPU back without its scales.
    """
    from peft.utils.integrations import dequantize_bnb_weight, get_bnb_param_type

    if not get_bnb_param_type(layer.weight):
        weight: Tensor = layer.weight
        return weight
    return dequantize_bnb_weight(layer.weight, state=getattr(layer, "state", None))


def num_elements(parameter: Tensor) -> int:
    """How many values a parameter stands for: in 4 bits two lie in a byte."""
    state = getattr(parameter, "quant_state", None)
    return parameter.numel() if state is None else math.prod(state.shape)


def bitsandbytes_config(kind: str, *, dtype: torch.dtype, keep: Sequence[str]) -> "BitsAndBytesConfig":
    """What transformers quantises with; `keep` names layers that stay as they are."""
    from transformers import BitsAndBytesConfig

    return BitsAndBytesConfig(
        load_in_4bit=kind == FOUR_BIT,
        load_in_8bit=kind == EIGHT_BIT,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_compute_dtype=dtype,
        llm_int8_skip_modules=list(keep),
    )
