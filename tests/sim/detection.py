"""Whether the simulation detects a planted fault, and in which schedule of a plan.

A plan says what clients do and which faults strike at which millisecond. Its seed decides the rest: which process runs
next, how long messages and writes take. A refactoring shifts these too, so one stored seed says little about the
simulation: the plan is therefore run in several schedules, which are the same plan with consecutive seeds, and one of
them has to detect the fault. The stored seed comes first and usually is the only one that runs.

A fault that no longer fits the code (a parameter or an attribute was renamed) fails with a TypeError or the like, and
the run ends with problems. That is no detection, but an error of the test.
"""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from penstock.sim.plan import Plan
from penstock.sim.run import LOGGED_EXCEPTION, RUN_FAILED, UNCAUGHT, RunOutcome, run_plan
from tests.sim.planted import Planted

SCHEDULES_MAX = 20

_EXCEPTIONS = (LOGGED_EXCEPTION, RUN_FAILED, UNCAUGHT)
_MISFITS = ("TypeError(", "AttributeError(", "NameError(")


def schedules(plan: Plan) -> Iterator[Plan]:
    """The plan as it is, then with the seeds that follow its own."""
    return (replace(plan, seed=plan.seed + number) for number in range(SCHEDULES_MAX))


def run_with(fault: Planted, plan: Plan) -> RunOutcome:
    """Run a plan with the fault planted; AssertionError if the fault does not fit the code."""
    with pytest.MonkeyPatch.context() as patch:
        fault.plant(patch)
        outcome = run_plan(plan)
    for problem in outcome.problems:
        misfits = problem.kind in _EXCEPTIONS and any(each in problem.what for each in _MISFITS)
        assert not misfits, f"{fault.name} does not fit the code any more: {problem}"
    return outcome


def assert_detected(fault: Planted, plan: Plan) -> None:
    """One of the plan's schedules fails with the fault, and passes without it."""
    for schedule in schedules(plan):
        if not run_with(fault, schedule).ok:
            assert run_plan(schedule).problems == []
            return
    raise AssertionError(
        f"{fault.name} is not detected in {SCHEDULES_MAX} schedules from seed {plan.seed} on: check that its patch is "
        f"still reached, then find a better plan with python -m tests.sim.find_planted {fault.name}"
    )
