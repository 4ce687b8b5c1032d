"""WriteTxnMarkers, which ends a transaction in a partition, and DescribeProducers, which shows it."""

from typing import Any

import pytest

from penstock.base.errors import ErrorCode
from penstock.testing import EmbeddedBroker
from penstock.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from penstock.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.apis.requests import new_producer_id
from tests.apis.transactional import TransactionalProducer, read_committed
from tests.proving import credentials_of, prove
from tests.raw_client import RawClient, batch_of

NONE = ErrorCode.NONE


@pytest.fixture
def producer(client: RawClient, topic: str) -> TransactionalProducer:
    client.create_topic(topic, partitions=2)
    return TransactionalProducer(client)


def write_marker(
    producer: TransactionalProducer,
    topic: str,
    *,
    commit: bool = False,
    epoch: int | None = None,
    coordinator_epoch: int = 0,
    partition: int = 0,
    version: int = 2,
    transaction_version: int = 0,
) -> int:
    marker = WritableTxnMarker(
        producer_id=producer.id,
        producer_epoch=producer.epoch if epoch is None else epoch,
        transaction_result=commit,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[partition])],
        coordinator_epoch=coordinator_epoch,
        transaction_version=transaction_version,
    )
    answer = producer.client.ask(WriteTxnMarkersRequest(markers=[marker]), version).markers[0]
    assert answer.producer_id == producer.id
    return int(answer.topics[0].partitions[0].error_code)


def producers_of(client: RawClient, topic: str, partition: int = 0) -> Any:
    request = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[partition])])
    return client.ask(request, 0).topics[0].partitions[0]


def test_a_client_aborts_a_hanging_transaction(
    producer: TransactionalProducer, client: RawClient, topic: str
):
    producer.send(topic, b"hanging")
    assert write_marker(producer, topic, version=1) == NONE
    assert read_committed(client, topic) == []
    client.produce(topic, batch_of(b"after"))
    assert read_committed(client, topic) == [b"after"]


def test_only_a_broker_commits(
    producer: TransactionalProducer, broker: EmbeddedBroker, client: RawClient, topic: str
):
    producer.send(topic, b"hanging")
    for version in (1, 2):
        refused = write_marker(producer, topic, commit=True, version=version)
        assert refused == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert read_committed(client, topic) == []
    prove(client, credentials_of(broker), to=1)
    assert write_marker(producer, topic, commit=True) == NONE
    assert read_committed(client, topic) == [b"hanging"]


def test_markers_with_a_stale_producer_or_coordinator_epoch_are_rejected(
    producer: TransactionalProducer, topic: str
):
    producer.send(topic)
    assert write_marker(producer, topic, epoch=producer.epoch - 1) == ErrorCode.INVALID_PRODUCER_EPOCH
    same_epoch = write_marker(producer, topic, transaction_version=2)
    assert same_epoch == ErrorCode.INVALID_PRODUCER_EPOCH
    assert write_marker(producer, topic, coordinator_epoch=7) == NONE
    fenced = write_marker(producer, topic, coordinator_epoch=6)
    assert fenced == ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_an_unknown_partition_gets_an_error_code(producer: TransactionalProducer, topic: str):
    assert write_marker(producer, topic, partition=9) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_producers_are_described_with_their_open_transactions(
    producer: TransactionalProducer, client: RawClient, topic: str
):
    client.produce(topic, batch_of(b"plain"))
    producer.send(topic, b"a", b"b")
    (active,) = producers_of(client, topic).active_producers
    assert (active.producer_id, active.producer_epoch) == (producer.id, producer.epoch)
    assert (active.last_sequence, active.last_timestamp) == (1, 1_000)
    assert (active.current_txn_start_offset, active.coordinator_epoch) == (1, -1)
    producer.finish(commit=True)
    (active,) = producers_of(client, topic).active_producers
    assert (active.producer_epoch, active.last_sequence) == (producer.epoch, -1)
    assert active.current_txn_start_offset == -1
    assert active.coordinator_epoch >= 0
    assert producers_of(client, topic, 1).active_producers == []
    assert producers_of(client, topic, 9).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_idempotent_producers_are_described_too(client: RawClient, topic: str):
    client.create_topic(topic)
    producer_id = new_producer_id(client)
    client.produce(topic, batch_of(b"x", producer_id=producer_id, producer_epoch=0, base_sequence=0))
    (active,) = producers_of(client, topic).active_producers
    assert (active.producer_id, active.current_txn_start_offset) == (producer_id, -1)
