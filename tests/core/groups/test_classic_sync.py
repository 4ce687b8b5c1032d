"""Assignments in a classic group: who gets them when, and what is written."""

import pytest

from penstock.base.errors import ErrorCode
from tests.core.groups.driven_shard import NO_COORDINATOR, DrivenShard


@pytest.fixture
def shard():
    return DrivenShard()


@pytest.fixture
def gathered(shard):
    """Leader and follower of a generation that waits for its assignments."""
    leader, _ = shard.join_with_new_id()
    follower, _ = shard.join_with_new_id()
    shard.pass_time(6_000)
    assert shard.state == "CompletingRebalance"
    return leader, follower


def test_followers_wait_for_the_leaders_assignment(shard, gathered):
    leader, follower = gathered
    waiting = shard.sync(follower, 1)
    assert not waiting.is_answered
    answer = shard.sync(leader, 1, {leader: b"left", follower: b"right"})
    assert (answer.assignment, waiting.assignment) == (b"left", b"right")
    assert (waiting.protocol_type, waiting.protocol) == ("consumer", "range")
    assert shard.state == "Stable"


def test_a_follower_that_comes_late_gets_its_assignment_at_once(shard, gathered):
    leader, follower = gathered
    shard.sync(leader, 1, {leader: b"left", follower: b"right"})
    assert shard.sync(follower, 1).assignment == b"right"
    assert shard.sync(follower, 1).assignment == b"right"


def test_who_is_not_in_the_assignment_gets_nothing_and_strangers_in_it_are_passed_over(shard, gathered):
    leader, follower = gathered
    shard.sync(leader, 1, {leader: b"left", "stranger": b"all"})
    answer = shard.sync(follower, 1)
    assert (answer.error, answer.assignment) == (ErrorCode.NONE, b"")
    assert [member.member_id for member in shard.records[-1].value.members] == [leader, follower]


def test_assignments_of_a_follower_count_for_nothing(shard, gathered):
    leader, follower = gathered
    waiting = shard.sync(follower, 1, {follower: b"all"})
    shard.sync(leader, 1, {leader: b"left"})
    assert waiting.assignment == b""


def test_the_generation_is_written_with_all_that_a_new_coordinator_needs(shard, gathered):
    leader, follower = gathered
    shard.sync(leader, 1, {leader: b"left", follower: b"right"})
    value = shard.records[-1].value
    assert (value.generation, value.protocol_type, value.protocol, value.leader) == (
        1,
        "consumer",
        "range",
        leader,
    )
    member = value.members[1]
    assert (member.member_id, member.client_id, member.client_host) == (follower, "app", "/127.0.0.1")
    assert (member.session_timeout, member.rebalance_timeout, member.assignment) == (10_000, 60_000, b"right")


def test_a_stable_group_lives_on_with_another_coordinator(shard):
    leader, follower = shard.stable_group()
    before = shard.describe()
    shard.fail_over()
    assert shard.describe() == before
    assert shard.heartbeat(follower, 1) is ErrorCode.NONE
    assert shard.sync(follower, 1).assignment == follower.encode()
    assert shard.join(leader).is_answered is False  # the leader still leads


def test_a_fail_over_answers_a_waiting_sync_with_no_coordinator(shard, gathered):
    _, follower = gathered
    waiting = shard.sync(follower, 1)
    shard.fail_over()
    assert waiting.response == NO_COORDINATOR
    assert shard.sync(follower, 1).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_after_a_fail_over_in_a_rebalance_the_last_generation_counts(shard):
    first, second = shard.stable_group()
    shard.join_with_new_id()
    shard.join(first)
    shard.fail_over()
    assert shard.state == "Stable"
    assert shard.heartbeat(second, 1) is ErrorCode.NONE
    assert len(shard.describe().members) == 2


def test_a_sync_during_the_join_phase_is_refused(shard):
    first, _ = shard.stable_group()
    shard.join(first)
    assert shard.sync(first, 1).error is ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize("generation", [0, 2, -1])
def test_another_generation_is_refused(shard, gathered, generation):
    leader, _ = gathered
    assert shard.sync(leader, generation, {leader: b"all"}).error is ErrorCode.ILLEGAL_GENERATION
    assert shard.state == "CompletingRebalance"


def test_strangers_are_refused(shard, gathered):
    assert shard.sync("stranger", 1).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert shard.sync("stranger", 1, group_id="another").error is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("fields", [{"protocol": "sticky"}, {"protocol_type": "connect"}])
def test_a_member_that_means_another_protocol_is_refused(shard, gathered, fields):
    leader, _ = gathered
    assert shard.sync(leader, 1, **fields).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert shard.sync(leader, 1, protocol="range", protocol_type="consumer").error is ErrorCode.NONE


def test_a_member_that_does_not_sync_within_the_rebalance_timeout_is_removed(shard):
    leader, _ = shard.join_with_new_id(session_timeout_ms=100_000)
    follower, _ = shard.join_with_new_id(session_timeout_ms=100_000)
    shard.pass_time(6_000)
    shard.sync(leader, 1, {leader: b"left", follower: b"right"})
    shard.pass_time(60_000)
    assert shard.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert shard.heartbeat(follower, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    answer = shard.join(leader)
    assert [each.member_id for each in answer.members] == [leader]


def test_a_group_whose_members_all_synced_is_left_alone(shard):
    leader, follower = shard.stable_group(session_timeout_ms=1_000_000)
    shard.pass_time(60_000)
    assert shard.heartbeat(leader, 1) is ErrorCode.NONE
    assert shard.heartbeat(follower, 1) is ErrorCode.NONE


def test_a_leader_that_dies_before_it_assigns_is_replaced(shard):
    leader, _ = shard.join_with_new_id(session_timeout_ms=6_000)
    follower, _ = shard.join_with_new_id()
    shard.pass_time(6_000)
    waiting = shard.sync(follower, 1)
    shard.pass_time(6_000)
    assert waiting.error is ErrorCode.REBALANCE_IN_PROGRESS
    answer = shard.join(follower)
    assert answer.leader == follower
    assert shard.heartbeat(leader, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_syncing_twice_ends_the_wait_of_the_first_request(shard, gathered):
    leader, follower = gathered
    first = shard.sync(follower, 1)
    second = shard.sync(follower, 1)
    assert first.error is ErrorCode.REBALANCE_IN_PROGRESS
    shard.sync(leader, 1, {follower: b"right"})
    assert second.assignment == b"right"
