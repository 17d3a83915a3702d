"""The doctor: this machine as one document, with a verdict, what was measured, and what to do."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from tonetune import __version__
from tonetune.device.advice import advise, verdict_of
from tonetune.device.facts import Fact, facts_of
from tonetune.device.host import Ended, Host
from tonetune.device.machine import Machine, examine
from tonetune.device.redact import host_names, private_values, redacted, user_names
from tonetune.device.torch_build import torch_here

if TYPE_CHECKING:
    from tonetune.device.probes import ProbeResult

Selection = Literal["quick", "all", "none"]


@dataclass(frozen=True)
class Diagnosis:
    """What was found on a machine, and what follows. `verdict` is "ready", "limited" or "unable" (to train at all)."""

    machine: Machine
    probes: "Sequence[ProbeResult]"
    facts: dict[str, Fact]
    advice: list[dict[str, str | None]]

    @property
    def verdict(self) -> str:
        return verdict_of(self.advice)

    @property
    def summary(self) -> str:
        """One sentence: where training runs, or why it cannot."""
        device = self.machine.device
        if self.verdict == "unable":
            return f"training cannot run: {self.advice[0]['evidence']}"
        if device.vendor != "cpu":
            return f"training runs on {device.label}, {device.torch}"
        cards = self.facts["wheel.targets"]
        return "training runs on the processor" + (f", not on {cards}" if cards else "")

    def as_dict(self) -> dict[str, Any]:
        """The document that `tonetune doctor --json` prints."""
        machine, torch = self.machine, self.machine.torch
        return {
            "verdict": self.verdict,
            "summary": self.summary,
            "devices": [card.as_dict() for card in (*machine.cards, machine.processor)],
            "torch": {
                "status": torch.status,
                "version": torch.version,
                "backend": torch.backend,
                "hip": torch.hip,
                "cuda": torch.cuda,
                "archs": list(torch.archs),
                "kernels": list(torch.kernels),
                "error": torch.error,
                "fits": self.facts["wheel.fits"],
                "needed": self.facts["wheel.machine"],
                "command": self.facts["wheel.command"],
            },
            "probes": [probe.as_dict() for probe in self.probes],
            "advice": self.advice,
            "system": {
                "tonetune": __version__,
                "python": machine.python,
                "system": machine.system,
                "container": machine.container,
                "shared_memory_mib": machine.shared_memory_mib,
                "drivers": dict(machine.drivers),
                "packages": dict(machine.packages),
                "variables": dict(machine.variables),
            },
        }

    def report(self) -> dict[str, Any]:
        """The document and the facts behind it, without what names people, machines, cards or places."""
        document = {**self.as_dict(), "facts": self.facts}
        values = private_values(self.machine.variables)
        return redacted(document, users=user_names(), hosts=host_names(), values=values)  # type: ignore[no-any-return]


def known(results: "Mapping[str, ProbeResult]") -> Diagnosis:
    """What is known of this machine by looking, for a process that computes with torch: no program is started.

    `results` are those that probes found here before, by their ids; nothing is measured.
    """
    host = dataclasses.replace(Host.this(), run=lambda command, limit_s: Ended(None))
    facts = facts_of(machine := examine(host, torch_here()), {id: result.status for id, result in results.items()})
    return Diagnosis(machine, list(results.values()), facts, advise(facts))


def diagnose(probe: Selection, host: Host | None = None) -> Diagnosis:
    """Look at a machine, this one unless told otherwise, and measure what `probe` asks for.

    Nothing is measured where training cannot run anyway: what stops it would stop every probe.
    """
    machine = examine(host or Host.this())
    facts = facts_of(machine)
    advice = advise(facts)
    if probe == "none" or verdict_of(advice) == "unable":
        return Diagnosis(machine, (), facts, advice)
    from tonetune.device.probes import run_probes

    probes = run_probes(probe)
    facts = facts_of(machine, {result.id: result.status for result in probes})
    return Diagnosis(machine, probes, facts, advise(facts))
