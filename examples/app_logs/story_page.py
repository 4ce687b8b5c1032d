"""The page of the story: plots and tables in one HTML file that needs nothing else. Pure."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from html import escape
from itertools import pairwise
from typing import Any, Final, NamedTuple

from app_logs.monitoring import ERROR_RATE, episodes
from penstock.spark.pipelines.charts import (
    COLOURS_MAX,
    STYLE,
    Edge,
    Series,
    Span,
    graph,
    html_table,
    line_chart,
    span_chart,
)
from penstock.spark.pipelines.views import FlowView

_SAMPLES_MAX: Final = 1_800
_ALERT_ROWS_MAX: Final = 20
_REFRESH_S: Final = 5
_BAD_ERROR_SHARE: Final = 0.05
_PRODUCED_COLOUR: Final = COLOURS_MAX - 1


class Sample(NamedTuple):
    """One moment: how much the topic of logs holds, and how the flows are doing."""

    elapsed_s: float
    produced: int
    views: tuple[FlowView, ...]


class History:
    """Samples, evenly spread; when there are too many, every other one goes."""

    def __init__(self) -> None:
        self.samples: list[Sample] = []
        self._stride = 1
        self._skipped = 0

    def add(self, sample: Sample) -> None:
        self._skipped += 1
        if self._skipped < self._stride:
            return
        self._skipped = 0
        self.samples.append(sample)
        if len(self.samples) > _SAMPLES_MAX:
            self.samples = self.samples[::2]
            self._stride *= 2


class Facts(NamedTuple):
    """All that the page shows."""

    started_at: datetime
    history: Sequence[Sample]
    alerts: Sequence[Mapping[str, Any]]
    endpoint_minutes: Sequence[Mapping[str, Any]]
    call_graph: Sequence[Mapping[str, Any]]
    dead_letter_count: int
    is_running: bool
    summary: Sequence[str] = ()
    is_balanced: bool | None = None


def render_page(facts: Facts) -> str:
    """The whole document; while the story runs it loads itself again every few seconds."""
    refresh = f'<meta http-equiv="refresh" content="{_REFRESH_S}">' if facts.is_running else ""
    state = "running" if facts.is_running else "ended"
    parts = [
        "<h1>Application logs through Penstock and Spark</h1>",
        f'<p class="quiet">started {facts.started_at:%Y-%m-%d %H:%M:%S} UTC, {state}</p>',
        _figures(facts),
        _summary(facts),
        "<h2>Throughput: in, and out through each flow</h2>",
        line_chart("throughput", _throughput(facts.history), unit="records/s"),
        "<h2>Lag: what each flow has still to read</h2>",
        line_chart("lag", _per_flow(facts.history, "lag"), unit="records"),
        "<h2>How long batches take</h2>",
        line_chart("batches", _per_flow(facts.history, "batch_ms"), unit="ms"),
        "<h2>Alerts</h2>",
        *_alerts(facts),
        "<h2>Endpoints</h2>",
        _endpoints(facts.endpoint_minutes),
        "<h2>Who calls whom</h2>",
        graph("call graph", _edges(facts.call_graph)),
    ]
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8">{refresh}'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><title>Application logs</title>'
        f"<style>{STYLE}</style></head><body><main>{''.join(parts)}</main></body></html>\n"
    )


def _figures(facts: Facts) -> str:
    last = facts.history[-1] if facts.history else None
    known = [view.lag for view in last.views if view.lag is not None] if last else []
    figures = {
        "records in the topic": last.produced if last else 0,
        "largest lag now": max(known, default=0),
        "alerts": len(facts.alerts),
        "dead letters": facts.dead_letter_count,
    }
    boxes = "".join(
        f'<div class="figure"><b>{value:,}</b>{escape(name)}</div>' for name, value in figures.items()
    )
    return f'<div class="figures">{boxes}</div>'


def _summary(facts: Facts) -> str:
    if not facts.summary:
        return ""
    kind = "" if facts.is_balanced is None else f' class="{"good" if facts.is_balanced else "bad"}"'
    return f"<h2>Counted again, from topics and tables</h2><pre{kind}>{escape(chr(10).join(facts.summary))}</pre>"


def _throughput(history: Sequence[Sample]) -> list[Series]:
    produced = [
        (
            later.elapsed_s,
            max(0.0, (later.produced - earlier.produced) / (later.elapsed_s - earlier.elapsed_s)),
        )
        for earlier, later in pairwise(history)
        if later.elapsed_s > earlier.elapsed_s
    ]
    flows = _per_flow(history, "rows_per_second")
    return [Series("produced", produced, _PRODUCED_COLOUR), *flows] if produced else []


def _per_flow(history: Sequence[Sample], field: str) -> list[Series]:
    points: dict[str, list[tuple[float, float]]] = {}
    for sample in history:
        for view in sample.views:
            line = points.setdefault(view.flow, [])
            value = getattr(view, field)
            if value is not None:
                line.append((sample.elapsed_s, float(value)))
    return [Series(name, line, colour) for colour, (name, line) in enumerate(points.items()) if line]


def _alerts(facts: Facts) -> list[str]:
    if not facts.alerts:
        return ['<p class="quiet">none yet</p>']
    end_s = facts.history[-1].elapsed_s if facts.history else 1.0
    now = facts.started_at + timedelta(seconds=end_s)
    found = [each for each in episodes(facts.alerts, now=now) if each.until > facts.started_at]
    spans = [
        Span(
            f"{each.service} {each.kind}",
            (each.since - facts.started_at).total_seconds(),
            (each.until - facts.started_at).total_seconds(),
            _worst(each.kind, each.worst),
        )
        for each in found
    ]
    rows = [
        (
            each.service,
            each.kind,
            f"{each.since:%H:%M:%S}",
            f"{each.until:%H:%M:%S}",
            _worst(each.kind, each.worst),
        )
        for each in found[-_ALERT_ROWS_MAX:]
    ]
    return [
        span_chart("alerts", spans, end_s=end_s),
        html_table(("service", "kind", "since", "until", "worst"), rows, text_columns=2),
    ]


def _worst(kind: str, value: float) -> str:
    return f"{value:.0%} errors" if kind == ERROR_RATE else f"{value:,.0f} ms"


def _endpoints(rows: Sequence[Mapping[str, Any]]) -> str:
    """All minutes of an endpoint together; the percentiles are those of its worst minute."""
    if not rows:
        return '<p class="quiet">nothing yet</p>'
    together: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        together.setdefault((row["service"], row["endpoint"]), []).append(row)
    lines = []
    for (service, endpoint), minutes in sorted(together.items()):
        requests = sum(row["requests"] for row in minutes)
        errors = sum(row["errors"] for row in minutes)
        worst = [max(row[f"latency_ms_p{share}"] for row in minutes) for share in (50, 95, 99)]
        latencies = (f"{each:,.0f}" for each in worst)
        lines.append(
            (service, endpoint, f"{requests:,}", f"{errors:,}", f"{errors / requests:.1%}", *latencies)
        )
    titles = ("service", "endpoint", "requests", "errors", "", "p50 ms", "p95 ms", "p99 ms")
    return (
        html_table(titles, lines, text_columns=2)
        + '<p class="quiet">Latencies are those of each endpoint\'s slowest minute.</p>'
    )


def _edges(rows: Sequence[Mapping[str, Any]]) -> list[Edge]:
    return [
        Edge(
            row["caller"],
            row["callee"],
            row["calls"],
            f"{row['calls']:,} · {row['latency_ms_p50']:,.0f} ms",
            bad=row["errors"] / row["calls"] >= _BAD_ERROR_SHARE,
        )
        for row in sorted(rows, key=lambda row: (row["caller"], row["callee"]))
        if row["calls"]
    ]
