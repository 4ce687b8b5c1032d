"""Live groups that move between the protocols, and classic members in groups of the consumer protocol."""

import pytest

from penstock.base.errors import ErrorCode, Refusal
from penstock.core.groups.consumer_settings import MigrationPolicy
from penstock.core.groups.group import GroupType
from penstock.core.groups.partition_sets import NOTHING
from penstock.core.groups.settings import GroupSettings
from penstock.records.consumer_protocol import (
    AssignedTopic,
    Assignment,
    OwnedTopic,
    Subscription,
    read_assignment,
    write_assignment,
    write_subscription,
)
from tests.core.groups.driven_consumers import Consumer, DrivenConsumers, KnownTopics

REBALANCE_IN_PROGRESS = ErrorCode.REBALANCE_IN_PROGRESS


@pytest.fixture
def shard():
    return DrivenConsumers()


def assigned(**partitions):
    topics = [AssignedTopic(topic=topic, partitions=list(each)) for topic, each in partitions.items()]
    return write_assignment(Assignment(assigned_partitions=topics))


def stable_classic_member(shard, **fields):
    """A classic group with one member, which has everything."""
    member_id, joined = shard.join_with_new_id(**fields)
    shard.pass_time(6_000)
    shard.sync(member_id, joined.generation, {member_id: assigned(orders=range(4))})
    return member_id, joined.generation


def owning(**owned):
    """A classic consumer's protocols, with what it owns."""
    topics = [OwnedTopic(topic=topic, partitions=list(each)) for topic, each in owned.items()]
    return {"range": write_subscription(Subscription(topics=["orders"], owned_partitions=topics))}


def partitions_of(synced):
    return sorted((each.topic, each.partition) for each in read_assignment(synced.assignment))


def orders(*partitions):
    return [("orders", partition) for partition in partitions]


# Upgrade


def test_a_protocol_change_completes_delayed_heartbeats_and_the_new_protocol_delays_none(shard):
    classic, generation = stable_classic_member(shard)
    news = shard.await_rebalance(classic, generation)
    shard.enter("new")
    assert news.response is REBALANCE_IN_PROGRESS
    assert shard.await_rebalance(classic, generation) is ErrorCode.NONE


def test_a_classic_group_becomes_one_of_the_consumer_protocol_with_its_first_such_member(shard):
    classic, generation = stable_classic_member(shard)
    answer = shard.enter("new")
    assert (answer.member_epoch, answer.assignment) == (generation + 1, NOTHING)
    assert shard.group.type is GroupType.CONSUMER
    old = shard.group.members[classic]
    assert old.epoch == generation
    assert old.assigned == shard.topics.partitions(orders=range(4))
    assert old.classic.session_timeout_ms == 10_000
    described = {each.member_id: each.is_classic for each in shard.describe_consumers().members}
    assert described == {classic: True, "new": False}


def test_both_kinds_of_members_share_without_anybody_having_two_hands_on_a_partition(shard):
    classic, generation = stable_classic_member(shard)
    new = Consumer(shard, "new")
    new.enter()
    assert shard.heartbeat(classic, generation) is REBALANCE_IN_PROGRESS
    assert new.beat().assignment is None
    # An eager consumer gives everything up before it joins again.
    joined = shard.join(classic)
    assert (joined.error, joined.generation, joined.leader) == (ErrorCode.NONE, generation + 1, "")
    assert partitions_of(shard.sync(classic, joined.generation)) == orders(0, 1)
    assert shard.heartbeat(classic, joined.generation) is ErrorCode.NONE
    assert new.beat().assignment == shard.topics.partitions(orders=[2, 3])
    assert shard.group.state_name == "Stable"


def test_a_cooperative_classic_member_gives_up_in_one_round_and_goes_on_with_the_rest(shard):
    classic, generation = stable_classic_member(shard, protocols=owning())
    new = Consumer(shard, "new")
    new.enter()
    joined = shard.join(classic, protocols=owning(orders=range(4)))
    assert joined.generation == generation, "it has yet to give up"
    assert partitions_of(shard.sync(classic, generation)) == orders(0, 1)
    new.beat()
    assert new.owned == NOTHING
    assert shard.heartbeat(classic, generation) is REBALANCE_IN_PROGRESS
    joined = shard.join(classic, protocols=owning(orders=[0, 1]))
    assert joined.generation == generation + 1
    assert partitions_of(shard.sync(classic, joined.generation)) == orders(0, 1)
    assert new.beat().assignment == shard.topics.partitions(orders=[2, 3])


def test_a_classic_member_that_waits_is_asked_to_join_again_at_the_upgrade(shard):
    stable_classic_member(shard)
    _, waiting = shard.join_with_new_id()
    assert not waiting.is_answered
    shard.enter("new")
    assert waiting.error is REBALANCE_IN_PROGRESS


def test_a_classic_member_that_falls_silent_after_the_upgrade_is_removed_after_its_own_session(shard):
    classic, _ = stable_classic_member(shard)
    shard.enter("new")
    shard.pass_time(9_999)
    assert classic in shard.group.members
    shard.pass_time(1)
    assert classic not in shard.group.members


def test_a_classic_member_that_does_not_join_again_in_time_is_removed(shard):
    classic, generation = stable_classic_member(shard, rebalance_timeout_ms=15_000)
    shard.enter("new")
    for _ in range(3):
        assert shard.heartbeat(classic, generation) is REBALANCE_IN_PROGRESS
        shard.pass_time(5_000)
    assert classic not in shard.group.members


@pytest.mark.parametrize("policy", [MigrationPolicy.DISABLED, MigrationPolicy.DOWNGRADE])
def test_a_group_with_members_stays_classic_if_the_policy_says_so(policy):
    shard = DrivenConsumers(migration_policy=policy)
    classic, generation = stable_classic_member(shard)
    refusal = Refusal(ErrorCode.GROUP_ID_NOT_FOUND, "Group readers is not a consumer group.")
    assert shard.enter("new") == refusal
    assert shard.heartbeat(classic, generation) is ErrorCode.NONE


def test_a_group_that_does_not_consist_of_consumers_stays_classic(shard):
    member_id, joined = shard.join_with_new_id(protocol_type="connect")
    shard.pass_time(6_000)
    shard.sync(member_id, joined.generation, {member_id: b"whatever"})
    assert shard.enter("new").code is ErrorCode.GROUP_ID_NOT_FOUND
    assert shard.heartbeat(member_id, joined.generation) is ErrorCode.NONE


def test_a_group_whose_assignment_cannot_be_read_stays_classic(shard):
    member_id, joined = shard.join_with_new_id()
    shard.pass_time(6_000)
    shard.sync(member_id, joined.generation, {member_id: b"\0"})
    assert shard.enter("new").code is ErrorCode.GROUP_ID_NOT_FOUND
    assert shard.heartbeat(member_id, joined.generation) is ErrorCode.NONE


def test_a_classic_group_too_large_for_the_consumer_protocol_stays_classic():
    shard = DrivenConsumers(members_max=1)
    stable_classic_member(shard)
    assert shard.enter("new").code is ErrorCode.GROUP_ID_NOT_FOUND


def test_an_empty_classic_group_takes_any_protocol_and_keeps_its_offsets():
    shard = DrivenConsumers(migration_policy=MigrationPolicy.DISABLED)
    shard.commit({("orders", 0): 7})
    assert shard.enter("new").member_epoch == 2
    shard.fail_over()
    assert shard.group.type is GroupType.CONSUMER
    assert shard.committed() == {("orders", 0): 7}


def test_an_empty_group_of_the_consumer_protocol_takes_any_protocol():
    shard = DrivenConsumers(migration_policy=MigrationPolicy.DISABLED)
    shard.enter("one")
    shard.beat("one", -1)
    shard.join_with_new_id()
    shard.fail_over()
    assert shard.group.type is GroupType.CLASSIC


# Downgrade


def mixed_group(shard):
    """A classic member and one of the consumer protocol, each with its half."""
    classic, generation = stable_classic_member(shard)
    new = Consumer(shard, "new")
    new.enter()
    generation = shard.join(classic).generation
    shard.sync(classic, generation)
    new.beat()
    assert shard.group.state_name == "Stable"
    return classic, generation, new


def test_a_group_becomes_classic_when_its_last_member_of_the_consumer_protocol_leaves(shard):
    classic, generation, new = mixed_group(shard)
    new.leave()
    assert shard.group.type is GroupType.CLASSIC
    assert shard.heartbeat(classic, generation) is REBALANCE_IN_PROGRESS
    waiting = shard.join(classic)
    assert (waiting.error, waiting.leader) == (ErrorCode.NONE, classic)
    assert waiting.generation > generation


def test_a_group_becomes_classic_when_its_last_member_of_the_consumer_protocol_dies(shard):
    classic, generation, _ = mixed_group(shard)
    while shard.group.type is GroupType.CONSUMER:
        shard.heartbeat(classic, generation)
        shard.pass_time(5_000)
    assert list(shard.group.members) == [classic]


def test_a_downgraded_group_outlives_a_fail_over(shard):
    classic, _, new = mixed_group(shard)
    new.leave()
    shard.fail_over()
    assert shard.group.type is GroupType.CLASSIC
    assert partitions_of(shard.group.members[classic]) == orders(0, 1)


@pytest.mark.parametrize("policy", [MigrationPolicy.UPGRADE, MigrationPolicy.DISABLED])
def test_a_group_stays_one_of_the_consumer_protocol_if_the_policy_says_so(policy):
    shard = DrivenConsumers(migration_policy=policy)
    new = Consumer(shard, "new")
    new.enter()
    classic = "old"
    shard.join(classic)
    new.beat()
    new.beat()
    generation = shard.group.members[classic].epoch
    new.leave()
    assert shard.group.type is GroupType.CONSUMER
    assert shard.heartbeat(classic, generation) is REBALANCE_IN_PROGRESS
    joined = shard.join(classic)
    assert partitions_of(shard.sync(classic, joined.generation)) == orders(0, 1, 2, 3)


def test_a_group_too_large_for_the_classic_protocol_stays_one_of_the_consumer_protocol():
    shard = DrivenConsumers(settings=GroupSettings(members_max=1))
    _, _, new = mixed_group(shard)
    other = shard.join_with_new_id()
    assert other[1].error is ErrorCode.NONE
    new.leave()
    assert shard.group.type is GroupType.CONSUMER


# Classic members in a group of the consumer protocol


@pytest.fixture
def consumers(shard):
    shard.enter("new")
    return shard


def test_a_classic_member_is_given_an_id_and_then_a_generation_at_once(consumers):
    first = consumers.join(new_member_suffix="x")
    assert (first.error, first.member_id) == (ErrorCode.MEMBER_ID_REQUIRED, "app-x")
    joined = consumers.join("app-x")
    assert (joined.error, joined.generation, joined.protocol) == (ErrorCode.NONE, 3, "range")


@pytest.mark.parametrize(
    "fields",
    [
        {"protocol_type": "connect"},
        {"protocols": {}},
        {"protocols": {"range": b"\0"}, "requires_known_member_id": False},
    ],
)
def test_who_does_not_speak_as_a_consumer_is_refused(consumers, fields):
    assert consumers.join(**fields).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert list(consumers.group.members) == ["new"]


def test_classic_members_need_a_protocol_in_common(consumers):
    consumers.join("one")
    protocols = {"sticky": write_subscription(Subscription(topics=["orders"]))}
    assert consumers.join("two", protocols=protocols).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_full_group_takes_no_classic_member():
    shard = DrivenConsumers(members_max=1)
    shard.enter("new")
    assert shard.join("one").error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_classic_requests_name_the_right_member_and_generation(consumers):
    generation = consumers.join("one").generation
    assert consumers.heartbeat("two", generation) is ErrorCode.UNKNOWN_MEMBER_ID
    assert consumers.heartbeat("new", 2) is ErrorCode.UNKNOWN_MEMBER_ID, (
        "it does not speak the classic protocol"
    )
    assert consumers.heartbeat("one", generation + 1) is ErrorCode.ILLEGAL_GENERATION
    assert consumers.sync("two", generation).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert consumers.sync("one", generation + 1).error is ErrorCode.ILLEGAL_GENERATION
    wrong = consumers.sync("one", generation, protocol="sticky")
    assert wrong.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    wrong = consumers.sync("one", generation, protocol_type="connect")
    assert wrong.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_classic_members_sync_fails_with_rebalance_in_progress_if_another_member_joined_since(consumers):
    generation = consumers.join("one").generation
    consumers.join("two")
    assert consumers.sync("one", generation).error is REBALANCE_IN_PROGRESS


def test_a_classic_member_that_waits_for_partitions_is_asked_to_join_again_once_they_are_free(consumers):
    new = Consumer(consumers, "new")
    new.enter()
    generation = consumers.join("one").generation
    assert partitions_of(consumers.sync("one", generation)) == []
    assert consumers.heartbeat("one", generation) is ErrorCode.NONE, "there is nothing it could get yet"
    new.beat()
    new.beat()
    assert consumers.heartbeat("one", generation) is REBALANCE_IN_PROGRESS
    assert consumers.join("one").generation == generation
    assert partitions_of(consumers.sync("one", generation)) == orders(2, 3)


def test_classic_members_leave(consumers):
    consumers.join("one")
    assert consumers.leave("one", "two", "new") == (
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
    )
    assert list(consumers.group.members) == ["new"]


def test_static_classic_members_are_fenced_and_replaced(consumers):
    first = consumers.join(instance_id="i", new_member_suffix="1")
    assert first.member_id == "i-1"
    assert consumers.join("other", instance_id="i").error is ErrorCode.FENCED_INSTANCE_ID
    assert consumers.join("other", instance_id="j").error is ErrorCode.UNKNOWN_MEMBER_ID
    again = consumers.join(instance_id="i", new_member_suffix="2")
    assert (again.error, again.member_id, again.generation) == (ErrorCode.NONE, "i-2", first.generation)
    assert consumers.heartbeat("i-1", 3, instance_id="i") is ErrorCode.FENCED_INSTANCE_ID
    assert set(consumers.group.members) == {"new", "i-2"}
    assert consumers.leave(("", "i")) == (ErrorCode.NONE,)


def test_a_static_member_may_change_its_protocol_at_a_restart():
    shard = DrivenConsumers(KnownTopics(orders=2))
    shard.enter("new")
    shard.join(instance_id="i", new_member_suffix="1")
    moved = shard.enter("i-2", instance_id="i")
    assert moved.member_id == "i-2"
    assert shard.group.members["i-2"].classic is None


def test_commits_of_classic_members_are_checked_as_generations(consumers):
    generation = consumers.join("one").generation
    position = {("orders", 0): 7}
    assert consumers.commit(position, member_id="one", generation=generation, version=2) == (ErrorCode.NONE,)
    refused = consumers.commit(position, member_id="one", generation=generation + 1)
    assert refused.code is ErrorCode.ILLEGAL_GENERATION
