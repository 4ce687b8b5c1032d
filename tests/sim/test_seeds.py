"""A fixed set of seeds: the broker goes through operations and faults, and what clients saw is as promised.

`make sim` tries fresh ones. A seed that fails is looked at with `penstock sim run --seed S`.
"""

import pytest

from penstock.sim.plan import make_plan
from penstock.sim.run import run_plan

SEEDS = range(250)
PER_TEST = 10


@pytest.mark.parametrize("first", SEEDS[::PER_TEST])
def test_no_promise_is_broken(first: int) -> None:
    for seed in range(first, first + PER_TEST):
        outcome = run_plan(make_plan(seed))
        assert outcome.ok, f"penstock sim run --seed {seed}\n" + "\n".join(map(str, outcome.problems[:5]))
