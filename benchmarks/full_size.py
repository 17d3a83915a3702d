"""Trains bodies of full size with random weights, as tonetune trains, and says how fast and in how much memory.

Usage: python benchmarks/full_size.py [--shapes gemma-4-E2B,gemma-2-2b] [--steps 50] [--out FILE.json]

Texts are random token ids of 40 tokens on average (8 to 128), 32 to a step; LoRA of rank 8 on q, v and o; bfloat16 on a
GPU. The first steps, which warm up, are left out of the rate. Ends with exit code 1 where a gradient is not finite.
"""

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tonetune.api.setup import versions
from tonetune.data.batches import TokenStore
from tonetune.device.choose import call_tokens, choose_device, peak_memory_mib
from tonetune.device.fit import USUAL_TOKENS
from tonetune.model.adapters import inject_lora, target_names
from tonetune.model.classifier import Classifier
from tonetune.model.families import family_of
from tonetune.training.loop import Plan, StepEvent, train

FIVE_TO_ONE = ["sliding_attention"] * 5 + ["full_attention"]
SHAPES: dict[str, dict[str, Any]] = {
    "gemma-3-270m": {
        "model_type": "gemma3_text",
        "hidden_size": 640,
        "num_hidden_layers": 18,
        "intermediate_size": 2048,
    }
    | {"num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 256, "vocab_size": 262144},
    "gemma-3-1b": {"model_type": "gemma3_text", "hidden_size": 1152, "num_hidden_layers": 26, "intermediate_size": 6912}
    | {"num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 256, "vocab_size": 262144},
    "gemma-2-2b": {"model_type": "gemma2", "hidden_size": 2304, "num_hidden_layers": 26, "intermediate_size": 9216}
    | {"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "vocab_size": 256000},
    "gemma-4-E2B": {
        "model_type": "gemma4_text",
        "hidden_size": 1536,
        "num_hidden_layers": 35,
        "intermediate_size": 6144,
    }
    | {"num_attention_heads": 8, "num_key_value_heads": 1, "head_dim": 256, "global_head_dim": 512}
    | {"num_kv_shared_layers": 20, "use_double_wide_mlp": True, "hidden_size_per_layer_input": 256}
    | {"layer_types": (["sliding_attention"] * 4 + ["full_attention"]) * 7, "final_logit_softcapping": 30.0},
}
WARMUP_STEPS = 5
LABELS = 4


def body_of(name: str, device: torch.device, dtype: torch.dtype) -> Any:
    """A body of this shape with random weights, on its device, and its family."""
    from transformers import AutoConfig, AutoModel

    values = dict(SHAPES[name])
    family = family_of(values, where=name)
    config = AutoConfig.for_model(values.pop("model_type"), **values)
    with torch.device(device):
        body = AutoModel.from_config(config, dtype=dtype, attn_implementation=family.kernel)
    return body.requires_grad_(False).eval(), family


def measure(name: str, *, steps: int, batch: int) -> dict[str, Any]:
    """Train for some steps; the figures."""
    device = choose_device().value
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    body, family = body_of(name, device, dtype)
    classifier = Classifier(body, torch.randn(LABELS, body.config.hidden_size) * 0.02)
    inject_lora(classifier, target_names(body, family, "attention"), rank=8, alpha=16.0, dropout=0.0, variant="lora")
    lengths = np.clip(rng.exponential(40, size=batch * steps), 8, 128).astype(int)
    ids = [rng.integers(10, body.config.vocab_size, size=n).astype(np.int32) for n in lengths]
    plan = Plan(
        num_steps=steps,
        batch=batch,
        learning_rate=5e-4,
        rate_ratio=1.0,
        schedule="cosine",
        warmup_steps=2,
        weight_decay=0.01,
        clip=1.0,
        evaluate_every=steps + 1,
        patience=None,
        select_by="loss",
        budget_tokens=USUAL_TOKENS[device.type].value,
        call_tokens=call_tokens(device),
    )
    events = train(
        classifier,
        TokenStore(ids, pad_id=0, device=device),
        rng.integers(0, LABELS, size=len(ids)),
        plan,
        evaluate=lambda: {"loss": 0.0},
        rng=rng,
    )
    texts, began, norms = 0, 0.0, []
    for event in events:
        if not isinstance(event, StepEvent):
            continue
        norms.append(event.grad_norm)
        if event.step == WARMUP_STEPS:
            began = time.perf_counter()
        elif event.step > WARMUP_STEPS:
            texts += event.num_texts
    rate = texts / (time.perf_counter() - began)
    return {
        "shape": name,
        "parameters": sum(p.numel() for p in body.parameters() if not p.requires_grad),
        "steps": len(norms),
        "finite": all(map(math.isfinite, norms)),
        "texts_per_s": round(rate, 1),
        "peak_memory_mib": round(peak_memory_mib(device)),
        "card": torch.cuda.get_device_name(device) if device.type == "cuda" else None,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", default="gemma-4-E2B,gemma-2-2b")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    results = []
    for name in arguments.shapes.split(","):
        results.append(measure(name, steps=arguments.steps, batch=arguments.batch))
        print(json.dumps(results[-1]))
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
    if arguments.out:
        arguments.out.write_text(json.dumps({"versions": versions(), "results": results}, indent=2))
    if not all(result["finite"] for result in results):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
