"""One line on a terminal that shows how far long work has come: rewritten in place, and removed when the work is done.

`StatusLine` is the line; `Progress` counts records and bytes on it. The benchmarks use `StatusLine` too.
"""

import sys
import time
from collections.abc import Callable
from typing import TextIO

from penstock.cli.output import count_of, format_bytes

_INTERVAL_S = 0.2


class StatusLine:
    """A line on stderr that each `show` replaces; writes nothing unless stderr is a terminal."""

    def __init__(self, *, watched: bool | None = None, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self.is_watched = self._stream.isatty() if watched is None else watched
        self._width = 0  # of the text shown now

    def show(self, line: str) -> None:
        if self.is_watched:
            self._stream.write(f"\r{line.ljust(self._width)}")
            self._stream.flush()
            self._width = len(line)

    def clear(self) -> None:
        """Remove the line, so that other output can begin in its place."""
        if self._width:
            self._stream.write(f"\r{' ' * self._width}\r")
            self._stream.flush()
            self._width = 0


class Progress:
    """Shows a status line at most five times per second, and none for work that takes less than that."""

    def __init__(
        self,
        *,
        watched: bool | None = None,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._line = StatusLine(watched=watched, stream=stream)
        self._clock = clock
        self._started_at = clock()
        self._next_at = self._started_at + _INTERVAL_S

    @property
    def is_watched(self) -> bool:
        return self._line.is_watched

    def show_counts(self, *, record_count: int, bytes_count: int) -> None:
        if self._is_due():
            rate = round(record_count / (self._clock() - self._started_at))
            self.show(f"{count_of(record_count, 'record')}, {format_bytes(bytes_count)}, {rate:,}/s")

    def show(self, line: str) -> None:
        if self._is_due():
            self._next_at = self._clock() + _INTERVAL_S
            self._line.show(line)

    def clear(self) -> None:
        self._line.clear()

    def _is_due(self) -> bool:
        return self.is_watched and self._clock() >= self._next_at
