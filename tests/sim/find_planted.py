"""Looks, for each planted fault, whether a seed sees it: `python -m tests.sim.find_planted [NAME ...]`.

The seed that is kept comes first. What is found goes into `SEEN_FROM`, of the module that has the fault. Those
that have a plan instead are looked for only by name.
"""

import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from penstock.sim.cluster_plan import make_cluster_plan
from penstock.sim.coordination_plan import make_coordination_plan
from penstock.sim.plan import Plan, make_plan
from penstock.sim.run import run_plan
from tests.sim import planted, planted_cluster, planted_coordination
from tests.sim.planted import Planted


class Family(NamedTuple):
    """Faults, and the plans in which they are looked for."""

    faults: list[Planted]
    seen_from: dict[str, int]
    make: Callable[[int], Plan]
    seeds_max: int


FAMILIES = (
    Family(planted.PLANTED, planted.SEEN_FROM, make_plan, planted.SEEDS_MAX),
    Family(
        planted_coordination.PLANTED,
        planted_coordination.SEEN_FROM,
        make_coordination_plan,
        planted_coordination.SEEDS_MAX,
    ),
    Family(
        planted_cluster.PLANTED,
        planted_cluster.SEEN_FROM,
        make_cluster_plan,
        planted_cluster.SEEDS_MAX,
    ),
)


def first_seed(fault: Planted, family: Family) -> tuple[int, str] | None:
    """A seed whose run is wrong with the fault planted, and in which way."""
    with pytest.MonkeyPatch.context() as patch:
        fault.plant(patch)
        for seed in in_order(fault, family):
            outcome = run_plan(family.make(seed))
            if not outcome.ok:
                return seed, str(outcome.problems[0])
    return None


def in_order(fault: Planted, family: Family) -> Iterator[int]:
    """The seed that is kept, then those whose plans have what the fault needs, then all others."""
    kept = family.seen_from.get(fault.name)
    if kept is not None:
        yield kept
    likely, others = [], []
    for seed in range(family.seeds_max):
        (likely if fault.is_likely(family.make(seed)) else others).append(seed)
    yield from likely
    yield from others


def main(names: list[str]) -> int:
    missed = 0
    for family in FAMILIES:
        for fault in family.faults:
            if fault.name not in (names or family.seen_from):
                continue
            found = first_seed(fault, family)
            if found is None:
                missed += 1
                print(f"{fault.name}: not seen in {family.seeds_max} seeds", flush=True)
            else:
                print(f'    "{fault.name}": {found[0]},  # {found[1]}', flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
