"""Members of classic groups that are told of a rebalance when it begins, not when their next heartbeat is due."""

from dataclasses import replace

import pytest

from penstock.base.errors import ErrorCode
from penstock.core.groups.settings import GroupSettings
from tests.core.groups.driven_shard import NO_COORDINATOR, SETTINGS, DrivenShard, subscription

SESSION_MS = 10_000
WAIT_MS = SESSION_MS // 4  # less than the setting's 2,900


@pytest.fixture
def shard():
    return DrivenShard()


def test_whoever_listens_hears_that_somebody_joins(shard):
    first, second = shard.stable_group()
    news = [shard.await_rebalance(member_id, 1) for member_id in (first, second)]
    assert not any(each.is_answered for each in news)
    shard.join_with_new_id()
    assert [each.response for each in news] == [ErrorCode.REBALANCE_IN_PROGRESS] * 2


def test_whoever_listens_hears_that_somebody_leaves(shard):
    first, second = shard.stable_group()
    news = shard.await_rebalance(first, 1)
    shard.leave(second)
    assert news.response is ErrorCode.REBALANCE_IN_PROGRESS


def test_whoever_listens_hears_that_somebody_died(shard):
    first, _second = shard.stable_group()
    shard.pass_time(SESSION_MS - 1)
    shard.heartbeat(first, 1)
    news = shard.await_rebalance(first, 1)
    shard.pass_time(1)
    assert news.response is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_member_that_is_removed_hears_it(shard):
    first, second = shard.stable_group()
    news = shard.await_rebalance(second, 1)
    shard.leave(second)
    assert news.response is ErrorCode.UNKNOWN_MEMBER_ID
    assert shard.heartbeat(first, 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_member_that_listens_instead_of_asking_for_its_assignment_hears_that_it_is_out(shard):
    first, second = shard.stable_group()
    shard.join(first, rebalance_timeout_ms=WAIT_MS - 1)
    generation = shard.join(second, rebalance_timeout_ms=WAIT_MS - 1).generation
    news = shard.await_rebalance(second, generation)
    shard.pass_time(WAIT_MS - 1)
    assert news.response is ErrorCode.UNKNOWN_MEMBER_ID


def test_nobody_listens_for_longer_than_a_quarter_of_its_session(shard):
    first, _ = shard.stable_group()
    news = shard.await_rebalance(first, 1)
    shard.pass_time(WAIT_MS - 1)
    assert not news.is_answered
    shard.pass_time(1)
    assert news.response is ErrorCode.REQUEST_TIMED_OUT


def test_nobody_listens_for_longer_than_the_broker_allows(shard):
    first, _ = shard.stable_group(session_timeout_ms=60_000)
    news = shard.await_rebalance(first, 1)
    shard.pass_time(GroupSettings().heartbeat_wait_ms - 1)
    assert not news.is_answered
    shard.pass_time(1)
    assert news.response is ErrorCode.REQUEST_TIMED_OUT


def test_listening_is_no_sign_of_life(shard):
    first, second = shard.stable_group()
    shard.heartbeat(first, 1)
    shard.await_rebalance(first, 1)
    shard.pass_time(SESSION_MS)
    assert shard.heartbeat(first, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert shard.heartbeat(second, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_whoever_hears_of_a_rebalance_has_a_full_session_to_join_again(shard):
    first, _ = shard.stable_group()
    shard.heartbeat(first, 1)
    shard.await_rebalance(first, 1)
    shard.pass_time(2_000)
    shard.join_with_new_id()
    shard.pass_time(SESSION_MS - 1)
    assert shard.heartbeat(first, 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_only_the_last_to_listen_in_a_members_name_goes_on_listening(shard):
    first, _ = shard.stable_group()
    earlier = shard.await_rebalance(first, 1)
    later = shard.await_rebalance(first, 1)
    assert earlier.response is ErrorCode.NONE
    assert not later.is_answered


def test_a_new_coordinator_leaves_nobody_listening(shard):
    first, _ = shard.stable_group()
    news = shard.await_rebalance(first, 1)
    shard.fail_over()
    assert news.response is NO_COORDINATOR
    shard.pass_time(WAIT_MS)


def test_listening_can_be_switched_off():
    shard = DrivenShard(replace(SETTINGS, heartbeat_wait_ms=0))
    first, _ = shard.stable_group()
    assert shard.await_rebalance(first, 1) is ErrorCode.NONE


def test_static_members_do_not_listen_for_they_may_close_without_a_word(shard):
    joining = shard.join(instance_id="one")
    shard.pass_time(6_000)
    member_id = joining.member_id
    shard.sync(member_id, 1, {member_id: b"all"})
    assert shard.await_rebalance(member_id, 1) is ErrorCode.NONE


@pytest.mark.parametrize("of_whom", ["streams", "connect"])
def test_only_plain_consumers_listen(shard, of_whom):
    fields = {
        "streams": {"protocols": {"stream": subscription("orders")}},
        "connect": {"protocol_type": "connect"},
    }[of_whom]
    first, _ = shard.stable_group(**fields)
    assert shard.await_rebalance(first, 1) is ErrorCode.NONE
