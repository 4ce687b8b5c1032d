"""Plots as SVG inside an HTML page: lines over time, bars over time, a graph of who calls whom. Pure, and without any
resource from outside; colours are variables of the page's style (`STYLE`), for light and dark.
"""

import math
from collections.abc import Sequence
from html import escape
from typing import Final, NamedTuple

WIDTH: Final = 880
_HEIGHT: Final = 220
_LEFT: Final = 64
_RIGHT: Final = 16
_TOP: Final = 12
_BOTTOM: Final = 28
_ROW_HEIGHT: Final = 26
_POINTS_MAX: Final = 600
COLOURS_MAX: Final = 8
_LABELLED_FROM: Final = 0.02  # of the heaviest edge; the others tell when they are pointed at

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
body { margin: 0; background: var(--ground); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 960px; margin: 0 auto; padding: 24px 16px 48px; }
h1 { font-size: 24px; margin: 0 0 4px; } h2 { font-size: 17px; margin: 32px 0 8px; }
p { margin: 4px 0; } .quiet { color: var(--quiet); } .good { color: var(--good); } .bad { color: var(--bad); }
.figures { display: flex; flex-wrap: wrap; gap: 8px; margin: 16px 0; }
.figure { background: var(--panel); border-radius: 6px; padding: 8px 14px; min-width: 130px; }
.figure b { display: block; font-size: 21px; font-variant-numeric: tabular-nums; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 16px; font-size: 13px; }
.legend i { display: inline-block; width: 14px; height: 3px; margin-right: 6px; vertical-align: middle; }
.wide { overflow-x: auto; } svg { max-width: 100%; height: auto; display: block; }
svg text { fill: var(--quiet); font: 12px system-ui, sans-serif; } svg text.name { fill: var(--ink); }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 14px; }
th, td { text-align: right; padding: 3px 12px 3px 0; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { color: var(--quiet); font-weight: 500; } th.text, td.text { text-align: left; }
pre { background: var(--panel); padding: 12px; border-radius: 6px; overflow-x: auto; }
"""


class Series(NamedTuple):
    """A named line; points are (seconds, value) in order. Who is in several charts has one colour in all of them."""

    name: str
    points: Sequence[tuple[float, float]]
    colour: int


class Span(NamedTuple):
    """A stretch of time in a row of its own name."""

    row: str
    begin_s: float
    end_s: float
    told: str


class Edge(NamedTuple):
    """Who calls whom, how often, and what is written beside the arrow."""

    caller: str
    callee: str
    weight: float
    told: str
    bad: bool = False


def line_chart(title: str, series: Sequence[Series], *, unit: str) -> str:
    """Lines over time with a legend; an empty chart says so."""
    points = [point for each in series for point in each.points]
    if not points:
        return _empty(title)
    end_s = max(max(second for second, _ in points), 1.0)
    step, top = _scale(max(value for _, value in points))
    body = [*_grid(step, top, unit), *_seconds_axis(end_s, _HEIGHT - _BOTTOM)]
    for each in series:
        path = " ".join(
            f"{'M' if index == 0 else 'L'}{_x(second, end_s):.1f},{_y(value, top):.1f}"
            for index, (second, value) in enumerate(_thinned(each.points))
        )
        body.append(
            f'<path d="{path}" fill="none" stroke="{_colour(each.colour)}" stroke-width="2" stroke-linejoin="round">'
            f"<title>{escape(each.name)}</title></path>"
        )
    return _legend(series) + _svg(title, _HEIGHT, body)


def span_chart(title: str, spans: Sequence[Span], *, end_s: float) -> str:
    """Stretches of time, a row for each name."""
    if not spans:
        return _empty(title)
    rows = sorted({each.row for each in spans})
    left = 200
    height = _TOP + len(rows) * _ROW_HEIGHT + _BOTTOM
    end_s = max(end_s, *(each.end_s for each in spans), 1.0)
    body = _seconds_axis(end_s, height - _BOTTOM, left=left)
    for number, row in enumerate(rows):
        middle = _TOP + number * _ROW_HEIGHT + _ROW_HEIGHT / 2
        body.append(f'<text class="name" x="0" y="{middle + 4:.1f}">{escape(row)}</text>')
        for each in spans:
            if each.row == row:
                begin, end = _x(max(each.begin_s, 0), end_s, left), _x(each.end_s, end_s, left)
                body.append(
                    f'<rect x="{begin:.1f}" y="{middle - 7:.1f}" width="{max(end - begin, 2):.1f}" height="14" rx="3" '
                    f'fill="var(--bad)"><title>{escape(each.told)}</title></rect>'
                )
    return _svg(title, height, body)


def graph(title: str, edges: Sequence[Edge]) -> str:
    """Callers left, callees right, in columns by distance from those whom nobody calls."""
    if not edges:
        return _empty(title)
    columns = _columns(edges)
    tallest = max(len(column) for column in columns)
    box_width, box_height, gap = 104, 34, 54
    height = tallest * (box_height + gap) + gap // 2
    stride = (WIDTH - box_width - 8) / max(len(columns) - 1, 1)
    places: dict[str, tuple[float, float]] = {}
    for number, column in enumerate(columns):
        free = height - len(column) * box_height
        for row, name in enumerate(column):
            y = free / (len(column) + 1) * (row + 1) + row * box_height
            places[name] = (4 + number * stride, y)
    heaviest = max(each.weight for each in edges) or 1
    body = [
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'markerUnits="userSpaceOnUse" orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="var(--quiet)"/></marker></defs>'
    ]
    labels = []
    for each in edges:
        (x1, y1), (x2, y2) = places[each.caller], places[each.callee]
        begin, end = (x1 + box_width, y1 + box_height / 2), (x2 - 3, y2 + box_height / 2)
        if x2 <= x1:  # back, or within a column: below both
            begin, end = (x1 + box_width / 2, y1 + box_height), (x2 + box_width / 2, y2 + box_height + 3)
        bend = max(abs(end[0] - begin[0]) / 2, 24)
        width = 1 + 5 * math.sqrt(each.weight / heaviest)
        colour = "var(--bad)" if each.bad else "var(--quiet)"
        body.append(
            f'<path d="M{begin[0]:.1f},{begin[1]:.1f} C{begin[0] + bend:.1f},{begin[1]:.1f} '
            f'{end[0] - bend:.1f},{end[1]:.1f} {end[0]:.1f},{end[1]:.1f}" fill="none" stroke="{colour}" '
            f'stroke-opacity="0.65" stroke-width="{width:.1f}" marker-end="url(#tip)">'
            f"<title>{escape(f'{each.caller} → {each.callee}: {each.told}')}</title></path>"
        )
        if each.weight < heaviest * _LABELLED_FROM:
            continue
        # Nearer to the callee: callers have many arrows that begin in one place.
        x, y = begin[0] * 0.42 + end[0] * 0.58, begin[1] * 0.35 + end[1] * 0.65
        labels.append(
            f'<text x="{x:.1f}" y="{y - 6:.1f}" text-anchor="middle" paint-order="stroke" stroke="var(--ground)" '
            f'stroke-width="4">{escape(each.told)}</text>'
        )
    for name, (x, y) in places.items():
        body.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{box_width}" height="{box_height}" rx="5" fill="var(--panel)" '
            f'stroke="var(--line)"/><text class="name" x="{x + box_width / 2:.1f}" y="{y + box_height / 2 + 4:.1f}" '
            f'text-anchor="middle">{escape(name)}</text>'
        )
    return f'<div class="wide">{_svg(title, height, [*body, *labels])}</div>'


def html_table(titles: Sequence[str], rows: Sequence[Sequence[object]], *, text_columns: int) -> str:
    """A table whose first columns are text, and the rest numbers."""

    def cells(tag: str, values: Sequence[object]) -> str:
        return "".join(
            f"<{tag}{' class=text' if number < text_columns else ''}>{escape(str(value))}</{tag}>"
            for number, value in enumerate(values)
        )

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return (
        f'<div class="wide"><table><thead><tr>{cells("th", titles)}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _columns(edges: Sequence[Edge]) -> list[list[str]]:
    """Names by the longest way to them; a circle is cut where the way would grow longer than there are names."""
    names = list(dict.fromkeys(name for each in edges for name in (each.caller, each.callee)))
    depth = dict.fromkeys(names, 0)
    for _ in names:
        for each in edges:
            if each.caller != each.callee and depth[each.callee] <= depth[each.caller] < len(names) - 1:
                depth[each.callee] = depth[each.caller] + 1
    used = sorted(set(depth.values()))
    return [sorted(name for name in names if depth[name] == each) for each in used]


def _svg(title: str, height: float, body: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" height="{height:.0f}" role="img" '
        f'aria-label="{escape(title, quote=True)}">{"".join(body)}</svg>'
    )


def _empty(title: str) -> str:
    return f'<p class="quiet">{escape(title)}: nothing yet</p>'


def _legend(series: Sequence[Series]) -> str:
    entries = "".join(
        f'<span><i style="background:{_colour(each.colour)}"></i>{escape(each.name)}</span>'
        for each in series
    )
    return f'<div class="legend">{entries}</div>'


def _colour(number: int) -> str:
    return f"var(--c{number % COLOURS_MAX})"


def _grid(step: float, top: float, unit: str) -> list[str]:
    lines = []
    for index in range(round(top / step) + 1):
        value = index * step
        y = _y(value, top)
        lines.append(
            f'<line x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="var(--line)"/>'
            f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{_short(value)}</text>'
        )
    lines.append(f'<text x="{_LEFT + 4}" y="{_TOP + 8}">{escape(unit)}</text>')
    return lines


def _seconds_axis(end_s: float, y: float, *, left: int = _LEFT) -> list[str]:
    step, top = _scale(end_s)
    marks = []
    for index in range(round(top / step) + 1):
        second = index * step
        if second <= end_s:
            x = _x(second, end_s, left)
            marks.append(f'<text x="{x:.1f}" y="{y + 18:.1f}" text-anchor="middle">{second:g} s</text>')
    return marks


def _scale(largest: float) -> tuple[float, float]:
    """A round step and a round top, so that there are at most six steps."""
    rough = max(largest, 1e-9) / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough)
    return step, step * max(1, math.ceil(largest / step - 1e-9))


def _x(second: float, end_s: float, left: int = _LEFT) -> float:
    return left + (WIDTH - left - _RIGHT) * second / end_s


def _y(value: float, top: float) -> float:
    return _HEIGHT - _BOTTOM - (_HEIGHT - _BOTTOM - _TOP) * value / top


def _short(value: float) -> str:
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g} {letter}"
    return f"{value:g}"


def _thinned(points: Sequence[tuple[float, float]]) -> Sequence[tuple[float, float]]:
    """At most a few hundred points: of each stretch the highest, so that no burst disappears."""
    if len(points) <= _POINTS_MAX:
        return points
    stride = math.ceil(len(points) / _POINTS_MAX)
    return [max(points[at : at + stride], key=lambda point: point[1]) for at in range(0, len(points), stride)]
