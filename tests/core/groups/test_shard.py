"""A shard as a whole: listing, describing, deleting, loading."""

import pytest

from penstock.base.errors import ErrorCode, Refusal
from penstock.records.internal.group_shapes import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from penstock.records.internal.record import InternalRecord
from tests.core.groups.driven_shard import DrivenShard, subscription


@pytest.fixture
def shard():
    return DrivenShard()


def ids(groups):
    return [group.group_id for group in groups]


@pytest.fixture
def several(shard):
    """A stable group, one that gathers, and one for its offsets."""
    shard.stable_group()
    shard.join(group_id="gathering", requires_known_member_id=False)
    shard.commit({("orders", 0): 1}, group_id="simple")
    return shard


def test_groups_are_listed_by_state_whatever_its_case(several):
    assert ids(several.listed()) == ["readers", "gathering", "simple"]
    assert ids(several.listed(states=["Stable"])) == ["readers"]
    assert ids(several.listed(states=["preparingrebalance", "EMPTY"])) == ["gathering", "simple"]
    assert ids(several.listed(states=["NoSuchState"])) == []


def test_groups_are_listed_by_type(several):
    assert len(several.listed(types=["classic"])) == 3
    assert len(several.listed(types=["Classic", "consumer"])) == 3
    assert several.listed(types=["consumer"]) == ()


def test_a_long_listing_pauses_on_the_way(shard):
    for number in range(2_000):
        shard.commit({("orders", 0): 1}, group_id=f"group-{number}")
    listing = shard.shard.list_groups(states=["Stable"], types=[])
    next(listing)
    next(listing)
    shard.delete_group("group-1999")
    assert len(shard.listed()) == 1_999


def test_a_stable_group_is_described_with_what_members_said_and_got(shard):
    first, second = shard.stable_group()
    described = shard.describe()
    assert (described.state, described.protocol_type, described.protocol) == ("Stable", "consumer", "range")
    assert [member.member_id for member in described.members] == [first, second]
    member = described.members[1]
    assert (member.client_id, member.client_host, member.instance_id) == ("app", "/127.0.0.1", None)
    assert (member.metadata, member.assignment) == (subscription("orders"), second.encode())


def test_a_group_that_rebalances_is_described_with_its_last_assignment_only(shard):
    first, second = shard.stable_group()
    shard.join(first)
    described = shard.describe()
    assert (described.state, described.protocol) == ("PreparingRebalance", "")
    shown = [(member.metadata, member.assignment) for member in described.members]
    assert shown == [(b"", first.encode()), (b"", second.encode())]


def test_a_group_that_is_not_there_is_not_described(shard):
    assert shard.describe().code is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_with_members_is_not_deleted(shard):
    members = shard.stable_group()
    assert shard.delete_group() == Refusal(ErrorCode.NON_EMPTY_GROUP)
    shard.join(members[0])
    assert shard.delete_group() == Refusal(ErrorCode.NON_EMPTY_GROUP)


def test_a_group_is_deleted_with_all_its_offsets(shard):
    first, second = shard.stable_group()
    shard.commit({("orders", 0): 1}, member_id=first, generation=1)
    shard.commit({("orders", 1): 1}, member_id=first, generation=1, producer_id=7)
    shard.leave(first, second)
    assert shard.delete_group() is None
    assert (shard.committed(), shard.listed()) == ({}, ())
    shard.marker(7, committed=True)
    assert shard.committed() == {}
    shard.fail_over()
    assert (shard.committed(), shard.listed()) == ({}, ())
    assert shard.delete_group() == Refusal(ErrorCode.GROUP_ID_NOT_FOUND)


def test_a_deleted_group_leaves_no_timer_behind(shard):
    shard.join()
    timers = len(shard.shard.deadlines)
    assert shard.delete_group() is None
    assert len(shard.shard.deadlines) == timers - 1


def test_a_group_that_was_deleted_begins_again_from_nothing(shard):
    shard.leave(*shard.stable_group())
    shard.delete_group()
    _, answer = shard.join_with_new_id()
    shard.pass_time(3_000)
    assert answer.generation == 1


def test_generations_of_the_oldest_format_know_one_timeout_only(shard):
    member = MemberMetadata(
        member_id="m",
        client_id="c",
        client_host="/h",
        session_timeout=8_000,
        rebalance_timeout=-1,
        subscription=subscription("orders"),
        assignment=b"all",
    )
    value = GroupMetadataValue(
        protocol_type="consumer", generation=4, protocol="range", leader="m", members=[member]
    )
    shard.shard.replay(InternalRecord(GroupMetadataKey(group="readers"), value), offset=0)
    shard.shard.loaded(shard.now_ms)
    assert shard.shard.groups["readers"].rebalance_timeout_ms == 8_000
    assert shard.sync("m", 4).assignment == b"all"
    shard.pass_time(8_000)
    assert shard.state == "Empty"


def test_a_thousand_members_join_and_sync(shard):
    members = [shard.join(requires_known_member_id=False) for _ in range(1_000)]
    shard.pass_time(6_000)
    leader = members[0]
    assert len(leader.members) == 1_000
    shard.sync(leader.member_id, 1, {member.member_id: b"some" for member in members})
    assert {shard.sync(member.member_id, 1).assignment for member in members} == {b"some"}


def test_of_several_generations_in_the_log_the_last_says_what_a_member_said(shard):
    (only,) = shard.stable_group(1, topics=("orders",))
    answer = shard.join(only, topics=("payments",), session_timeout_ms=20_000)
    shard.sync(only, answer.generation, {only: b"all"})
    shard.fail_over()
    assert shard.describe().members[0].metadata == subscription("payments")
    shard.pass_time(19_999)
    assert shard.heartbeat(only, 2) is ErrorCode.NONE
