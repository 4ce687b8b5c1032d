"""When a trace is complete, and what is written of it; without Spark's streams."""

from typing import Any

from app_logs.stitching import OUTSIDE, UNKNOWN, Span, assemble, is_complete

ROOT = Span("root", None, "gateway", "GET /orders", 200, 100.0, calls=2, ended_ms=1_100)
LEFT = Span("left", "root", "orders", "GET /orders", 503, 30.0, calls=1, ended_ms=1_050)
LEAF = Span("leaf", "left", "shipping", "GET /parcels", 200, 10.0, calls=0, ended_ms=1_045)
RIGHT = Span("right", "root", "payments", "POST /charges", 200, 20.0, calls=0, ended_ms=1_080)
ALL = [LEAF, LEFT, RIGHT, ROOT]


def test_a_trace_is_complete_when_every_call_that_was_made_is_there() -> None:
    assert is_complete(ALL)
    assert is_complete([ROOT._replace(calls=0)])


def test_a_trace_that_lacks_any_of_its_spans_is_not_complete() -> None:
    for missing in ALL:
        assert not is_complete([span for span in ALL if span != missing])


def test_the_order_in_which_spans_come_does_not_matter() -> None:
    assert is_complete(list(reversed(ALL)))
    assert assemble("t", ALL, complete=True) == assemble("t", list(reversed(ALL)), complete=True)


def test_two_roots_or_a_stranger_in_place_of_a_child_are_no_trace() -> None:
    assert not is_complete([ROOT, ROOT._replace(span_id="other", calls=0), LEFT._replace(calls=0), RIGHT])
    assert not is_complete([ROOT, LEFT._replace(calls=0), RIGHT._replace(parent_span_id="elsewhere")])


def test_a_trace_tells_from_when_to_when_and_who_called_whom() -> None:
    trace = assemble("t", ALL, complete=True)
    assert {name: trace[name] for name in ("started_ms", "duration_ms", "service", "status")} == {
        "started_ms": 1_000,
        "duration_ms": 100.0,
        "service": "gateway",
        "status": 200,
    }
    assert (trace["span_count"], trace["error_count"], trace["complete"]) == (4, 1, True)
    assert callers(trace) == {
        "root": OUTSIDE,
        "left": "gateway",
        "leaf": "orders",
        "right": "gateway",
    }


def test_without_its_root_a_trace_has_no_service_and_its_first_caller_is_unknown() -> None:
    trace = assemble("t", [LEFT, LEAF], complete=False)
    assert (trace["service"], trace["status"], trace["complete"]) == (None, None, False)
    assert callers(trace) == {"left": UNKNOWN, "leaf": "orders"}


def callers(trace: dict[str, Any]) -> dict[str, str]:
    return {span["span_id"]: span["caller"] for span in trace["spans"]}
