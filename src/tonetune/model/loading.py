"""Loading the body of a base model, and proving that its weights and tokenizer are what they should be."""

import contextlib
import copy
import itertools
import math
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn

from tonetune.data.tokens import read_tokenizer
from tonetune.device.memory import ran_out
from tonetune.errors import ConfigError, ModelError, listed
from tonetune.model.chat import Chat, read_chat
from tonetune.model.checkpoint import Checkpoint, read_checkpoint
from tonetune.model.families import HEADS, TOWERS, Family, Layout, check_kernel, layout_of, text_config
from tonetune.model.quantization import (
    BLOCK,
    FOUR_BIT,
    KEY,
    NONE,
    bitsandbytes_config,
    check_bitsandbytes,
    keep_trainable_on_cpu,
    packs,
    quantization_of,
)
from tonetune.model.source import Source
from tonetune.model.tokenizer_checks import ENGLISH, check_tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

# T = tokens, D = hidden width, V = vocabulary

GATE_LOSS = 6.0
"""Nats per token. ln(262,144) is 12.5, what random weights reach; Gemma 3 270M reaches 2.3 on the
sentence, and 6.4 where BOS is missing."""

LEAST_PARAMETERS, PARAMETERS_A_BYTE = 1 << 20, 2
"""Weights that a config may describe whatever the files hold, and for each of their bytes: 4 bits are the fewest."""


@dataclass(frozen=True)
class Vocabulary:
    """What a base makes of texts before its weights: tokenizer, chat template, and the ids of BOS and pad."""

    tokenizer: Tokenizer
    chat: Chat | None
    bos_id: int | None
    pad_id: int


@dataclass(frozen=True)
class Base(Vocabulary):
    """A loaded base: `body` is the text model without its language-model head, frozen, in evaluation mode.

    `quantization` says how its layers are stored: none, 4bit or 8bit. `gate_loss` is None where the gate was off.
    """

    source: Source
    layout: Layout
    checkpoint: Checkpoint
    body: "PreTrainedModel"
    quantization: str
    gate_loss: float | None = None

    @property
    def family(self) -> Family:
        return self.layout.family

    @property
    def hidden(self) -> int:
        """Hidden width D."""
        return int(self.body.config.hidden_size)

    def lm_head_rows(self, token_ids: list[int]) -> Tensor:
        """Rows of the language model's head for these ids, shape (len(token_ids), D), float32 on the CPU."""
        return _lm_head(self)[token_ids].float().cpu()


def load_base(
    source: Source,
    *,
    dtype: torch.dtype,
    device: torch.device,
    attention: str,
    quantization: str = NONE,
    gate: bool = True,
) -> Base:
    """Load body and tokenizer, and prove them: the body is the text model of the checkpoint, whole, and with `gate` it
    predicts one ordinary sentence far better than chance.

    `quantization` packs the linear layers that adapters can stand beside into 4 or 8 bits; the rest keeps `dtype`.
    Raises ModelError, saying which check failed; ConfigError for an attention kernel that is wrong for the family; what
    `quantization_of` and `check_bitsandbytes` raise.
    """
    layout = layout_of(source.config, where=str(source.directory))
    check_kernel(layout.family, attention)
    quantization = quantization_of(quantization, source.config, where=str(source.directory))
    if quantization != NONE:
        check_bitsandbytes(quantization, device=device, dtype=dtype)
    config = read_text_config(source)
    vocabulary = read_vocabulary(source, config, fluent=gate)  # before the weights, which take longer
    checkpoint = read_checkpoint(source.directory)
    packed = _packing(config, layout.family, quantization, dtype=dtype, device=device)
    body = load_body(source, config, checkpoint, dtype=dtype, attention=attention, **packed)
    body.requires_grad_(False).eval()
    if quantization == NONE:  # else it is packed on its way to the device
        nn.Module.to(body, device)
    elif quantization == FOUR_BIT:
        keep_trainable_on_cpu(body)
    base = Base(
        **vars(vocabulary),
        source=source,
        layout=layout,
        checkpoint=checkpoint,
        body=body,
        quantization=quantization,
    )
    return replace(base, gate_loss=_gate(base)) if gate else base


def read_vocabulary(source: Source, config: "PreTrainedConfig", *, fluent: bool) -> Vocabulary:
    """Tokenizer and chat template of a model directory, proved as `check_tokenizer` says; `config` is the text model's.

    Raises ModelError where they are absent, damaged or another model's.
    """
    tokenizer = read_tokenizer(source.directory)
    bos_id = _bos_id(source, layout_of(source.config, where=str(source.directory)).family, config)
    check_tokenizer(tokenizer, bos_id=bos_id, embeddings=config.vocab_size, directory=source.directory, fluent=fluent)
    return Vocabulary(tokenizer, read_chat(source.directory), bos_id, pad_id(config, tokenizer))


def read_text_config(source: Source) -> "PreTrainedConfig":
    """The text model's config, every default filled in. Raises ModelError where it cannot be used."""
    return text_config(source.config, where=str(source.directory))


def _packing(
    config: "PreTrainedConfig", family: Family, quantization: str, *, dtype: torch.dtype, device: torch.device
) -> dict[str, Any]:
    """What transformers must be told to load a quantised base; nothing for one that is none.

    Linear layers that no adapter stands beside, such as routers and projections of embeddings, are small and are kept,
    and so are those that cannot be packed. Raises ConfigError where none would be left.
    """
    if quantization == NONE:
        return {}
    options: dict[str, Any] = {"device_map": {"": device}}
    if not hasattr(config, "quantization_config"):  # else it is stored so
        from transformers import AutoModel

        with torch.device("meta"):
            modules = AutoModel.from_config(config).named_modules()
        linear = {name: layer for name, layer in modules if isinstance(layer, nn.Linear)}
        keep = [n for n, layer in linear.items() if not (n.endswith(family.linear) and packs(layer, quantization))]
        if len(keep) == len(linear):
            raise ConfigError([f"{quantization}: no linear layer is a multiple of {BLOCK} wide"], where=KEY)
        options["quantization_config"] = bitsandbytes_config(quantization, dtype=dtype, keep=keep)
    return options


def load_body(
    source: Source,
    config: "PreTrainedConfig",
    checkpoint: Checkpoint,
    *,
    dtype: torch.dtype,
    attention: str,
    **packing: Any,
) -> "PreTrainedModel":
    """The text model from the checkpoint's tensors below its prefix. Raises ModelError unless they fit exactly."""
    from transformers import AutoModel

    _require_plausible(config, checkpoint, source)
    try:
        with _quiet_transformers():
            body, report = AutoModel.from_pretrained(
                source.directory,
                config=config,
                key_mapping={f"^{re.escape(checkpoint.prefix)}": ""},
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # `_check_report` refuses them, by name
                local_files_only=True,
                trust_remote_code=False,
                use_safetensors=True,
                dtype=dtype,
                attn_implementation=attention,
                **packing,
            )
    except Exception as error:  # transformers raises of every kind for a config and weights that do not fit
        if ran_out(error):
            raise
        raise ModelError(
            f"the weights cannot be loaded: {_short(error)}",
            where=str(source.directory),
            hint="fetch the model again; config.json and weights must belong together",
        ) from error
    _check_report(report, source)
    return body  # type: ignore[no-any-return]


def _require_plausible(config: "PreTrainedConfig", checkpoint: Checkpoint, source: Source) -> None:
    """Raises ModelError for a config of a model far larger than the weight files, before memory is taken for it."""
    from transformers import AutoModel

    try:
        with torch.device("meta"):
            described = sum(
                parameter.numel() for parameter in AutoModel.from_config(copy.deepcopy(config)).parameters()
            )
    except Exception as error:  # modules raise of every kind for senseless shapes
        what = f"config.json cannot be used: {_short(error)}"
        raise ModelError(what, where=f"{source.directory}/config.json") from error
    stored_bytes = sum(path.stat().st_size for path in set(checkpoint.files.values()))
    if described > LEAST_PARAMETERS + PARAMETERS_A_BYTE * stored_bytes:
        raise ModelError(
            f"config.json describes {described:,} parameters, and the weight files have {stored_bytes:,} bytes",
            where=str(source.directory),
            hint="use a checkpoint that matches its config.json",
        )


def _short(error: Exception) -> str:
    return textwrap.shorten(str(error) or type(error).__name__, 200)


@contextlib.contextmanager
def _quiet_transformers() -> Iterator[None]:
    """Without progress bar and load report: `_check_report` says what matters in it. Both are put back afterwards."""
    from transformers.utils import logging

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def _bos_id(source: Source, family: Family, config: "PreTrainedConfig") -> int | None:
    """Id of BOS, None for a family without. Raises ModelError where the config lacks it."""
    if not family.has_bos:
        return None
    if config.bos_token_id is None:
        where = f"{source.directory}/config.json"
        raise ModelError(f"no bos_token_id, and {family.title} needs BOS before every text", where=where)
    return int(config.bos_token_id)


def pad_id(config: "PreTrainedConfig", tokenizer: Tokenizer) -> int:
    """The pad token of a text config; where it has none or EOS serves as such, the first control token that is no BOS
    or EOS, else the first such id.

    A control token stands for no text, and transformers pools the last token that is not the pad.
    """
    eos = config.eos_token_id
    taken = {config.bos_token_id, *(eos if isinstance(eos, list) else [eos])}
    pad = config.pad_token_id
    if isinstance(pad, int) and pad >= 0 and pad not in taken and tokenizer.id_to_token(pad) is not None:
        return pad
    added = tokenizer.get_added_tokens_decoder()
    control = sorted(i for i, token in added.items() if token.special)
    return next(i for i in itertools.chain(control, itertools.count()) if i not in taken)


def _check_report(report: dict[str, Any], source: Source) -> None:
    """No tensor of the body may be missing from the checkpoint, and none but heads and towers may be left over."""
    extra = [name for name in report["unexpected_keys"] if not (TOWERS | HEADS) & set(name.split("."))]
    for kind, names in (
        ("missing from", report["missing_keys"]),
        ("not used from", extra),
        ("of another shape in", [name for name, *_ in report["mismatched_keys"]]),
    ):
        if names:
            raise ModelError(
                f"{len(names)} tensors are {kind} the checkpoint, so the model would not be the one it claims to be: "
                + listed(sorted(names), 3),
                where=str(source.directory),
                hint="use a checkpoint that matches its config.json",
            )


def _gate(base: Base) -> float:
    """The loss of one ordinary sentence, as a text of its own or, where that is less, repeated as a chat's answer.

    Instruction-tuned models expect no text outside of a chat. Raises ModelError where it is not far under ln(V).
    """
    loss = language_model_loss(base)
    if base.chat and not loss < GATE_LOSS:
        loss = language_model_loss(base, behind=base.chat.around(f"Repeat this sentence: {ENGLISH}"))
    if not loss < GATE_LOSS:
        raise ModelError(
            f"the base predicts an ordinary sentence with a loss of {loss:.2f} nats a token (limit {GATE_LOSS}; "
            f"random weights reach {math.log(base.body.config.vocab_size):.1f})",
            where=str(base.source.directory),
            hint="weights or tokenizer do not belong together; model.load_gate: off only for models meant to be random",
        )
    return loss


@torch.inference_mode()
def language_model_loss(base: Base, *, behind: str = "") -> float:
    """Mean loss per token, in nats, of the base as a language model on one ordinary English sentence `behind` a text.

    The logits are computed where the body is, in the number format of the head, so that a head of gigabytes is not
    copied into float32.
    """
    before, ids = (base.tokenizer.encode(text, add_special_tokens=False).ids for text in (behind, ENGLISH))
    if base.bos_id is not None and before[:1] != [base.bos_id]:
        before = [base.bos_id, *before]
    device = next(base.body.parameters()).device
    ids_T = torch.tensor([*before, *ids], device=device)
    first = max(len(before), 1)  # without anything before it the sentence's first token is only read
    hidden_TD = base.body(input_ids=ids_T[None], use_cache=False).last_hidden_state[0, first - 1 : -1]
    head_VD = _lm_head(base).to(device)
    logits_TV = (hidden_TD.to(head_VD.dtype) @ head_VD.T).float()
    cap = getattr(base.body.config, "final_logit_softcapping", None)
    if cap is not None:
        logits_TV = cap * torch.tanh(logits_TV / cap)
    return float(nn.functional.cross_entropy(logits_TV, ids_T[first:]))


def _lm_head(base: Base) -> Tensor:
    """The language model's head, (V, D), as it is: the embedding where they are tied, else the tensor on disk."""
    if base.body.config.tie_word_embeddings and base.source.config.get("tie_word_embeddings", True):
        return base.body.get_input_embeddings().get_parameter("weight").detach()
    name = base.checkpoint.lm_head()
    if name is None:
        raise ModelError(
            "the checkpoint has no lm_head.weight, which the load gate and head.init: words need",
            where=str(base.source.directory),
        )
    return base.checkpoint.tensor(name)
