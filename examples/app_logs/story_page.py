"""The page of the story: plots and tables in one HTML file that needs nothing else. Pure.

All times on it are of one clock, that of `Facts.started_at`, which names its zone.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from html import escape
from itertools import pairwise
from typing import Any, Final, NamedTuple

from app_logs.monitoring import ERROR_RATE, Episode, episodes
from penstock.spark.pipelines.charts import (
    COLOURS_MAX,
    STYLE,
    Edge,
    Frame,
    Span,
    graph,
    html_table,
    line_chart,
    span_chart,
)
from penstock.spark.pipelines.units import COUNT, DURATION, PER_SECOND, count, duration, share
from penstock.spark.pipelines.views import FlowView

ALERTING_FLOW: Final = "monitoring"
WARM_UP_S: Final = 30.0  # of the services' writing: Java compiles what it has seen often, and is slow before
ALERT_WITHIN_S: Final = 5.0
# What each flow does, and for whom.
ABOUT: Final = {
    "monitoring": "Finds services that fail or are slow, over the last 10 s, and writes alerts to the topic alerts.",
    "bi": "Counts requests, errors and latencies per endpoint and minute, in the table endpoint_minutes.",
    "tracing": "Puts the spans of a request together and writes the trace to the topic traces.",
    "traces": "Keeps a row per trace in the table traces.",
    "call_graph": "Counts who calls whom in the traces, in the table call_graph.",
    "dead_letters": "Writes late, early and malformed records to the topic app-logs-dead-letters, with the reason.",
}
_SAMPLES_MAX: Final = 1_800
_ALERT_ROWS_MAX: Final = 20
_REFRESH_S: Final = 5
_BAD_ERROR_SHARE: Final = 0.05
_PRODUCED_COLOUR: Final = COLOURS_MAX - 1
_LATENCY_COLOUR: Final = COLOURS_MAX - 2
_TROUBLE: Final = {ERROR_RATE: "errors"}
_TROUBLE_ELSE: Final = "slow"


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
    writing_since_s: float | None  # when the services began to write, on the clock of the samples
    history: Sequence[Sample]
    alerts: Sequence[Mapping[str, Any]]
    endpoint_minutes: Sequence[Mapping[str, Any]]
    call_graph: Sequence[Mapping[str, Any]]
    dead_letter_count: int
    is_running: bool
    summary: Sequence[str] = ()
    is_balanced: bool | None = None


class AlertLatency(NamedTuple):
    """Of one batch of the alerting flow: when it was done, how old its oldest event was then, and how many it read."""

    elapsed_s: float
    latency_s: float
    rows: int


def render_page(facts: Facts) -> str:
    """The whole document; while the story runs it loads itself again every few seconds."""
    refresh = f'<meta http-equiv="refresh" content="{_REFRESH_S}">' if facts.is_running else ""
    frame = Frame(facts.started_at, facts.history[-1].elapsed_s if facts.history else 1.0)
    found = alerts_told(facts)
    latencies = alert_latencies(facts)
    parts = [
        "<h1>Application logs through Penstock and Spark</h1>",
        f'<p class="quiet">{_when(facts, frame)}</p>',
        _figures(facts, found, latencies),
        _summary(facts),
        "<h2>In, and from event to alert</h2>",
        '<div class="cards">',
        _card(
            line_chart(
                "logs produced",
                _produced(facts.history),
                frame=frame,
                unit=PER_SECOND,
                colour=_PRODUCED_COLOUR,
            )
        ),
        _card(
            line_chart(
                "event to alert: how old the oldest event of a batch was when its alerts were out",
                [(each.elapsed_s, each.latency_s) for each in latencies],
                frame=frame,
                unit=DURATION,
                colour=_LATENCY_COLOUR,
                limit=ALERT_WITHIN_S,
            )
        ),
        "</div><h2>The flows</h2>",
        '<p class="quiet">Plots of one kind share a scale: flows can be compared. Point at a line to read it.</p>',
        f'<div class="cards">{"".join(_flows(facts.history, frame))}</div>',
        "<h2>Alerts</h2>",
        *_alerts(found, facts, frame),
        "<h2>Endpoints</h2>",
        _endpoints(facts.endpoint_minutes),
        "<h2>Who calls whom</h2>",
        '<p class="quiet">In each box: how often it was called, and how long the middle one of its calls took. '
        f"Red: {share(_BAD_ERROR_SHARE)} of the calls or more failed.</p>",
        graph("call graph", _edges(facts.call_graph)),
    ]
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8">{refresh}'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><title>Application logs</title>'
        f"<style>{STYLE}</style></head><body><main>{''.join(parts)}</main></body></html>\n"
    )


def alerts_told(facts: Facts) -> list[Episode]:
    """The alerts since the story began, each once: what several windows say of one stretch of trouble is one alert."""
    elapsed_s = facts.history[-1].elapsed_s if facts.history else 0.0
    now = facts.started_at + timedelta(seconds=elapsed_s)
    return [each for each in episodes(facts.alerts, now=now) if each.until > facts.started_at]


def alert_latencies(facts: Facts) -> list[AlertLatency]:
    """Of the batches of the alerting flow that read what services wrote, each once."""
    found = []
    last: FlowView | None = None
    for sample in facts.history:
        for view in sample.views:
            if view.flow != ALERTING_FLOW or view.batch is None or (last and view.batch == last.batch):
                continue
            rows = view.rows - (last.rows if last else 0)
            wrote = facts.writing_since_s is not None and sample.elapsed_s > facts.writing_since_s
            if wrote and view.event_age_ms is not None and view.event_age_ms >= 0 and rows > 0:
                found.append(AlertLatency(sample.elapsed_s, view.event_age_ms / 1000, rows))
            last = view
    return found


def percentile(latencies: Sequence[AlertLatency], part: float, *, since_s: float) -> float | None:
    """Of the events whose batch was done then or later, each as late as the oldest one of its batch."""
    counted = sorted((each.latency_s, each.rows) for each in latencies if each.elapsed_s >= since_s)
    wanted = part * sum(rows for _, rows in counted)
    for latency_s, rows in counted:
        wanted -= rows
        if wanted <= 0:
            return latency_s
    return None


def _when(facts: Facts, frame: Frame) -> str:
    zone = f"{facts.started_at:%Z}" or "UTC"
    began = f"{facts.started_at:%Y-%m-%d %H:%M:%S}"
    if facts.is_running:
        return f"Began {began}, running for {duration(frame.end_s)}. All times are {zone}."
    return f"Began {began}, ended after {duration(frame.end_s)}. All times are {zone}."


def _figures(facts: Facts, found: Sequence[Episode], latencies: Sequence[AlertLatency]) -> str:
    last = facts.history[-1] if facts.history else None
    known = [view.lag for view in last.views if view.lag is not None] if last else []
    ongoing = sum(each.open for each in found)
    slow_s = percentile(latencies, 0.95, since_s=(facts.writing_since_s or 0.0) + WARM_UP_S)
    figures = {
        "records in the topic": count(last.produced if last else 0),
        "largest lag now, in records": count(max(known, default=0)),
        f"alerts, {ongoing} of them ongoing": count(len(found)),
        "dead letters": count(facts.dead_letter_count),
        "from event to alert at most, for 95 % of the events, counted from "
        f"{duration(WARM_UP_S)} after the services began to write": "-"
        if slow_s is None
        else duration(slow_s),
    }
    boxes = "".join(
        f'<div class="figure"><b>{escape(value)}</b>{escape(name)}</div>' for name, value in figures.items()
    )
    return f'<div class="figures">{boxes}</div>'


def _summary(facts: Facts) -> str:
    if not facts.summary:
        return ""
    kind = "" if facts.is_balanced is None else f' class="{"good" if facts.is_balanced else "bad"}"'
    return f"<h2>Counted again, from topics and tables</h2><pre{kind}>{escape(chr(10).join(facts.summary))}</pre>"


def _card(*parts: str) -> str:
    return f'<div class="card">{"".join(parts)}</div>'


def _produced(history: Sequence[Sample]) -> list[tuple[float, float]]:
    return [
        (
            later.elapsed_s,
            max(0.0, (later.produced - earlier.produced) / (later.elapsed_s - earlier.elapsed_s)),
        )
        for earlier, later in pairwise(history)
        if later.elapsed_s > earlier.elapsed_s
    ]


def _flows(history: Sequence[Sample], frame: Frame) -> list[str]:
    """A card for each flow."""
    kinds = (
        ("rows read", "rows_per_second", 1.0, PER_SECOND),
        ("lag, in records", "lag", 1.0, COUNT),
        ("batches took", "batch_ms", 0.001, DURATION),
    )
    names = list(dict.fromkeys(view.flow for sample in history for view in sample.views))
    lines = {
        (name, field): _line(history, name, field, factor) for name in names for _, field, factor, _ in kinds
    }
    largest = {
        field: max((value for name in names for _, value in lines[name, field]), default=0.0)
        for _, field, _, _ in kinds
    }
    latest = {view.flow: view for sample in history for view in sample.views}
    cards = []
    for number, name in enumerate(names):
        view = latest[name]
        took = "-" if view.batch_ms is None else duration(view.batch_ms / 1000)
        charts = [
            line_chart(
                title, lines[name, field], frame=frame, unit=unit, colour=number, largest=largest[field]
            )
            for title, field, _, unit in kinds
        ]
        cards.append(
            _card(
                f"<h3>{escape(name)}</h3><p>{escape(ABOUT.get(name, ''))}</p>",
                f'<p class="quiet">{escape(view.state.value)}; {count(view.rows)} rows read, '
                f"the last batch took {took}</p>",
                *charts,
            )
        )
    return cards


def _line(history: Sequence[Sample], flow: str, field: str, factor: float) -> list[tuple[float, float]]:
    points = []
    for sample in history:
        for view in sample.views:
            value = getattr(view, field)
            if view.flow == flow and value is not None:
                points.append((sample.elapsed_s, float(value) * factor))
    return points


def _alerts(found: Sequence[Episode], facts: Facts, frame: Frame) -> list[str]:
    if not found:
        return ['<p class="quiet">none yet</p>']
    spans = [
        Span(
            f"{each.service}: {_trouble(each.kind)}",
            (each.since - facts.started_at).total_seconds(),
            (each.until - facts.started_at).total_seconds(),
            f"{_clock(each.since, facts)} to {_clock(each.until, facts)}: {_worst(each)}",
        )
        for each in found
    ]
    latest = sorted(found, key=lambda each: each.since, reverse=True)[:_ALERT_ROWS_MAX]
    rows = [
        (
            each.service,
            _trouble(each.kind),
            _clock(each.since, facts),
            "ongoing" if each.open else _clock(each.until, facts),
            _worst(each),
        )
        for each in latest
    ]
    shown = (
        "" if len(latest) == len(found) else f'<p class="quiet">The latest {len(latest)} of {len(found)}.</p>'
    )
    return [
        '<div class="cards">',
        _card(span_chart("when which service was in trouble", spans, frame=frame)),
        _card(html_table(("service", "trouble", "since", "until", "worst"), rows, text_columns=2), shown),
        "</div>",
    ]


def _clock(at: datetime, facts: Facts) -> str:
    return f"{at.astimezone(facts.started_at.tzinfo):%H:%M:%S}"


def _trouble(kind: str) -> str:
    return _TROUBLE.get(kind, _TROUBLE_ELSE)


def _worst(each: Episode) -> str:
    return f"{share(each.worst)} failed" if each.kind == ERROR_RATE else f"p95 {duration(each.worst / 1000)}"


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
        worst = [max(row[f"latency_ms_p{part}"] for row in minutes) for part in (50, 95, 99)]
        latencies = (duration(each / 1000) for each in worst)
        lines.append(
            (f"{service} {endpoint}", count(requests), count(errors), share(errors / requests), *latencies)
        )
    titles = ("endpoint", "requests", "errors", "error rate", "p50", "p95", "p99")
    return (
        html_table(titles, lines, text_columns=1)
        + '<p class="quiet">p50, p95, p99: so long the middle one, and the slowest of 20 and of 100 requests took, '
        "in each endpoint's slowest minute.</p>"
    )


def _edges(rows: Sequence[Mapping[str, Any]]) -> list[Edge]:
    return [
        Edge(
            row["caller"],
            row["callee"],
            row["calls"],
            f"{count(row['calls'])} at {duration(row['latency_ms_p50'] / 1000)}",
            bad=row["errors"] / row["calls"] >= _BAD_ERROR_SHARE,
        )
        for row in sorted(rows, key=lambda row: (row["caller"], row["callee"]))
        if row["calls"]
    ]
