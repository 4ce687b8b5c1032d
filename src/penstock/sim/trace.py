"""What happened in a run, as lines to read: the last so many, since a run has very many."""

from collections import deque

from penstock.sim.kernel import StepKind

LINES_MAX = 200


class Trace:
    """A tracer for `Kernel`; `lines` at any time."""

    def __init__(
        self, *, lines_max: int | None = LINES_MAX, kinds: tuple[StepKind, ...] = tuple(StepKind)
    ) -> None:
        self._kinds = kinds
        self._steps: deque[tuple[float, StepKind, tuple[object, ...]]] = deque(maxlen=lines_max)

    def __call__(self, time: float, kind: StepKind, facts: tuple[object, ...]) -> None:
        if kind in self._kinds:
            self._steps.append((time, kind, facts))

    @property
    def lines(self) -> list[str]:
        return [
            f"{time:12.6f}  {kind.value:<8}{' '.join(map(str, facts))}" for time, kind, facts in self._steps
        ]
