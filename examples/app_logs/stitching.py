"""Spans that arrive one by one become a trace: when it is complete, or when nothing more came for a while.

Pure but for `Stitching`, which is the stateful part: per trace, the spans that are waiting for the others. A trace is
complete when its root is there and every span has the children it says it called; most are complete within the batch
that brought them and never wait. The others wait until events are being read that are `TRACE_TIMEOUT_S` younger. What
comes after that makes a second, incomplete trace of the same id: no span is lost, and none counts twice.

Time is event time, so that a backlog is read with the same result as a live stream, and a stream that stood still does
not lose patience. (Spark would also offer the clock; but a query with timers by the clock never finishes a run with
`availableNow`, as 4.3 behaves.) The watermark is far behind the newest event, so that it drops nothing: see `parsing`.
Timers need not be: they are set that much earlier, and so count from the newest event.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from pyspark import cloudpickle
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from app_logs.logs import ERROR_STATUS, TRACE_TIMEOUT_S

# Spark sends `Stitching` to its workers, which need not have this folder on their path.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

SPANS_MAX: Final = 2_000  # of one trace; a larger one is emitted in parts

OUTSIDE: Final = "outside"  # who called the root
UNKNOWN: Final = "unknown"  # who called a span whose parent never came


class Span(NamedTuple):
    """What a trace needs of an event."""

    span_id: str
    parent_span_id: str | None
    service: str
    endpoint: str
    status: int
    latency_ms: float
    calls: int
    ended_ms: int


# Types as objects: a declarative pipeline may not ask Spark to read them from text.
CALLED: Final = StructType(
    [
        StructField("span_id", StringType()),
        StructField("caller", StringType()),
        StructField("service", StringType()),
        StructField("endpoint", StringType()),
        StructField("status", IntegerType()),
        StructField("latency_ms", DoubleType()),
    ]
)
# What follows the trace's id and its start; of the root, where it is there, what only a root can say.
AFTER_START: Final = (
    StructField("duration_ms", DoubleType()),
    StructField("service", StringType()),
    StructField("endpoint", StringType()),
    StructField("status", IntegerType()),
    StructField("complete", BooleanType()),
    StructField("span_count", IntegerType()),
    StructField("error_count", IntegerType()),
    StructField("spans", ArrayType(CALLED)),
)
TRACE: Final = StructType(
    [StructField("trace_id", StringType()), StructField("started_ms", LongType()), *AFTER_START]
)


def is_complete(spans: Sequence[Span]) -> bool:
    """Whether all are there: one root, a parent for each other span, and as many calls as were made."""
    known = {span.span_id for span in spans}
    roots = sum(span.parent_span_id is None for span in spans)
    connected = all(span.parent_span_id is None or span.parent_span_id in known for span in spans)
    return roots == 1 and connected and len(spans) == 1 + sum(span.calls for span in spans)


def assemble(trace_id: str, spans: Sequence[Span], *, complete: bool) -> dict[str, Any]:
    """The trace, with the name of who called beside each span; what only the root knows is null without it."""
    services = {span.span_id: span.service for span in spans}
    root = next((span for span in spans if span.parent_span_id is None), None)
    started_ms = min(span.ended_ms - span.latency_ms for span in spans)
    return {
        "trace_id": trace_id,
        "started_ms": int(started_ms),
        "duration_ms": round(max(span.ended_ms for span in spans) - started_ms, 3),
        "service": root and root.service,
        "endpoint": root and root.endpoint,
        "status": root and root.status,
        "complete": complete,
        "span_count": len(spans),
        "error_count": sum(span.status >= ERROR_STATUS for span in spans),
        "spans": [
            Row(
                span_id=span.span_id,
                caller=_caller(span, services),
                service=span.service,
                endpoint=span.endpoint,
                status=span.status,
                latency_ms=span.latency_ms,
            )
            for span in sorted(spans, key=lambda span: (span.ended_ms - span.latency_ms, span.span_id))
        ],
    }


def assemble_all(trace_id: str, rows: Iterable[Row]) -> dict[str, Any]:
    """The trace of all spans that there are of it."""
    spans = list(_of_rows(rows))
    return assemble(trace_id, spans, complete=is_complete(spans))


def _caller(span: Span, services: dict[str, str]) -> str:
    if span.parent_span_id is None:
        return OUTSIDE
    return services.get(span.parent_span_id, UNKNOWN)


class Stitching(StatefulProcessor):
    """For `transformWithState`, grouped by trace, in event time; `watermark_delay_ms` is that of the events."""

    def __init__(self, *, watermark_delay_ms: int) -> None:
        self._delay_ms = watermark_delay_ms

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        # One value, not a list with an element per span: each call to the state crosses to Spark's process and back.
        self._waiting = handle.getValueState("waiting", "spans string, expires_ms long")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        (trace_id,) = key
        waiting = self._waiting.get()
        spans = [] if waiting is None else [Span(*span) for span in json.loads(waiting[0])]
        spans.extend(_of_rows(rows))
        complete = is_complete(spans)
        if waiting is not None:
            self._handle.deleteTimer(waiting[1])
        if complete or len(spans) >= SPANS_MAX:
            if waiting is not None:
                self._waiting.clear()
            yield Row(**assemble(trace_id, spans, complete=complete))
        else:
            expires_ms = self._expires_ms(spans, timerValues.getCurrentWatermarkInMs())
            self._waiting.update((json.dumps(spans), expires_ms))
            self._handle.registerTimer(expires_ms)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:  # noqa: ARG002
        (trace_id,) = key
        waiting = self._waiting.get()
        if waiting is not None:
            spans = [Span(*span) for span in json.loads(waiting[0])]
            self._waiting.clear()
            yield Row(**assemble(trace_id, spans, complete=False))

    def close(self) -> None:
        pass

    def _expires_ms(self, spans: Sequence[Span], watermark_ms: int) -> int:
        """When the watermark is there, events are read that are younger by the timeout: than the last span, and than
        what is read now, for where another partition is ahead, its events say nothing about this one."""
        newest_ms = max(watermark_ms + self._delay_ms, *(span.ended_ms for span in spans))
        return newest_ms + TRACE_TIMEOUT_S * 1000 - self._delay_ms


def _of_rows(rows: Iterable[Row]) -> Iterator[Span]:
    for row in rows:
        yield Span(*(row[name] for name in Span._fields))
