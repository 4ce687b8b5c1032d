"""Groups and transactions under faults: a fixed set of seeds, planted faults that are detected, one history per seed.

A seed that fails is looked at with `penstock sim run --coordination --seed S`.
"""

import pytest

from penstock.sim.coordination_plan import FLUSHES_ALWAYS, OPERATION_COUNT, make_coordination_plan
from penstock.sim.entries import COORDINATED, FAULTS, FlipBit
from penstock.sim.plan import Plan
from penstock.sim.run import run_plan
from tests.sim.detection import assert_detected
from tests.sim.histories import hash_in_another_process
from tests.sim.planted import Planted
from tests.sim.planted_coordination import DETECTED_BY, PLANTED, SEEDS_MAX

PER_TEST = 5
# 97: members whose polls go on with what earlier ones have asked for.
FIRST_SEEDS = (*range(0, 40, PER_TEST), 97)
PLANS = [make_coordination_plan(seed) for seed in range(200)]


@pytest.mark.parametrize("first", FIRST_SEEDS)
def test_no_promise_of_a_coordinator_is_broken(first: int) -> None:
    for seed in range(first, first + PER_TEST):
        outcome = run_plan(make_coordination_plan(seed))
        problems = "\n".join(map(str, outcome.problems[:5]))
        assert outcome.ok, f"penstock sim run --coordination --seed {seed}\n{problems}"


@pytest.mark.parametrize("fault", PLANTED, ids=[fault.name for fault in PLANTED])
def test_a_fault_planted_in_groups_or_transactions_is_detected(fault: Planted) -> None:
    assert_detected(fault, make_coordination_plan(DETECTED_BY[fault.name]))


def test_every_planted_fault_has_a_seed() -> None:
    assert list(DETECTED_BY) == [fault.name for fault in PLANTED]
    assert all(seed < SEEDS_MAX for seed in DETECTED_BY.values())


def test_one_seed_is_one_history_in_one_process_and_in_two() -> None:
    # In the second, a member commits offsets of several partitions as they are revoked.
    for seed in (8, 7_000_010):
        hashes = {run_plan(make_coordination_plan(seed)).hash}
        for hash_seed in ("1", "2"):
            hashes.add(hash_in_another_process(make_coordination_plan, seed, hash_seed))
        assert len(hashes) == 1


# ---- the plans


def test_a_plan_of_coordination_reads_back_as_it_was_written() -> None:
    for plan in PLANS[:20]:
        assert Plan.from_json(plan.to_json()) == plan


def test_together_plans_try_every_operation_of_coordination_and_every_fault_but_flipped_bits() -> None:
    tried = {entry.kind for plan in PLANS for entry in plan.entries}
    assert tried >= {*COORDINATED, *FAULTS} - {FlipBit.kind}
    assert FlipBit.kind not in tried


def test_every_coordination_plan_has_members_or_transactors_and_every_actor_of_its_operations() -> None:
    for plan in PLANS:
        assert plan.is_coordinated
        assert len(plan.operations) == OPERATION_COUNT
        named = {actor.name for actor in (*plan.members, *plan.transactors, *plan.writers)}
        assert {operation.actor for operation in plan.operations} <= {"admin", *plan.readers, *named}


def test_members_of_one_group_speak_one_protocol_and_plans_have_both() -> None:
    protocols: dict[str, set[str]] = {}
    for plan in PLANS:
        for member in plan.members:
            protocols.setdefault(member.group, set()).add(member.protocol)
    assert all(len(spoken) == 1 for spoken in protocols.values())
    assert {protocol for spoken in protocols.values() for protocol in spoken} == {"classic", "consumer"}


def test_where_every_batch_is_synced_topics_say_so_too() -> None:
    for plan in PLANS:
        flushed = FLUSHES_ALWAYS in plan.broker
        assert all((topic.configs.get("flush.messages") == "1") is flushed for topic in plan.topics)


def test_groups_and_transactions_get_somewhere() -> None:
    counts = run_plan(make_coordination_plan(0)).counts
    assert counts["poll ok"] > 5
    assert counts["transact ok"] > 5
