"""What many runs did together: how much in how long, how it went, and which faults hit the broker doing what."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from penstock.sim.entries import CLUSTERED, FAULTS
from penstock.sim.phases import Phase
from penstock.sim.run import RunOutcome


@dataclass
class Summary:
    """Grows with each run."""

    runs: int = 0
    operations: int = 0
    messages: int = 0
    virtual_seconds: float = 0.0
    failed_seeds: list[int] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    struck: Counter[tuple[str, Phase]] = field(default_factory=Counter)

    def add(self, seed: int, outcome: RunOutcome) -> None:
        self.runs += 1
        self.operations += outcome.operations
        self.messages += outcome.messages
        self.virtual_seconds += outcome.seconds
        self.counts += outcome.counts
        self.struck += outcome.struck
        if not outcome.ok:
            self.failed_seeds.append(seed)

    @property
    def faults(self) -> int:
        return self.struck.total()

    def lines(self, *, cpu_seconds: float) -> list[str]:
        """For people."""
        rates = (
            f"{total:,} {what} ({total / cpu_seconds if cpu_seconds else 0:,.0f} a second)"
            for what, total in (
                ("operations", self.operations),
                ("messages", self.messages),
                ("faults", self.faults),
            )
        )
        return [
            f"{self.runs:,} {'run' if self.runs == 1 else 'runs'}, {len(self.failed_seeds):,} failed; "
            f"{self.virtual_seconds:,.0f} s of virtual time in {cpu_seconds:.1f} s",
            ", ".join(rates),
            "",
            *self._outcome_lines(),
            "",
            *self.phase_table(),
        ]

    def _outcome_lines(self) -> list[str]:
        by_operation: dict[str, list[str]] = {}
        for name, count in sorted(self.counts.items(), key=lambda item: (-item[1], item[0])):
            operation, _, outcome = name.partition(" ")
            by_operation.setdefault(operation, []).append(f"{outcome} {count:,}")
        return [f"{operation}: {', '.join(by_operation[operation])}" for operation in sorted(by_operation)]

    def phase_table(self) -> list[str]:
        """Faults by the phase in which they struck; a dot where a fault was never tried."""
        phases = list(Phase)
        width = max(len(kind) for kind in self._kinds)
        title = " " * width + "".join(f"{phase.value:>11}" for phase in phases)
        rows = [
            f"{kind:<{width}}" + "".join(f"{self.struck[kind, phase] or '.':>11}" for phase in phases)
            for kind in self._kinds
        ]
        return [title, *rows]

    @property
    def _kinds(self) -> list[str]:
        """Those of clusters only where there was one."""
        struck = {kind for kind, _ in self.struck}
        return [*FAULTS, *(kind for kind in CLUSTERED if kind in struck)]

    def as_json(self, *, cpu_seconds: float) -> dict[str, Any]:
        """For programs."""
        return {
            "runs": self.runs,
            "failed_seeds": self.failed_seeds,
            "operations": self.operations,
            "messages": self.messages,
            "faults": self.faults,
            "virtual_seconds": round(self.virtual_seconds, 3),
            "cpu_seconds": round(cpu_seconds, 3),
            "outcomes": dict(sorted(self.counts.items())),
            "struck": {
                kind: {phase.value: self.struck[kind, phase] for phase in Phase if self.struck[kind, phase]}
                for kind in self._kinds
            },
        }
