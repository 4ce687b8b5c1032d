"""Members of classic groups that live, leave, die and come back; static members and fencing."""

import pytest

from penstock.base.errors import ErrorCode, Refusal
from tests.core.groups.driven_shard import DrivenShard


@pytest.fixture
def shard():
    return DrivenShard()


# Heartbeats


def test_a_member_lives_as_long_as_it_is_heard_of_in_each_session(shard):
    first, second = shard.stable_group()
    for _ in range(5):
        shard.pass_time(9_999)
        assert shard.heartbeat(first, 1) is ErrorCode.NONE
        assert shard.heartbeat(second, 1) is ErrorCode.NONE
    shard.pass_time(9_000)
    shard.heartbeat(first, 1)
    shard.pass_time(1_000)
    assert shard.heartbeat(second, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert shard.heartbeat(first, 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_commit_is_a_sign_of_life(shard):
    first, second = shard.stable_group()
    shard.pass_time(9_000)
    shard.commit({("orders", 0): 5}, member_id=first, generation=1)
    shard.pass_time(1_000)
    assert shard.heartbeat(second, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert shard.heartbeat(first, 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_members_that_wait_for_a_rebalance_need_not_be_heard_of(shard):
    first, second = shard.stable_group()
    answer = shard.join(first)
    for _ in range(5):
        shard.pass_time(9_000)
        assert shard.heartbeat(second, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    shard.join(second)
    assert answer.generation == 2


def test_a_member_that_waited_for_long_has_a_full_session_after_its_answer(shard):
    first, second = shard.stable_group()
    shard.join(first)
    for _ in range(3):
        shard.pass_time(9_000)
        shard.heartbeat(second, 1)
    shard.join(second)
    shard.pass_time(9_999)
    assert shard.heartbeat(first, 2) is ErrorCode.NONE
    shard.pass_time(1)
    assert shard.heartbeat(second, 2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_members_who_wait_for_assignments_are_dead_only_after_those_came(shard):
    leader, _ = shard.join_with_new_id(session_timeout_ms=50_000)
    follower, _ = shard.join_with_new_id()
    shard.pass_time(6_000)
    waiting = shard.sync(follower, 1)
    shard.pass_time(40_000)
    shard.sync(leader, 1, {follower: b"right"})
    assert waiting.assignment == b"right"
    shard.pass_time(9_999)
    assert shard.state == "Stable"
    shard.pass_time(1)
    assert shard.heartbeat(follower, 1) is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("generation", [0, 2, -1])
def test_a_heartbeat_of_another_generation_is_refused(shard, generation):
    first, _ = shard.stable_group()
    assert shard.heartbeat(first, generation) is ErrorCode.ILLEGAL_GENERATION


def test_a_heartbeat_of_a_stranger_is_refused(shard):
    assert shard.heartbeat("stranger", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    shard.stable_group()
    assert shard.heartbeat("stranger", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert shard.heartbeat(shard.join().member_id, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_heartbeats_are_answered_while_assignments_are_awaited(shard):
    leader, _ = shard.join_with_new_id()
    shard.pass_time(3_000)
    assert shard.heartbeat(leader, 1) is ErrorCode.NONE


def test_a_new_coordinator_gives_every_member_a_full_session(shard):
    first, second = shard.stable_group()
    shard.pass_time(9_999)
    shard.fail_over()
    shard.pass_time(9_999)
    assert shard.heartbeat(first, 1) is ErrorCode.NONE
    shard.pass_time(1)
    assert shard.heartbeat(second, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_when_the_last_member_dies_the_group_is_empty_and_its_generation_is_over(shard):
    _, second = shard.stable_group()
    shard.pass_time(10_000)
    assert shard.state == "Empty"
    value = shard.records[-1].value
    assert (value.generation, value.members, value.leader, value.protocol) == (2, [], None, None)
    shard.fail_over()
    assert shard.state == "Empty"
    assert shard.heartbeat(second, 2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_generations_go_on_after_the_group_was_empty(shard):
    shard.leave(*shard.stable_group())
    _, answer = shard.join_with_new_id()
    shard.pass_time(6_000)
    assert answer.generation == 3


# Leaving


def test_one_who_leaves_starts_a_rebalance_of_the_others(shard):
    first, second = shard.stable_group()
    assert shard.leave(first) == (ErrorCode.NONE,)
    assert shard.heartbeat(second, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    answer = shard.join(second)
    assert (answer.generation, answer.leader) == (2, second)


def test_when_all_leave_at_once_the_group_is_empty(shard):
    assert shard.leave(*shard.stable_group(3)) == (ErrorCode.NONE,) * 3
    assert shard.state == "Empty"
    assert shard.records[-1].value.current_state_timestamp == shard.now_ms


def test_each_of_several_who_leave_has_its_own_answer(shard):
    first, second = shard.stable_group()
    assert shard.leave("stranger", second, ("", "no-instance"), ("", None)) == (
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
    )
    assert shard.heartbeat(first, 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_when_only_strangers_leave_nothing_happens(shard):
    first, _ = shard.stable_group()
    shard.leave("stranger")
    assert shard.heartbeat(first, 1) is ErrorCode.NONE
    assert shard.leave("stranger", group_id="another") == Refusal(ErrorCode.UNKNOWN_MEMBER_ID)


def test_one_who_leaves_while_it_waits_is_answered(shard):
    first, _ = shard.stable_group()
    waiting = shard.join(first)
    shard.leave(first)
    assert waiting.error is ErrorCode.UNKNOWN_MEMBER_ID


def test_one_who_leaves_while_it_waits_for_its_assignment_is_answered(shard):
    leader, _ = shard.join_with_new_id()
    follower, _ = shard.join_with_new_id()
    shard.pass_time(6_000)
    waiting = shard.sync(follower, 1)
    shard.leave(follower)
    assert waiting.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert shard.join(leader).generation == 2


def test_a_rebalance_does_not_wait_for_one_who_leaves(shard):
    first, second = shard.stable_group()
    answer = shard.join(first)
    shard.leave(second)
    assert answer.generation == 2


def test_one_who_was_given_an_id_may_leave_before_it_joins(shard):
    (only,) = shard.stable_group(1)
    expected = shard.join().member_id
    answer = shard.join(only)
    assert shard.leave(expected) == (ErrorCode.NONE,)
    assert answer.generation == 2


# Static members


@pytest.fixture
def static(shard):
    """Two static members, the leader first, that were assigned b"one" and b"two"."""
    one = shard.join(instance_id="one", session_timeout_ms=100_000)
    two = shard.join(instance_id="two", session_timeout_ms=100_000)
    shard.pass_time(6_000)
    shard.sync(one.member_id, 1, {one.member_id: b"one", two.member_id: b"two"}, instance_id="one")
    shard.sync(two.member_id, 1, instance_id="two")
    assert shard.state == "Stable"
    return one.member_id, two.member_id


def test_a_static_member_is_let_in_without_asking_for_an_id_first(shard):
    answer = shard.join(instance_id="one", new_member_suffix="7")
    shard.pass_time(3_000)
    assert (answer.error, answer.member_id) == (ErrorCode.NONE, "one-7")


def test_a_static_member_that_restarts_keeps_its_assignment_without_a_rebalance(shard, static):
    one, two = static
    answer = shard.join(instance_id="two")
    assert (answer.error, answer.generation, answer.leader) == (ErrorCode.NONE, 1, one)
    assert answer.member_id != two
    assert shard.sync(answer.member_id, 1, instance_id="two").assignment == b"two"
    assert shard.heartbeat(one, 1, instance_id="one") is ErrorCode.NONE


def test_the_restart_of_a_static_member_is_known_to_the_next_coordinator(shard, static):
    _, two = static
    again = shard.join(instance_id="two").member_id
    shard.fail_over()
    assert shard.heartbeat(again, 1, instance_id="two") is ErrorCode.NONE
    assert shard.heartbeat(two, 1, instance_id="two") is ErrorCode.FENCED_INSTANCE_ID


def test_a_static_leader_that_restarts_gets_all_members_and_skip_assignment(shard, static):
    one, two = static
    answer = shard.join(instance_id="one")
    assert answer.leader == answer.member_id != one
    assert answer.skip_assignment
    assert [each.instance_id for each in answer.members] == ["one", "two"]
    assert [each.member_id for each in answer.members] == [answer.member_id, two]


def test_before_version_9_a_static_leader_that_restarts_gets_its_old_member_id_as_leader(shard, static):
    one, _ = static
    answer = shard.join(instance_id="one", supports_skipping_assignment=False)
    assert (answer.leader, answer.members, answer.skip_assignment) == (one, (), False)
    assert shard.sync(answer.member_id, 1, instance_id="one").assignment == b"one"


def test_the_member_id_from_before_a_static_members_restart_is_fenced(shard, static):
    _, two = static
    shard.join(instance_id="two")
    fenced = ErrorCode.FENCED_INSTANCE_ID
    assert shard.heartbeat(two, 1, instance_id="two") is fenced
    assert shard.sync(two, 1, instance_id="two").error is fenced
    assert shard.join(two, instance_id="two").error is fenced
    assert shard.leave((two, "two")) == (fenced,)
    commit = shard.commit({("orders", 0): 1}, member_id=two, instance_id="two", generation=1)
    assert commit == Refusal(fenced)
    assert shard.state == "Stable"


def test_an_unknown_group_instance_id_is_refused(shard, static):
    one, _ = static
    assert shard.heartbeat(one, 1, instance_id="three") is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_join_or_sync_that_waits_with_the_member_id_from_before_a_restart_is_fenced(shard, static):
    one, two = static
    joining = shard.join(two, instance_id="two", topics=("payments",))
    again = shard.join(instance_id="two")
    assert joining.error is ErrorCode.FENCED_INSTANCE_ID
    shard.join(one, instance_id="one")
    assert again.generation == 2
    syncing = shard.sync(again.member_id, 2, instance_id="two")
    shard.join(instance_id="two")
    assert syncing.error is ErrorCode.FENCED_INSTANCE_ID
    assert shard.state == "PreparingRebalance"


def test_a_restart_with_another_protocol_starts_a_rebalance(shard):
    both = {"range": b"", "sticky": b""}
    one = shard.join(instance_id="one", protocols=both)
    shard.pass_time(3_000)
    shard.sync(one.member_id, 1, instance_id="one")
    assert shard.state == "Stable"
    answer = shard.join(instance_id="one", protocols={"sticky": b""})
    assert (answer.generation, answer.protocol) == (2, "sticky")


def test_a_static_member_may_be_away_during_a_rebalance(shard, static):
    one, two = static
    answer = shard.join(one, instance_id="one", session_timeout_ms=100_000)
    shard.pass_time(60_000)
    assert answer.generation == 2
    assert [each.member_id for each in answer.members] == [one, two]


def test_static_members_who_are_all_away_are_waited_for_until_their_sessions_end(shard, static):
    (dynamic, _) = shard.join_with_new_id()
    shard.leave(dynamic)
    shard.pass_time(60_000)
    assert shard.state == "PreparingRebalance"
    shard.pass_time(60_000)
    assert shard.state == "Empty"


def test_an_administrator_removes_a_static_member_by_its_instance(shard, static):
    one, two = static
    assert shard.leave(("", "two")) == (ErrorCode.NONE,)
    assert shard.heartbeat(two, 1, instance_id="two") is ErrorCode.UNKNOWN_MEMBER_ID
    assert shard.heartbeat(one, 1, instance_id="one") is ErrorCode.REBALANCE_IN_PROGRESS
