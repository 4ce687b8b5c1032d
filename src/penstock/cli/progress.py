"""The line that tells a person how far long work has come; it moves, and is gone when the work is done."""

import sys
import time
from collections.abc import Callable
from typing import TextIO

from penstock.cli.output import count_of, format_bytes

_INTERVAL_S = 0.2


class Progress:
    """Counts records and bytes on stderr, if somebody watches it."""

    def __init__(
        self,
        *,
        watched: bool | None = None,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = stream or sys.stderr
        self._watched = self._stream.isatty() if watched is None else watched
        self._clock = clock
        self._started_at = clock()
        # Work that is done at once needs no line.
        self._next_at = self._started_at + _INTERVAL_S
        self._shown = 0

    def show(self, *, record_count: int, bytes_count: int) -> None:
        """Say where things stand, unless that was said a moment ago."""
        now = self._clock()
        if not self._watched or now < self._next_at:
            return
        rate = round(record_count / (now - self._started_at))
        self.say(f"{count_of(record_count, 'record')}, {format_bytes(bytes_count)}, {rate:,}/s")

    @property
    def is_watched(self) -> bool:
        return self._watched

    def say(self, line: str) -> None:
        """Put a line in the place of the last one, unless that came a moment ago."""
        now = self._clock()
        if not self._watched or now < self._next_at:
            return
        self._next_at = now + _INTERVAL_S
        self._stream.write(f"\r{line.ljust(self._shown)}")
        self._stream.flush()
        self._shown = len(line)

    def clear(self) -> None:
        """Take the line away."""
        if self._shown:
            self._stream.write(f"\r{' ' * self._shown}\r")
            self._stream.flush()
            self._shown = 0
