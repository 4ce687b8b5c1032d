"""Reconciliation: members revoke, then others take over, and partitions that stay are never interrupted."""

import pytest

from penstock.core.groups.consumer_member import ConsumerMember, MemberState
from penstock.core.groups.partition_sets import NOTHING, is_within
from penstock.core.groups.reconciliation import reconcile
from tests.core.groups.driven_consumers import Consumer, DrivenConsumers, KnownTopics, settle

TOPIC = bytes(16)


def parts(*partitions):
    return {TOPIC: frozenset(partitions)} if partitions else {}


def member(state=MemberState.STABLE, *, epoch=1, assigned=(), pending=()):
    since = {TOPIC: dict.fromkeys((*assigned, *pending), 1)}
    return ConsumerMember(
        member_id="m",
        epoch=epoch,
        previous_epoch=epoch,
        state=state,
        assigned=parts(*assigned),
        pending_revocation=parts(*pending),
        since=since,
    )


def step(before, *, target, owned, taken=(), target_epoch=2):
    return reconcile(
        before,
        target=parts(*target),
        target_epoch=target_epoch,
        owned=None if owned is None else parts(*owned),
        free_of=lambda _topic_id, partitions: partitions.difference(taken),
    )


def test_a_member_that_has_arrived_takes_no_step():
    before = member(epoch=2, assigned=(0,))
    assert step(before, target=(0,), owned=(0,)) is before


def test_a_member_gives_up_before_it_enters_the_new_epoch():
    after = step(member(assigned=(0, 1)), target=(1, 2), owned=(0, 1))
    assert (after.state, after.epoch) == (MemberState.UNREVOKED, 1)
    assert (after.assigned, after.pending_revocation) == (parts(1), parts(0))


@pytest.mark.parametrize("owned", [None, (0, 1), (0,)])
def test_a_member_that_may_still_own_what_it_has_to_give_up_stays_where_it_is(owned):
    before = member(MemberState.UNREVOKED, assigned=(1,), pending=(0,))
    assert step(before, target=(1, 2), owned=owned) is before


def test_a_member_that_gave_up_enters_the_new_epoch_with_what_is_free():
    before = member(MemberState.UNREVOKED, assigned=(1,), pending=(0,))
    after = step(before, target=(1, 2, 3), owned=(1,), taken=(3,))
    assert (after.state, after.epoch, after.previous_epoch) == (MemberState.UNRELEASED, 2, 1)
    assert (after.assigned, after.pending_revocation) == (parts(1, 2), NOTHING)


def test_partitions_remember_in_which_epoch_they_came():
    after = step(member(assigned=(1,)), target=(1, 2), owned=(1,))
    assert after.since == {TOPIC: {1: 1, 2: 2}}


def test_a_member_that_waits_gets_the_rest_when_others_have_given_it_up():
    before = member(MemberState.UNRELEASED, epoch=2, assigned=(1,))
    assert step(before, target=(1, 3), owned=(1,), taken=(3,)) is before
    after = step(before, target=(1, 3), owned=(1,))
    assert (after.state, after.assigned) == (MemberState.STABLE, parts(1, 3))


def test_a_target_that_moves_again_is_followed_from_where_the_member_is():
    before = member(MemberState.UNREVOKED, assigned=(1,), pending=(0,))
    after = step(before, target=(0,), owned=(1,), target_epoch=3)
    assert (after.state, after.epoch, after.pending_revocation) == (MemberState.UNREVOKED, 1, parts(1))


@pytest.fixture
def shard():
    return DrivenConsumers()


def test_a_second_member_gets_its_share_once_the_first_has_given_it_up(shard):
    one, two = Consumer(shard, "one"), Consumer(shard, "two")
    one.enter()
    assert two.enter().assignment == NOTHING
    assert one.beat().assignment == shard.topics.partitions(orders=[0, 1])
    assert two.beat().assignment is None, "the first has been told, and has not yet said that it did"
    assert one.beat().member_epoch == 3
    assert two.beat().assignment == shard.topics.partitions(orders=[2, 3])
    assert shard.group.state_name == "Stable"


def test_members_that_keep_their_partitions_are_never_asked_to_stop(shard):
    shard.topics.put("orders", 6)
    consumers = [Consumer(shard, f"m{index}") for index in range(3)]
    for consumer in consumers:
        consumer.enter()
    settle(*consumers)
    leaving, *staying = consumers
    before = {consumer: consumer.owned for consumer in staying}
    leaving.leave()
    while shard.group.state_name != "Stable":
        for consumer in staying:
            consumer.beat()
            assert is_within(before[consumer], consumer.owned), "what it keeps was taken from it"
    assert shard.owned_by_all(*staying) == 6


def test_a_member_that_is_restarted_gets_at_once_what_others_have_not_heard_of_yet(shard):
    shard.topics.put("orders", 6)
    consumers = [Consumer(shard, f"m{index}") for index in range(3)]
    for consumer in consumers:
        consumer.enter()
    settle(*consumers)
    restarted, *staying = consumers
    before = restarted.owned
    restarted.leave()
    again = Consumer(shard, "again")
    assert again.enter().assignment == before
    owned = [consumer.owned for consumer in staying]
    settle(again, *staying)
    assert [consumer.owned for consumer in staying] == owned
    assert (again.owned, shard.owned_by_all(again, *staying)) == (before, 6)


def test_partitions_already_reassigned_stay_assigned_when_a_member_comes_back_too_late(shard):
    one, two = Consumer(shard, "one"), Consumer(shard, "two")
    one.enter()
    two.enter()
    settle(one, two)
    two.leave()
    one.beat()
    again = Consumer(shard, "again")
    assert again.enter().assignment == NOTHING
    settle(one, again)
    assert shard.owned_by_all(one, again) == 4


def test_a_member_that_does_not_give_up_in_time_is_fenced(shard):
    stubborn, two = Consumer(shard, "one", rebalance_timeout_ms=10_000), Consumer(shard, "two")
    everything = stubborn.enter().assignment
    two.enter()
    stubborn.beat(owned=everything)
    shard.pass_time(9_999)
    shard.beat("one", 2, owned=everything)
    assert "one" in shard.group.members
    shard.pass_time(1)
    assert "one" not in shard.group.members
    two.beat()
    assert two.owned == everything


def test_the_time_to_revoke_starts_again_after_a_fail_over(shard):
    stubborn = Consumer(shard, "one", rebalance_timeout_ms=10_000)
    stubborn.enter()
    shard.enter("two")
    stubborn.beat()
    shard.pass_time(9_000)
    shard.fail_over()
    shard.pass_time(9_999)
    assert "one" in shard.group.members
    shard.pass_time(1)
    assert "one" not in shard.group.members


def test_new_partitions_of_a_topic_are_assigned(shard):
    one = Consumer(shard, "one")
    one.enter()
    shard.topics.put("orders", 5)
    assert one.beat().assignment == shard.topics.partitions(orders=range(5))


def test_a_topic_that_is_created_later_is_assigned_then(shard):
    one = Consumer(shard, "one", "later")
    assert one.enter().assignment == NOTHING
    shard.topics.put("later", 2)
    assert one.beat().assignment == shard.topics.partitions(later=[0, 1])


def test_a_topic_that_is_deleted_is_given_up():
    shard = DrivenConsumers(KnownTopics(orders=2, invoices=2))
    one = Consumer(shard, "one", "orders", "invoices")
    one.enter()
    shard.topics.delete("invoices")
    settle(one)
    assert one.owned == shard.topics.partitions(orders=[0, 1])
    assert shard.group.state_name == "Stable"


def test_a_topic_without_subscribers_changes_nothing(shard):
    one = Consumer(shard, "one")
    one.enter()
    epoch = shard.group.epoch
    shard.topics.put("other", 3)
    assert one.beat().assignment is None
    assert shard.group.epoch == epoch


def test_a_member_that_changes_its_mind_gets_other_topics():
    shard = DrivenConsumers(KnownTopics(orders=2, invoices=2))
    one = Consumer(shard, "one", "orders")
    one.enter()
    one.beat(subscribed_names=["invoices"])
    settle(one)
    assert one.owned == shard.topics.partitions(invoices=[0, 1])
