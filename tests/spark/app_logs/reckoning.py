"""What the pipelines must find, reckoned from generated lines in plain Python."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from app_logs.generator import Line

Event = dict[str, Any]


def as_time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def event_ms(event: Event) -> int:
    return round(as_time(event["event_time"]).timestamp() * 1000)


def valid_events(lines: "Iterable[Line]") -> list[Event]:
    return [line.event for line in lines if line.kind == "valid"]


def minutes(events: Iterable[Event]) -> dict[tuple[int, str, str], tuple[int, int]]:
    """Requests and errors by minute (in milliseconds), service and endpoint."""
    found: dict[tuple[int, str, str], list[int]] = defaultdict(lambda: [0, 0])
    for event in events:
        counts = found[event_ms(event) // 60_000 * 60_000, event["service"], event["endpoint"]]
        counts[0] += 1
        counts[1] += event["status"] >= 500
    return {key: (requests, errors) for key, (requests, errors) in found.items()}


def traces(events: Iterable[Event]) -> dict[str, list[Event]]:
    found: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        found[event["trace_id"]].append(event)
    return found


def is_whole(events: list[Event]) -> bool:
    """Whether a walk from the root, along the calls that each span says it made, meets all of them."""
    children = Counter(event["parent_span_id"] for event in events)
    known = {event["span_id"] for event in events}
    return (
        children[None] == 1
        and all(children[event["span_id"]] == event["calls"] for event in events)
        and known.issuperset(parent for parent in children if parent is not None)
    )


def call_graph(events: Iterable[Event]) -> Counter[tuple[str, str]]:
    """How many calls, by caller and callee."""
    listed = list(events)
    services = {event["span_id"]: event["service"] for event in listed}
    return Counter((_caller(event, services), event["service"]) for event in listed)


def _caller(event: Event, services: dict[str, str]) -> str:
    parent = event["parent_span_id"]
    return "outside" if parent is None else services.get(parent, "unknown")
