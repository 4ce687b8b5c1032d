"""All flows over one generated topic, in several micro-batches, against a plain reckoning; and the recount."""

import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC
from typing import TYPE_CHECKING, NamedTuple

import pytest

from penstock.testing import EmbeddedBroker
from tests.spark.app_logs import reckoning
from tests.spark.app_logs.conftest import PROVIDER, ROCKSDB
from tests.spark.app_logs.flows import Flows, Output
from tests.spark.writing import Topics

if TYPE_CHECKING:
    from app_logs.accounting import Recount
    from app_logs.generator import Line
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.xdist_group("spark")

START_MS = 1_700_000_000_000
SEED = 21
LOGS = "streams-app-logs"
TRACES = "streams-traces"
DEAD_LETTERS = "streams-dead-letters"
ALERTS = "streams-alerts"


class Story(NamedTuple):
    """Everything ran once: what was written, and what each flow made of it."""

    flows: Flows
    lines: "list[Line]"
    monitoring: Output
    bi: Output
    tracing: Output
    traces: Output
    call_graph: Output
    dead_letters: Output

    @property
    def events(self) -> list[reckoning.Event]:
        return reckoning.valid_events(self.lines)

    def trace_frame(self) -> "DataFrame":
        from app_logs.stitching import AFTER_START
        from pyspark.sql.types import StringType, StructField, StructType, TimestampType

        before = [StructField("trace_id", StringType()), StructField("started_at", TimestampType())]
        schema = StructType([*before, *AFTER_START])
        return self.flows.spark.createDataFrame(self.traces.rows, schema)


@pytest.fixture(scope="module")
def story(
    spark: "SparkSession", broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Story]:
    before = spark.conf.get(PROVIDER)
    spark.conf.set(PROVIDER, ROCKSDB)
    topics = Topics(broker.bootstrap_servers)
    yield run_everything(Flows(spark, broker.bootstrap_servers, topics, tmp_path_factory.mktemp("streams")))
    spark.conf.set(PROVIDER, before)


def run_everything(flows: Flows) -> Story:
    from app_logs.bi import endpoint_minutes
    from app_logs.dead_letters import dead_letters
    from app_logs.generator import Plan, closing_lines, lines
    from app_logs.monitoring import alerts
    from app_logs.tracing import call_graph, trace_table, traces

    # A minute with one burst and one failure of payments.
    plan = Plan(
        events_per_second=60, malformed_share=0.02, late_share=0.02, early_share=0.01, unsent_share=0.01
    )
    made = list(lines(SEED, count=6_000, start_ms=START_MS, plan=plan))
    made += closing_lines(SEED, after_ms=made[-1].sent_ms)
    flows.write(LOGS, made)
    tracing = flows.run(LOGS, traces, mode="append", rows_per_batch=2_500)
    flows.write_rows(TRACES, tracing.rows)
    letters = flows.run(LOGS, dead_letters, mode="append")
    flows.write_rows(DEAD_LETTERS, letters.rows)
    monitoring = flows.run(LOGS, alerts, mode="update", rows_per_batch=2_500)
    flows.write_rows(ALERTS, monitoring.rows)
    return Story(
        flows,
        made,
        monitoring=monitoring,
        bi=flows.run(LOGS, endpoint_minutes, mode="update", rows_per_batch=2_500),
        tracing=tracing,
        traces=flows.run(TRACES, trace_table, mode="append"),
        call_graph=flows.run(TRACES, call_graph, mode="update", rows_per_batch=1_000),
        dead_letters=letters,
    )


def test_minutes_add_up_to_every_event_whatever_the_batches(story: Story) -> None:
    minutes = story.bi.by_key("minute", "service", "endpoint")
    assert {
        (round(minute.replace(tzinfo=UTC).timestamp() * 1000), service, endpoint): (
            row["requests"],
            row["errors"],
        )
        for (minute, service, endpoint), row in minutes.items()
    } == reckoning.minutes(story.events)
    assert len(story.bi.rows) > len(minutes)  # rows of an earlier batch were replaced


def test_every_event_is_in_one_trace_and_traces_are_complete_unless_something_is_missing(
    story: Story,
) -> None:
    expected = reckoning.traces(story.events)
    spans: dict[str, set[str]] = {}
    for row in story.traces.rows:
        of_trace = spans.setdefault(row["trace_id"], set())
        found = {span["span_id"] for span in row["spans"]}
        assert not of_trace & found, "a span was told twice"
        assert row["span_count"] == len(found)
        of_trace |= found
    assert spans == {trace: {event["span_id"] for event in events} for trace, events in expected.items()}

    whole = {trace for trace, events in expected.items() if reckoning.is_whole(events)}
    assert {row["trace_id"] for row in story.traces.rows if row["complete"]} == whole
    assert 0 < len(whole) < len(expected)


def test_the_call_graph_is_that_of_the_events(story: Story) -> None:
    found = {key: row["calls"] for key, row in story.call_graph.by_key("caller", "callee").items()}
    assert found == reckoning.call_graph(story.events)
    assert found["outside", "gateway"] > found["orders", "payments"] > 0


def test_dead_letters_are_exactly_what_was_late_early_or_malformed_and_as_it_was(story: Story) -> None:
    assert Counter(bytes(row["value"]) for row in story.dead_letters.rows) == Counter(
        line.value for line in story.lines if line.kind != "valid"
    )


def test_payments_fails_and_there_are_alerts_which_fold_into_one_episode(story: Story) -> None:
    from app_logs.monitoring import episodes

    told = [json.loads(bytes(row["value"])) for row in story.monitoring.rows]
    newest = max(event["event_time"] for event in story.events)
    found = episodes(told, now=reckoning.as_time(newest))
    failures = [each for each in found if (each.service, each.kind) == ("payments", "error_rate")]
    assert len(failures) == 1
    assert failures[0].worst > 0.4
    assert not failures[0].open
    assert 20 - 10 <= failures[0].since.timestamp() - START_MS / 1000 <= 25
    assert "catalogue" not in {each.service for each in found}


def test_no_watermark_dropped_anything(story: Story) -> None:
    assert [story.monitoring.dropped, story.bi.dropped, story.tracing.dropped] == [0, 0, 0]


def recounted(story: Story) -> "Recount":
    from app_logs.accounting import recount

    flows = story.flows

    def table(output: Output, *key: str) -> "DataFrame":
        return flows.spark.createDataFrame(list(output.by_key(*key).values()))

    return recount(
        logs=flows.read(LOGS),
        dead_letters=flows.read(DEAD_LETTERS),
        alerts=flows.read(ALERTS),
        endpoint_minutes=table(story.bi, "minute", "service", "endpoint"),
        traces=story.trace_frame(),
        call_graph=table(story.call_graph, "caller", "callee"),
    )


def test_the_recount_balances_in_every_flow(story: Story) -> None:
    found = recounted(story)
    assert found.is_balanced, found.lines()
    assert found.produced == len(story.lines)
    assert found.dead_lettered == Counter(line.kind for line in story.lines if line.kind != "valid")
    assert {flow.analysed for flow in found.flows} == {len(story.events)}
    assert found.lines()[-1] == "balanced"


def test_the_recount_sees_what_is_lost_doubled_or_not_told(story: Story) -> None:
    from app_logs.accounting import FlowCount, Recount, count_missing_alerts, count_twice, total

    traces = story.trace_frame()
    one = traces.limit(1)
    assert count_twice(traces) == 0
    assert count_twice(traces.unionAll(one)) == total(one, "span_count") > 0
    assert count_missing_alerts(story.flows.read(LOGS), story.flows.read(ALERTS).limit(0)) > 0

    right = Recount(10, {"late": 1, "malformed": 2}, (FlowCount("traces", 7),), alerts_missing=0)
    assert right.is_balanced
    for wrong in (
        right._replace(produced=11),
        right._replace(flows=(FlowCount("traces", 7, twice=1),)),
        right._replace(flows=(FlowCount("traces", 7), FlowCount("call_graph", 6))),
        right._replace(alerts_missing=1),
    ):
        assert not wrong.is_balanced
        assert wrong.lines()[-1] == "NOT balanced"
