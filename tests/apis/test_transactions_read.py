"""Fetch and ListOffsets of transactional records, with both isolation levels."""

import pytest

from penstock.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from penstock.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.apis.requests import end_offset, values_in
from tests.apis.transactional import READ_COMMITTED, TransactionalProducer, fetch_committed, read_committed
from tests.raw_client import RawClient, batch_of

LATEST = -1


@pytest.fixture
def producer(client: RawClient, topic: str) -> TransactionalProducer:
    client.create_topic(topic, partitions=2)
    return TransactionalProducer(client)


def latest_committed(client: RawClient, topic: str, timestamp: int = LATEST) -> int:
    asked = ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=timestamp)
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=READ_COMMITTED,
        topics=[ListOffsetsTopic(name=topic, partitions=[asked])],
    )
    answer = client.ask(request, 8).topics[0].partitions[0]
    assert answer.error_code == 0
    return int(answer.offset)


def test_read_committed_stops_before_open_transactions(
    producer: TransactionalProducer, client: RawClient, topic: str
):
    client.produce(topic, batch_of(b"before"))
    producer.send(topic, b"open")
    client.produce(topic, batch_of(b"after"))
    answer = fetch_committed(client, topic)
    assert values_in(answer.records) == [b"before"]
    assert (answer.last_stable_offset, answer.high_watermark) == (1, 3)
    assert values_in(client.fetch(topic, 0).records) == [b"before", b"open", b"after"]
    assert latest_committed(client, topic) == 1
    assert end_offset(client, topic) == 3
    producer.finish(commit=True)
    assert read_committed(client, topic) == [b"before", b"open", b"after"]
    assert latest_committed(client, topic) == 4, "the marker counts"


def test_read_committed_gets_the_aborted_transactions(
    producer: TransactionalProducer, client: RawClient, topic: str
):
    producer.send(topic, b"bad")
    producer.finish(commit=False)
    producer.send(topic, b"good")
    producer.finish(commit=True)
    answer = fetch_committed(client, topic)
    assert [(entry.producer_id, entry.first_offset) for entry in answer.aborted_transactions] == [
        (producer.id, 0)
    ]
    assert read_committed(client, topic) == [b"good"]
    assert client.fetch(topic, 0).aborted_transactions is None


def test_only_aborted_transactions_within_the_fetched_range_are_returned(
    producer: TransactionalProducer, client: RawClient, topic: str
):
    for _ in range(3):
        producer.send(topic, b"bad" * 100)
        producer.finish(commit=False)
    answer = fetch_committed(client, topic, partition_max_bytes=1)
    assert len(answer.aborted_transactions) == 1
    assert len(fetch_committed(client, topic, 2).aborted_transactions) == 2
    assert fetch_committed(client, topic, 6).aborted_transactions == []


def test_each_partition_has_its_own_last_stable_offset(
    producer: TransactionalProducer, client: RawClient, topic: str
):
    producer.send(topic, b"open", partition=1)
    client.produce(topic, batch_of(b"free"))
    assert read_committed(client, topic) == [b"free"]
    assert read_committed(client, topic, partition=1) == []
    producer.finish(commit=True)
    assert read_committed(client, topic, partition=1) == [b"open"]


def test_a_timestamp_behind_the_last_stable_offset_is_not_found(
    producer: TransactionalProducer, client: RawClient, topic: str
):
    producer.send(topic, b"open")
    assert latest_committed(client, topic, timestamp=500) == -1
    producer.finish(commit=True)
    assert latest_committed(client, topic, timestamp=500) == 0


def test_the_last_stable_offset_is_never_before_the_start_of_the_log(
    producer: TransactionalProducer, client: RawClient, topic: str
):
    producer.send(topic, b"open")
    client.produce(topic, batch_of(b"after"))
    asked = DeleteRecordsPartition(partition_index=0, offset=1)
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=topic, partitions=[asked])], timeout_ms=10_000
    )
    assert client.ask(request, 2).topics[0].partitions[0].error_code == 0
    answer = fetch_committed(client, topic, 1)
    assert (answer.error_code, answer.log_start_offset, answer.last_stable_offset) == (0, 1, 1)
