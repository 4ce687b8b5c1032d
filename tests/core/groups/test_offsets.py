"""Committed offsets: who may commit, what is fetched, transactions, deleting."""

import pytest

from penstock.base.errors import ErrorCode, Refusal
from penstock.core.groups.requests import CommittedOffset, OffsetToCommit
from penstock.records.internal.group_shapes import LegacyOffsetCommitKey, LegacyOffsetCommitValue
from penstock.records.internal.record import InternalRecord
from tests.core.groups.driven_shard import DrivenShard

FIRST, SECOND = ("orders", 0), ("orders", 1)
TOPIC_ID, ANOTHER_ID = b"o" * 16, b"p" * 16
OK = (ErrorCode.NONE,)


@pytest.fixture
def shard():
    return DrivenShard()


# Committing


def test_a_member_commits_and_the_next_coordinator_knows(shard):
    first, _ = shard.stable_group()
    assert shard.commit({FIRST: 5, SECOND: 7}, member_id=first, generation=1) == OK * 2
    shard.fail_over()
    assert shard.committed() == {FIRST: 5, SECOND: 7}


def test_the_last_commit_counts(shard):
    shard.commit({FIRST: 5})
    shard.commit({FIRST: 3})
    assert shard.committed() == {FIRST: 3}


def test_all_that_was_said_with_an_offset_is_kept(shard):
    shard.commit({FIRST: OffsetToCommit(*FIRST, 5, leader_epoch=3, metadata="half", topic_id=TOPIC_ID)})
    shard.commit({SECOND: OffsetToCommit(*SECOND, 6, metadata=None)})
    shard.fail_over()
    assert shard.fetch() == (CommittedOffset(*FIRST, 5, 3, "half"), CommittedOffset(*SECOND, 6))
    assert shard.records[0].value.topic_id == TOPIC_ID
    assert shard.records[0].value.commit_timestamp == shard.now_ms


def test_who_assigns_itself_partitions_commits_without_joining(shard):
    assert shard.commit({FIRST: 5}) == OK
    assert [(each.group_id, each.protocol_type, each.state, each.type) for each in shard.listed()] == [
        ("readers", "", "Empty", "classic")
    ]
    assert shard.describe().members == ()


def test_a_commit_without_a_member_id_is_refused_while_a_group_has_members(shard):
    shard.stable_group()
    assert shard.commit({FIRST: 5}) == Refusal(ErrorCode.UNKNOWN_MEMBER_ID)
    assert shard.committed() == {}


def test_an_administrator_commits_for_an_empty_group(shard):
    shard.leave(*shard.stable_group())
    assert shard.commit({FIRST: 5}) == OK


@pytest.mark.parametrize("generation", [0, 2])
def test_a_member_of_another_generation_is_refused(shard, generation):
    first, _ = shard.stable_group()
    answer = shard.commit({FIRST: 5}, member_id=first, generation=generation)
    assert answer == Refusal(ErrorCode.ILLEGAL_GENERATION)


def test_a_stranger_is_refused(shard):
    shard.stable_group()
    answer = shard.commit({FIRST: 5}, member_id="stranger", generation=1)
    assert answer == Refusal(ErrorCode.UNKNOWN_MEMBER_ID)


def test_a_member_of_a_group_that_is_gone_is_refused_as_its_version_understands(shard):
    member = {"member_id": "ghost", "generation": 1}
    assert shard.commit({FIRST: 5}, **member, version=9) == Refusal(ErrorCode.GROUP_ID_NOT_FOUND)
    assert shard.commit({FIRST: 5}, **member, version=8) == Refusal(ErrorCode.ILLEGAL_GENERATION)
    in_transaction = shard.commit({FIRST: 5}, **member, producer_id=7)
    assert in_transaction == Refusal(ErrorCode.ILLEGAL_GENERATION)
    assert shard.log == []


def test_a_commit_between_join_and_sync_is_refused(shard):
    member_id, answer = shard.join_with_new_id()
    shard.pass_time(3_000)
    committed = shard.commit({FIRST: 5}, member_id=member_id, generation=answer.generation)
    assert committed == Refusal(ErrorCode.REBALANCE_IN_PROGRESS)


def test_members_may_commit_what_they_read_while_the_others_are_gathered(shard):
    first, second = shard.stable_group()
    shard.join(first)
    assert shard.commit({FIRST: 5}, member_id=second, generation=1) == OK


def test_metadata_beyond_the_limit_is_refused_for_its_partition_alone(shard):
    largest, larger = "m" * 4_096, "m" * 4_097
    answer = shard.commit(
        {
            FIRST: OffsetToCommit(*FIRST, 1, metadata=larger),
            SECOND: OffsetToCommit(*SECOND, 2, metadata=largest),
        }
    )
    assert answer == (ErrorCode.OFFSET_METADATA_TOO_LARGE, ErrorCode.NONE)
    assert shard.committed() == {SECOND: 2}


# Fetching


def test_a_partition_without_a_committed_offset_is_fetched_as_minus_one(shard):
    shard.commit({FIRST: 5})
    assert shard.fetch(SECOND, FIRST) == (CommittedOffset(*SECOND, -1), CommittedOffset(*FIRST, 5))
    assert shard.fetch(FIRST, group_id="unknown") == (CommittedOffset(*FIRST, -1),)
    assert shard.fetch(group_id="unknown") == ()


def test_an_offset_of_an_earlier_topic_of_that_name_does_not_count(shard):
    shard.commit({FIRST: OffsetToCommit(*FIRST, 5, topic_id=TOPIC_ID), SECOND: 6})
    assert shard.fetch(FIRST, topic_ids={"orders": TOPIC_ID})[0].offset == 5
    assert shard.fetch(FIRST, topic_ids={"orders": ANOTHER_ID})[0].offset == -1
    assert shard.fetch(FIRST)[0].offset == 5
    # Who committed by name said nothing about the id.
    assert shard.fetch(SECOND, topic_ids={"orders": ANOTHER_ID})[0].offset == 6


def test_offsets_in_the_oldest_format_are_read(shard):
    key = LegacyOffsetCommitKey(group="readers", topic="orders", partition=0)
    value = LegacyOffsetCommitValue(offset=9, metadata="old", commit_timestamp=1)
    shard.shard.replay(InternalRecord(key, value), offset=0)
    assert shard.fetch() == (CommittedOffset(*FIRST, 9, -1, "old"),)
    shard.shard.replay(InternalRecord(key, None), offset=1)
    assert shard.fetch() == ()


# Transactions


def test_an_offset_of_a_transaction_counts_when_the_transaction_is_committed(shard):
    shard.commit({FIRST: 1})
    shard.commit({FIRST: 5}, producer_id=7)
    assert shard.committed() == {FIRST: 1}
    shard.marker(7, committed=True)
    assert shard.committed() == {FIRST: 5}
    shard.fail_over()
    assert shard.committed() == {FIRST: 5}


def test_an_offset_of_a_transaction_that_is_aborted_never_counts(shard):
    shard.commit({FIRST: 1})
    shard.commit({FIRST: 5}, producer_id=7)
    shard.marker(7, committed=False)
    assert shard.committed() == {FIRST: 1}
    assert shard.fetch(FIRST, require_stable=True)[0].offset == 1


def test_a_fetch_of_stable_offsets_is_refused_while_a_transaction_is_pending(shard):
    shard.commit({FIRST: 1, SECOND: 2})
    shard.commit({FIRST: 5}, producer_id=7)
    unstable = CommittedOffset(*FIRST, error=ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert shard.fetch(FIRST, SECOND, require_stable=True) == (unstable, CommittedOffset(*SECOND, 2))
    assert shard.fetch(require_stable=True) == (unstable, CommittedOffset(*SECOND, 2))
    assert shard.fetch(FIRST)[0].offset == 1
    shard.fail_over()
    assert shard.fetch(FIRST, require_stable=True) == (unstable,)


def test_a_commit_that_came_after_the_transactions_stays_when_that_is_committed(shard):
    shard.commit({FIRST: 5, SECOND: 5}, producer_id=7)
    shard.commit({FIRST: 9})
    shard.marker(7, committed=True)
    assert shard.committed() == {FIRST: 9, SECOND: 5}


def test_of_two_transactions_each_ends_its_own(shard):
    shard.commit({FIRST: 5}, producer_id=7)
    shard.commit({FIRST: 6}, producer_id=8)
    shard.marker(8, committed=True)
    assert shard.fetch(FIRST, require_stable=True)[0].error is ErrorCode.UNSTABLE_OFFSET_COMMIT
    shard.marker(7, committed=True)
    # The other's was written later.
    assert shard.fetch(FIRST, require_stable=True) == (CommittedOffset(*FIRST, 6),)


def test_a_marker_of_a_producer_without_offsets_here_changes_nothing(shard):
    shard.commit({FIRST: 5})
    shard.marker(99, committed=True)
    assert shard.committed() == {FIRST: 5}


def test_a_transactional_producer_may_name_its_member_or_not(shard):
    first, _ = shard.stable_group()
    assert shard.commit({FIRST: 5}, producer_id=7) == OK
    assert shard.commit({FIRST: 5}, producer_id=7, member_id=first, generation=1) == OK
    stale = shard.commit({FIRST: 5}, producer_id=7, member_id=first, generation=0)
    assert stale == Refusal(ErrorCode.ILLEGAL_GENERATION)
    stranger = shard.commit({FIRST: 5}, producer_id=7, member_id="stranger", generation=1)
    assert stranger == Refusal(ErrorCode.UNKNOWN_MEMBER_ID)


# Deleting


def test_offsets_of_an_empty_group_are_deleted(shard):
    shard.commit({FIRST: 1, SECOND: 2})
    assert shard.delete_offsets(FIRST, ("never", 0), FIRST) == OK * 3
    shard.fail_over()
    assert shard.committed() == {SECOND: 2}


def test_offsets_of_topics_that_members_subscribe_to_are_kept(shard):
    first, _ = shard.stable_group(topics=("orders",))
    shard.commit({FIRST: 1, ("old", 0): 2}, member_id=first, generation=1)
    answer = shard.delete_offsets(FIRST, ("old", 0))
    assert answer == (ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NONE)
    assert shard.committed() == {FIRST: 1}


def test_if_a_subscription_cannot_be_read_all_topics_may_be_in_it(shard):
    first, _ = shard.stable_group(protocols={"range": b"\x00"})
    shard.commit({FIRST: 1}, member_id=first, generation=1)
    assert shard.delete_offsets(FIRST) == (ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,)


def test_offsets_of_a_group_that_is_not_of_consumers_are_kept_while_it_has_members(shard):
    shard.stable_group(protocol_type="connect", protocols={"compatible": b""})
    assert shard.delete_offsets(FIRST) == Refusal(ErrorCode.NON_EMPTY_GROUP)


def test_offsets_of_an_unknown_group_cannot_be_deleted(shard):
    assert shard.delete_offsets(FIRST) == Refusal(ErrorCode.GROUP_ID_NOT_FOUND)


def test_deleting_an_offset_takes_what_a_transaction_has_pending_with_it(shard):
    shard.commit({FIRST: 5, SECOND: 6}, producer_id=7)
    shard.delete_offsets(FIRST)
    assert shard.fetch(FIRST, require_stable=True) == (CommittedOffset(*FIRST),)
    shard.marker(7, committed=True)
    assert shard.committed() == {SECOND: 6}


def test_with_a_topic_go_the_offsets_of_all_groups(shard):
    shard.commit({FIRST: 1, ("kept", 0): 2})
    shard.commit({SECOND: 3}, group_id="another")
    for decision in shard.shard.delete_offsets_of_topics(lambda topic, _: topic == "orders"):
        shard.carry_out(decision)
    assert (shard.committed(), shard.committed("another")) == ({("kept", 0): 2}, {})


def test_offsets_of_a_topic_that_was_made_again_under_another_id_go_too(shard):
    shard.commit({FIRST: OffsetToCommit(*FIRST, 5, topic_id=TOPIC_ID), SECOND: 6})
    shard.commit({FIRST: OffsetToCommit(*FIRST, 7, topic_id=ANOTHER_ID)}, group_id="another")
    for decision in shard.shard.delete_offsets_of_topics(lambda _, topic_id: topic_id == TOPIC_ID):
        shard.carry_out(decision)
    assert (shard.committed(), shard.committed("another")) == ({SECOND: 6}, {FIRST: 7})
