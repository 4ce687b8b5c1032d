"""The simulation detects each fault that `planted.py` plants (`detection.py` says in which schedules)."""

import pytest

from penstock.services.replicas.replica import Replica
from penstock.sim.plan import Plan, make_plan
from tests.sim.detection import assert_detected, run_with
from tests.sim.planted import DETECTED_BY, PLANTED, SEEDS_MAX, Planted, planted_by_name
from tests.sim.test_found import FOUND

SMALL_PLAN = Plan.from_json(FOUND["start_not_written_before_compaction"].read_text())


@pytest.mark.parametrize("name", DETECTED_BY)
def test_a_planted_fault_is_detected(name: str) -> None:
    assert_detected(planted_by_name(name), make_plan(DETECTED_BY[name]))


def test_every_planted_fault_has_a_seed_or_a_plan() -> None:
    names = [fault.name for fault in PLANTED]
    assert sorted([*DETECTED_BY, *(name for name in FOUND if name in names)]) == sorted(names)
    assert all(seed < SEEDS_MAX for seed in DETECTED_BY.values())
    assert len(DETECTED_BY) >= 10


def test_a_fault_that_changes_nothing_is_not_detected() -> None:
    with pytest.raises(AssertionError, match="is not detected in 20 schedules"):
        assert_detected(Planted("nothing", lambda patch: None), SMALL_PLAN)


def test_a_fault_that_does_not_fit_the_code_is_no_detection() -> None:
    fault = Planted("outdated", lambda patch: patch.setattr(Replica, "read_cached", lambda self: None))
    with pytest.raises(AssertionError, match=r"outdated does not fit the code any more: .*TypeError"):
        run_with(fault, SMALL_PLAN)
