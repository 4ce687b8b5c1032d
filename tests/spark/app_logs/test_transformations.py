"""Each transformation alone, on a small DataFrame: parsing, dead letters, alerts, minutes, calls."""

import importlib
import json
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.app_logs import reckoning
from tests.spark.app_logs.flows import source_row

if TYPE_CHECKING:
    from app_logs.generator import Line
    from pyspark.sql import DataFrame, SparkSession

    AsSource = Callable[[list[Line]], DataFrame]

pytestmark = pytest.mark.xdist_group("spark")

START_MS = 1_700_000_000_000
GOOD: dict[str, Any] = {
    "event_id": "e",
    "trace_id": "t",
    "span_id": "s",
    "parent_span_id": None,
    "service": "orders",
    "endpoint": "GET /orders",
    "status": 200,
    "latency_ms": 12.5,
    "calls": 0,
    "event_time": "2023-11-14T22:13:20.000Z",
    "message": "hello",
}


def generated(count: int, **shares: float) -> "list[Line]":
    from app_logs.generator import Plan, lines

    return list(lines(11, count=count, start_ms=START_MS, plan=Plan(**shares)))


def without(name: str) -> str:
    return json.dumps({key: value for key, value in GOOD.items() if key != name})


def changed(**values: Any) -> str:
    return json.dumps({**GOOD, **values})


def at(seconds: float) -> str:
    return (datetime.fromtimestamp(START_MS / 1000, UTC) + timedelta(seconds=seconds)).isoformat()


VERDICTS: list[tuple[str | bytes | None, str | None, str | None]] = [
    (json.dumps(GOOD), None, None),
    (without("message"), None, None),
    (without("parent_span_id"), None, None),
    (changed(latency_ms=7), None, None),
    (changed(added="later"), None, None),
    (None, "malformed", "no value"),
    ("", "malformed", "not JSON"),
    ("nonsense", "malformed", "not JSON"),
    (b"\xff\xfe\x00", "malformed", "not JSON"),
    (json.dumps(GOOD)[:-1], "malformed", "not JSON"),
    (json.dumps(GOOD)[:40], "malformed", "not JSON"),
    ("[1, 2]", "malformed", "event_id is missing"),
    ("{}", "malformed", "event_id is missing"),
    (without("service"), "malformed", "service is missing"),
    (changed(status=None), "malformed", "status is missing"),
    (changed(status="fine"), "malformed", "status has the wrong type"),
    (changed(status=42), "malformed", "status is out of range"),
    (changed(latency_ms="fast"), "malformed", "latency_ms has the wrong type"),
    (changed(latency_ms=-1), "malformed", "latency_ms is out of range"),
    (changed(calls=[1]), "malformed", "calls has the wrong type"),
    (changed(event_time="yesterday"), "malformed", "event_time has the wrong type"),
    (changed(event_time=at(-10)), None, None),
    (changed(event_time=at(-10.001)), "late", "more than 10 s older than its record"),
    (changed(event_time="1970-01-01T00:00:00Z"), "late", "more than 10 s older than its record"),
    (changed(event_time=at(2)), None, None),
    (changed(event_time=at(2.001)), "early", "more than 2 s ahead of its record"),
]


def judged(spark: "SparkSession", values: list[Any]) -> "DataFrame":
    from penstock.spark.columns import schema_of

    given = [value.encode() if isinstance(value, str) else value for value in values]
    rows = [source_row(offset, value, START_MS) for offset, value in enumerate(given)]
    return spark.createDataFrame(rows, schema_of(include_headers=True))


def test_every_record_gets_its_verdict_and_its_reason(spark: "SparkSession") -> None:
    from app_logs.parsing import judge

    found = judge(judged(spark, [value for value, _, _ in VERDICTS])).orderBy("offset").collect()
    assert [(row["offset"], row["kind"], row["reason"]) for row in found] == [
        (offset, kind, reason) for offset, (_, kind, reason) in enumerate(VERDICTS)
    ]


def test_every_record_is_an_event_or_rejected_and_never_both(spark: "SparkSession") -> None:
    from app_logs.parsing import events, rejected

    source = judged(spark, [value for value, _, _ in VERDICTS])
    valid = [row["offset"] for row in events(source).collect()]
    others = [row["offset"] for row in rejected(source).collect()]
    assert sorted(valid + others) == list(range(len(VERDICTS)))
    assert sorted(valid) == [offset for offset, verdict in enumerate(VERDICTS) if verdict[1] is None]


def test_the_parser_agrees_with_the_generator_on_every_line(as_source: "AsSource") -> None:
    from app_logs.parsing import judge

    made = generated(3_000, malformed_share=0.1, late_share=0.05, early_share=0.05)
    kinds = {row["offset"]: row["kind"] or "valid" for row in judge(as_source(made)).collect()}
    assert kinds == {offset: line.kind for offset, line in enumerate(made)}


@pytest.mark.parametrize(
    "flow",
    [
        "monitoring:alerts",
        "bi:endpoint_minutes",
        "dead_letters:dead_letters",
        "parsing:events",  # what tracing:traces begins with; the rest of it is for streams only
        "tracing:trace_table",
        "tracing:call_graph",
    ],
)
def test_every_flow_parses_a_record_once(spark: "SparkSession", flow: str) -> None:
    module, _, function = flow.partition(":")
    transform = getattr(importlib.import_module(f"app_logs.{module}"), function)
    plan = transform(judged(spark, [json.dumps(GOOD)]))._jdf.queryExecution().optimizedPlan().toString()
    assert plan.count("from_json(") == 1


def test_a_dead_letter_is_the_record_as_it_was_with_the_reason_and_its_origin(spark: "SparkSession") -> None:
    from app_logs.dead_letters import dead_letters, read_back

    letters = dead_letters(judged(spark, [json.dumps(GOOD), "nonsense"]))
    (letter,) = letters.collect()
    assert (letter["key"], letter["value"]) == (b"key", b"nonsense")
    assert {header["key"]: bytes(header["value"]) for header in letter["headers"]} == {
        "reason": b"not JSON",
        "kind": b"malformed",
        "topic": b"app-logs",
        "partition": b"0",
        "offset": b"1",
    }
    # Written twice, as after a reset of the flow, it counts once.
    (back,) = read_back(letters.unionAll(letters)).collect()
    assert (back["kind"], back["offset"], back["value"]) == ("malformed", "1", b"nonsense")


def test_minutes_have_the_requests_errors_and_latencies_of_each_endpoint(as_source: "AsSource") -> None:
    from app_logs.bi import KEY, endpoint_minutes

    made = generated(4_000, burst_factor=1)  # twenty seconds around the turn of a minute
    rows = endpoint_minutes(as_source(made)).collect()
    assert {
        (round(row["minute"].replace(tzinfo=UTC).timestamp() * 1000), row["service"], row["endpoint"]): (
            row["requests"],
            row["errors"],
        )
        for row in rows
    } == reckoning.minutes(reckoning.valid_events(made))
    assert len({tuple(row[name] for name in KEY) for row in rows}) == len(rows)
    for row in rows:
        in_order = ("latency_ms_p50", "latency_ms_p95", "latency_ms_p99", "latency_ms_max")
        assert sorted(row[name] for name in in_order) == [row[name] for name in in_order]


def answers(count: int, *, errors: int = 0, latency_ms: float = 10.0, second: float = 0.0) -> list[str]:
    return [
        changed(
            event_id=f"{second}-{number}",
            status=500 if number < errors else 200,
            latency_ms=latency_ms,
            event_time=at(second),
        )
        for number in range(count)
    ]


def told(spark: "SparkSession", values: list[str]) -> list[dict[str, Any]]:
    from app_logs.monitoring import alerts

    return [json.loads(bytes(row["value"])) for row in alerts(judged(spark, values)).collect()]


def test_a_window_over_a_threshold_is_one_alert_with_its_figures(spark: "SparkSession") -> None:
    found = told(spark, answers(20, errors=2))
    assert len(found) == 2  # the second belongs to two windows, which overlap
    assert {each["alert_id"] for each in found} == {
        "orders/error_rate/2023-11-14T22:13:15Z",
        "orders/error_rate/2023-11-14T22:13:20Z",
    }
    (alert,) = (each for each in found if each["alert_id"].endswith("20Z"))
    assert alert["window_start"] == "2023-11-14T22:13:20.000Z"
    assert alert["window_end"] == "2023-11-14T22:13:30.000Z"
    assert (alert["value"], alert["threshold"]) == (0.1, 0.1)
    assert (alert["requests"], alert["errors"]) == (20, 2)


def test_slow_answers_are_an_alert_of_their_own(spark: "SparkSession") -> None:
    found = told(spark, answers(20, errors=20, latency_ms=600.0))
    assert Counter(each["kind"] for each in found) == {"error_rate": 2, "latency_p95_ms": 2}


def test_there_is_no_alert_below_the_threshold_or_with_too_few_requests(
    spark: "SparkSession",
) -> None:
    assert told(spark, answers(20, errors=1, latency_ms=499.0)) == []
    assert told(spark, answers(19, errors=19, latency_ms=900.0)) == []


def alert(
    second: int, value: float, *, kind: str = "error_rate", service: str = "payments"
) -> dict[str, Any]:
    return {
        "alert_id": f"{service}/{kind}/{second}",
        "service": service,
        "kind": kind,
        "window_start": at(second),
        "window_end": at(second + 10),
        "value": value,
    }


def test_alerts_of_windows_that_touch_are_one_episode_and_it_ends_when_the_next_window_is_quiet() -> None:
    from app_logs.monitoring import episodes

    newer = alert(5, 0.7)
    said = [alert(0, 0.2), alert(5, 0.3), newer, alert(40, 0.15), alert(0, 0.5, service="orders")]
    start = datetime.fromisoformat(at(0))
    found = episodes(said, now=start + timedelta(seconds=52))
    assert [
        (each.service, (each.since - start).seconds, (each.until - start).seconds, each.worst, each.open)
        for each in found
    ] == [
        ("orders", 0, 10, 0.5, False),
        ("payments", 0, 15, 0.7, False),
        ("payments", 40, 50, 0.15, True),
    ]


def test_the_call_graph_counts_every_span_once(spark: "SparkSession") -> None:
    from app_logs.stitching import TRACE, Span, assemble
    from app_logs.tracing import calls

    root = Span("root", None, "gateway", "GET /orders", 200, 100.0, 1, 1_100)
    child = Span("child", "root", "orders", "GET /orders", 503, 30.0, 0, 1_050)
    whole = assemble("one", [root, child], complete=True)
    part = assemble("two", [child], complete=False)
    rows = [tuple(trace.values()) for trace in (whole, whole, part)]
    found = {
        (row["caller"], row["callee"]): (row["calls"], row["errors"], row["latency_ms_sum"])
        for row in calls(spark.createDataFrame(rows, TRACE)).collect()
    }
    assert found == {
        ("outside", "gateway"): (2, 0, 200.0),
        ("gateway", "orders"): (2, 2, 60.0),
        ("unknown", "orders"): (1, 1, 30.0),
    }
