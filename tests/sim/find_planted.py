"""Looks, for each planted fault, whether a seed sees it: `python -m tests.sim.find_planted [NAME ...]`.

The seed that is kept comes first. What is found goes into `planted.SEEN_FROM`. Those that have a plan instead are
looked for only by name.
"""

import sys
from collections.abc import Iterator

import pytest

from penstock.sim.plan import make_plan
from penstock.sim.run import run_plan
from tests.sim.planted import SEEDS_MAX, SEEN_FROM, Planted, planted_by_name


def first_seed(fault: Planted) -> tuple[int, str] | None:
    """A seed whose run is wrong with the fault planted, and in which way."""
    with pytest.MonkeyPatch.context() as patch:
        fault.plant(patch)
        for seed in in_order(fault):
            outcome = run_plan(make_plan(seed))
            if not outcome.ok:
                return seed, str(outcome.problems[0])
    return None


def in_order(fault: Planted) -> Iterator[int]:
    """The seed that is kept, then those whose plans have what the fault needs, then all others."""
    kept = SEEN_FROM.get(fault.name)
    if kept is not None:
        yield kept
    likely, others = [], []
    for seed in range(SEEDS_MAX):
        (likely if fault.is_likely(make_plan(seed)) else others).append(seed)
    yield from likely
    yield from others


def main(names: list[str]) -> int:
    missed = 0
    for fault in map(planted_by_name, names or SEEN_FROM):
        found = first_seed(fault)
        if found is None:
            missed += 1
            print(f"{fault.name}: not seen in {SEEDS_MAX} seeds", flush=True)
        else:
            print(f'    "{fault.name}": {found[0]},  # {found[1]}', flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
