"""Joining a classic group: which members may join, which one leads, and when the join phase ends."""

import pytest

from penstock.base.errors import ErrorCode
from tests.core.groups.driven_shard import SETTINGS, DrivenShard, subscription


@pytest.fixture
def shard():
    return DrivenShard()


def test_a_new_member_is_given_an_id_and_has_to_come_back_with_it(shard):
    answer = shard.join(new_member_suffix="one")
    assert answer.error is ErrorCode.MEMBER_ID_REQUIRED
    assert answer.member_id == "app-one"
    assert not shard.join("app-one").is_answered


def test_clients_of_before_version_4_are_let_in_without_an_id(shard):
    waiting = shard.join(requires_known_member_id=False, new_member_suffix="one")
    shard.pass_time(3_000)
    assert (waiting.error, waiting.member_id) == (ErrorCode.NONE, "app-one")


def test_a_member_id_that_was_never_given_is_unknown(shard):
    assert shard.join("invented").error is ErrorCode.UNKNOWN_MEMBER_ID
    shard.stable_group()
    assert shard.join("invented").error is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_id_that_was_given_is_forgotten_after_a_session_timeout(shard):
    member_id = shard.join().member_id
    shard.pass_time(10_000)
    assert shard.join(member_id).error is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("timeout_ms", [5_999, 1_800_001])
def test_a_session_timeout_out_of_bounds_is_refused(shard, timeout_ms):
    assert shard.join(session_timeout_ms=timeout_ms).error is ErrorCode.INVALID_SESSION_TIMEOUT


def test_the_first_member_waits_for_others_and_the_delay_begins_again_with_each(shard):
    first, first_answer = shard.join_with_new_id()
    shard.pass_time(2_999)
    second, second_answer = shard.join_with_new_id()
    shard.pass_time(1)
    assert not first_answer.is_answered
    shard.pass_time(2_999)
    assert not first_answer.is_answered
    shard.pass_time(1)
    assert first_answer.generation == second_answer.generation == 1
    assert first_answer.leader == second_answer.leader == first
    assert [each.member_id for each in first_answer.members] == [first, second]
    assert second_answer.members == ()


def test_an_initial_rebalance_delay_without_a_new_member_is_the_last(shard):
    _, answer = shard.join_with_new_id()
    shard.pass_time(2_999)
    assert not answer.is_answered
    shard.pass_time(1)
    assert answer.is_answered


def test_the_delays_together_end_with_the_rebalance_timeout(shard):
    _, answer = shard.join_with_new_id(rebalance_timeout_ms=7_000)
    for _ in range(6):
        assert not answer.is_answered
        shard.pass_time(1_000)
        shard.join_with_new_id(rebalance_timeout_ms=7_000)
    shard.pass_time(999)
    assert not answer.is_answered
    shard.pass_time(1)
    assert len(answer.members) == 7


def test_without_a_delay_the_first_member_starts_alone():
    shard = DrivenShard(settings=SETTINGS.__class__(initial_rebalance_delay_ms=0))
    _, answer = shard.join_with_new_id()
    shard.pass_time(0)
    assert answer.generation == 1


def test_the_protocol_that_all_members_support_is_chosen_and_metadata_shown_only_when_stable(shard):
    shard.join(requires_known_member_id=False, protocols={"range": b"a-range", "sticky": b"a-sticky"})
    leader = shard.join(requires_known_member_id=False, protocols={"sticky": b"b-sticky"})
    shard.pass_time(6_000)
    assert leader.protocol == "sticky"
    assert [each.metadata for each in shard.describe().members] == [b"", b""]  # not before it is stable
    ids = [each.member_id for each in shard.describe().members]
    assert leader.leader == ids[0]


def test_the_protocol_that_most_prefer_among_those_that_all_know_is_chosen(shard):
    knows = [
        {"range": b"", "sticky": b"", "own": b""},
        {"own": b"", "sticky": b"", "range": b""},
        {"sticky": b"", "range": b""},
        {"sticky": b"", "range": b""},
    ]
    answers = [shard.join(requires_known_member_id=False, protocols=protocols) for protocols in knows]
    shard.pass_time(9_000)
    assert {answer.protocol for answer in answers} == {"sticky"}


def test_a_member_without_a_protocol_in_common_is_refused(shard):
    shard.stable_group()
    assert shard.join(protocols={"other": b""}).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert shard.join(protocol_type="connect").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert shard.state == "Stable"


@pytest.mark.parametrize("fields", [{"protocols": {}}, {"protocol_type": ""}])
def test_the_first_member_has_to_name_a_protocol(shard, fields):
    assert shard.join(**fields).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_an_empty_group_accepts_another_protocol_type(shard):
    shard.leave(*shard.stable_group())
    _, answer = shard.join_with_new_id(protocol_type="connect", protocols={"compatible": b""})
    shard.pass_time(6_000)
    assert (answer.error, answer.protocol_type) == (ErrorCode.NONE, "connect")


def test_one_who_comes_to_a_stable_group_starts_a_rebalance_that_ends_when_all_are_back(shard):
    first, second = shard.stable_group()
    _, third_answer = shard.join_with_new_id()
    assert shard.heartbeat(first, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    first_answer = shard.join(first)
    assert not third_answer.is_answered
    second_answer = shard.join(second)
    generations = {answer.generation for answer in (first_answer, second_answer, third_answer)}
    assert generations == {2}
    assert first_answer.leader == first


def test_a_rebalance_waits_for_members_that_were_given_a_member_id(shard):
    (only,) = shard.stable_group(1)
    expected = shard.join().member_id
    leader = shard.join(only)
    assert not leader.is_answered
    answer = shard.join(expected)
    assert answer.generation == leader.generation == 2


def test_a_rebalance_ends_when_the_id_that_was_given_is_not_used(shard):
    (only,) = shard.stable_group(1)
    shard.join()
    answer = shard.join(only)
    shard.pass_time(10_000)
    assert (answer.generation, len(answer.members)) == (2, 1)


def test_a_member_that_does_not_rejoin_within_the_rebalance_timeout_is_removed(shard):
    first, second = shard.stable_group(session_timeout_ms=100_000)
    _, third_answer = shard.join_with_new_id(session_timeout_ms=100_000)
    second_answer = shard.join(second, session_timeout_ms=100_000)
    shard.pass_time(59_999)
    assert not second_answer.is_answered
    shard.pass_time(1)
    assert second_answer.leader == second == third_answer.leader
    assert shard.heartbeat(first, 2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_waits_as_long_as_its_slowest_member_asked_for(shard):
    first, _ = shard.stable_group(session_timeout_ms=1_000_000, rebalance_timeout_ms=90_000)
    answer = shard.join(first, rebalance_timeout_ms=10_000)
    shard.pass_time(89_999)
    assert not answer.is_answered
    shard.pass_time(1)
    assert answer.generation == 2


def test_a_follower_that_joins_again_unchanged_gets_the_generation_without_a_rebalance(shard):
    _, follower = shard.stable_group()
    answer = shard.join(follower)
    assert (answer.generation, answer.members) == (1, ())
    assert shard.state == "Stable"


def test_a_follower_with_another_subscription_starts_a_rebalance(shard):
    _, follower = shard.stable_group()
    assert not shard.join(follower, topics=("orders", "payments")).is_answered
    assert shard.state == "PreparingRebalance"


def test_the_leader_starts_a_rebalance_by_joining_again(shard):
    leader, follower = shard.stable_group()
    answer = shard.join(leader)
    shard.join(follower)
    assert answer.generation == 2


def test_a_member_that_missed_its_answer_gets_it_again_while_assignments_are_awaited(shard):
    leader, answer = shard.join_with_new_id()
    shard.pass_time(3_000)
    again = shard.join(leader)
    assert (again.generation, again.members) == (answer.generation, answer.members)
    assert shard.state == "CompletingRebalance"


def test_another_subscription_while_assignments_are_awaited_starts_over(shard):
    leader, _ = shard.join_with_new_id()
    follower, _ = shard.join_with_new_id()
    shard.pass_time(6_000)
    waiting = shard.sync(follower, 1)
    shard.join(leader, topics=("payments",))
    assert waiting.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert shard.state == "PreparingRebalance"


def test_joining_twice_ends_the_wait_of_the_first_request(shard):
    member_id, first = shard.join_with_new_id()
    second = shard.join(member_id)
    assert first.error is ErrorCode.REBALANCE_IN_PROGRESS
    shard.pass_time(3_000)
    assert second.error is ErrorCode.NONE


def test_a_group_grows_to_its_limit_and_no_further():
    shard = DrivenShard(SETTINGS.__class__(members_max=2))
    members = shard.stable_group(2)
    assert shard.join().error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert shard.join(members[1]).error is ErrorCode.NONE
    shard.join(members[0])
    assert shard.join(requires_known_member_id=False).is_answered is False  # one of the two is not back yet
    assert shard.join(members[1]).error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_limit_that_was_lowered_lets_the_last_to_come_back_go():
    shard = DrivenShard()
    members = shard.stable_group(3)
    shard.fail_over(members_max=2)
    assert shard.state == "PreparingRebalance"
    answers = [shard.join(member_id) for member_id in members]
    assert answers[2].error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert shard.heartbeat(members[2], 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert [answer.generation for answer in answers[:2]] == [2, 2]


def test_a_new_member_that_waits_for_more_than_five_minutes_is_taken_for_dead(shard):
    shard.stable_group(session_timeout_ms=1_000_000, rebalance_timeout_ms=1_000_000)
    member_id, answer = shard.join_with_new_id()
    shard.pass_time(299_999)
    assert not answer.is_answered
    shard.pass_time(1)
    assert answer.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert shard.join(member_id).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_group_is_written_when_the_first_member_knocks(shard):
    shard.join()
    (record,) = shard.records
    assert (record.key.group, record.value.generation, record.value.members) == ("readers", 0, [])
    shard.fail_over()
    assert shard.state == "Empty"


def test_subscriptions_are_read_under_the_chosen_protocol(shard):
    shard.stable_group(protocols={"range": subscription("orders"), "other": b"unreadable"})
    assert shard.delete_offsets(("orders", 0), ("payments", 0)) == (
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        ErrorCode.NONE,
    )
