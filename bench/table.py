"""The results as one table, readable in a terminal and in Markdown."""

from collections.abc import Sequence

from bench.rows import Result

_ALIGNMENTS = (str.ljust, str.ljust, str.rjust, str.rjust, str.rjust, str.ljust, str.ljust)


def render_table(results: Sequence[Result], *, peer: str = "Kafka") -> str:
    headings = ("measure", "unit", "Penstock", peer, "ratio", "goal", "met")
    lines = [_cells(result) for result in results]
    widths = [max(map(len, column)) for column in zip(headings, *lines, strict=True)]
    return "\n".join(
        [
            _line(headings, widths),
            _rule(widths),
            *(_line(line, widths) for line in lines),
        ]
    )


def render_summary(results: Sequence[Result]) -> str:
    """How many goals are met, and by how much the others are missed."""
    judged = [result for result in results if result.is_met is not None]
    missed = [result for result in judged if not result.is_met]
    lines = [f"{len(judged) - len(missed)} of {len(judged)} goals met."]
    lines += [f"missed: {result.row.title}: {_distance(result)}" for result in missed]
    return "\n".join(lines)


def format_figure(figure: float | None) -> str:
    """Three significant digits, thousands separated."""
    if figure is None:
        return "-"
    if abs(figure) >= 100:
        return f"{figure:,.0f}"
    return f"{figure:.1f}" if abs(figure) >= 10 else f"{figure:.2f}"


def _distance(result: Result) -> str:
    goal = result.row.goal
    assert goal is not None
    assert result.penstock is not None
    parts = []
    if goal.ratio is not None:
        against = result.own if goal.of_row else result.peer
        assert against
        parts.append(f"{format_figure(result.penstock / against)} x")
    if goal.limit is not None:
        parts.append(f"{format_figure(result.penstock)} {result.row.unit}")
    return f"{', '.join(parts)}; the goal is {goal.text(result.row.better)}"


def _cells(result: Result) -> tuple[str, ...]:
    row = result.row
    return (
        row.title,
        row.unit,
        format_figure(result.penstock),
        format_figure(result.peer),
        "" if result.ratio is None else f"{format_figure(result.ratio)} x",
        "" if row.goal is None else row.goal.text(row.better),
        {True: "yes", False: "NO", None: ""}[result.is_met],
    )


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [align(cell, width) for align, cell, width in zip(_ALIGNMENTS, cells, widths, strict=True)]
    return f"| {' | '.join(padded)} |"


def _rule(widths: Sequence[int]) -> str:
    bars = [
        "-" * (width + 2) if align is str.ljust else "-" * (width + 1) + ":"
        for align, width in zip(_ALIGNMENTS, widths, strict=True)
    ]
    return f"|{'|'.join(bars)}|"
