"""What the files of a run directory say, read once for the report and the model card."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tonetune.config import RunConfig, load_config
from tonetune.evaluation.paired import Paired, paired
from tonetune.evaluation.tally import BOOTSTRAP_SEED
from tonetune.report.results import headline, over_seeds
from tonetune.rundir import RunDir, read_json, read_jsonl


@dataclass(frozen=True)
class RunFacts:
    """Documents of a run, as in its files; None where the run has not got that far."""

    name: str
    config: RunConfig
    record: dict[str, Any]
    labels: list[str]
    env: dict[str, Any] | None
    data: dict[str, Any] | None
    adapters: dict[str, Any] | None
    classifier: dict[str, Any] | None
    best: dict[str, Any] | None
    baselines: dict[str, Any] | None
    test: dict[str, Any] | None
    against: dict[str, Paired]
    seeds: dict[str, Any] | None

    @classmethod
    def read(cls, run: RunDir) -> "RunFacts":
        """Read the run at `run`.

        Raises DataError where run.json or labels.json is absent or a document is damaged, ConfigError for config.yaml.
        """
        return cls(
            name=run.path.name,
            config=load_config(run.config),
            record=read_json(run.record),
            labels=read_json(run.labels)["names"],
            env=_read_if_there(run.env),
            data=_read_if_there(run.data),
            adapters=_read_if_there(run.adapters),
            classifier=_read_if_there(run.adapter / "config.json"),
            best=_read_if_there(run.best),
            baselines=_read_if_there(run.evaluation("baselines") / "report.json"),
            test=_read_if_there(run.evaluation("test") / "report.json"),
            against=_against(run),
            seeds=_read_if_there(run.seeds),
        )

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


def events(path: Path, kind: str) -> list[dict[str, Any]]:
    """Events of one kind of metrics.jsonl, in order; none where training has not begun."""
    return [event for event in read_jsonl(path) if event["event"] == kind] if path.exists() else []


def _against(run: RunDir) -> dict[str, Paired]:
    """The tuned model against each baseline on the same test rows; nothing where predictions were not kept."""
    files = [run.evaluation(name) / "predictions.jsonl" for name in ("baselines", "test")]
    if not all(file.exists() for file in files):
        return {}
    before, after = map(read_jsonl, files)
    labels = read_json(run.labels)["names"]
    index = {label: i for i, label in enumerate(labels)}

    def column(rows: list[dict[str, Any]], name: str) -> NDArray[np.int64]:
        return np.array([index[row[name]] for row in rows], dtype=np.int64)

    gold, tuned = column(after, "gold"), column(after, "label")

    def test(method: str) -> Paired:
        rng = np.random.default_rng(BOOTSTRAP_SEED)
        return paired(gold, column(before, method), tuned, num_labels=len(labels), rng=rng)

    return {name: test(name) for name in before[0] if name not in ("text", "gold")}


def _read_if_there(path: Path) -> Any:
    return read_json(path) if path.exists() else None
