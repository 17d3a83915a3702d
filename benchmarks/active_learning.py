"""Accuracy against labels bought, for each strategy of `annotate next`: a simulation on rows whose labels are known.

    python benchmarks/active_learning.py --data DIR --sets zh_ewect_usual,en_tweeteval_emotion --out FILE.jsonl
        [--model BASE] [--seeds 3] [--strategies random,entropy,margin,diverse] [--pool 3000] [--round 200]
        [--rounds 8] [--test-rows 2000] [--workers 4] [--seconds S] [--set KEY=VALUE]…

A set is a folder of DIR with train.csv and test.csv. A curve is a set, a seed and a strategy: the seed draws the pool
and the first rows, the same for every strategy. A round trains a fresh adapter for two passes on all rows bought so
far, scores the test rows with the model of the last step, and buys the next by the strategy. Nothing is held out: the
labels counted are all that were bought.

A finished round is a line of FILE.jsonl. With the same FILE a later call goes on where this one ended; after
`--seconds` no round is begun. Curves run in processes of their own, all curves of a seed before those of the next.
`benchmarks/active_learning_figure.py FILE.jsonl` makes the page and the picture.
"""

import argparse
import contextlib
import copy
import functools
import json
import multiprocessing
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tonetune.annotate.next import STRATEGIES, Pool, choose
from tonetune.data.cleaning import clean_text
from tonetune.data.duplicates import drop_repeats, first_by_hash, text_key
from tonetune.data.example import Example
from tonetune.data.split_files import read_labelled
from tonetune.rundir import append_jsonl, read_jsonl

# N = rows, C = labels

EPOCHS = "train.epochs=2"


@dataclass(frozen=True)
class Settings:
    """What all curves share; `deadline` is a time.time() after which no round begins."""

    data: Path
    out: Path
    model: str
    pool: int
    round: int
    rounds: int
    test_rows: int
    overrides: tuple[str, ...]
    deadline: float = float("inf")
    threads: int = 1

    def as_dict(self) -> dict[str, Any]:
        """What a round depends on beside its curve: only rounds of equal settings make a curve."""
        sizes = {"pool": self.pool, "round": self.round, "test_limit": self.test_rows}
        return {"model": Path(self.model).name, **sizes, "settings": [EPOCHS, *self.overrides]}


@dataclass(frozen=True)
class Curve:
    dataset: str
    seed: int
    strategy: str

    def as_dict(self) -> dict[str, Any]:
        return {"set": self.dataset, "seed": self.seed, "strategy": self.strategy}


class Bench:
    """A set on the device, and the base that every round of it starts from."""

    def __init__(self, settings: Settings, dataset: str) -> None:
        import torch

        from tonetune.api.rows import rules_of
        from tonetune.api.setup import Placement, choose_prompt, load_placed
        from tonetune.config import load_config
        from tonetune.labels import LabelSet
        from tonetune.model.adapters import target_names
        from tonetune.model.source import find_base

        torch.set_num_threads(settings.threads)
        overrides = [f"model.base={json.dumps(settings.model)}", EPOCHS, *settings.overrides]
        self.config = load_config(None, overrides=overrides)
        rules = rules_of(self.config)
        test = first_by_hash(read_distinct(settings.data / dataset / "test.csv", rules), settings.test_rows)
        held_out = {text_key(example.text) for example in test}
        rows = read_distinct(settings.data / dataset / "train.csv", rules)
        self.rows = [example for example in rows if text_key(example.text) not in held_out]
        self.labels = LabelSet.from_values(example.label for example in self.rows)
        source = find_base(settings.model)
        self.placement = Placement.choose(self.config, source, num_labels=len(self.labels))
        how = {"quantization": self.config.model.quantization, "gate": self.config.model.load_gate}
        self.base = load_placed(source, self.placement, **how)
        texts = [example.text for example in self.rows]
        self.prompt = choose_prompt(self.config, self.base, self.labels, texts, num_turns=1)
        self.targets = target_names(self.base.body, self.base.family, self.config.lora.targets)
        self.ids = self.prompt.tokenizer.encode(texts).ids
        self.gold = self._gold(self.rows)
        self.test_ids = self.prompt.tokenizer.encode([example.text for example in test]).ids
        self.test_gold = self._gold(test)

    def _gold(self, examples: Sequence[Example]) -> NDArray[np.int64]:
        return np.array([self.labels.index(e.label, origin=e.origin) for e in examples], dtype=np.int64)

    def fit(self, rows: NDArray[np.int64], *, seed: int) -> Any:
        """A scorer trained on `rows` as `tonetune train` trains, from the base and for all passes."""
        import torch

        from tonetune.api.setup import build_classifier
        from tonetune.evaluation.predict import Scorer
        from tonetune.model.adapters import LORAPLUS_RATIO, inject_lora
        from tonetune.training.loop import Plan, steps_for, train
        from tonetune.training.weights import balanced

        base = replace(self.base, body=copy.deepcopy(self.base.body))
        init = self.config.head.init if self.prompt.words else "random"
        classifier = build_classifier(self.config, base, self.labels, self.prompt, init=init)
        lora, settings = self.config.lora, self.config.train
        torch.manual_seed(seed)
        how = {"rank": lora.rank, "alpha": lora.alpha, "dropout": lora.dropout, "variant": lora.variant}
        inject_lora(classifier, self.targets, **how)
        budget = self.placement.micro_batch_tokens.value
        scorer = Scorer(classifier, self.prompt.tokenizer, budget, self.placement.call_tokens)
        gold = self.gold[rows]
        num_steps = steps_for(len(rows), epochs=settings.epochs, batch=settings.batch)
        plan = Plan(
            num_steps=num_steps,
            batch=settings.batch,
            learning_rate=settings.learning_rate,
            rate_ratio=LORAPLUS_RATIO if lora.variant == "loraplus" else 1.0,
            schedule=settings.schedule,
            warmup_steps=round(settings.warmup * num_steps),
            weight_decay=settings.weight_decay,
            clip=settings.clip,
            evaluate_every=num_steps,
            patience=None,
            select_by="accuracy",
            budget_tokens=budget,
            call_tokens=self.placement.call_tokens,
            class_weights=balanced(gold, len(self.labels)) if settings.class_weights == "balanced" else None,
        )
        store, rng = scorer.store([self.ids[i] for i in rows]), np.random.default_rng(seed)
        for _ in train(classifier, store, gold, plan, evaluate=lambda: {"accuracy": 0.0}, rng=rng):
            pass
        return scorer

    def buy(self, scorer: Any, rest: NDArray[np.int64], curve: Curve, count: int, number: int) -> NDArray[np.int64]:
        """The `count` rows of `rest` to label after round `number`."""
        from tonetune.evaluation.calibration import softmax

        probs_NC = softmax(scorer.logits([self.ids[i] for i in rest]), 1.0)
        pool = Pool(probs_NC, lambda chosen: scorer.states([self.ids[i] for i in rest[chosen]]))
        rng = np.random.default_rng([curve.seed, sorted(STRATEGIES).index(curve.strategy), number])
        return rest[choose(pool, strategy=curve.strategy, count=count, rng=rng)]


def read_distinct(path: Path, rules: Sequence[str]) -> list[Example]:
    """The labelled rows of a file, cleaned, each text once, none of a text with several labels."""
    examples = [e for e in read_labelled([path], text="auto", label="auto") if e.labels]
    cleaned = [replace(example, text=clean_text(example.text, rules)[0]) for example in examples]
    kept, _ = drop_repeats([example for example in cleaned if example.text])
    return kept


@functools.cache
def bench_of(settings: Settings, dataset: str) -> Bench:
    return Bench(settings, dataset)


def done_rounds(settings: Settings, curve: Curve) -> list[dict[str, Any]]:
    rows = read_jsonl(settings.out) if settings.out.exists() else []
    wanted = curve.as_dict() | settings.as_dict()
    return sorted(
        (row for row in rows if all(row[key] == value for key, value in wanted.items())), key=lambda row: row["labels"]
    )


def rounds(settings: Settings, curve: Curve) -> Iterator[dict[str, Any]]:
    """The rounds of a curve that are not in the file yet, one after the other, until the time is over."""
    from tonetune.evaluation.metrics import argmax_labels, point_metrics

    done = done_rounds(settings, curve)
    if len(done) == settings.rounds or time.time() >= settings.deadline:
        return
    bench = bench_of(settings, curve.dataset)
    drawn = np.random.default_rng([curve.seed, 1]).permutation(len(bench.rows))[: settings.pool]
    pool = np.sort(drawn).astype(np.int64)
    first = pool[np.random.default_rng(curve.seed).permutation(len(pool))[: settings.round]]
    bought = np.concatenate([first, *(np.array(row["next"], dtype=np.int64) for row in done)])
    for number in range(len(done) + 1, settings.rounds + 1):
        if time.time() >= settings.deadline:
            return
        began_s = time.perf_counter()
        scorer = bench.fit(bought, seed=curve.seed)
        trained_s = time.perf_counter()
        chosen = np.zeros(0, dtype=np.int64)
        scores = point_metrics(bench.test_gold, argmax_labels(scorer.logits(bench.test_ids)), len(bench.labels))
        if number < settings.rounds:
            chosen = bench.buy(scorer, np.setdiff1d(pool, bought), curve, settings.round, number)
        yield {
            **curve.as_dict(),
            **settings.as_dict(),
            "labels": len(bought),
            **scores,
            "test_rows": len(bench.test_gold),
            "device": device_name(bench.placement.device.value),
            "train_s": round(trained_s - began_s, 2),
            "score_s": round(time.perf_counter() - trained_s, 2),
            "next": chosen.tolist(),
        }
        bought = np.concatenate([bought, chosen])


def device_name(device: Any) -> str:
    import torch

    return torch.cuda.get_device_name(device) if device.type == "cuda" else str(device)


def run_curve(settings: Settings, curve: Curve) -> int:
    """Do what is left of a curve, writing each round; the number of rounds."""
    number = 0
    for row in rounds(settings, curve):
        with _WRITING:
            append_jsonl(settings.out, row)
        number += 1
    return number


_WRITING: contextlib.AbstractContextManager[Any] = contextlib.nullcontext()


def _share_lock(lock: Any) -> None:
    global _WRITING
    _WRITING = lock


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the sets")
    parser.add_argument("--sets", default="en_tweeteval_emotion,zh_ewect_usual")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--model", default="demo")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--strategies", default="random,entropy,margin,diverse")
    parser.add_argument("--pool", type=int, default=3000)
    parser.add_argument("--round", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--test-rows", type=int, default=2000)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no round after these")
    parser.add_argument("--set", dest="overrides", action="append", default=[])
    arguments = parser.parse_args()
    began_s = time.time()
    settings = Settings(
        data=arguments.data,
        out=arguments.out,
        model=arguments.model,
        pool=arguments.pool,
        round=arguments.round,
        rounds=arguments.rounds,
        test_rows=arguments.test_rows,
        overrides=tuple(arguments.overrides),
        deadline=began_s + arguments.seconds,
        threads=max(1, (os.cpu_count() or 1) // arguments.workers),
    )
    curves = [
        Curve(dataset, seed, strategy)
        for seed in range(arguments.seeds)
        for dataset in arguments.sets.split(",")
        for strategy in arguments.strategies.split(",")
    ]
    from tonetune.model.source import find_base

    find_base(arguments.model)  # a GGUF file is unpacked once, not by every worker
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(arguments.workers, context, _share_lock, (context.Lock(),)) as workers:
        waiting = {workers.submit(run_curve, settings, curve): curve for curve in curves}
        for future in as_completed(waiting):
            curve, all_rounds = waiting[future], done_rounds(settings, waiting[future])
            last = f", accuracy {all_rounds[-1]['accuracy']:.3f}" if all_rounds else ""
            print(
                f"{time.time() - began_s:5.0f} s  {curve.dataset} seed {curve.seed} {curve.strategy}: "
                f"{future.result()} rounds more, {len(all_rounds)} of {settings.rounds}{last}",
                flush=True,
            )


if __name__ == "__main__":
    main()
