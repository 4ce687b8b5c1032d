"""Shows on a terminal which step is running, and how long the rest is expected to take."""

import time
from collections.abc import Callable, Sequence
from typing import TextIO

from penstock.cli.progress import StatusLine


class StepProgress:
    """Knows all steps beforehand, with the seconds that each is expected to take, and corrects that by those done."""

    def __init__(
        self,
        steps: Sequence[tuple[str, float]],
        *,
        stream: TextIO | None = None,
        watched: bool | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._steps = steps
        self._line = StatusLine(stream=stream, watched=watched)
        self._clock = clock
        self._started_at = clock()
        self._begun = 0

    def next(self) -> None:
        """Show that the next step begins."""
        title = self._steps[self._begun][0]
        self._begun += 1
        self._line.show(
            f"[{self._begun}/{len(self._steps)}] {title} (about {_duration(self.seconds_left())} left)"
        )

    def seconds_left(self) -> float:
        """The expected time of the steps that are not done, times how much longer the others took than expected."""
        done = self._steps[: max(0, self._begun - 1)]
        left = self._steps[max(0, self._begun - 1) :]
        expected = sum(seconds for _, seconds in done)
        pace = (self._clock() - self._started_at) / expected if expected else 1.0
        return pace * sum(seconds for _, seconds in left)

    def clear(self) -> None:
        self._line.clear()


def _duration(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"
