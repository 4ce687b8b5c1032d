"""A failing plan made smaller: entries are left out, in halves, quarters and so on, as long as it still fails.

What is left fails too, and leaving out any one entry more would make it pass, unless the budget ended first. Plans with
groups keep their topics: without these their ends fail for a reason of their own.
"""

from collections.abc import Callable

from penstock.sim.entries import CreateTopic, Entry
from penstock.sim.plan import Plan

RUNS_MAX = 300


class Shrinking:
    """One search; `plan` is the smallest that failed so far."""

    def __init__(self, plan: Plan, fails: Callable[[Plan], bool], *, runs_max: int = RUNS_MAX) -> None:
        self.plan = plan
        self.runs = 0
        self._fails = fails
        self._runs_max = runs_max

    @property
    def is_over(self) -> bool:
        return self.runs >= self._runs_max

    def run(self) -> Plan:
        size = (len(self.plan.entries) + 1) // 2
        while size and not self.is_over:
            if not self._drop_pieces(size):
                size = 0 if size == 1 else (size + 1) // 2
        return self.plan

    def _drop_pieces(self, size: int) -> bool:
        """Try to do without each piece of so many entries, the last one first; whether that ever worked."""
        dropped = False
        start = len(self.plan.entries) - size
        while start > -size and not self.is_over:
            before = self.plan.entries
            kept = [entry for entry in before[max(start, 0) : start + size] if self._is_given(entry)]
            shorter = self.plan.with_entries([*before[: max(start, 0)], *kept, *before[start + size :]])
            self.runs += 1
            if len(shorter.entries) < len(before) and self._fails(shorter):
                self.plan, dropped = shorter, True
            start -= size
        return dropped

    def _is_given(self, entry: Entry) -> bool:
        return self.plan.is_coordinated and isinstance(entry, CreateTopic)


def shrink(plan: Plan, fails: Callable[[Plan], bool], *, runs_max: int = RUNS_MAX) -> Plan:
    """The smallest failing plan that was found."""
    return Shrinking(plan, fails, runs_max=runs_max).run()
