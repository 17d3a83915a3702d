"""Loading the body of a base model, and proving that its weights and tokenizer are what they should be."""

import contextlib
import itertools
import math
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError, safe_open
from tokenizers import Tokenizer
from torch import Tensor, nn

from tonetune.data.tokens import read_tokenizer
from tonetune.errors import ModelError
from tonetune.model.families import Family, family_of
from tonetune.model.source import WEIGHTS, Source, weight_map

if TYPE_CHECKING:
    from transformers import PreTrainedModel

# T = tokens, D = hidden width, V = vocabulary

GATE_SENTENCE = "The weather was cold and rainy, so we decided to stay at home and watch a film."
GATE_LOSS = 6.0
"""Nats per token. ln(262,144) is 12.5, what random weights reach; Gemma 3 270M reaches 2.3 on the
sentence, and 6.4 where BOS is missing."""


@dataclass(frozen=True)
class Base:
    """A loaded base: `body` is the text model without its language-model head, frozen, in evaluation mode."""

    source: Source
    family: Family
    body: "PreTrainedModel"
    tokenizer: Tokenizer
    bos_id: int | None
    pad_id: int
    gate_loss: float | None

    @property
    def hidden(self) -> int:
        """Hidden width D."""
        return int(self.body.config.hidden_size)

    def lm_head_rows(self, token_ids: list[int]) -> Tensor:
        """Rows of the language model's head for these ids, shape (len(token_ids), D), float32 on the CPU."""
        return _lm_head(self)[token_ids].float().cpu()


def load_base(source: Source, *, dtype: torch.dtype, device: torch.device, attention: str, gate: bool = True) -> Base:
    """Load body and tokenizer, and with `gate` prove them: no tensor missing, one-sentence loss far under ln(V).

    Raises ModelError, saying which check failed.
    """
    from huggingface_hub.errors import StrictDataclassError
    from transformers import AutoModel

    family = family_of(source.config, where=str(source.directory))
    tokenizer = read_tokenizer(source.directory)
    bos_id, pad_id = _special_ids(source, family, tokenizer)
    try:
        with _quiet_transformers():
            body, report = AutoModel.from_pretrained(
                source.directory,
                dtype=dtype,
                attn_implementation=attention,
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # `_check_report` refuses them, by name
                local_files_only=True,
            )
    except (OSError, ValueError, RuntimeError, KeyError, SafetensorError, StrictDataclassError) as error:
        reason = textwrap.shorten(str(error) or type(error).__name__, 200)
        raise ModelError(
            f"the weights cannot be loaded: {reason}",
            where=str(source.directory),
            hint="fetch the model again; config.json and weights must belong together",
        ) from error
    _check_report(report, source)
    body.requires_grad_(False).eval().to(device)
    base = Base(source, family, body, tokenizer, bos_id, pad_id, None)
    if not gate:
        return base
    loss = language_model_loss(base)
    if not loss < GATE_LOSS:
        raise ModelError(
            f"the base predicts an ordinary sentence with a loss of {loss:.2f} nats a token (limit {GATE_LOSS}; "
            f"random weights reach {math.log(base.body.config.vocab_size):.1f})",
            where=str(source.directory),
            hint="weights or tokenizer do not belong together; model.load_gate: off only for models meant to be random",
        )
    return Base(source, family, body, tokenizer, bos_id, pad_id, loss)


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


def _special_ids(source: Source, family: Family, tokenizer: Tokenizer) -> tuple[int | None, int]:
    """BOS and pad ids from config.json, checked against the tokenizer."""
    config, where = source.config, f"{source.directory}/config.json"
    size = config.get("vocab_size", 0)
    bos = config.get("bos_token_id") if family.has_bos else None
    if family.has_bos and bos is None:
        raise ModelError(f"no bos_token_id, and {family.name} needs BOS before every text", where=where)
    highest = max(tokenizer.get_vocab(with_added_tokens=True).values())
    if highest >= size:
        raise ModelError(
            f"the tokenizer has ids up to {highest} but the model only {size} embeddings",
            where=where,
            hint="tokenizer and weights come from different models",
        )
    return bos, pad_id(config)


def pad_id(config: dict[str, Any]) -> int:
    """The pad token of a config.json; where it has none or EOS serves as such, the first id that is no BOS or EOS."""
    eos = config.get("eos_token_id")
    taken = {config.get("bos_token_id"), *(eos if isinstance(eos, list) else [eos])}
    pad = config.get("pad_token_id")
    if isinstance(pad, int) and pad >= 0 and pad not in taken:
        return pad
    return next(i for i in itertools.count() if i not in taken)


def _check_report(report: dict[str, object], source: Source) -> None:
    """Nothing of the body may be missing from the checkpoint, and nothing but the head may be left over."""
    missing = sorted(map(str, report["missing_keys"]))  # type: ignore[call-overload]
    extra = sorted(k for k in map(str, report["unexpected_keys"]) if not k.startswith("lm_head."))  # type: ignore[call-overload]
    wrong = sorted(map(str, report["mismatched_keys"]))  # type: ignore[call-overload]
    for kind, names in (("missing from", missing), ("not used from", extra), ("of another shape in", wrong)):
        if names:
            raise ModelError(
                f"{len(names)} tensors are {kind} the checkpoint, so the model would not be the one it claims to be: "
                + ", ".join(names[:3]),
                where=str(source.directory),
                hint="use a text-only checkpoint that matches its config.json",
            )


@torch.inference_mode()
def language_model_loss(base: Base) -> float:
    """Mean loss per token, in nats, of the base as a language model on one ordinary English sentence.

    The logits are computed where the body is, in the number format of the head, so that a head of gigabytes is not
    copied into float32.
    """
    ids = base.tokenizer.encode(GATE_SENTENCE, add_special_tokens=False).ids
    ids = ([] if base.bos_id is None else [base.bos_id]) + ids
    device = next(base.body.parameters()).device
    ids_T = torch.tensor(ids, device=device)
    hidden_TD = base.body(input_ids=ids_T[None], use_cache=False).last_hidden_state[0, :-1]
    head_VD = _lm_head(base).to(device)
    logits_TV = (hidden_TD.to(head_VD.dtype) @ head_VD.T).float()
    cap = _logit_cap(base.source.config)
    if cap is not None:
        logits_TV = cap * torch.tanh(logits_TV / cap)
    return float(nn.functional.cross_entropy(logits_TV, ids_T[1:]))


def _logit_cap(config: dict[str, object]) -> float | None:
    """The soft cap on the language model's logits (Gemma 2), or None."""
    cap = config.get("final_logit_softcapping")
    return float(cap) if isinstance(cap, (int, float)) else None


def _lm_head(base: Base) -> Tensor:
    """The language model's head, (V, D), as it is: the embedding where they are tied, else lm_head.weight on disk."""
    if base.body.config.tie_word_embeddings:
        return base.body.get_input_embeddings().get_parameter("weight").detach()
    directory = base.source.directory
    name = "lm_head.weight"
    shards = weight_map(directory) or {name: WEIGHTS[0]}
    file = directory / shards.get(name, min(shards.values()))  # without it any file lacks it
    with safe_open(file, framework="pt") as tensors:
        if name not in tensors.keys():  # noqa: SIM118  (safe_open is no mapping)
            raise ModelError(
                f"the checkpoint has no {name}, which the load gate and head.init: words need", where=str(file)
            )
        head_VD: Tensor = tensors.get_tensor(name)
    return head_VD
