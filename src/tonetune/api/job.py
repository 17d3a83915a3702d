"""One training run from prepared rows to the written report: its stages, in order, each writing its files."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tonetune.api.results import Labelled, Scored, baseline_report, evaluate_split, run_summary, write_evaluation
from tonetune.api.resume import meaning
from tonetune.api.setup import (
    Placement,
    Prompt,
    Split,
    Start,
    build_classifier,
    token_facts,
    tokenize_splits,
    truncation_note,
)
from tonetune.api.track import Track
from tonetune.api.trackers import Trackers
from tonetune.api.zero_shot import ZeroShot
from tonetune.config import RunConfig, to_yaml
from tonetune.data.prepare import Prepared
from tonetune.data.splits import SPLITS, TEST, TRAIN, VALIDATION
from tonetune.device.choose import dtype_name, peak_memory_mib
from tonetune.device.memory import memory_errors
from tonetune.device.watch import Watch, beside_the_bar
from tonetune.evaluation.predict import Scorer
from tonetune.evaluation.tasks import Task, task_of
from tonetune.interrupt import Stops
from tonetune.labels import MULTI_LABEL, LabelSet
from tonetune.model.adapters import LORAPLUS_RATIO, inject_lora, settle
from tonetune.model.artefact import Lora, Manifest, fingerprint, save_artefact
from tonetune.model.audit import audit
from tonetune.model.histograms import weight_histograms
from tonetune.model.loading import Base
from tonetune.progress import Bar, Reporter
from tonetune.report.results import shown_metrics
from tonetune.report.terminal import adapted_table, results_table
from tonetune.rundir import (
    RunDir,
    append_jsonl,
    copy_whole,
    read_json,
    read_jsonl,
    whole_file,
    write_json,
    write_jsonl,
)
from tonetune.training.checkpoints import Checkpoint
from tonetune.training.keeper import CheckpointKeeper, Policy
from tonetune.training.loop import MemoryEvent, Plan, SkippedEvent, StepEvent, ValidationEvent, steps_for
from tonetune.training.loop import train as train_loop
from tonetune.training.weights import balanced

Validated = Callable[[int, Mapping[str, float]], None]
"""Hears the step and the scores of a validation."""


def unheard(step: int, scores: Mapping[str, float]) -> None:
    """Nobody listens."""


def gradient_figures(events: Sequence[Mapping[str, Any]]) -> dict[str, float | int]:
    """Mean and largest gradient norm, before clipping, over the steps in the events of metrics.jsonl; steps skipped."""
    norms = [event["grad_norm"] for event in events if event["event"] == "step"]
    return {
        "grad_norm_mean": float(np.mean(norms)) if norms else 0.0,
        "grad_norm_max": max(norms, default=0.0),
        "skipped_steps": sum(event["event"] == "skipped" for event in events),
    }


class Job:
    """One run from loaded rows to written report; the methods below `work` are its stages, in order."""

    def __init__(
        self,
        config: RunConfig,
        prepared: Prepared,
        start: Start,
        placement: Placement,
        run: RunDir,
        reporter: Reporter,
        on_validation: Validated = unheard,
        *,
        baselines_of: RunDir | None = None,
        tracked: Trackers | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        """`baselines_of` is a run on the same rows whose baselines hold here too.

        Training begins where `checkpoint` stood, if there is one, in the run that wrote it.
        """
        self.config = config
        self.prepared = prepared
        self.start = start
        self.placement = placement
        self.run = run
        self.reporter = reporter
        self.on_validation = on_validation
        self.baselines_of = baselines_of
        self.checkpoint = checkpoint
        if checkpoint is not None:  # the time until then counts
            self.start = replace(start, began_s=start.began_s - checkpoint.state["aside"]["figures"]["wall_s"])
        self.tracked = tracked or Trackers(reporter)
        self.labels: LabelSet = prepared.label_set
        one = "binary" if len(self.labels) == 2 else "single-label"
        self.task_name = MULTI_LABEL if prepared.multi_label else one
        self.task = task_of(self.task_name, self.labels)
        self.head_init = config.head.init if start.prompt.words else "random"
        self.fresh: dict[str, torch.Tensor] = {}
        self.predicted_per_s: float | None = None
        self.latest_logits = np.zeros((0, len(self.labels)), dtype=np.float32)

    def work(self) -> dict[str, Any]:
        """Do it all; return the document that `train --json` prints.

        Without test rows its "baselines" and "tuned" are None: there is nothing to compare on.
        """
        base, prompt = self.start.base, self.start.prompt
        with memory_errors("tokenizing"):
            splits = self.tokenize(prompt)
        self.announce(base, prompt, splits)
        with memory_errors("baselines"):
            baselines = self.baselines(base, prompt, splits) if TEST in splits else None
        scorer = self.adapt(base, prompt)
        with memory_errors("training"):
            figures = self.tune(scorer, splits)
            lora = self.settle(scorer)
        with memory_errors("evaluation"):
            fitted, tuned = self.evaluate(scorer, splits)
        self.save(scorer, base, prompt, lora, fitted)
        figures["predicted_per_s"] = self.predicted_per_s
        figures["wall_s"] = self.track.wall_s
        self.run.update_record(train=figures)
        if baselines is not None and tuned is not None:
            self.reporter.say(results_table(baselines, tuned))
        return run_summary(self.run)

    def tokenize(self, prompt: Prompt) -> dict[str, Split]:
        splits = tokenize_splits(self.prepared, self.task, prompt, self.placement.device.value)
        write_json(self.run.data, read_json(self.run.data) | {"tokens": token_facts(splits)})
        return splits

    def announce(self, base: Base, prompt: Prompt, splits: Mapping[str, Split]) -> None:
        """Say and store what was decided."""
        self.run.update_record(
            prompt=prompt.as_dict(self.labels),
            head_init=self.head_init,
            quantization=base.quantization,
            load_gate={"mode": self.config.model.load_gate, "loss_nats_per_token": base.gate_loss},
        )
        columns = self.prepared.columns
        found = {"data.text": columns.text, "data.label": columns.label} if columns else {}
        data = {key: names[0] if len(names) == 1 else names for key, names in found.items()}
        words = {"prompt.words": prompt.words.as_dict(self.labels)} if prompt.words else {}
        self.resolved = self.config.with_values(
            {
                **self.placement.resolved(),
                "model.revision": base.source.revision,
                "model.quantization": base.quantization,
                **data,
                **words,
                "data.labels": self.labels.names,
                "data.task": self.task_name,
                "prompt.template": prompt.template.source,
                "head.init": self.head_init,
            }
        )
        with whole_file(self.run.config) as file:
            file.write(to_yaml(self.resolved))
        counts = ", ".join(f"{len(split.examples):,} {name}" for name, split in splits.items())
        self.reporter.say(f"{self.config.model.base}: {base.family.title} on {self.placement.device.value}, "
                          f"{dtype_name(self.placement.dtype.value)}")  # fmt: skip
        self.reporter.say(f"{counts}; labels {', '.join(self.labels.names)}")
        if cut := truncation_note(token_facts(splits), self.config.data.max_length):
            self.reporter.say(cut)
        if prompt.words:
            self.reporter.say(f"prompt {prompt.template.source!r} with the words {', '.join(prompt.words.words)}")
        for note in filter(None, (prompt.note, *self.prepared.warnings)):
            self.reporter.say(f"note: {note}")

    def baselines(self, base: Base, prompt: Prompt, splits: Mapping[str, Split]) -> dict[str, Any]:
        """Score what a tuned model must beat; the zero-shot classifier is the one whose head starts from the words."""
        directory = self.run.evaluation("baselines")
        if self.baselines_of is not None:
            for name in ("predictions.jsonl", "report.json"):
                copy_whole(self.baselines_of.evaluation("baselines") / name, directory / name)
        if (directory / "report.json").is_file():  # of that run, or of this one before it was ended
            known: dict[str, Any] = read_json(directory / "report.json")
            return known
        zero_shot: dict[str, Scored] = {}
        chosen: dict[str, Any] = {}
        if prompt.words:
            scorer = self.scorer(base, prompt, init="words")
            asked = ZeroShot(self.task_name, base, prompt, prompt.words, scorer, self.reporter)
            zero_shot, chosen = asked.scores(splits)
        report, rows = baseline_report(
            self.task,
            **{name: Labelled(splits[name].texts, splits[name].gold) for name in SPLITS},
            language=prompt.language,
            zero_shot=zero_shot,
            note=prompt.note,
        )
        write_jsonl(directory / "predictions.jsonl", rows)
        write_json(directory / "report.json", report | chosen)
        return report

    def scorer(self, base: Base, prompt: Prompt, *, init: str) -> Scorer:
        classifier = build_classifier(self.config, base, self.labels, prompt, init=init)
        return Scorer(classifier, prompt.tokenizer, self.placement.micro_batch_tokens.value, self.placement.call_tokens)

    def adapt(self, base: Base, prompt: Prompt) -> Scorer:
        """The classifier to tune, with its adapter, and the audit of what was adapted."""
        scorer = self.scorer(base, prompt, init=self.head_init)
        lora = self.config.lora
        torch.manual_seed(self.config.train.seed)
        layers = inject_lora(
            scorer.classifier,
            self.start.targets,
            rank=lora.rank,
            alpha=lora.alpha,
            dropout=lora.dropout,
            variant=lora.variant,
        )
        self.fresh = scorer.classifier.snapshot()
        document = audit(scorer.classifier, base.family, layers, targets=lora.targets)
        write_json(self.run.adapters, document)
        self.reporter.say(adapted_table(document))
        self.reporter.say(
            f"LoRA rank {lora.rank} on {len(layers)} layers: "
            f"{document['trainable']:,} parameters to train beside {document['total']:,} frozen ones"
        )
        if self.placement.checkpointing.value:
            scorer.classifier.recompute_activations()
        return scorer

    def tune(self, scorer: Scorer, splits: Mapping[str, Split]) -> dict[str, Any]:
        """Train, follow, and leave the best state in the classifier; returns the figures of run.json's "train"."""
        plan = self.plan(splits[TRAIN].gold)
        validation, settings = splits[VALIDATION], self.config.run
        self.track = Track(
            self.run,
            scorer.classifier.snapshot(),
            began_s=self.start.began_s,
            peak_mib=lambda: peak_memory_mib(self.placement.device.value) - self.start.memory_before_mib,
            num_labels=len(self.labels),
        )
        self.device = Watch(self.placement.device.value, self.record_watch, began_s=self.start.began_s)
        with Stops() as stops:
            keeper = CheckpointKeeper(
                self.run.checkpoints,
                Policy(settings.checkpoint_steps, settings.checkpoint_minutes, settings.keep_checkpoints),
                self.track,
                stops,
                identity={**read_json(self.run.record)["identity"], "config": meaning(self.resolved)},
                start=self.checkpoint,
            )
            events = train_loop(
                scorer.classifier,
                splits[TRAIN].store,
                splits[TRAIN].gold,
                plan,
                evaluate=lambda: self.validate(scorer, validation),
                rng=np.random.default_rng(self.config.train.seed),
                keeper=keeper,
            )
            try:
                with self.device, self.reporter.bar("training", plan.num_steps) as bar:
                    bar.advance(self.checkpoint.step if self.checkpoint else 0)
                    for event in events:
                        self.device.flush()
                        self.hear(event, scorer, validation, bar)
            except KeyboardInterrupt:
                if not stops.at_once:
                    self.reporter.say("stopping: a checkpoint is written; Ctrl-C again leaves at once")
                    keeper.save()
                raise
        scorer.classifier.restore(self.track.best)
        weights = weight_histograms(self.fresh, scorer.classifier.snapshot())
        write_json(self.run.adapters, {**read_json(self.run.adapters), "weights": weights})
        return self.track.figures() | {
            "epochs": keeper.at.step / math.ceil(len(splits[TRAIN].examples) / plan.batch),
            "steps": keeper.at.step,
            **gradient_figures(read_jsonl(self.run.metrics)),
        }

    def hear(
        self,
        event: StepEvent | SkippedEvent | ValidationEvent | MemoryEvent,
        scorer: Scorer,
        validation: Split,
        bar: Bar,
    ) -> None:
        """Record what the loop did."""
        if isinstance(event, ValidationEvent):
            self.track.watch.skip()
            if event.improved:
                self.track.improved(scorer.classifier.snapshot(), self.latest_logits)
            self.record_validation(event, validation)
        elif isinstance(event, MemoryEvent):
            self.record_memory(event)
        elif isinstance(event, SkippedEvent):
            self.track.watch.skip()
            self.record_skipped(event)
            bar.advance()
        else:
            self.track.step(event)
            self.record_step(event)
            bar.advance(note=self.note(event))

    def settle(self, scorer: Scorer) -> Lora:
        """The trained adapter in the form that is evaluated and saved."""
        lora = self.config.lora
        rank, alpha, variant = settle(scorer.classifier, rank=lora.rank, alpha=lora.alpha, variant=lora.variant)
        return Lora(rank, alpha, lora.dropout, variant, tuple(self.start.targets))

    def plan(self, gold: NDArray[np.int64]) -> Plan:
        """The section `train` in optimiser steps, for the labels of the training texts."""
        settings = self.config.train
        num_steps = steps_for(len(gold), epochs=settings.epochs, batch=settings.batch)
        return Plan(
            num_steps=num_steps,
            batch=settings.batch,
            learning_rate=settings.learning_rate,
            rate_ratio=LORAPLUS_RATIO if self.config.lora.variant == "loraplus" else 1.0,
            schedule=settings.schedule,
            warmup_steps=round(settings.warmup * num_steps),
            weight_decay=settings.weight_decay,
            clip=settings.clip,
            evaluate_every=settings.evaluate_every,
            patience=settings.patience,
            select_by=self.config.evaluate.select_by,
            budget_tokens=self.placement.micro_batch_tokens.value,
            call_tokens=self.placement.call_tokens,
            class_weights=balanced(gold, len(self.labels)) if settings.class_weights == "balanced" else None,
        )

    def validate(self, scorer: Scorer, split: Split) -> dict[str, float]:
        """The metrics of the task, and the mean loss, of the classifier as it is."""
        self.latest_logits = scorer.score(split.store)
        return self.task.validation_scores(self.latest_logits, split.gold)

    def record_step(self, event: StepEvent) -> None:
        """One line of metrics.jsonl, which a repeat reproduces, and one of watch.jsonl, which it does not."""
        figures = {"learning_rate": event.learning_rate, "loss": event.loss, "grad_norm": event.grad_norm}
        append_jsonl(self.run.metrics, {"event": "step", "step": event.step, **figures})
        self.tracked.log("train", {**figures, "texts_per_s": self.track.watch.texts_per_s}, step=event.step)
        append_jsonl(
            self.run.watch,
            {
                "step": event.step,
                "time_s": round(self.track.wall_s, 3),
                "texts_per_s": round(self.track.watch.texts_per_s, 2),
                "tokens_per_s": round(self.track.watch.tokens_per_s, 1),
                "memory_mib": round(peak_memory_mib(self.placement.device.value)),
            },
        )

    def record_validation(self, event: ValidationEvent, split: Split) -> None:
        """One line of metrics.jsonl, the predictions, and best.json where the model got better."""
        task = self.task.decided(self.latest_logits, split.gold)
        rows = task.rows(split.texts, task.probs(self.latest_logits), split.gold)
        write_jsonl(self.run.evaluation(VALIDATION) / f"step-{event.step}.jsonl", rows)
        append_jsonl(self.run.metrics, {"event": "validation", "step": event.step, **event.scores})
        self.tracked.log("validation", event.scores, step=event.step)
        metric = self.config.evaluate.select_by
        if event.improved:
            write_json(self.run.best, {"step": event.step, "metric": metric, "value": event.scores[metric]})
        best = ", the best so far" if event.improved else ""
        shown = shown_metrics(event.scores)[:2]
        self.reporter.say(
            f"step {event.step}: validation {', '.join(f'{name} {event.scores[key]:.3f}' for key, name in shown)}{best}"
        )
        self.on_validation(event.step, event.scores)

    def record_memory(self, event: MemoryEvent) -> None:
        """Say and store that memory ran out; what a repeat on another machine may not do is in watch.jsonl."""
        change = {"step": event.step, "event": "out_of_memory", "micro_batch_tokens": event.budget_tokens}
        append_jsonl(self.run.watch, change)
        self.reporter.say(
            f"step {event.step}: out of memory; it is done again, and from now on micro-batches hold at most "
            f"{event.budget_tokens:,} tokens"
        )

    def record_skipped(self, event: SkippedEvent) -> None:
        """Say and store that a step changed nothing; a repeat skips it too."""
        skipped = {"event": "skipped", "step": event.step, "loss": event.loss, "not_finite": event.culprit}
        append_jsonl(self.run.metrics, skipped)
        self.reporter.say(
            f"warning: step {event.step} is skipped: its gradient is not finite, and the first that is not is "
            f"{event.culprit}"
        )

    def record_watch(self, row: Mapping[str, Any]) -> None:
        """One line of watch.jsonl about the device."""
        append_jsonl(self.run.watch, row)

    def note(self, event: StepEvent) -> str:
        """What stands beside the bar, what matters most first."""
        rate = f"{self.track.watch.texts_per_s:.1f} texts/s"
        return "  ".join((f"loss {event.loss:.3f}", rate, *beside_the_bar(self.device.latest)))

    def evaluate(self, scorer: Scorer, splits: Mapping[str, Split]) -> tuple[Task, dict[str, Any] | None]:
        """Calibrate on validation, then evaluate the held-out splits; the test result is None without one.

        The best model's validation logits are those of its validation; the test rows are read here, once.
        """
        best = self.track.best_logits
        fitted = self.task.calibrated(best, splits[VALIDATION].gold)
        scored = {VALIDATION: best}
        if TEST in splits:
            with self.reporter.bar("test", len(splits[TEST].examples)) as bar:
                began_s = time.perf_counter()
                scored[TEST] = scorer.score(splits[TEST].store, done=bar.advance)
                self.predicted_per_s = len(scored[TEST]) / (time.perf_counter() - began_s)
        results: dict[str, dict[str, Any]] = {}
        for name, logits in scored.items():
            split = splits[name]
            report, rows = evaluate_split(
                fitted, name, texts=split.texts, logits=logits, gold=split.gold, truncated=split.truncated
            )
            for alarm in report["alarms"]:
                self.reporter.say(f"warning, {name}: {alarm['what']}; {alarm['advice']}")
            write_evaluation(self.run, name, report, rows)
            results[name] = report["tuned"]
            self.tracked.log(f"best_{name}", report["tuned"])
        return fitted, results.get(TEST)

    def save(self, scorer: Scorer, base: Base, prompt: Prompt, lora: Lora, fitted: Task) -> None:
        """Write adapter/."""
        manifest = Manifest(
            base=base.source.name,
            revision=base.source.revision,
            base_fingerprint=fingerprint(base.source),
            task=self.task_name,
            labels=self.labels.names,
            label_sha256=self.labels.hash,
            language=prompt.language,
            template=prompt.template.source,
            words=prompt.words.words if prompt.words else None,
            max_length=self.config.data.max_length,
            cleaning=self.prepared.cleaning,
            lora=lora,
            attention=self.placement.attention.value,
            dtype=dtype_name(self.placement.dtype.value),
            quantization=base.quantization,
            load_gate=self.config.model.load_gate,
            temperature=fitted.temperature,
            thresholds=fitted.thresholds,
        )
        save_artefact(self.run.adapter, scorer.classifier.snapshot(), base, prompt.tokenizer, manifest)
