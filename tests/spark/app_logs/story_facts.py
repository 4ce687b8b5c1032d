"""What a story of two minutes may have found, made up: for the tests of its page."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from app_logs.story_page import ABOUT, Facts, Sample

from penstock.spark.pipelines.views import FlowView, State

ZONE = timezone(timedelta(hours=2), "CEST")
STARTED_AT = datetime(2026, 7, 1, 14, 9, 28, tzinfo=ZONE)
SECONDS = 120
WRITING_SINCE_S = 10.0


def facts(*, is_running: bool = False, seconds: int = SECONDS) -> Facts:
    return Facts(
        started_at=STARTED_AT,
        writing_since_s=WRITING_SINCE_S,
        history=[_sample(second) for second in range(seconds)],
        alerts=_alerts(),
        endpoint_minutes=_endpoint_minutes(),
        call_graph=_call_graph(),
        dead_letter_count=123,
        is_running=is_running,
        summary=()
        if is_running
        else ("produced 52,430, dead-lettered 123 (80 late, 43 malformed)", "balanced"),
        is_balanced=None if is_running else True,
    )


def _sample(second: int) -> Sample:
    bursts = sum(each % 30 >= 25 for each in range(second))
    produced = 200 * second + 1_800 * bursts
    return Sample(
        float(second), produced, tuple(_view(number, second, produced) for number in range(len(ABOUT)))
    )


def _view(number: int, second: int, produced: int) -> FlowView:
    name = list(ABOUT)[number]
    every_s = 2 + number
    batch = (second - 12) // every_s
    if batch < 0:
        return FlowView(name, State.STARTING, 0, 0.0, produced, None, None, 0)
    done = batch * every_s + 12
    busy = second % 30 >= 25
    return FlowView(
        name,
        State.RUNNING,
        200 * done,
        2_000.0 if busy else 200.0,
        produced - 200 * done if second < 40 else 400 * (number + 1) * busy,
        batch,
        (40_000 if batch == 0 else 1_100 + 700 * number) // (1 + number % 2),
        0,
        event_age_ms=40_000 if batch == 0 else 2_400 + 900 * busy,
    )


def _alerts() -> list[dict[str, Any]]:
    """Two stretches of trouble, of three windows each, the second of them of two kinds, and one before the story."""
    told = []
    for since_s, windows, kinds in ((-600, 1, 1), (20, 3, 1), (60, 3, 2)):
        for window in range(windows):
            start = STARTED_AT.astimezone(UTC) + timedelta(seconds=since_s + 5 * window)
            for kind, value in (("error_rate", 0.62), ("latency_p95_ms", 812.5))[:kinds]:
                told.append(
                    {
                        "alert_id": f"payments/{kind}/{start.isoformat()}",
                        "service": "payments",
                        "kind": kind,
                        "window_start": start.isoformat(),
                        "window_end": (start + timedelta(seconds=10)).isoformat(),
                        "value": value,
                    }
                )
    return told


def _endpoint_minutes() -> list[dict[str, Any]]:
    endpoints = [
        ("gateway", "GET /products", 12_345, 12),
        ("inventory", "POST /reservations", 4_321, 3),
        ("payments", "POST /charges", 1_234, 310),
    ]
    return [
        {
            "minute": STARTED_AT,
            "service": service,
            "endpoint": endpoint,
            "requests": requests,
            "errors": errors,
            "latency_ms_p50": 12.3,
            "latency_ms_p95": 456.7,
            "latency_ms_p99": 1_876.5,
        }
        for service, endpoint, requests, errors in endpoints
    ]


def _call_graph() -> list[dict[str, Any]]:
    calls = [
        ("outside", "gateway", 20_000),
        ("gateway", "catalogue", 12_000),
        ("gateway", "orders", 8_000),
        ("catalogue", "inventory", 6_000),
        ("orders", "inventory", 3_000),
        ("orders", "payments", 3_000),
        ("orders", "shipping", 5_600),
        ("payments", "fraud", 900),
        ("unknown", "payments", 4),
    ]
    return [
        {"caller": caller, "callee": callee, "calls": count, "errors": errors, "latency_ms_p50": 60.4}
        for caller, callee, count in calls
        for errors in [count // 5 if callee == "payments" else 0]
    ]
