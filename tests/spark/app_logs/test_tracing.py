"""Spans stitched into traces by a stream: across batches, with spans missing, after restarts."""

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.app_logs.flows import Flows, Output

if TYPE_CHECKING:
    from app_logs.generator import Line

pytestmark = pytest.mark.xdist_group("spark")

START_MS = 1_700_000_000_000
TRACE = "the trace"


def span(span_id: str, parent: str | None, *, calls: int, second: float, trace_id: str = TRACE) -> "Line":
    from app_logs.generator import Line, _iso

    time_ms = START_MS + round(second * 1000)
    event = {
        "event_id": span_id,
        "trace_id": trace_id,
        "span_id": span_id,
        "parent_span_id": parent,
        "service": f"service of {span_id}",
        "endpoint": "GET /",
        "status": 200,
        "latency_ms": 5.0,
        "calls": calls,
        "event_time": _iso(time_ms),
    }
    return Line(time_ms, trace_id, json.dumps(event).encode(), "valid", event)


def elsewhere(second: float) -> "Line":
    """A request of one span, complete by itself."""
    return span(f"other {second}", None, calls=0, second=second, trace_id=f"trace {second}")


def told(output: Output, trace_id: str = TRACE) -> list[dict[str, Any]]:
    every = [json.loads(bytes(row["value"])) for row in output.rows]
    return [trace for trace in every if trace["trace_id"] == trace_id]


def ids(trace: dict[str, Any]) -> set[str]:
    return {each["span_id"] for each in trace["spans"]}


def test_a_trace_waits_for_its_spans_across_runs_and_one_that_never_completes_is_told_after_the_timeout(
    flows: Flows, topic: str
) -> None:
    from app_logs.tracing import traces

    # The root has called two, and one of them called another that is never heard of.
    flows.write(topic, [span("child", "root", calls=0, second=0), elsewhere(1)])
    first = flows.run(topic, traces, mode="append")
    assert told(first) == []
    assert len(first.rows) == 1

    # Fourteen seconds later it still waits; the checkpoint has kept it.
    flows.write_more(topic, [span("parent", "root", calls=1, second=0.1), elsewhere(14)])
    second = flows.run(topic, traces, mode="append")
    assert told(second) == []

    # The rest: patience counts from the last span, and ends when younger events are read.
    flows.write_more(topic, [span("root", None, calls=2, second=14), elsewhere(31)])
    (trace,) = told(flows.run(topic, traces, mode="append"))
    assert ids(trace) == {"child", "parent", "root"}
    assert (trace["complete"], trace["span_count"]) == (False, 3)

    # A span that comes after that is written as a trace of its own.
    flows.write_more(topic, [span("grandchild", "parent", calls=0, second=31), elsewhere(60)])
    (rest,) = told(flows.run(topic, traces, mode="append"))
    assert ids(rest) == {"grandchild"}
    assert rest["spans"][0]["caller"] == "unknown"


def test_a_trace_is_written_once_as_soon_as_its_last_span_comes(flows: Flows, topic: str) -> None:
    from app_logs.tracing import traces

    flows.write(topic, [span("child", "root", calls=0, second=0)])
    assert flows.run(topic, traces, mode="append").rows == []
    flows.write_more(topic, [span("root", None, calls=1, second=0.2)])
    (trace,) = told(flows.run(topic, traces, mode="append"))
    assert (trace["complete"], ids(trace)) == (True, {"child", "root"})
    flows.write_more(topic, [elsewhere(300)])
    after = flows.run(topic, traces, mode="append")
    assert told(after) == []
    assert after.dropped == 0


def test_spans_far_behind_another_partition_are_neither_dropped_nor_torn_apart(
    flows: Flows, topic: str
) -> None:
    from app_logs.tracing import traces

    # Minutes ahead, as when one partition was read first.
    flows.write(topic, [elsewhere(400)])
    ahead = flows.run(topic, traces, mode="append")
    flows.write_more(topic, [span("child", "root", calls=0, second=0), elsewhere(401)])
    behind = flows.run(topic, traces, mode="append")
    assert told(behind) == []
    flows.write_more(topic, [span("root", None, calls=1, second=1)])
    last = flows.run(topic, traces, mode="append")
    assert [trace["complete"] for trace in told(last)] == [True]
    assert (ahead.dropped, behind.dropped, last.dropped) == (0, 0, 0)
