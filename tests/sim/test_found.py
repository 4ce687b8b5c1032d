"""Bugs that the simulation found, each as a small plan that shows it (`found/*.json`), all fixed.

A plan has the name of the planted fault that brings its bug back (`planted.py` or `planted_cluster.py`).
"""

from pathlib import Path

import pytest

from penstock.sim.plan import Plan
from penstock.sim.run import run_plan
from tests.sim import planted, planted_cluster
from tests.sim.detection import assert_detected
from tests.sim.planted import planted_by_name

FOUND = {path.stem: path for path in sorted((Path(__file__).parent / "found").glob("*.json"))}


@pytest.mark.parametrize("name", FOUND)
def test_a_bug_that_was_found_stays_fixed(name: str) -> None:
    assert run_plan(Plan.from_json(FOUND[name].read_text())).problems == []


@pytest.mark.parametrize("name", FOUND)
def test_the_plan_of_a_bug_would_detect_it_again(name: str) -> None:
    fault = planted_by_name(name, [*planted.PLANTED, *planted_cluster.PLANTED])
    assert_detected(fault, Plan.from_json(FOUND[name].read_text()))


def test_found_bugs_are_kept() -> None:
    assert FOUND
