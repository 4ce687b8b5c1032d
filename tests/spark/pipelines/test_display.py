"""The live table and the lines of a log, without Spark."""

import io
import os
import re

import pytest

from penstock.spark.pipelines.display import Display, render_line, render_table
from penstock.spark.pipelines.views import FlowView, Rate, State

RUNNING = FlowView("monitoring", State.RUNNING, 123_456, 2_000.4, 1_234, 7, 340, 0)
WAITING = FlowView("bi", State.WAITING, 0, 0.0, None, None, None, 2, "the topic is gone", 4.0)


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_the_table_has_a_line_per_flow_and_a_line_per_problem() -> None:
    assert render_table([RUNNING, WAITING], width=100) == [
        "FLOW        STATE    ROWS/S     ROWS    LAG  BATCH  BATCH TIME  RESTARTS",
        "monitoring  running   2,000  123,456  1,234      7      340 ms         0",
        "bi          waiting       0        0      -      -           -         2",
        "bi: starts again in 4 s: the topic is gone",
    ]


def test_no_line_is_wider_than_the_terminal() -> None:
    lines = render_table([RUNNING, WAITING._replace(problem="x" * 200)], width=50)

    assert max(map(len, lines)) == 50


class Screen:
    """A terminal, as far as the display uses one: it wraps long lines, wraps them again when its width changes, scrolls
    when it is full, and knows two escape sequences."""

    def __init__(self, columns: int, lines: int) -> None:
        self.size = os.terminal_size((columns, lines))
        self._rows = [""]  # the last one is the cursor's

    def write(self, text: str) -> None:
        for part in re.split(r"(\x1b\[\d*[FJ]|\n)", text):
            if part == "\n":
                self._rows.append("")
            elif part.endswith("F") and part[0] == "\x1b":
                top = max(0, len(self._rows) - self.size.lines)
                del self._rows[max(top, len(self._rows) - 1 - int(part[2:-1])) :]
                self._rows.append("")  # and what was below is cleared next
            elif part and part[0] != "\x1b":
                self._rows[-1:] = self._wrapped(self._rows[-1] + part)

    def flush(self) -> None:
        pass

    def resize(self, columns: int, lines: int) -> None:
        self.size = os.terminal_size((columns, lines))
        self._rows = [row for line in self._rows for row in self._wrapped(line)]

    def _wrapped(self, line: str) -> list[str]:
        width = self.size.columns
        return [line[start : start + width] for start in range(0, max(1, len(line)), width)]

    @property
    def rows(self) -> list[str]:
        return self._rows[:-1]


@pytest.mark.parametrize("sizes", [[(100, 24), (60, 24), (20, 24), (100, 24)], [(100, 3)], [(20, 3)]])
def test_on_a_narrow_or_low_screen_and_after_its_width_changed_there_is_one_table(
    sizes: list[tuple[int, int]],
) -> None:
    screen, clock = Screen(*sizes[0]), Clock()
    display = Display(screen, watched=True, size=lambda: screen.size, clock=clock)  # type: ignore[arg-type]
    display.say("hello")
    for columns, lines in sizes:
        screen.resize(columns, lines)
        for _ in range(3):
            clock.now_s += 1
            display.show([RUNNING, WAITING], below=["generator: " + "x" * 200])
        assert [row[:5].strip() for row in screen.rows[:3]] == ["hello", "FLOW", "monit"]
        assert len(screen.rows) <= 6, "and nothing twice"


def test_a_log_gets_all_flows_in_one_line() -> None:
    assert render_line([RUNNING, WAITING], elapsed_s=12.3) == (
        "12 s  monitoring 2,000 rows/s, lag 1,234, batch 7 in 340 ms | bi waiting, 0 rows, lag -"
    )


def test_on_a_terminal_the_table_is_drawn_over_the_one_before() -> None:
    stream, clock = io.StringIO(), Clock()
    display = Display(stream, watched=True, clock=clock)

    display.show([RUNNING])
    clock.now_s += 1
    display.show([RUNNING])

    first, second = stream.getvalue().split("\x1b[2F\x1b[J")
    assert first == second
    assert first.count("\n") == 2


def test_without_a_terminal_there_is_one_line_per_interval_and_no_escape() -> None:
    stream, clock = io.StringIO(), Clock()
    display = Display(stream, watched=False, interval_s=10, clock=clock)

    for _ in range(21):
        display.show([RUNNING])
        clock.now_s += 1

    assert [line.split()[0] for line in stream.getvalue().splitlines()] == ["0", "10", "20"]
    assert "\x1b" not in stream.getvalue()


def test_a_log_hears_of_a_failure_at_once_and_only_once() -> None:
    stream, clock = io.StringIO(), Clock()
    display = Display(stream, watched=False, interval_s=1_000, clock=clock)

    for view in (RUNNING, WAITING._replace(flow="monitoring"), WAITING._replace(flow="monitoring")):
        display.show([view])

    assert stream.getvalue().splitlines()[1:] == ["monitoring: starts again in 4 s: the topic is gone"]


def test_what_is_said_stays_above_the_table() -> None:
    stream = io.StringIO()
    display = Display(stream, watched=True, clock=Clock())

    display.show([RUNNING])
    display.say("hello")
    display.show([RUNNING], at_once=True)

    assert "\x1b[2F\x1b[Jhello\n" in stream.getvalue()


def test_a_rate_forgets_and_does_not_divide_by_the_time_before_its_beginning() -> None:
    rate = Rate(started_at_s=100)
    rate.add(now_s=102, rows=400)

    assert rate.per_second(102) == 200
    assert rate.per_second(104) == 100
    assert rate.per_second(106.9) == 80
    assert rate.per_second(107) == 0


def test_a_flow_without_a_finished_batch_says_that_it_is_at_its_first() -> None:
    starting = RUNNING._replace(state=State.STARTING, rows=0, batch=None, batch_ms=None)

    assert render_line([starting], elapsed_s=20) == "20 s  monitoring at its first batch, lag 1,234"
