"""Delayed heartbeats: classic members learn of a rebalance when it begins, not with their next heartbeat."""

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


def test_a_join_completes_delayed_heartbeats(shard):
    first, second = shard.stable_group()
    news = [shard.await_rebalance(member_id, 1) for member_id in (first, second)]
    assert not any(each.is_answered for each in news)
    shard.join_with_new_id()
    assert [each.response for each in news] == [ErrorCode.REBALANCE_IN_PROGRESS] * 2


def test_a_member_that_leaves_completes_delayed_heartbeats(shard):
    first, second = shard.stable_group()
    news = shard.await_rebalance(first, 1)
    shard.leave(second)
    assert news.response is ErrorCode.REBALANCE_IN_PROGRESS


def test_an_expired_session_completes_delayed_heartbeats(shard):
    first, _second = shard.stable_group()
    shard.pass_time(SESSION_MS - 1)
    shard.heartbeat(first, 1)
    news = shard.await_rebalance(first, 1)
    shard.pass_time(1)
    assert news.response is ErrorCode.REBALANCE_IN_PROGRESS


def test_the_delayed_heartbeat_of_a_removed_member_fails_with_unknown_member_id(shard):
    first, second = shard.stable_group()
    news = shard.await_rebalance(second, 1)
    shard.leave(second)
    assert news.response is ErrorCode.UNKNOWN_MEMBER_ID
    assert shard.heartbeat(first, 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_the_delayed_heartbeat_of_a_member_that_does_not_sync_fails_with_unknown_member_id(shard):
    first, second = shard.stable_group()
    shard.join(first, rebalance_timeout_ms=WAIT_MS - 1)
    generation = shard.join(second, rebalance_timeout_ms=WAIT_MS - 1).generation
    news = shard.await_rebalance(second, generation)
    shard.pass_time(WAIT_MS - 1)
    assert news.response is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_heartbeat_is_delayed_for_at_most_a_quarter_of_the_session_timeout(shard):
    first, _ = shard.stable_group()
    news = shard.await_rebalance(first, 1)
    shard.pass_time(WAIT_MS - 1)
    assert not news.is_answered
    shard.pass_time(1)
    assert news.response is ErrorCode.REQUEST_TIMED_OUT


def test_a_heartbeat_is_delayed_for_at_most_the_brokers_limit(shard):
    first, _ = shard.stable_group(session_timeout_ms=60_000)
    news = shard.await_rebalance(first, 1)
    shard.pass_time(GroupSettings().heartbeat_wait_ms - 1)
    assert not news.is_answered
    shard.pass_time(1)
    assert news.response is ErrorCode.REQUEST_TIMED_OUT


def test_a_delayed_heartbeat_does_not_prolong_the_session(shard):
    first, second = shard.stable_group()
    shard.heartbeat(first, 1)
    shard.await_rebalance(first, 1)
    shard.pass_time(SESSION_MS)
    assert shard.heartbeat(first, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert shard.heartbeat(second, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_has_a_full_session_to_rejoin_after_its_delayed_heartbeat_completes(shard):
    first, _ = shard.stable_group()
    shard.heartbeat(first, 1)
    shard.await_rebalance(first, 1)
    shard.pass_time(2_000)
    shard.join_with_new_id()
    shard.pass_time(SESSION_MS - 1)
    assert shard.heartbeat(first, 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_members_next_delayed_heartbeat_completes_its_earlier_one(shard):
    first, _ = shard.stable_group()
    earlier = shard.await_rebalance(first, 1)
    later = shard.await_rebalance(first, 1)
    assert earlier.response is ErrorCode.NONE
    assert not later.is_answered


def test_a_fail_over_completes_delayed_heartbeats(shard):
    first, _ = shard.stable_group()
    news = shard.await_rebalance(first, 1)
    shard.fail_over()
    assert news.response is NO_COORDINATOR
    shard.pass_time(WAIT_MS)


def test_delayed_heartbeats_can_be_switched_off():
    shard = DrivenShard(replace(SETTINGS, heartbeat_wait_ms=0))
    first, _ = shard.stable_group()
    assert shard.await_rebalance(first, 1) is ErrorCode.NONE


def test_heartbeats_of_static_members_are_not_delayed_for_they_may_close_without_leaving(shard):
    joining = shard.join(instance_id="one")
    shard.pass_time(6_000)
    member_id = joining.member_id
    shard.sync(member_id, 1, {member_id: b"all"})
    assert shard.await_rebalance(member_id, 1) is ErrorCode.NONE


@pytest.mark.parametrize("of_whom", ["streams", "connect"])
def test_only_heartbeats_of_plain_consumers_are_delayed(shard, of_whom):
    fields = {
        "streams": {"protocols": {"stream": subscription("orders")}},
        "connect": {"protocol_type": "connect"},
    }[of_whom]
    first, _ = shard.stable_group(**fields)
    assert shard.await_rebalance(first, 1) is ErrorCode.NONE
