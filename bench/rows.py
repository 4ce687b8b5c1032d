"""Figures, goals and verdicts: pure arithmetic on what the measures found."""

import statistics
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import NamedTuple


class Better(Enum):
    """Which way a figure should go, and which of several rounds counts.

    Other work on a machine only ever takes speed away, so rates and costs are those of the best round. Tail
    latencies are made of such accidents: there, the median round counts.
    """

    MORE = "more"
    LESS = "less"
    LESS_AT_THE_TAIL = "less at the tail"

    def of_rounds(self, figures: Sequence[float]) -> float:
        if self is Better.MORE:
            return max(figures)
        return min(figures) if self is Better.LESS else statistics.median(figures)


class Goal(NamedTuple):
    """What Penstock's figure should be: a multiple of Kafka's, and possibly a limit of its own."""

    ratio: float | None = None  # to Kafka's figure
    limit: float | None = None  # in the row's own unit
    of_row: str | None = None  # `ratio` is to this row of Penstock's own, not to Kafka

    def text(self, better: Better) -> str:
        sign = "≥" if better is Better.MORE else "≤"
        parts = []
        if self.ratio is not None:
            parts.append(f"{sign} {self.ratio:g} x {'own' if self.of_row else 'Kafka'}")
        if self.limit is not None:
            parts.append(f"{sign} {self.limit:g}")
        return ", ".join(parts)


class Row(NamedTuple):
    """One line of the table; `key` names the figure that a measure returns."""

    key: str
    title: str
    unit: str
    better: Better
    goal: Goal | None = None
    compared: bool = True  # False: about the load itself, no ratio makes sense
    charted: bool = False


class Result(NamedTuple):
    """A row with the figures of Penstock and its peer, Kafka or an earlier version; None where one has none."""

    row: Row
    penstock: float | None
    peer: float | None
    own: float | None = None  # Penstock's figure of the row that the goal refers to

    @property
    def ratio(self) -> float | None:
        """Penstock's figure as a multiple of its peer's."""
        return _ratio(self.penstock, self.peer) if self.row.compared else None

    @property
    def is_met(self) -> bool | None:
        """Whether the goal is met; None where there is none, or nothing to compare with."""
        goal = self.row.goal
        if goal is None or self.penstock is None:
            return None
        verdicts = []
        if goal.ratio is not None:
            against = self.own if goal.of_row else self.peer
            found = _ratio(self.penstock, against)
            if found is None:
                return None
            verdicts.append(self._reaches(found, goal.ratio))
        if goal.limit is not None:
            verdicts.append(self._reaches(self.penstock, goal.limit))
        return all(verdicts)

    def _reaches(self, figure: float, wanted: float) -> bool:
        return figure >= wanted if self.row.better is Better.MORE else figure <= wanted


Figures = Mapping[str, float]


def combine(rows: Sequence[Row], rounds: Sequence[Figures]) -> dict[str, float]:
    """One figure per row out of several rounds; rows that no round has are left out."""
    combined = {}
    for row in rows:
        found = [figures[row.key] for figures in rounds if row.key in figures]
        if found:
            combined[row.key] = row.better.of_rounds(found)
    return combined


def results(rows: Sequence[Row], *, penstock: Figures, peer: Figures) -> list[Result]:
    """The rows for which there is a figure."""
    return [
        Result(
            row,
            penstock.get(row.key),
            peer.get(row.key),
            penstock.get(row.goal.of_row) if row.goal and row.goal.of_row else None,
        )
        for row in rows
        if row.key in penstock or row.key in peer
    ]


def percentile(sorted_figures: Sequence[float], share: float) -> float:
    """The figure that `share` of all do not exceed."""
    assert sorted_figures, "nothing was measured"
    return sorted_figures[min(len(sorted_figures) - 1, int(len(sorted_figures) * share))]


def _ratio(figure: float | None, reference: float | None) -> float | None:
    return None if figure is None or not reference else figure / reference
