"""When offsets and groups are forgotten."""

import pytest

from penstock.base.errors import ErrorCode
from penstock.core.groups.offset_expiry import OFFSETS_PER_DECISION
from penstock.core.groups.settings import GroupSettings
from tests.core.groups.driven_shard import DrivenShard

HOUR_MS = 3_600_000
ORDERS, OLD = ("orders", 0), ("old", 0)


@pytest.fixture
def shard():
    """Offsets are kept for a day and looked at every hour; sessions last for long."""
    return DrivenShard(
        GroupSettings(
            offsets_retention_ms=24 * HOUR_MS,
            offsets_check_interval_ms=HOUR_MS,
            session_timeout_ms_max=500 * HOUR_MS,
        )
    )


def long_lived(shard, **fields):
    return shard.stable_group(1, session_timeout_ms=500 * HOUR_MS, **fields)[0]


def test_offsets_of_a_group_without_members_expire_after_their_commit(shard):
    shard.commit({ORDERS: 1})
    shard.pass_time(12 * HOUR_MS)
    shard.commit({OLD: 2})
    shard.pass_time(12 * HOUR_MS)
    assert shard.committed() == {OLD: 2}
    shard.pass_time(12 * HOUR_MS)
    assert shard.committed() == {}


def test_a_group_without_members_goes_with_its_last_offset(shard):
    shard.commit({ORDERS: 1})
    shard.pass_time(25 * HOUR_MS)
    assert shard.listed() == ()
    assert shard.records[-1].value is None
    shard.fail_over()
    assert shard.listed() == ()


def test_offsets_of_members_do_not_expire_however_old_they_are(shard):
    member_id = long_lived(shard)
    shard.commit({ORDERS: 1}, member_id=member_id, generation=1)
    shard.pass_time(400 * HOUR_MS)
    assert shard.committed() == {ORDERS: 1}


def test_the_retention_begins_when_the_last_member_is_gone(shard):
    member_id = long_lived(shard)
    shard.commit({ORDERS: 1}, member_id=member_id, generation=1)
    shard.pass_time(400 * HOUR_MS)
    shard.leave(member_id)
    shard.fail_over()  # the time is in the log
    shard.pass_time(23 * HOUR_MS)
    assert shard.committed() == {ORDERS: 1}
    shard.pass_time(2 * HOUR_MS)
    assert shard.committed() == {}
    assert shard.listed() == ()


def test_offsets_of_topics_without_a_subscription_expire_in_a_stable_group(shard):
    member_id = long_lived(shard, topics=("orders",))
    shard.commit({ORDERS: 1, OLD: 2}, member_id=member_id, generation=1)
    shard.pass_time(25 * HOUR_MS)
    assert shard.committed() == {ORDERS: 1}
    assert shard.state == "Stable"


@pytest.mark.parametrize(
    "fields", [{"protocol_type": "connect", "protocols": {"any": b""}}, {"protocols": {"range": b"\x00"}}]
)
def test_no_offset_expires_while_the_subscriptions_of_members_cannot_be_read(shard, fields):
    member_id = long_lived(shard, **fields)
    shard.commit({OLD: 2}, member_id=member_id, generation=1)
    shard.pass_time(100 * HOUR_MS)
    assert shard.committed() == {OLD: 2}


def test_nothing_expires_during_a_rebalance(shard):
    member_id = long_lived(shard, rebalance_timeout_ms=2_000_000_000)
    shard.commit({OLD: 2}, member_id=member_id, generation=1)
    shard.join()  # gets a member id and never joins with it: the rebalance goes on for long
    shard.join(member_id, session_timeout_ms=500 * HOUR_MS, rebalance_timeout_ms=2_000_000_000, topics=())
    shard.join("", session_timeout_ms=500 * HOUR_MS)
    assert shard.state == "PreparingRebalance"
    shard.pass_time(100 * HOUR_MS)
    assert shard.state == "PreparingRebalance"
    assert shard.committed() == {OLD: 2}


def test_an_offset_that_a_transaction_may_change_does_not_expire(shard):
    shard.commit({ORDERS: 1})
    shard.commit({ORDERS: 2}, producer_id=7)
    shard.pass_time(100 * HOUR_MS)
    assert shard.committed() == {ORDERS: 1}
    shard.marker(7, committed=False)
    shard.pass_time(HOUR_MS)
    assert shard.listed() == ()


def test_a_group_with_nothing_but_an_open_transaction_stays(shard):
    shard.commit({ORDERS: 2}, producer_id=7)
    shard.pass_time(100 * HOUR_MS)
    assert len(shard.listed()) == 1
    shard.marker(7, committed=True)
    assert shard.committed() == {ORDERS: 2}


def test_a_retention_that_ends_after_all_time_is_none(shard):
    shard.commit({ORDERS: 1}, retention_ms=2**63 - 1)
    shard.fail_over()
    shard.pass_time(500 * HOUR_MS)
    assert shard.committed() == {ORDERS: 1}


def test_clients_of_old_name_the_retention_themselves(shard):
    shard.commit({ORDERS: 1}, retention_ms=2 * HOUR_MS)
    shard.commit({OLD: 1}, retention_ms=200 * HOUR_MS)
    shard.fail_over()
    shard.pass_time(HOUR_MS)
    assert shard.committed() == {ORDERS: 1, OLD: 1}
    shard.pass_time(HOUR_MS)
    assert shard.committed() == {OLD: 1}
    shard.pass_time(100 * HOUR_MS)
    assert shard.committed() == {OLD: 1}


def test_many_offsets_expire_in_several_batches_and_what_is_committed_between_two_stays(shard):
    count = 3 * OFFSETS_PER_DECISION
    shard.commit({("orders", number): 1 for number in range(count)})
    shard.now_ms += 25 * HOUR_MS
    expiring = shard.shard.expire(shard.now_ms)
    first = next(expiring)
    assert len(first.records) == OFFSETS_PER_DECISION
    shard.carry_out(first)
    shard.commit({("orders", count - 1): 2})
    for decision in expiring:
        shard.carry_out(decision)
    assert shard.committed() == {("orders", count - 1): 2}
    assert len(shard.listed()) == 1


def test_a_long_name_makes_batches_of_fewer_offsets_so_that_each_fits_into_the_log(shard):
    name = "g" * 32_767
    shard.commit({("orders", number): 1 for number in range(100)}, group_id=name)
    shard.now_ms += 25 * HOUR_MS
    decisions = 0
    for decision in shard.shard.expire(shard.now_ms):
        assert len(decision.records) * len(name) < 1_000_000
        shard.carry_out(decision)
        decisions += 1
    assert decisions > 3
    assert shard.listed() == ()


def test_a_group_that_is_deleted_between_two_batches_is_left_alone(shard):
    shard.commit({("orders", number): 1 for number in range(2 * OFFSETS_PER_DECISION)})
    shard.now_ms += 25 * HOUR_MS
    expiring = shard.shard.expire(shard.now_ms)
    shard.carry_out(next(expiring))
    shard.delete_group()
    written = len(shard.log)
    for decision in expiring:
        shard.carry_out(decision)
    assert len(shard.log) == written


def test_a_group_that_members_left_and_that_has_no_offsets_goes_with_the_next_check(shard):
    shard.leave(long_lived(shard))
    shard.pass_time(HOUR_MS)
    assert shard.listed() == ()
    assert shard.heartbeat("app-1", 1) is ErrorCode.UNKNOWN_MEMBER_ID
