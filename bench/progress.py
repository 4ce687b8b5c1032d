"""Tells a person how far the run has come and how long it will still take; says nothing to a file."""

import sys
import time
from collections.abc import Callable, Sequence
from typing import TextIO


class Progress:
    """Knows all steps beforehand, with the seconds each is expected to take, and learns from those done."""

    def __init__(
        self,
        steps: Sequence[tuple[str, float]],
        *,
        stream: TextIO | None = None,
        watched: bool | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._steps = steps
        self._stream = stream or sys.stderr
        self._watched = self._stream.isatty() if watched is None else watched
        self._clock = clock
        self._started_at = clock()
        self._done = 0
        self._shown = 0

    def next(self) -> None:
        """The next step begins."""
        title = self._steps[self._done][0]
        self._done += 1
        if self._watched:
            line = f"[{self._done}/{len(self._steps)}] {title} (about {_duration(self.seconds_left())} left)"
            self._stream.write(f"\r{line.ljust(self._shown)}")
            self._stream.flush()
            self._shown = len(line)

    def seconds_left(self) -> float:
        """The expected time of what is not done, corrected by how the steps so far kept to theirs."""
        behind = self._steps[: max(0, self._done - 1)]
        ahead = self._steps[max(0, self._done - 1) :]
        expected = sum(seconds for _, seconds in behind)
        pace = (self._clock() - self._started_at) / expected if expected else 1.0
        return pace * sum(seconds for _, seconds in ahead)

    def clear(self) -> None:
        if self._shown:
            self._stream.write(f"\r{' ' * self._shown}\r")
            self._stream.flush()
            self._shown = 0


def _duration(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"
