"""Finds, for each planted fault, a plan that detects it: `python -m tests.sim.find_planted [NAME ...]`.

The seed in `DETECTED_BY` comes first. A plan that detects the fault is run in ten more schedules (`detection.py`): the
more of them detect it too, the longer the seed will hold. Faults that have a plan in `found/` are searched for only by
name.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

from penstock.sim.cluster_plan import make_cluster_plan
from penstock.sim.coordination_plan import make_coordination_plan
from penstock.sim.plan import Plan, make_plan
from tests.sim import planted, planted_cluster, planted_coordination
from tests.sim.detection import run_with
from tests.sim.planted import Planted

_MORE_SCHEDULES = 10
_ENOUGH = 4  # of them: the search ends here


class Family(NamedTuple):
    """Faults, and the plans in which they are searched for."""

    faults: list[Planted]
    detected_by: dict[str, int]
    make: Callable[[int], Plan]
    seeds_max: int


class Detection(NamedTuple):
    """A seed that detects a fault, the first problem of its run, and how many of ten more schedules detect it."""

    seed: int
    problem: str
    more: int


FAMILIES = (
    Family(planted.PLANTED, planted.DETECTED_BY, make_plan, planted.SEEDS_MAX),
    Family(
        planted_coordination.PLANTED,
        planted_coordination.DETECTED_BY,
        make_coordination_plan,
        planted_coordination.SEEDS_MAX,
    ),
    Family(
        planted_cluster.PLANTED,
        planted_cluster.DETECTED_BY,
        make_cluster_plan,
        planted_cluster.SEEDS_MAX,
    ),
)


def find(fault: Planted, family: Family) -> Detection | None:
    """The first seed that detects the fault in enough schedules, else the one that does in most."""
    best: Detection | None = None
    for seed in in_order(fault, family):
        plan = family.make(seed)
        outcome = run_with(fault, plan)
        if outcome.ok:
            continue
        numbers = range(1, _MORE_SCHEDULES + 1)
        more = sum(not run_with(fault, replace(plan, seed=seed + number)).ok for number in numbers)
        if best is None or more > best.more:
            best = Detection(seed, str(outcome.problems[0]), more)
        if more >= _ENOUGH:
            break
    return best


def in_order(fault: Planted, family: Family) -> Iterator[int]:
    """The stored seed, then the seeds whose plans have what the fault needs, then all others."""
    stored = family.detected_by.get(fault.name)
    if stored is not None:
        yield stored
    likely, others = [], []
    for seed in range(family.seeds_max):
        (likely if fault.is_likely(family.make(seed)) else others).append(seed)
    yield from likely
    yield from others


def main(names: list[str]) -> int:
    missed = 0
    for family in FAMILIES:
        for fault in family.faults:
            if fault.name not in (names or family.detected_by):
                continue
            found = find(fault, family)
            if found is None:
                missed += 1
                print(f"{fault.name}: not detected in {family.seeds_max} seeds", flush=True)
            else:
                more = f"{found.more} of {_MORE_SCHEDULES} more schedules"
                print(f'    "{fault.name}": {found.seed},  # {more}; {found.problem}', flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
