"""Clusters under faults: a fixed set of seeds, planted faults that are detected, one history per seed.

A seed that fails is looked at with `penstock sim run --cluster --seed S`.
"""

from collections import Counter

import pytest

from penstock.sim.cluster_plan import OPERATION_COUNT, make_cluster_plan
from penstock.sim.entries import CLUSTERED, FAULTS, CutPeers, FlipBit
from penstock.sim.plan import Plan
from penstock.sim.run import run_plan
from tests.sim.detection import assert_detected
from tests.sim.histories import hash_in_another_process
from tests.sim.planted import planted_by_name
from tests.sim.planted_cluster import DETECTED_BY, NOT_DETECTED_YET, PLANTED, SEEDS_MAX
from tests.sim.test_found import FOUND

SEEDS = range(30)
PER_TEST = 5
PLANS = [make_cluster_plan(seed) for seed in range(200)]


@pytest.mark.parametrize("first", SEEDS[::PER_TEST])
def test_no_promise_of_a_cluster_is_broken_and_it_comes_to_agree(first: int) -> None:
    for seed in range(first, first + PER_TEST):
        outcome = run_plan(make_cluster_plan(seed))
        problems = "\n".join(map(str, outcome.problems[:5]))
        assert outcome.ok, f"penstock sim run --cluster --seed {seed}\n{problems}"


@pytest.mark.parametrize("name", DETECTED_BY)
def test_a_fault_planted_in_a_cluster_is_detected(name: str) -> None:
    assert_detected(planted_by_name(name, PLANTED), make_cluster_plan(DETECTED_BY[name]))


def test_every_planted_fault_has_a_seed_or_a_plan_or_is_known_not_to_be_detected() -> None:
    names = [fault.name for fault in PLANTED]
    assert sorted([*DETECTED_BY, *NOT_DETECTED_YET, *(name for name in FOUND if name in names)]) == sorted(
        names
    )
    assert all(seed < SEEDS_MAX for seed in DETECTED_BY.values())


def test_one_seed_is_one_history_in_one_process_and_in_two() -> None:
    for seed in (3, 4):  # with groups and transactions, and without
        hashes = {run_plan(make_cluster_plan(seed)).hash}
        for hash_seed in ("1", "2"):
            hashes.add(hash_in_another_process(make_cluster_plan, seed, hash_seed))
        assert len(hashes) == 1


# ---- the plans


def test_a_plan_of_a_cluster_reads_back_as_it_was_written() -> None:
    for plan in PLANS[:20]:
        assert Plan.from_json(plan.to_json()) == plan


def test_together_plans_try_everything_that_befalls_clusters_and_every_fault_but_flipped_bits() -> None:
    tried = {entry.kind for plan in PLANS for entry in plan.entries}
    assert tried >= {*CLUSTERED, *FAULTS} - {FlipBit.kind}
    assert FlipBit.kind not in tried


def test_faults_strike_nodes_that_there_are_and_cut_them_from_others() -> None:
    for plan in PLANS:
        assert 3 <= plan.nodes <= 5
        bursts = any(writer.pipelines for writer in plan.writers)
        assert len(plan.operations) == OPERATION_COUNT or (bursts and len(plan.operations) > OPERATION_COUNT)
        for fault in plan.faults:
            assert 1 <= fault.node <= plan.nodes
            assert not isinstance(fault, CutPeers) or fault.node != fault.other <= plan.nodes


def test_some_writers_have_several_batches_under_way_and_all_of_those_are_idempotent() -> None:
    pipelining = [writer for plan in PLANS for writer in plan.writers if writer.pipelines]
    assert pipelining
    assert all(writer.idempotent for writer in pipelining)
    assert any(writer.idempotent and not writer.pipelines for plan in PLANS for writer in plan.writers)


def test_plans_have_topics_with_one_to_five_replicas_and_some_have_groups_and_transactions() -> None:
    assert {topic.replication_factor for plan in PLANS for topic in plan.topics} == {1, 2, 3, 4, 5}
    assert {plan.is_coordinated for plan in PLANS} == {True, False}


def test_clusters_get_somewhere() -> None:
    counts = sum((run_plan(make_cluster_plan(seed)).counts for seed in (3, 4, 5)), Counter[str]())
    assert counts["send ok"] > 50
    assert counts["read ok"] > 10
