"""Plans: the same from the same seed, whole when written and read, and made as they claim to be."""

import pytest

from penstock.sim.entries import FAULTS, OPERATIONS, Entry, describe, from_json, to_json
from penstock.sim.plan import OPERATION_COUNT, OPERATIONS_PER_FAULT, Plan, make_plan
from penstock.sim.topic_plans import keeping

SEEDS = range(200)
PLANS = {seed: make_plan(seed) for seed in SEEDS}


def test_a_seed_is_always_the_same_plan() -> None:
    assert make_plan(7) == PLANS[7]
    assert make_plan(8) != PLANS[7]


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 4])
def test_a_plan_reads_back_as_it_was_written(seed: int) -> None:
    plan = PLANS[seed]
    assert Plan.from_json(plan.to_json()) == plan


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"seed": 1}', '{"seed": "x"}'])
def test_what_is_no_plan_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        Plan.from_json(text)


def test_an_entry_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="no entry is called 'earthquake'"):
        from_json({"kind": "earthquake", "at_ms": 1})


def test_an_entry_with_wrong_fields_is_refused() -> None:
    with pytest.raises(ValueError, match="a disk-full entry with wrong fields: for_ms, while_ms"):
        from_json({"kind": "disk-full", "at_ms": 1, "when": None, "node": 1, "while_ms": 5})


def test_every_plan_has_as_many_operations_as_it_should_and_far_fewer_faults() -> None:
    for plan in PLANS.values():
        assert len(plan.operations) == OPERATION_COUNT
        assert 1 <= len(plan.faults) <= OPERATION_COUNT // OPERATIONS_PER_FAULT


def test_every_plan_begins_with_its_topics_and_goes_on_in_the_order_of_time() -> None:
    for plan in PLANS.values():
        times = [entry.at_ms for entry in plan.entries]
        assert times == sorted(times)
        created = [entry.topic for entry in plan.entries[: len(plan.topics)] if entry.kind == "create"]
        assert created == [topic.name for topic in plan.topics]


def test_every_actor_of_an_operation_is_in_the_plan() -> None:
    for plan in PLANS.values():
        actors = {"admin", *plan.readers, *(writer.name for writer in plan.writers)}
        assert {operation.actor for operation in plan.operations} <= actors


def test_together_plans_try_every_kind_of_operation_and_fault() -> None:
    tried = {entry.kind for plan in PLANS.values() for entry in plan.entries}
    assert tried == {*OPERATIONS, *FAULTS}


def test_records_of_compacted_topics_have_keys() -> None:
    for plan in PLANS.values():
        keyed = {topic.name for topic in plan.topics if topic.is_keyed}
        for entry in plan.operations:
            if entry.kind == "send" and to_json(entry)["topic"] in keyed:
                assert all(to_json(entry)["keys"])


def test_what_a_topic_promises_follows_from_its_configs() -> None:
    base = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "500"}
    assert keeping(base).retention_bytes == 500
    assert keeping(base).retention_ms is None
    assert not keeping(base).flushes_every_batch
    compacted = keeping({**base, "cleanup.policy": "compact", "flush.messages": "1"})
    assert compacted.compacts
    assert compacted.flushes_every_batch
    assert compacted.retention_bytes is None
    assert compacted.tombstones_ms == 86_400_000


def test_an_entry_is_one_line_for_people() -> None:
    entry: Entry = from_json(
        {"kind": "cut", "at_ms": 1500, "actor": "reader-0", "for_ms": 50, "when": "flush", "node": 2}
    )
    assert describe(entry) == "   1.500 s  cut            reader-0   when='flush', node=2, for_ms=50"
