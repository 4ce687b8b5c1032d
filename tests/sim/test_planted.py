"""The simulation can see: each planted fault is caught by the seed that is kept for it, and without it all is well."""

import pytest

from penstock.sim.plan import make_plan
from penstock.sim.run import run_plan
from tests.sim.planted import PLANTED, SEEDS_MAX, SEEN_FROM, planted_by_name
from tests.sim.test_found import FOUND


@pytest.mark.parametrize(("name", "seed"), SEEN_FROM.items(), ids=list(SEEN_FROM))
def test_a_planted_fault_is_seen(name: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = make_plan(seed)
    assert run_plan(plan).ok
    planted_by_name(name).plant(monkeypatch)
    assert not run_plan(plan).ok


def test_every_planted_fault_is_seen_in_time() -> None:
    names = [fault.name for fault in PLANTED]
    assert sorted([*SEEN_FROM, *(name for name in FOUND if name in names)]) == sorted(names)
    assert all(seed < SEEDS_MAX for seed in SEEN_FROM.values())
    assert len(SEEN_FROM) >= 10
