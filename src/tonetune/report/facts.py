"""What the files of a run directory say, read once for the report and the model card."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tonetune.config import RunConfig, load_config
from tonetune.evaluation.paired import Paired
from tonetune.evaluation.predictions import said
from tonetune.evaluation.tally import BOOTSTRAP_SEED
from tonetune.evaluation.tasks import SINGLE_LABEL, task_of
from tonetune.labels import MULTI_LABEL, LabelSet
from tonetune.report.documents import Document, document, documents
from tonetune.report.results import headline, over_seeds
from tonetune.rundir import RunDir


@dataclass(frozen=True)
class RunFacts:
    """Documents of a run, as in its files; None where the run has not got that far, and no labels.

    A key that they lack is a DataError where it is asked for: the run is of another version.
    """

    run: RunDir
    record: dict[str, Any]
    labels: list[str]
    env: dict[str, Any] | None
    data: dict[str, Any] | None
    adapters: dict[str, Any] | None
    classifier: dict[str, Any] | None
    best: dict[str, Any] | None
    baselines: dict[str, Any] | None
    test: dict[str, Any] | None
    seeds: dict[str, Any] | None

    @classmethod
    def read(cls, run: RunDir) -> "RunFacts":
        """Read the run at `run`. Raises DataError where run.json is absent or a document is damaged."""

        def read(path: Path) -> Any:
            return document(path, inside=run.path)

        labels = read(run.labels)
        return cls(
            run=run,
            record=read(run.record),
            labels=labels["names"] if labels else [],
            env=read(run.env),
            data=read(run.data),
            adapters=read(run.adapters),
            classifier=read(run.adapter / "config.json"),
            best=read(run.best),
            baselines=read(run.evaluation("baselines") / "report.json"),
            test=read(run.evaluation("test") / "report.json"),
            seeds=read(run.seeds),
        )

    @property
    def name(self) -> str:
        return self.run.name

    @cached_property
    def config(self) -> RunConfig:
        """What the run was told. Raises ConfigError for a config that this version does not read."""
        return load_config(self.run.config)

    @property
    def label_index(self) -> Document:
        """The place of each label in the order of labels.json."""
        return Document({label: i for i, label in enumerate(self.labels)}, self.run.labels.name)

    @cached_property
    def against(self) -> dict[str, Paired]:
        """The tuned model against each baseline on the same test rows; nothing where predictions were not kept."""
        before, after = (self.rows(self.run.evaluation(name) / "predictions.jsonl") for name in ("baselines", "test"))
        if not (before and after):
            return {}
        task = task_of(MULTI_LABEL if "labels" in after[0] else SINGLE_LABEL, LabelSet(tuple(self.labels)))
        gold, tuned = task.numbered([row["gold"] for row in after]), task.numbered([said(row) for row in after])

        def test(method: str) -> Paired:
            rng = np.random.default_rng(BOOTSTRAP_SEED)
            return task.paired(gold, task.numbered([row[method] for row in before]), tuned, rng=rng)

        return {name: test(name) for name in before[0] if name not in ("text", "gold")}

    def rows(self, path: Path) -> list[Document]:
        """Rows of a JSON-lines file of the run, none where it is absent."""
        return documents(path, inside=self.run.path)

    def events(self, kind: str) -> list[Document]:
        """Events of one kind of metrics.jsonl, in order; none where training has not begun."""
        return [event for event in self.rows(self.run.metrics) if event["event"] == kind]

    @property
    def multi_label(self) -> bool:
        """Whether a text has any number of labels, as the test results say, or else the config."""
        return "thresholds" in self.test if self.test else self.config.data.task == MULTI_LABEL

    @property
    def prompt(self) -> dict[str, Any] | None:
        """Template, language and words; None where the run has none yet."""
        return self.record.get("prompt")

    @property
    def train(self) -> dict[str, Any] | None:
        """Seconds of the whole job, rates and memory of training; None before it ended."""
        return self.record.get("train")

    @property
    def headline(self) -> list[str]:
        """What came out, in sentences; none without test results."""
        if not (self.baselines and self.test):
            return []
        sentences = headline(self.baselines, self.test["tuned"], self.against)
        return [*sentences, over_seeds(self.seeds)] if self.seeds else sentences

    @property
    def cost(self) -> float | None:
        """What the whole job cost at the price of an hour, in its currency; None without a price or before the end."""
        price = self.config.run.price_per_hour
        return None if price is None or self.train is None else price * self.train["wall_s"] / 3600

    @property
    def cost_of_a_thousand(self) -> float | None:
        """What a thousand predictions cost at the rate of the test texts; None without a price or a rate."""
        price, rate = self.config.run.price_per_hour, (self.train or {}).get("predicted_per_s")
        return None if price is None or not rate else price / 3600 * 1000 / rate
