"""Searches a seed for each fault that is planted in groups and transactions; the result goes into `SEEN_FROM`."""

import sys

import pytest

from penstock.sim.coordination_plan import make_coordination_plan
from penstock.sim.run import run_plan
from tests.sim.planted import Planted
from tests.sim.planted_coordination import PLANTED, SEEDS_MAX, planted_by_name


def first_seed(fault: Planted) -> tuple[int, str] | None:
    """The first seed whose run is wrong with the fault planted, and in which way."""
    with pytest.MonkeyPatch.context() as patch:
        fault.plant(patch)
        for seed in range(SEEDS_MAX):
            outcome = run_plan(make_coordination_plan(seed))
            if not outcome.ok:
                return seed, str(outcome.problems[0])
    return None


def main(names: list[str]) -> int:
    missed = 0
    for fault in map(planted_by_name, names) if names else PLANTED:
        found = first_seed(fault)
        missed += found is None
        seen = "not seen" if found is None else f"{found[0]},  # {found[1]}"
        print(f'    "{fault.name}": {seen}', flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
