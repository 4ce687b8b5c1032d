"""Large groups: their assignment is computed beside the requests, in small steps."""

import pytest

from penstock.core.groups.consumer_settings import GroupTimes
from penstock.core.groups.partition_sets import count
from tests.core.groups.driven_consumers import Consumer, DrivenConsumers, KnownTopics, settle


@pytest.fixture
def shard():
    """Everything counts as large."""
    return DrivenConsumers(assigned_at_once_max=0)


def finish_work(shard):
    while shard.work:
        shard.step()


def test_a_member_of_a_large_group_gets_its_partitions_with_a_later_heartbeat(shard):
    shard.holds_work = True
    one = Consumer(shard, "one")
    first = one.enter()
    assert (first.member_epoch, count(first.assignment)) == (1, 0)
    assert shard.group.state_name == "Assigning"
    finish_work(shard)
    answer = one.beat()
    assert (answer.member_epoch, count(answer.assignment)) == (2, 4)


def test_an_assignment_is_computed_once_however_many_heartbeats_come_meanwhile(shard):
    shard.holds_work = True
    one = Consumer(shard, "one")
    one.enter()
    for _ in range(5):
        one.beat()
    assert len(shard.work) == 1


def test_members_that_come_while_one_is_computed_are_in_the_next(shard):
    shard.holds_work = True
    one, two = Consumer(shard, "one"), Consumer(shard, "two")
    one.enter()
    shard.step()
    two.enter()
    shard.holds_work = False
    finish_work(shard)
    assert (shard.group.target_epoch, shard.group.epoch) == (2, 3)
    shard.pass_time(1_000)
    settle(one, two)
    assert (count(one.owned), count(two.owned)) == (2, 2)


def test_two_assignments_are_an_interval_apart():
    shard = DrivenConsumers(assigned_at_once_max=0, times=GroupTimes(assignment_interval_ms=3_000))
    shard.enter("one")
    shard.enter("two")
    assert shard.group.target_epoch == 2
    shard.pass_time(2_999)
    assert shard.group.target_epoch == 2
    shard.pass_time(1)
    assert shard.group.target_epoch == 3


def test_small_groups_are_assigned_at_once_however_short_ago_the_last_one_was():
    shard = DrivenConsumers(times=GroupTimes(assignment_interval_ms=15_000))
    shard.enter("one")
    shard.enter("two")
    assert shard.group.target_epoch == 3


def test_an_assignment_interrupted_by_a_fail_over_is_computed_again(shard):
    shard.holds_work = True
    one = Consumer(shard, "one")
    one.enter()
    shard.step()
    shard.fail_over()
    one.beat()
    finish_work(shard)
    one.beat()
    assert count(one.owned) == 4


def test_a_group_that_vanishes_while_its_assignment_is_computed_leaves_nothing(shard):
    shard.holds_work = True
    shard.enter("one")
    shard.step()
    shard.beat("one", -1)
    shard.delete_group()
    finish_work(shard)
    assert shard.shard.groups == {}


def test_a_thousand_members_over_ten_thousand_partitions_are_assigned_in_small_batches():
    topics = KnownTopics(**{f"t{number}": 100 for number in range(100)})
    shard = DrivenConsumers(topics)
    names = topics.names()
    shard.holds_work = True
    for number in range(1_000):
        shard.enter(f"m{number}", *names)
    written = len(shard.log)
    largest = 0
    while shard.work or shard.group.target_epoch < shard.group.epoch:
        if not shard.work:
            shard.pass_time(1_000)
        before = len(shard.log)
        shard.step()
        largest = max(largest, len(shard.log) - before)
    assert len(shard.log) - written >= 1_000
    assert largest <= 101
    assert {count(target) for target in shard.group.targets.values()} == {10}
