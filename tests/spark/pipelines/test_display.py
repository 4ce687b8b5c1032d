"""The live table and the lines of a log, without Spark."""

import io

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
