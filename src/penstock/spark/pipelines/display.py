"""Shows a running pipeline: a table that is redrawn in place on a terminal, else a line from time to time. Pure
functions render; `Display` only writes.
"""

import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Final, TextIO

from penstock.spark.pipelines.units import duration
from penstock.spark.pipelines.views import FlowView, State

_TITLES: Final = ("FLOW", "STATE", "ROWS/S", "ROWS", "LAG", "BATCH", "BATCH TIME", "RESTARTS")
_GAP: Final = "  "
_SIZE_UNKNOWN: Final = os.terminal_size((80, 24))
_UP_AND_CLEAR: Final = "\x1b[{lines}F\x1b[J"


def render_table(views: Sequence[FlowView], *, width: int) -> list[str]:
    """A header, a line per flow, and below them a line per flow with a problem."""
    rows = [_TITLES, *(_cells(view) for view in views)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_TITLES))]
    lines = [
        _GAP.join(
            cell.ljust(size) if column < 2 else cell.rjust(size)
            for column, (cell, size) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    lines += [_problem(view) for view in views if view.problem is not None]
    return [fitted(line, width) for line in lines]


def fitted(line: str, width: int) -> str:
    """Cut a line to the width: a wrapped line would break redrawing in place."""
    return line if len(line) <= width else f"{line[: max(0, width - 1)]}…"


def rows_taken(lines: Sequence[str], *, width: int) -> int:
    """How many screen rows the drawn lines take: a terminal that became narrower wraps them."""
    return sum(max(1, -(-len(line) // width)) for line in lines)


def render_line(views: Sequence[FlowView], *, elapsed_s: float) -> str:
    """All flows in one line, for logs."""
    return f"{elapsed_s:.0f} s  " + " | ".join(_summary(view) for view in views)


class Display:
    """Shows views on a stream: twice a second on a terminal, every ten seconds in a log."""

    def __init__(
        self,
        stream: TextIO,
        *,
        watched: bool | None = None,
        size: Callable[[], os.terminal_size] | None = None,
        interval_s: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = stream
        self._watched = stream.isatty() if watched is None else watched
        self._size = size if size is not None else lambda: _size_of(stream)
        self._interval_s = interval_s if interval_s is not None else (0.5 if self._watched else 10.0)
        self._clock = clock
        self._started_at_s = clock()
        self._next_at_s = self._started_at_s
        self._drawn: list[str] = []
        self._told: dict[str, tuple[State, str | None]] = {}

    @property
    def watched(self) -> bool:
        return self._watched

    def show(self, views: Sequence[FlowView], *, at_once: bool = False, below: Sequence[str] = ()) -> None:
        """Show the views, at most once per interval. A change of a flow's state is shown at once, also in a log.
        `below` is drawn under the table, on a terminal only."""
        now = self._clock()
        changed = [view for view in views if self._told.get(view.flow) != (view.state, view.problem)]
        self._told = {view.flow: (view.state, view.problem) for view in views}
        if self._watched:
            if now >= self._next_at_s or changed or at_once:
                self._draw(views, below)
                self._next_at_s = now + self._interval_s
            return
        for view in changed:
            if view.problem is not None and view.state in (State.WAITING, State.FAILED):
                self._write(_problem(view))
        if now >= self._next_at_s or at_once:
            self._write(render_line(views, elapsed_s=now - self._started_at_s))
            self._next_at_s = now + self._interval_s

    def say(self, line: str) -> None:
        """A line that stays, above the table."""
        self._erase()
        self._write(line)

    def note(self, line: str) -> None:
        """A line on stderr; on a terminal it stays above the table."""
        self._erase()
        self._stream.flush()
        print(line, file=sys.stderr, flush=True)

    def close(self) -> None:
        """Leave the table on the screen; later output is below it."""
        self._drawn = []

    def _draw(self, views: Sequence[FlowView], below: Sequence[str]) -> None:
        width, height = self._size()
        lines = [*render_table(views, width=width), *(fitted(line, width) for line in below)]
        self._erase()
        # Lines that have scrolled out at the top cannot be redrawn. The last row is the cursor's.
        self._drawn = lines[: max(1, height - 1)]
        self._stream.write("".join(f"{line}\n" for line in self._drawn))
        self._stream.flush()

    def _erase(self) -> None:
        if self._drawn:
            rows = rows_taken(self._drawn, width=self._size().columns)
            self._stream.write(_UP_AND_CLEAR.format(lines=rows))
            self._drawn = []

    def _write(self, line: str) -> None:
        self._stream.write(f"{line}\n")
        self._stream.flush()


def _cells(view: FlowView) -> tuple[str, ...]:
    return (
        view.flow,
        view.state.value,
        f"{view.rows_per_second:,.0f}",
        f"{view.rows:,}",
        _number(view.lag),
        _number(view.batch),
        _duration(view.batch_ms),
        str(view.restarts),
    )


def _summary(view: FlowView) -> str:
    if view.state not in (State.RUNNING, State.STARTING):
        return f"{view.flow} {view.state.value}, {view.rows:,} rows, lag {_number(view.lag)}"
    if view.batch is None:
        return f"{view.flow} at its first batch, lag {_number(view.lag)}"
    return (
        f"{view.flow} {view.rows_per_second:,.0f} rows/s, lag {_number(view.lag)}, "
        f"batch {_number(view.batch)} in {_duration(view.batch_ms)}"
    )


def _problem(view: FlowView) -> str:
    if view.state is State.FAILED:
        return f"{view.flow}: given up: {view.problem}"
    if view.retry_in_s is not None:
        return f"{view.flow}: starts again in {view.retry_in_s:.0f} s: {view.problem}"
    return f"{view.flow}: {view.problem}"


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _duration(milliseconds: int | None) -> str:
    return "-" if milliseconds is None else duration(milliseconds / 1000)


def _size_of(stream: TextIO) -> os.terminal_size:
    """The size of the stream's own terminal; COLUMNS or another stream's terminal may differ."""
    try:
        size = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):
        return _SIZE_UNKNOWN
    return size if size.columns and size.lines else _SIZE_UNKNOWN
