"""A failing plan is made as small as it can be while it fails."""

from penstock.sim.coordination_plan import make_coordination_plan
from penstock.sim.entries import CreateTopic
from penstock.sim.plan import make_plan
from penstock.sim.shrink import Shrinking, shrink

PLAN = make_plan(1)


def test_only_the_entries_that_matter_are_left() -> None:
    needed = [PLAN.entries[3], PLAN.entries[50], PLAN.entries[-1]]
    smallest = shrink(PLAN, lambda plan: all(entry in plan.entries for entry in needed))
    assert list(smallest.entries) == needed


def test_a_plan_that_fails_whatever_is_left_out_ends_empty() -> None:
    assert shrink(PLAN, lambda _: True).entries == ()


def test_a_plan_with_groups_keeps_its_topics() -> None:
    plan = make_coordination_plan(1)
    creations = [entry for entry in plan.entries if isinstance(entry, CreateTopic)]
    assert list(shrink(plan, lambda _: True).entries) == creations


def test_a_plan_that_needs_everything_stays_as_it_is() -> None:
    assert shrink(PLAN, lambda plan: plan == PLAN) == PLAN


def test_order_and_all_but_the_entries_stay() -> None:
    smallest = shrink(PLAN, lambda plan: len(plan.entries) >= 10)
    assert len(smallest.entries) == 10
    assert smallest.with_entries(PLAN.entries) == PLAN
    positions = [PLAN.entries.index(entry) for entry in smallest.entries]
    assert positions == sorted(positions)


def test_the_search_ends_with_its_budget() -> None:
    shrinking = Shrinking(PLAN, lambda plan: PLAN.entries[0] in plan.entries, runs_max=3)
    smallest = shrinking.run()
    assert shrinking.runs == 3
    assert 1 < len(smallest.entries) < len(PLAN.entries)
