"""One small picture for the README: how many times better than Kafka, on a logarithmic scale.

A bar to the right of the middle line is in Penstock's favour, whether more or less of it is better. Plain SVG with
colours that read on a light and on a dark page; no script and no font of its own.
"""

import math
from collections.abc import Sequence
from html import escape

from bench.rows import Better, Result
from bench.table import format_figure

_WIDTH = 760
_LINE_HEIGHT = 22
_TOP = 60
_LABEL_WIDTH = 290
_MIDDLE = 470
_HALF_WIDTH = 150
_TIMES_MAX = 32  # a bar of full length
_AHEAD, _BEHIND, _TEXT, _FAINT = "#2a9d8f", "#d1495b", "#808080", "#80808060"


def times_better(result: Result) -> float | None:
    """How many times better than Kafka Penstock is; below 1 where it is worse."""
    if not result.ratio:
        return None
    return result.ratio if result.row.better is Better.MORE else 1 / result.ratio


def render_chart(results: Sequence[Result], *, subtitle: str) -> str:
    charted = [result for result in results if result.row.charted]
    shown = [(result, times) for result in charted if (times := times_better(result)) is not None]
    height = _TOP + _LINE_HEIGHT * len(shown) + 14
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" '
            f'height="{height}" font-family="system-ui, sans-serif" font-size="12" fill="{_TEXT}" role="img">',
            f"<title>Penstock beside Apache Kafka</title><desc>{escape(subtitle)}</desc>",
            f'<text x="0" y="16" font-size="14" font-weight="bold">Penstock beside Apache Kafka</text>'
            f'<text x="0" y="32" font-size="11">{escape(subtitle)}</text>',
            f'<line x1="{_MIDDLE}" y1="{_TOP - 4}" x2="{_MIDDLE}" y2="{height - 10}" stroke="{_TEXT}"/>',
            *_grid(height),
            *(_bar(index, result, times) for index, (result, times) in enumerate(shown)),
            "</svg>",
            "",
        ]
    )


def _grid(height: int) -> list[str]:
    lines = []
    for times in (1 / 10, 10):
        x = _MIDDLE + _offset(times)
        lines.append(
            f'<line x1="{x:.0f}" y1="{_TOP - 4}" x2="{x:.0f}" y2="{height - 10}" stroke="{_FAINT}" '
            f'stroke-dasharray="2 3"/><text x="{x:.0f}" y="{_TOP - 8}" text-anchor="middle" font-size="10">'
            f"{'10 x better' if times > 1 else '10 x worse'}</text>"
        )
    return lines


def _bar(index: int, result: Result, times: float) -> str:
    top = _TOP + index * _LINE_HEIGHT
    offset = _offset(times)
    x = _MIDDLE + min(0.0, offset)
    baseline = top + 12
    figures = f"{format_figure(result.penstock)} / {format_figure(result.peer)} {escape(result.row.unit)}"
    return (
        f'<text x="{_LABEL_WIDTH}" y="{baseline}" text-anchor="end">{escape(result.row.title)}</text>'
        f'<rect x="{x:.1f}" y="{top}" width="{max(abs(offset), 1):.1f}" height="15" rx="2" '
        f'fill="{_AHEAD if times >= 1 else _BEHIND}"><title>{figures}</title></rect>'
        f'<text x="{_WIDTH - 4}" y="{baseline}" text-anchor="end">{format_figure(times)} x</text>'
    )


def _offset(times: float) -> float:
    """How far from the middle a bar reaches."""
    share = math.log(times) / math.log(_TIMES_MAX)
    return _HALF_WIDTH * max(-1.0, min(1.0, share))
