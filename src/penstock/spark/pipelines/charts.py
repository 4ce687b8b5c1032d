"""Plots as SVG inside an HTML page: a line over time, spans of time, a call graph. Pure, and without external
resources; colours are variables of the page's style (`STYLE`), for light and dark.

Every plot is as wide as a phone (`WIDTH`) and has one line, so that a page shows many beside each other, or one below
the other. A point's value is shown when the mouse is over it.
"""

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from html import escape
from itertools import pairwise
from typing import Final, NamedTuple

from penstock.spark.pipelines.units import Unit, scale

WIDTH: Final = 340
_HEIGHT: Final = 120
_LEFT: Final = 52
_RIGHT: Final = 10
_TOP: Final = 10
_BOTTOM: Final = 22
_STEPS_MAX: Final = 3
_ROW_HEIGHT: Final = 34
_POINTS_MAX: Final = 300
_PLACES_MAX: Final = 60  # with a tooltip
COLOURS_MAX: Final = 8
_TICKS_MAX: Final = 4
_TICK_STEPS_S: Final = (
    1,
    2,
    5,
    10,
    15,
    30,
    60,
    120,
    300,
    600,
    900,
    1_800,
    3_600,
    7_200,
    14_400,
    43_200,
    86_400,
)
_BOX_WIDTH: Final = 106
_BOX_GAP: Final = 11
_LAYER_GAP: Final = 40
_LINE_HEIGHT: Final = 14

STYLE: Final = """
:root { color-scheme: light dark; --ground: #ffffff; --ink: #1d2329; --quiet: #5b6570; --line: #d9dee3;
  --panel: #f5f7f9; --bad: #b3261e; --good: #1a7f4b;
  --c0: #2563a8; --c1: #c2570c; --c2: #1a7f6b; --c3: #a83279; --c4: #6d5bb0;
  --c5: #7a6a00; --c6: #45708a; --c7: #8a4b3c; }
@media (prefers-color-scheme: dark) { :root { --ground: #14181c; --ink: #e6eaee; --quiet: #98a3ae; --line: #333b44;
  --panel: #1c2228; --bad: #ff8a80; --good: #6fd6a0;
  --c0: #79b4f2; --c1: #f5a45f; --c2: #5fcfb5; --c3: #ec88c4; --c4: #b0a1f0;
  --c5: #d9c74a; --c6: #93bfd8; --c7: #dd9c8a; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink); font: 15px/1.5 system-ui, sans-serif;
  overflow-wrap: anywhere; }
main { max-width: 1120px; margin: 0 auto; padding: 24px 16px 48px; }
h1 { font-size: 24px; margin: 0 0 4px; } h2 { font-size: 18px; margin: 32px 0 8px; } h3 { font-size: 15px; margin: 0; }
p { margin: 4px 0; } .quiet { color: var(--quiet); } .good { color: var(--good); } .bad { color: var(--bad); }
.figures { display: grid; grid-template-columns: repeat(auto-fill, minmax(150px, 1fr)); gap: 8px; margin: 16px 0; }
.figure { background: var(--panel); border-radius: 6px; padding: 8px 14px; }
.figure b { display: block; font-size: 21px; font-variant-numeric: tabular-nums; }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 330px), 1fr)); gap: 24px 20px; }
.card { min-width: 0; } .card p { font-size: 14px; } figure { margin: 8px 0 0; } figcaption { font-size: 13px; }
svg { width: 100%; max-width: 460px; height: auto; display: block; }
svg text { fill: var(--quiet); font: 11px system-ui, sans-serif; } svg text.name { fill: var(--ink); font-size: 12px; }
svg text.bad { fill: var(--bad); }
svg rect.place { fill: transparent; } svg g:hover > rect.place { fill: var(--quiet); fill-opacity: 0.15; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 14px; }
th, td { text-align: right; padding: 3px 0 3px 14px; border-bottom: 1px solid var(--line); vertical-align: top;
  overflow-wrap: normal; }
td { white-space: nowrap; } th { color: var(--quiet); font-weight: 500; vertical-align: bottom; }
th.text, td.text { text-align: left; white-space: normal; }
th:first-child, td:first-child { padding-left: 0 !important; }
.card table { font-size: 13px; width: 100%; } .card th, .card td { padding-left: 8px; }
pre { background: var(--panel); padding: 12px; border-radius: 6px; white-space: pre-wrap; }
@media (max-width: 480px) { main { padding: 16px 12px 32px; } table { font-size: 12px; width: 100%; }
  th, td { padding-left: 6px; } }
"""


class Frame(NamedTuple):
    """The time axis that all plots of a page share."""

    began_at: datetime
    end_s: float

    def clock(self, second: float) -> str:
        """The time of day of a second since the beginning."""
        return f"{self.began_at + timedelta(seconds=second):%H:%M:%S}"

    def ticks(self) -> list[tuple[float, str]]:
        """A few round times for the axis, in seconds since the beginning, with their labels."""
        step_s = next((each for each in _TICK_STEPS_S if self.end_s <= each * _TICKS_MAX), _TICK_STEPS_S[-1])
        midnight = self.began_at.replace(hour=0, minute=0, second=0, microsecond=0)
        since_s = (self.began_at - midnight).total_seconds()
        second = math.ceil(since_s / step_s) * step_s - since_s
        ticks: list[tuple[float, str]] = []
        while second <= self.end_s and len(ticks) <= _TICKS_MAX:
            told = self.clock(second + 1e-3)
            ticks.append((second, told if step_s < 60 else told[:5]))
            second += step_s
        return ticks


class Span(NamedTuple):
    """A span of time in the row of its name."""

    row: str
    begin_s: float
    end_s: float
    told: str


class Edge(NamedTuple):
    """A caller, a callee, how often it calls, and the label."""

    caller: str
    callee: str
    weight: float
    told: str
    bad: bool = False


def line_chart(
    title: str,
    points: Sequence[tuple[float, float]],
    *,
    frame: Frame,
    unit: Unit,
    colour: int = 0,
    largest: float | None = None,
    limit: float | None = None,
) -> str:
    """A line over time; an empty chart says so. Charts that are given the same `largest` can be compared. `limit` is a
    value that should not be passed, and is drawn too."""
    if not points:
        return _empty(title)
    highest = max(value for _, value in points)
    step, top = scale(max(highest, largest or 0.0, limit or 0.0, unit.steps[0]), unit, steps_max=_STEPS_MAX)
    end_s = max(frame.end_s, 1.0)
    drawn = _thinned(points, _POINTS_MAX)
    places = [(_x(second, end_s), _y(value, top)) for second, value in drawn]
    line = " ".join(f"{'L' if index else 'M'}{x:.1f},{y:.1f}" for index, (x, y) in enumerate(places))
    ground = _y(0, top)
    body = [
        *_grid(step, top, unit),
        *_time_axis(frame, _HEIGHT - _BOTTOM),
        f'<path d="{line} L{places[-1][0]:.1f},{ground:.1f} L{places[0][0]:.1f},{ground:.1f} z" '
        f'fill="{_colour(colour)}" fill-opacity="0.12"/>',
        f'<path class="line" d="{line}" fill="none" stroke="{_colour(colour)}" stroke-width="1.6" '
        'stroke-linejoin="round"/>',
    ]
    if limit is not None:
        y = _y(limit, top)
        body.append(
            f'<line x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="var(--bad)" '
            f'stroke-dasharray="4 3"><title>{escape(unit.show(limit))}</title></line>'
        )
    body += _tooltips(_thinned(points, _PLACES_MAX), frame, unit, end_s)
    told = f"{title}: at most {unit.show(highest)}, last {unit.show(points[-1][1])}"
    return _figure(title, _svg(told, _HEIGHT, body))


def span_chart(title: str, spans: Sequence[Span], *, frame: Frame) -> str:
    """Spans of time, with a row for each name, which is above it."""
    if not spans:
        return _empty(title)
    rows = sorted({each.row for each in spans})
    height = len(rows) * _ROW_HEIGHT + _BOTTOM
    end_s = max(frame.end_s, 1.0)
    body = _time_axis(frame, height - _BOTTOM, left=_RIGHT)
    for number, row in enumerate(rows):
        y = number * _ROW_HEIGHT
        body.append(f'<text class="name" x="{_RIGHT}" y="{y + 13}">{escape(row)}</text>')
        body.append(
            f'<line x1="{_RIGHT}" x2="{WIDTH - _RIGHT}" y1="{y + 24}" y2="{y + 24}" stroke="var(--line)"/>'
        )
        for each in spans:
            if each.row == row:
                begin = _x(min(max(each.begin_s, 0), end_s), end_s, _RIGHT)
                end = _x(min(max(each.end_s, 0), end_s), end_s, _RIGHT)
                body.append(
                    f'<rect x="{begin:.1f}" y="{y + 18}" width="{max(end - begin, 2):.1f}" height="12" rx="3" '
                    f'fill="var(--bad)"><title>{escape(each.told)}</title></rect>'
                )
    return _figure(title, _svg(title, height, body))


def graph(title: str, edges: Sequence[Edge]) -> str:
    """A call graph: callers above their callees, in layers by the distance from the functions without a caller. The
    labels of calls are in the callee's box, because arrows have no room for them."""
    if not edges:
        return _empty(title)
    incoming: dict[str, list[Edge]] = {}
    for each in edges:
        incoming.setdefault(each.callee, []).append(each)
    places, height = _places(edges, incoming)
    heaviest = max(each.weight for each in edges) or 1
    body = [
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'markerUnits="userSpaceOnUse" orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="var(--quiet)"/></marker></defs>'
    ]
    body += [_arrow(each, places, heaviest) for each in edges]
    for name, box in places.items():
        body.append(
            f'<rect x="{box.x:.1f}" y="{box.y:.1f}" width="{_BOX_WIDTH}" height="{box.height:.1f}" rx="5" '
            'fill="var(--panel)" stroke="var(--line)"/>'
            f'<text class="name" x="{box.x + 7:.1f}" y="{box.y + 16:.1f}" font-weight="600">{escape(name)}</text>'
        )
        for number, told in enumerate(_call_labels(name, incoming)):
            kind = ' class="bad"' if told.bad else ""
            y = box.y + 31 + number * _LINE_HEIGHT
            body.append(f'<text{kind} x="{box.x + 7:.1f}" y="{y:.1f}">{escape(told.text)}</text>')
    return _figure(title, _svg(title, height, body))


def html_table(titles: Sequence[str], rows: Sequence[Sequence[object]], *, text_columns: int) -> str:
    """A table whose first columns are text, and the rest numbers."""

    def cells(tag: str, values: Sequence[object]) -> str:
        kinds = (' class="text"' if number < text_columns else "" for number in range(len(values)))
        return "".join(
            f"<{tag}{kind}>{escape(str(value))}</{tag}>" for kind, value in zip(kinds, values, strict=True)
        )

    assert all(titles), "every column has a title"
    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f"<table><thead><tr>{cells('th', titles)}</tr></thead><tbody>{body}</tbody></table>"


class _Box(NamedTuple):
    x: float
    y: float
    height: float


class _Told(NamedTuple):
    text: str
    bad: bool


def _call_labels(name: str, incoming: Mapping[str, Sequence[Edge]]) -> list[_Told]:
    """The lines in a callee's box: each caller's name and label; a single caller is not named."""
    lines = []
    calls = incoming.get(name, [])
    for each in calls:
        if len(calls) > 1:
            lines.append(_Told(f"from {each.caller}:", each.bad))
        lines.append(_Told(each.told, each.bad))
    return lines


def _places(edges: Sequence[Edge], incoming: Mapping[str, Sequence[Edge]]) -> tuple[dict[str, _Box], float]:
    """Where the boxes are; a layer with more of them than fit beside each other takes several rows."""
    in_a_row = (WIDTH + _BOX_GAP) // (_BOX_WIDTH + _BOX_GAP)
    places: dict[str, _Box] = {}
    y = 2.0
    for layer in _layers(edges):
        for at in range(0, len(layer), in_a_row):
            row = layer[at : at + in_a_row]
            heights = [24 + _LINE_HEIGHT * len(_call_labels(name, incoming)) for name in row]
            free = WIDTH - len(row) * _BOX_WIDTH
            gap = free / (len(row) + 1) if len(row) < in_a_row else _BOX_GAP
            x = gap if len(row) < in_a_row else 0.0
            for name, height in zip(row, heights, strict=True):
                places[name] = _Box(x, y, height)
                x += _BOX_WIDTH + gap
            y += max(heights) + _LAYER_GAP
    return places, y - _LAYER_GAP + 4


def _arrow(edge: Edge, places: Mapping[str, _Box], heaviest: float) -> str:
    begin, end = places[edge.caller], places[edge.callee]
    x1, y1 = begin.x + _BOX_WIDTH / 2, begin.y + begin.height
    x2, y2 = end.x + _BOX_WIDTH / 2, end.y - 3
    bend = max((y2 - y1) / 2, 18)
    if end.y <= begin.y:  # back up, or to itself: around the right side
        x1, y1 = begin.x + _BOX_WIDTH, begin.y + begin.height / 2
        x2, y2 = end.x + _BOX_WIDTH + 3, end.y + 8
        curve = f"C{x1 + 20:.1f},{y1:.1f} {x2 + 20:.1f},{y2:.1f}"
    else:
        curve = f"C{x1:.1f},{y1 + bend:.1f} {x2:.1f},{y2 - bend:.1f}"
    width = 1 + 4 * math.sqrt(edge.weight / heaviest)
    colour = "var(--bad)" if edge.bad else "var(--quiet)"
    told = escape(f"{edge.caller} → {edge.callee}: {edge.told}")
    return (
        f'<path d="M{x1:.1f},{y1:.1f} {curve} {x2:.1f},{y2:.1f}" fill="none" '
        f'stroke="{colour}" stroke-opacity="0.6" stroke-width="{width:.1f}" marker-end="url(#tip)">'
        f"<title>{told}</title></path>"
    )


def _layers(edges: Sequence[Edge]) -> list[list[str]]:
    """Names by the length of the longest call path to them; a cycle is cut at as many steps as there are names."""
    names = list(dict.fromkeys(name for each in edges for name in (each.caller, each.callee)))
    depth = dict.fromkeys(names, 0)
    for _ in names:
        for each in edges:
            if each.caller != each.callee and depth[each.callee] <= depth[each.caller] < len(names) - 1:
                depth[each.callee] = depth[each.caller] + 1
    used = sorted(set(depth.values()))
    return [sorted(name for name in names if depth[name] == each) for each in used]


def _figure(title: str, svg: str) -> str:
    return f"<figure><figcaption>{escape(title)}</figcaption>{svg}</figure>"


def _svg(told: str, height: float, body: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escape(told, quote=True)}">'
        f"{''.join(body)}</svg>"
    )


def _empty(title: str) -> str:
    return f'<p class="quiet">{escape(title)}: nothing yet</p>'


def _colour(number: int) -> str:
    return f"var(--c{number % COLOURS_MAX})"


def _grid(step: float, top: float, unit: Unit) -> list[str]:
    lines = []
    for index in range(round(top / step) + 1):
        y = _y(index * step, top)
        lines.append(
            f'<line x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="var(--line)"/>'
            f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{escape(unit.show(index * step))}</text>'
        )
    return lines


def _time_axis(frame: Frame, y: float, *, left: int = _LEFT) -> list[str]:
    end_s = max(frame.end_s, 1.0)
    marks = []
    for second, told in frame.ticks():
        x = min(max(_x(second, end_s, left), left + 14), WIDTH - 24)
        marks.append(f'<text x="{x:.1f}" y="{y + 15:.1f}" text-anchor="middle">{told}</text>')
    return marks


def _tooltips(points: Sequence[tuple[float, float]], frame: Frame, unit: Unit, end_s: float) -> list[str]:
    """A tooltip for each point, with its time and value."""
    places = [_x(second, end_s) for second, _ in points]
    edges = [
        places[0],
        *((left + right) / 2 for left, right in pairwise(places)),
        places[-1],
    ]
    return [
        f'<g><rect class="place" x="{edges[index]:.1f}" y="{_TOP}" '
        f'width="{max(edges[index + 1] - edges[index], 1):.1f}" height="{_HEIGHT - _TOP - _BOTTOM}"/>'
        f"<title>{frame.clock(second)}: {escape(unit.show(value))}</title></g>"
        for index, (second, value) in enumerate(points)
    ]


def _x(second: float, end_s: float, left: int = _LEFT) -> float:
    return left + (WIDTH - left - _RIGHT) * second / end_s


def _y(value: float, top: float) -> float:
    return _HEIGHT - _BOTTOM - (_HEIGHT - _BOTTOM - _TOP) * value / top


def _thinned(points: Sequence[tuple[float, float]], points_max: int) -> Sequence[tuple[float, float]]:
    """At most that many points: the highest of each interval, so that no burst disappears."""
    if len(points) <= points_max:
        return points
    stride = math.ceil(len(points) / points_max)
    return [max(points[at : at + stride], key=lambda point: point[1]) for at in range(0, len(points), stride)]
