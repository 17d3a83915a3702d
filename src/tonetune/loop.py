"""The annotation loop: train on what is labelled, ask for the most useful texts, take the answers, and again."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tonetune.api.annotate import add_answers, ask, write_questions
from tonetune.api.train import train
from tonetune.config import RunConfig
from tonetune.errors import UsageError
from tonetune.labels import MULTI_LABEL
from tonetune.progress import Reporter
from tonetune.rundir import read_json, write_json

STATE = "loop.json"


@dataclass(frozen=True)
class Loop:
    """A directory of rounds. Round n trains on labelled-n.jsonl and asks questions-n.json (and .jsonl for doccano)."""

    path: Path

    def labelled(self, number: int) -> Path:
        return self.path / f"labelled-{number}.jsonl"

    def questions(self, number: int) -> Path:
        return self.path / f"questions-{number}.json"

    @property
    def rounds(self) -> list[dict[str, Any]]:
        """The document of each finished round; empty for a loop that is new."""
        return list(read_json(self.path / STATE)["rounds"]) if (self.path / STATE).is_file() else []

    def step(
        self,
        answers: Sequence[str | Path],
        *,
        config: RunConfig,
        pool: Sequence[str | Path],
        strategy: str,
        count: int,
        reporter: Reporter | None = None,
    ) -> dict[str, Any]:
        """One round: add `answers` to the labelled rows, train on them, ask for `count` more texts of `pool`.

        Answers are labelled rows, in the columns that the config names, or exports of an annotation tool; those of the
        first round are the rows there are to begin with. Of several text columns each is a turn, one a line in a
        question. Returns the document of `annotate loop --json`. A round that fails is not counted, and can be taken
        again. Raises UsageError without answers and for several label columns, and what training and asking raise.
        """
        if not isinstance(config.data.label, str):
            raise UsageError("the loop takes one label a text", where="data.label", hint="name one column")
        if config.data.task == MULTI_LABEL:
            raise UsageError("the loop asks for one label a text", where="data.task", hint="leave data.task out")
        rounds = self.rounds
        number = len(rounds) + 1
        if not answers:
            wanted = f"the answers to {self.questions(number - 1)}" if rounds else "labelled rows to begin with"
            raise UsageError(f"round {number} needs {wanted}", where="annotate loop", hint="--answers FILE")
        before = [self.labelled(number - 1)] if rounds else []
        text, label, num_labelled = add_answers(
            self.labelled(number), before, answers, text=config.data.text, label=config.data.label
        )
        rows = {"data.train": str(self.labelled(number)), "data.text": text, "data.label": label}
        run = train(config.with_values({**rows, "run.dir": str(self.path / "runs")}), reporter=reporter)
        questions = ask(
            run.path,
            pool,
            strategy=strategy,
            count=count,
            rng=np.random.default_rng([config.train.seed, number]),
            text=config.data.text,
            asked=[self.labelled(number), *map(self.questions, range(1, number))],
            reporter=reporter,
        )
        for path in (self.questions(number), self.questions(number).with_suffix(".jsonl")):
            write_questions(path, questions)
        done = {
            "round": number,
            "labelled": num_labelled,
            "run": str(run.path),
            "tuned": run.summary["tuned"],
            "rows": len(questions),
            "path": str(self.questions(number)),
        }
        write_json(self.path / STATE, {"rounds": [*rounds, done]})
        return done
