"""TxnOffsetCommit: offsets are visible when their transaction is committed, and not before."""

import itertools

import pytest

from penstock.base.errors import ErrorCode
from penstock.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.apis.transactional import GROUP, TransactionalProducer, find_coordinator
from tests.raw_client import RawClient

NONE = ErrorCode.NONE
NO_OFFSET = -1

_numbers = itertools.count()


@pytest.fixture
def producer(client: RawClient, topic: str) -> TransactionalProducer:
    client.create_topic(topic)
    return TransactionalProducer(client)


@pytest.fixture
def group(client: RawClient) -> str:
    name = f"transactional-group-{next(_numbers)}"
    find_coordinator(client, name, GROUP)
    return name


def committed(client: RawClient, group: str, topic: str, *, stable: bool = False) -> tuple[int, int]:
    """The offset that a group would go on from, and the error."""
    topics = [OffsetFetchRequestTopics(name=topic, partition_indexes=[0])]
    asked = OffsetFetchRequestGroup(group_id=group, topics=topics)
    answer = client.ask(OffsetFetchRequest(groups=[asked], require_stable=stable), 8).groups[0]
    partition = answer.topics[0].partitions[0]
    return partition.committed_offset, answer.error_code or partition.error_code


@pytest.mark.parametrize("commit", [True, False])
def test_offsets_are_visible_when_the_transaction_is_committed(
    producer: TransactionalProducer, client: RawClient, topic: str, group: str, commit: bool
):
    producer.send(topic)
    assert producer.commit_offset(group, topic, 5) == NONE
    assert committed(client, group, topic) == (NO_OFFSET, NONE)
    assert committed(client, group, topic, stable=True)[1] == ErrorCode.UNSTABLE_OFFSET_COMMIT
    producer.finish(commit=commit)
    expected = 5 if commit else NO_OFFSET
    assert committed(client, group, topic, stable=True) == (expected, NONE)


def test_one_transaction_after_the_other_commits_offsets(
    producer: TransactionalProducer, client: RawClient, topic: str, group: str
):
    for offset in range(1, 6):
        assert producer.commit_offset(group, topic, offset) == NONE
        producer.finish(commit=offset % 2 == 1)
    assert committed(client, group, topic, stable=True) == (5, NONE)


def test_an_older_client_must_have_added_the_group(
    producer: TransactionalProducer, client: RawClient, topic: str, group: str
):
    assert producer.commit_offset(group, topic, 5, version=4) == ErrorCode.TRANSACTION_ABORTABLE
    assert producer.commit_offset(group, topic, 5, version=3) == ErrorCode.INVALID_TXN_STATE
    assert producer.add_offsets(group) == NONE
    assert producer.commit_offset(group, topic, 5, version=3) == NONE
    producer.finish(commit=True, version=4)
    assert committed(client, group, topic, stable=True) == (5, NONE)
    assert producer.commit_offset(group, topic, 6, version=3) == ErrorCode.INVALID_TXN_STATE


def test_a_fenced_producer_commits_no_offsets(
    producer: TransactionalProducer, client: RawClient, topic: str, group: str
):
    TransactionalProducer(client, producer.name)
    assert producer.commit_offset(group, topic, 5) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert committed(client, group, topic) == (NO_OFFSET, NONE)


def test_invalid_offset_commits_get_error_codes_and_change_nothing(
    producer: TransactionalProducer, client: RawClient, topic: str, group: str
):
    assert producer.commit_offset(group, "no-such-topic", 5) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert producer.commit_offset(group, topic, 5, partition=7) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    stale = producer.commit_offset(group, topic, 5, member_id="nobody", generation_id=3)
    assert stale in (ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID)
    assert producer.commit_offset(group, topic, 5) == NONE
    producer.finish(commit=True)
    assert committed(client, group, topic, stable=True) == (5, NONE)
