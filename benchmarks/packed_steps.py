"""What a training step could cost: texts laid end to end without pads, steps recorded as graphs, layers compiled.

    python benchmarks/packed_steps.py [--shape gemma-3-270m] [--batch 32] [--steps 150] [--compiled] [--check]

Nothing of this is in the product yet; docs/lab.md has the figures. Trains a body of full size with random weights on
one card, texts of 40 tokens on average, and prints texts/s, the median over the later half of the steps, and the
slowest step, in which layers are compiled and shapes recorded. `--check` compares gradients with float32 instead.
"""

import argparse
import json
import math
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tonetune.data.batches import TokenStore
from tonetune.model.adapters import inject_lora, target_names
from tonetune.model.classifier import Classifier
from tonetune.training.gradient import accumulate

if TYPE_CHECKING:
    from transformers import PreTrainedModel

# S = tokens of a pack, B = texts, T = places of a text, H = heads, G = heads of keys and values, K = width of a head

KERNEL = "tonetune_packed"


class Places(NamedTuple):
    """Where the tokens of a pack stand in a padded batch, and back.

    `padded_S` (int64) is the place b · T + t of each token, `packed_BT` the token at each place. At least the pack's
    last token belongs to no text, and every text has a pad behind it: these stand at each other's places, and since
    nothing that counts looks at them, their gradient is zero.
    """

    padded_S: Tensor
    packed_BT: Tensor


class _Move(torch.autograd.Function):
    """Rows of a matrix in another order; gradients go back by the inverse order, which adds nothing up."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, order: Tensor, inverse: Tensor) -> Tensor:
        ctx.save_for_backward(inverse)
        return rows.index_select(0, order)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        (inverse,) = ctx.saved_tensors
        return grads[0].index_select(0, inverse), None, None


def attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: None,
    *,
    places: Places,
    scaling: float,
    softcap: float | None = None,
    sliding_window: int | None = None,
    **more: Any,
) -> tuple[Tensor, None]:
    """Causal attention of each text to itself, (1, S, H, K), from queries (1, H, S, K), keys and values (1, G, S, K).

    With `softcap` scores are capped · tanh(score / cap) before the softmax, as Gemma 2 does.
    """
    num_texts, longest = places.packed_BT.shape

    def apart(packed: Tensor) -> Tensor:
        _, heads, tokens, width = packed.shape
        rows = packed[0].transpose(0, 1).reshape(tokens, heads * width)
        rows = _Move.apply(rows, places.packed_BT.flatten(), places.padded_S)
        return rows.view(num_texts, longest, heads, width).transpose(1, 2)

    query, key, value = apart(query), apart(key), apart(value)
    heads, width = query.shape[1], value.shape[-1]
    window = None if sliding_window is None or longest <= sliding_window else sliding_window
    if softcap is None:
        mask = None if window is None else _sees(longest, window, query.device)
        mixed = nn.functional.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, is_causal=mask is None, scale=scaling, enable_gqa=heads != key.shape[1]
        )
    else:
        mixed = _capped(query, key, value, _sees(longest, window, query.device), scaling, softcap)
    rows = mixed.transpose(1, 2).reshape(num_texts * longest, heads * width)
    rows = _Move.apply(rows, places.padded_S, places.packed_BT.flatten())
    return rows.view(1, -1, heads, width), None


def _sees(longest: int, window: int | None, device: torch.device) -> Tensor:
    """Which earlier tokens a token sees, bool of shape (T, T): all, or the last `window`, itself among them."""
    at = torch.arange(longest, device=device)
    behind = at[:, None] - at
    return (behind >= 0) if window is None else (behind >= 0) & (behind < window)


def _capped(query: Tensor, key: Tensor, value: Tensor, sees_TT: Tensor, scaling: float, cap: float) -> Tensor:
    """Attention with capped scores, shape (B, H, T, K); the softmax in float32."""
    texts, heads, longest, width = query.shape
    groups = query.view(texts, key.shape[1], -1, longest, width)
    scores = groups @ key[:, :, None].transpose(3, 4) * scaling
    scores = cap * torch.tanh(scores / cap)
    scores = scores.masked_fill(~sees_TT, torch.finfo(scores.dtype).min)
    weights = torch.softmax(scores, dim=-1, dtype=torch.float32).to(query.dtype)
    return (weights @ value[:, :, None]).view(texts, heads, longest, width)


@contextmanager
def packed_attention(body: "PreTrainedModel") -> Iterator[None]:
    """Inside, the body computes what `packed_states` asks of it; its own attention is put back afterwards."""
    from transformers import AttentionInterface

    AttentionInterface.register(KERNEL, attention)
    before = body.config._attn_implementation
    body.set_attn_implementation(KERNEL)
    try:
        yield
    finally:
        body.set_attn_implementation(before)


def packed_states(body: "PreTrainedModel", ids_S: Tensor, positions_S: Tensor, places: Places) -> Tensor:
    """Hidden states of a pack's tokens, shape (S, D), inside of `packed_attention`."""
    hidden: Tensor = body(
        input_ids=ids_S[None],
        position_ids=positions_S[None],
        attention_mask=None,  # nor does transformers make one for a kernel that it has no masks for
        use_cache=False,
        places=places,
    ).last_hidden_state[0]
    return hidden


class PackShape(NamedTuple):
    """Room for `num_texts` texts of fewer than `longest` tokens, fewer than `num_tokens` in all, laid end to end."""

    num_tokens: int
    num_texts: int
    longest: int

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many indices each field of a `Pack` has."""
        tokens, texts, places = self.num_tokens, self.num_texts, self.num_texts * self.longest
        return tokens, tokens, tokens, places, texts, texts


class Pack(NamedTuple):
    """Texts laid end to end, as int64 indices: of each token its id's place in the store, its position in its text and
    its place in a padded batch; of each padded place its token; of each text its last token and its row of the store.

    The last token, at least, belongs to no text, and the row of a text that is not there is -1.
    """

    source_S: Tensor
    position_S: Tensor
    padded_S: Tensor
    packed_BT: Tensor
    last_B: Tensor
    row_B: Tensor

    @classmethod
    def of(cls, indices: Tensor, shape: PackShape) -> "Pack":
        """Views of one tensor that holds all fields, as `pack` fills it."""
        fields = list(torch.split(indices, shape.sizes))
        fields[3] = fields[3].view(shape.num_texts, shape.longest)
        return cls(*fields)


def pack(store: TokenStore, rows: NDArray[np.int64], shape: PackShape) -> Tensor:
    """The indices of a `Pack` of `rows`, in one tensor on the host. Raises ValueError where they have no room."""
    lengths = store.lengths[rows]
    begins = np.cumsum(store.lengths) - store.lengths
    total, longest = int(lengths.sum()), int(lengths.max())
    if total >= shape.num_tokens or longest >= shape.longest or len(rows) > shape.num_texts:
        raise ValueError(f"{len(rows)} texts, {total} tokens, the longest of {longest}, have no room in {shape}")
    ends = np.cumsum(lengths)
    position = np.arange(total) - np.repeat(ends - lengths, lengths)
    padded = np.repeat(np.arange(len(rows)) * shape.longest, lengths) + position
    nobody = shape.num_tokens - 1  # the token that stands for every pad; its own place is the first pad
    packed = np.full(shape.num_texts * shape.longest, nobody, dtype=np.int64)
    packed[padded] = np.arange(total)
    spare, absent = shape.num_tokens - total, shape.num_texts - len(rows)
    return torch.from_numpy(
        np.concatenate(
            [
                np.pad(np.repeat(begins[rows], lengths) + position, (0, spare)),
                np.pad(position, (0, spare)),
                np.pad(padded, (0, spare), constant_values=lengths[0]),
                packed,
                np.pad(ends - 1, (0, absent), constant_values=nobody),
                np.pad(rows, (0, absent), constant_values=-1),
            ]
        )
    )


TOKENS, PLACES = 128, 32
"""Shapes are multiples of these, so that a few of them serve all batches; for large batches, of a tenth of one."""


class PackedGradient:
    """Adds the gradient of the mean loss over rows to the parameters, as `accumulate` does, without padding.

    With `graphs` every shape of a pack is recorded at its first use, which takes a second, and replayed afterwards: the
    host then starts one graph instead of thousands of kernels. With `compiled` the decoder layers are compiled for
    it, once for all shapes.
    """

    def __init__(
        self,
        classifier: Classifier,
        store: TokenStore,
        loss_B: Callable[[Tensor, Tensor], Tensor],
        *,
        batch: int,
        graphs: bool,
        compiled: bool,
    ) -> None:
        self.classifier = classifier
        self.store = store
        self.loss_B = loss_B
        self.batch = batch
        self.graphs = graphs
        self.parameters = list(classifier.trainable().values())
        self.share = torch.zeros((), device=classifier.device)
        mean = int(store.lengths.mean() * batch)
        self.step = max(TOKENS, 1 << max(mean // 10, 1).bit_length() - 1)
        self._recorded: dict[PackShape, tuple[torch.cuda.CUDAGraph, Tensor, Tensor]] = {}
        self._pool: tuple[int, int] | None = None
        self._compiled = [torch.compile(layer._call_impl, dynamic=True) for layer in self.layers] if compiled else []

    @property
    def layers(self) -> list[nn.Module]:
        """The decoder layers."""
        return list(self.classifier.model.get_submodule("layers").children())

    def __call__(self, rows: NDArray[np.int64], *, budget_tokens: int) -> Tensor:
        """The mean loss over `rows`, on the device, in packs of at most about `budget_tokens` tokens."""
        for parameter in self.parameters:
            if parameter.grad is None:  # graphs add to gradients where these are
                parameter.grad = torch.zeros_like(parameter)
        self.share.fill_(1.0 / len(rows))
        total = torch.zeros((), device=self.share.device)
        for part in packs(self.store.lengths[rows], budget_tokens):
            total += self._add(rows[part])
        return total

    def _add(self, rows: NDArray[np.int64]) -> Tensor:
        lengths = self.store.lengths[rows]
        shape = PackShape(above(int(lengths.sum()), self.step), self.batch, above(int(lengths.max()), PLACES))
        indices = pack(self.store, rows, shape)
        if not self.graphs:
            with self._packed():
                return self._loss(Pack.of(indices.to(self.store.device), shape))
        if shape not in self._recorded:
            self._recorded[shape] = self._record(indices.to(self.store.device), shape)
        graph, input_indices, loss = self._recorded[shape]
        input_indices.copy_(indices, non_blocking=True)
        graph.replay()
        return loss

    def _loss(self, pack: Pack) -> Tensor:
        """The loss of a pack's texts, each by its share of the batch; its gradient is added to the parameters'."""
        places = Places(pack.padded_S, pack.packed_BT)
        states_SD = packed_states(
            self.classifier.model, self.store._flat[pack.source_S].long(), pack.position_S, places
        )
        logits_BC = self.classifier.score(states_SD[pack.last_B].float())
        there_B = pack.row_B >= 0
        loss = (self.loss_B(logits_BC, pack.row_B.clamp(min=0)) * there_B).sum() * self.share
        loss.backward()
        return loss.detach()

    def _record(self, indices: Tensor, shape: PackShape) -> tuple[torch.cuda.CUDAGraph, Tensor, Tensor]:
        fields = Pack.of(indices, shape)
        gradients = [torch.clone(p.grad) for p in self.parameters if p.grad is not None]
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with self._packed(), torch.cuda.stream(stream):
            self._loss(fields)  # kernels are chosen and compiled outside of the recording
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with self._packed(), torch.cuda.graph(graph, pool=self._pool):
            loss = self._loss(fields)
        self._pool = self._pool or graph.pool()
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            assert parameter.grad is not None
            parameter.grad.copy_(gradient)
        return graph, indices, loss

    @contextmanager
    def _packed(self) -> Iterator[None]:
        """Inside, the body takes packs, and its layers are the compiled ones."""
        with ExitStack() as stack:
            stack.enter_context(packed_attention(self.classifier.model))
            for layer, compiled in zip(self.layers, self._compiled, strict=False):
                stack.callback(setattr, layer, "_compiled_call_impl", layer._compiled_call_impl)
                layer._compiled_call_impl = compiled
            yield


def above(number: int, step: int) -> int:
    """The least multiple of `step` that is larger than `number`."""
    return (number // step + 1) * step


def packs(lengths: NDArray[np.int64], budget_tokens: int) -> list[NDArray[np.int64]]:
    """Indices of texts, in order, cut where a pack would hold over `budget_tokens`; a longer text stands alone."""
    parts: list[list[int]] = [[]]
    held = 0
    for index, length in enumerate(lengths.tolist()):
        if parts[-1] and held + length > budget_tokens:
            parts.append([])
            held = 0
        parts[-1].append(index)
        held += length
    return [np.array(part, dtype=np.int64) for part in parts]


def cross_entropy(gold_N: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
    """The loss of each text from its logits and its row."""
    return lambda logits_BC, row_B: nn.functional.cross_entropy(logits_BC, gold_N[row_B], reduction="none")


LABELS = 4


def made(shape: str, dtype: torch.dtype, texts: int) -> tuple[Classifier, TokenStore, Tensor]:
    """A classifier with a new adapter, texts and their labels, the same at every call, on the card."""
    from full_size import body_of

    device = torch.device("cuda")
    torch.manual_seed(0)
    body, family = body_of(shape, device, torch.float32)
    classifier = Classifier(body.to(dtype), torch.randn(LABELS, body.config.hidden_size) * 0.02)
    inject_lora(classifier, target_names(body, family, "attention"), rank=8, alpha=16.0, dropout=0.0, variant="lora")
    for name, parameter in classifier.named_parameters():
        if ".lora_B." in name:
            nn.init.normal_(parameter, std=0.02)
    rng = np.random.default_rng(0)
    lengths = np.clip(np.exp(rng.normal(math.log(36), 0.55, texts)).astype(int), 4, 128)
    ids = [rng.integers(5, 200_000, size=n).astype(np.int32) for n in lengths]
    gold_N = torch.from_numpy(rng.integers(0, LABELS, texts)).to(device)
    return classifier.train(), TokenStore(ids, pad_id=0, device=device), gold_N


def rate(shape: str, *, batch: int, steps: int, compiled: bool) -> dict[str, Any]:
    """Train for some steps; the figures."""
    classifier, store, gold_N = made(shape, torch.bfloat16, batch * steps)
    gradient = PackedGradient(classifier, store, cross_entropy(gold_N), batch=batch, graphs=True, compiled=compiled)
    optimizer = torch.optim.AdamW(gradient.parameters, lr=1e-5, fused=True)
    seconds, losses = [], []
    for step in range(steps):
        began = time.perf_counter()
        loss = gradient(np.arange(step * batch, (step + 1) * batch), budget_tokens=8192)
        nn.utils.clip_grad_norm_(gradient.parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)  # graphs know gradients by their place
        losses.append(float(loss))
        seconds.append(time.perf_counter() - began)
    return {
        "shape": shape,
        "compiled": compiled,
        "texts_per_s": round(batch / float(np.median(seconds[steps // 2 :])), 1),
        "slowest_step_s": round(max(seconds), 1),
        "shapes": len(gradient._recorded),
        "peak_gib": round(torch.cuda.max_memory_allocated() / 2**30, 2),
        "losses": [round(loss, 3) for loss in (losses[0], losses[-1])],
    }


def check(shape: str, *, batch: int, compiled: bool) -> dict[str, Any]:
    """How far gradients of eight batches in bfloat16 are from those in float32, as parts of their norm."""
    batches = [np.arange(i * batch, (i + 1) * batch) for i in range(8)]

    def of(classifier: Classifier) -> Tensor:
        found = torch.cat([p.grad.flatten().double() for p in classifier.trainable().values() if p.grad is not None])
        for parameter in classifier.trainable().values():
            parameter.grad.zero_()  # type: ignore[union-attr]
        return found

    def eager(classifier: Classifier, store: TokenStore, gold_N: Tensor) -> list[Tensor]:
        gradients = []
        for rows in batches:
            accumulate(classifier, store, gold_N, rows, budget_tokens=8192, call_tokens=4096)
            gradients.append(of(classifier))
        return gradients

    expected = eager(*made(shape, torch.float32, 8 * batch))
    torch.cuda.empty_cache()
    classifier, store, gold_N = made(shape, torch.bfloat16, 8 * batch)
    found = {"eager": eager(classifier, store, gold_N), "recorded": []}
    gradient = PackedGradient(classifier, store, cross_entropy(gold_N), batch=batch, graphs=True, compiled=compiled)
    for rows in batches:
        gradient(rows, budget_tokens=8192)
        found["recorded"].append(of(classifier))
    errors = {
        name: [round(float((a - b).norm() / b.norm()), 4) for a, b in zip(gradients, expected, strict=True)]
        for name, gradients in found.items()
    }
    return {"shape": shape, "compiled": compiled, "error": errors}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", default="gemma-3-270m")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--compiled", action="store_true", help="compile the decoder layers")
    parser.add_argument("--check", action="store_true", help="compare gradients instead")
    arguments = parser.parse_args()
    how = {"batch": arguments.batch, "compiled": arguments.compiled}
    print(
        json.dumps(
            check(arguments.shape, **how) if arguments.check else rate(arguments.shape, steps=arguments.steps, **how)
        )
    )


if __name__ == "__main__":
    main()
