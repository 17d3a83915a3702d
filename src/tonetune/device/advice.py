"""The rules of advice.yaml, judged over the facts of a machine: what was found, what it means, what to do."""

import functools
import importlib.resources
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ruamel.yaml import YAML

from tonetune.device.facts import Fact
from tonetune.device.wheels import in_range

VERDICTS = ("ready", "limited", "unable")  # the better first


@dataclass(frozen=True)
class Rule:
    """A row of advice.yaml. `verdict` is what the machine is where it applies: "ready", "limited" or "unable".

    `when` has for each fact a value, or one test of TESTS with its operand; all must hold. In `evidence`, `advice` and
    `command` {name} stands for a fact.
    """

    id: str
    verdict: str
    when: Mapping[str, Any]
    evidence: str
    advice: str
    command: str | None = None

    def applies(self, facts: Mapping[str, Fact]) -> bool:
        return all(holds(facts.get(name), test) for name, test in self.when.items())

    def filled(self, facts: Mapping[str, Fact]) -> dict[str, str | None]:
        """The row as advice about one machine."""
        texts = {"evidence": self.evidence, "advice": self.advice, "command": self.command}
        return {
            "id": self.id,
            "verdict": self.verdict,
            **{name: None if text is None else filled(text, facts) for name, text in texts.items()},
        }


TESTS: dict[str, Callable[[Any, Any], bool]] = {
    "not": lambda fact, value: fact is not None and fact != value,
    "in": lambda fact, values: fact in values,
    "given": lambda fact, given: (fact is not None) == given,
    "version": lambda fact, versions: isinstance(fact, str) and in_range(fact, versions),
    "below": lambda fact, limit: fact is not None and fact < limit,
    "above": lambda fact, limit: fact is not None and fact > limit,
    "matches": lambda fact, pattern: isinstance(fact, str) and re.search(pattern, fact, re.IGNORECASE) is not None,
    "any_of": lambda fact, values: isinstance(fact, list) and not set(fact).isdisjoint(values),
}


def holds(fact: Fact, test: Any) -> bool:
    """Whether a fact is the value, or passes the test. A fact that is not known passes none but `given: false`."""
    if not isinstance(test, dict):
        return bool(fact == test)
    return all(TESTS[name](fact, operand) for name, operand in test.items())


def filled(text: str, facts: Mapping[str, Fact]) -> str:
    """A text with the facts it names in their places."""
    return re.sub(r"\{([\w.]+)\}", lambda place: _spelled(facts.get(place[1])), text)


def _spelled(fact: Fact) -> str:
    if isinstance(fact, list):
        return ", ".join(fact)
    return "unknown" if fact is None else f"{fact:g}" if isinstance(fact, float) else str(fact)


@functools.cache
def rules() -> tuple[Rule, ...]:
    """Every rule, in the order of the file."""
    text = (importlib.resources.files(__package__) / "advice.yaml").read_text(encoding="utf-8")
    return tuple(Rule(**row) for row in YAML(typ="safe", pure=True).load(text))


def advise(facts: Mapping[str, Fact]) -> list[dict[str, str | None]]:
    """The advice of every rule that applies, what stops training first."""
    advice = [rule.filled(facts) for rule in rules() if rule.applies(facts)]
    return sorted(advice, key=lambda row: -VERDICTS.index(str(row["verdict"])))


def verdict_of(advice: list[dict[str, str | None]]) -> str:
    """The worst verdict of some advice, "ready" without any."""
    return max((str(row["verdict"]) for row in advice), key=VERDICTS.index, default=VERDICTS[0])
