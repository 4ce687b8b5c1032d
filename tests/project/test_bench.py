"""The benchmarks: their arithmetic, how they show it, and one small turn against a real broker."""

import contextlib
import io
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType

import pytest
from confluent_kafka import Consumer, TopicPartition

from bench.__main__ import main
from bench.chart import render_chart, times_better
from bench.contestants import PENSTOCK, Contestant, beside_earlier
from bench.load.frames import batch_of, good_answer, produce_frames
from bench.load.raw import LoadError, run_load
from bench.load.talks import Pause, Question, Talk, hold
from bench.load.transactional import commit_raw
from bench.measures import (
    MEASURES,
    Measure,
    cluster_size,
    commits,
    failover,
    joining,
    joining_broker,
    latency,
    partitions,
    rebalancing,
    replication,
    restarting,
    small_requests,
    throughput,
    transactions,
)
from bench.measures.restarting import still_seconds
from bench.progress import StepProgress
from bench.rows import Better, Goal, Result, Row, combine, percentile, results
from bench.run import run_all
from bench.scale import FULL, QUICK, TINY
from bench.table import format_figure, render_summary, render_table
from peers.penstock import SOURCE, PenstockProcess
from penstock.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

RATE = Row("rate", "requests", "1/s", Better.MORE, Goal(ratio=5), charted=True)
COST = Row("cost", "CPU each", "µs", Better.LESS, Goal(limit=35), charted=True)
# Members hear of each other after a tenth of a second instead of seconds.
LIVELY_GROUPS = {
    "group.initial.rebalance.delay.ms": 0,
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 100,
}
TAIL = Row("tail", "p99", "ms", Better.LESS_AT_THE_TAIL, Goal(ratio=0.25))


def test_rates_and_costs_are_those_of_the_best_round_and_tails_those_of_the_median_round() -> None:
    rounds = [
        {"rate": 1.0, "cost": 9.0, "tail": 3.0},
        {"rate": 4.0, "cost": 7.0, "tail": 1.0},
        {"tail": 50.0},
    ]

    assert combine([RATE, COST, TAIL], rounds) == {"rate": 4.0, "cost": 7.0, "tail": 3.0}


@pytest.mark.parametrize(
    ("result", "met"),
    [
        (Result(RATE, 500, 100), True),
        (Result(RATE, 499, 100), False),
        (Result(RATE, 500, None), None),
        (Result(COST, 35, None), True),
        (Result(COST, 36, 100), False),
        (Result(TAIL, 1, 4), True),
        (Result(TAIL, 1.1, 4), False),
    ],
)
def test_a_goal_is_a_multiple_of_kafkas_figure_or_a_limit(result: Result, met: bool | None) -> None:
    assert result.is_met is met


def test_a_goal_can_refer_to_another_row_of_our_own() -> None:
    few = Row("few", "10 partitions", "MB/s", Better.MORE)
    many = Row("many", "10,000 partitions", "MB/s", Better.MORE, Goal(ratio=0.8, of_row="few"))

    found = results([few, many], penstock={"few": 100, "many": 81}, peer={"few": 1000})

    assert [result.is_met for result in found] == [None, True]
    assert "≥ 0.8 x own" in render_table(found)


def test_rows_without_any_figure_are_left_out() -> None:
    assert [result.row for result in results([RATE, COST], penstock={}, peer={"cost": 1})] == [COST]


def test_a_percentile_is_a_figure_that_was_measured() -> None:
    figures = [float(number) for number in range(1000)]

    assert percentile(figures, 0.5) == 500
    assert percentile(figures, 0.999) == 999
    assert percentile([7.0], 0.99) == 7


def test_the_table_has_a_line_per_row_and_says_what_is_missed_by_how_much() -> None:
    found = results(
        [RATE, COST, TAIL],
        penstock={"rate": 12_345, "cost": 40, "tail": 0.5},
        peer={"rate": 6_000, "cost": 120, "tail": 10},
    )

    lines = render_table(found).splitlines()

    assert len({len(line) for line in lines}) == 1, "the columns are aligned"
    assert [cell.strip() for cell in lines[2].split("|")[1:-1]] == [
        *("requests", "1/s", "12,345", "6,000", "2.06 x", "≥ 5 x Kafka", "NO")
    ]
    assert render_summary(found).splitlines() == [
        "1 of 3 goals met.",
        "missed: requests: 2.06 x; the goal is ≥ 5 x Kafka",
        "missed: CPU each: 40.0 µs; the goal is ≤ 35",
    ]


def test_figures_have_about_three_digits() -> None:
    assert [format_figure(figure) for figure in (None, 0.1234, 12.34, 123.4, 1_234_567)] == [
        *("-", "0.12", "12.3", "123", "1,234,567")
    ]


def test_a_bar_points_to_the_right_where_penstock_is_better_whichever_way_that_is() -> None:
    assert times_better(Result(RATE, 200, 100)) == 2
    assert times_better(Result(COST, 50, 100)) == 2
    assert times_better(Result(COST, 50, None)) is None


def test_the_chart_is_small_well_formed_and_shows_the_charted_rows() -> None:
    found = results(
        [RATE, COST, TAIL],
        penstock={"rate": 3, "cost": 40, "tail": 1},
        peer={"rate": 1, "cost": 20, "tail": 9},
    )

    text = render_chart(found, subtitle="2 cores & <much> more")

    bars = [each for each in ElementTree.fromstring(text).iter() if each.tag.endswith("rect")]
    assert [bar.get("fill") for bar in bars] == ["#2a9d8f", "#d1495b"]
    assert len(text) < 10_000


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def test_progress_learns_from_the_steps_that_are_done() -> None:
    clock, stream = Clock(), io.StringIO()
    progress = StepProgress(
        [("one", 10), ("two", 10), ("three", 20)], stream=stream, watched=True, clock=clock
    )

    progress.next()
    assert progress.seconds_left() == 40
    clock.now = 20  # twice as long as expected
    progress.next()

    assert progress.seconds_left() == 60
    assert "[2/3] two (about 60 s left)" in stream.getvalue()


def test_progress_prints_nothing_where_the_stream_is_no_terminal() -> None:
    stream = io.StringIO()

    StepProgress([("one", 10)], stream=stream).next()

    assert stream.getvalue() == ""


def test_every_measure_has_a_name_rows_of_its_own_and_an_estimate_that_fits_the_run() -> None:
    rows = [row.key for measure in MEASURES for row in measure.rows(FULL)]

    assert len(rows) == len(set(rows))
    for scale, minutes_max in ((FULL, 60), (QUICK, 20)):
        seconds = sum(2 * measure.rounds(scale) * measure.seconds(scale) for measure in MEASURES)
        assert seconds < minutes_max * 60


@pytest.fixture(scope="module")
def penstock() -> Iterator[Contestant]:
    with Contestant(PENSTOCK, lambda: PenstockProcess(settings=LIVELY_GROUPS)) as contestant:
        yield contestant


@pytest.mark.parametrize(
    "names",
    [
        (small_requests.NAME, throughput.NAME, latency.NAME, partitions.NAME),
        (commits.NAME, transactions.NAME, joining.NAME, restarting.NAME, rebalancing.NAME),
    ],
)
def test_a_run_measures_a_real_broker_and_fills_every_row(
    penstock: Contestant, names: tuple[str, ...]
) -> None:
    chosen = [
        measure._replace(is_warm=False)  # the fixture has started it already
        for measure in MEASURES
        if measure.name in names
    ]

    outcome = run_all(chosen, TINY, brokers=[penstock])

    assert outcome.failures == []
    assert [result.row.key for result in outcome.results] == [
        row.key for measure in chosen for row in measure.rows(TINY)
    ]
    assert all(result.penstock is not None and result.penstock >= 0 for result in outcome.results)


@pytest.mark.foreign
@pytest.mark.needs("zookeeper")
@pytest.mark.parametrize("measure", [failover, cluster_size, replication, joining_broker])
def test_a_real_cluster_is_measured(measure: ModuleType) -> None:
    figures = measure.turn(Contestant(PENSTOCK, PenstockProcess), TINY)

    assert set(figures) >= {row.key for row in measure.rows(TINY)}
    assert all(figure >= 0 for figure in figures.values())


def test_a_run_measures_penstock_beside_an_earlier_version() -> None:
    (measure,) = (measure for measure in MEASURES if measure.name == small_requests.NAME)

    outcome = run_all([measure], TINY, brokers=beside_earlier("0.1", SOURCE))

    assert outcome.failures == []
    assert set(outcome.rounds[measure.name]) == {PENSTOCK, "0.1"}
    assert all(result.peer for result in outcome.results)
    assert "0.1" in render_table(outcome.results, peer="0.1").splitlines()[0]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--beside", "0" * 40], "is not in this copy of the repository"),
        (["--beside", "HEAD", "--only", "failover"], "--beside measures only: throughput"),
    ],
)
def test_what_cannot_be_measured_beside_an_earlier_version_is_an_error(
    words: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with contextlib.suppress(SystemExit):
        assert main(words) == 2
    assert expected in capsys.readouterr().err


def test_a_measure_that_fails_is_named_and_does_not_end_the_run(penstock: Contestant) -> None:
    def fail(*_: object) -> dict[str, float]:
        raise LoadError("the broker closed a connection")

    broken = Measure("broken", "", False, lambda _: 1, lambda _: [RATE], lambda _: 1.0, fail)

    outcome = run_all([broken], TINY, brokers=[penstock])

    assert outcome.results == []
    assert outcome.failures == ["broken on penstock: LoadError: the broker closed a connection"]


def test_the_load_counts_every_answer_and_sees_an_error_in_one(penstock: Contestant) -> None:
    with penstock.topic(partitions=2) as name:
        frames = produce_frames(name, range(2), batch_of(records=1, value_bytes=10))
        load = run_load(
            *(penstock.bootstrap, frames, good_answer(name)),
            connections=2,
            in_flight=3,
            seconds=60,
            laps=50,
        )
        assert load.requests == 100

        corrupt = produce_frames(name, [0], batch_of(records=1, value_bytes=10)[:-1] + b"?")
        with pytest.raises(LoadError):
            run_load(
                *(penstock.bootstrap, frames + corrupt + frames, good_answer(name)),
                connections=1,
                in_flight=1,
                seconds=60,
                laps=50,
            )


def test_a_partition_stands_still_where_two_records_are_far_apart_or_none_comes_at_all() -> None:
    assert still_seconds([10.05, 10.1, 13.1, 13.15], 10.0, 13.2) == pytest.approx(3.0)
    assert still_seconds([9.9, 10.05, 10.1, 10.15], 10.0, 10.2) == 0
    assert still_seconds([], 10.0, 17.0) == 7.0


def test_talks_ask_in_turn_keep_silent_when_they_want_and_return_what_they_found(
    penstock: Contestant,
) -> None:
    def talk(pause_s: float) -> Talk[list[int]]:
        found = []
        for version in (0, 1):
            answer = yield Question(ApiVersionsRequest(), version, ApiVersionsResponse)
            yield Pause(pause_s)
            found.append(answer.error_code)
        return found

    assert hold(penstock.bootstrap, [talk(0.02), talk(0.0), talk(0.01)]) == [[0, 0]] * 3


def test_every_transaction_that_is_counted_was_committed(penstock: Contestant) -> None:
    with penstock.topic(partitions=2) as name:
        committed = commit_raw(penstock.bootstrap, name, producers=3, partitions=2, seconds=0.3)
        consumer = Consumer({"bootstrap.servers": penstock.bootstrap, "group.id": "reader"})  # committed only
        consumer.assign([TopicPartition(name, partition, 0) for partition in range(2)])
        found = 0
        while found < committed.transactions:
            message = consumer.poll(60)
            assert message is not None, f"{found} of {committed.transactions} transactions can be read"
            assert message.error() is None
            found += 1
        consumer.close()

    assert found > 0
