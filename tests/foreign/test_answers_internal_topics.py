"""What clients may do to the internal topics, compared field by field with Apache Kafka."""

import pytest

from penstock.base.errors import ErrorCode
from penstock.base.ids import CONSUMER_OFFSETS, INTERNAL_TOPICS, TRANSACTION_STATE
from penstock.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from penstock.wire.messages.find_coordinator import FindCoordinatorRequest
from penstock.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from penstock.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.foreign.asking import batch, produce, producer_id, wait_for_leaders
from tests.foreign.wire_peer import Pair, Peer

pytestmark = [pytest.mark.foreign, pytest.mark.needs("kafka"), pytest.mark.xdist_group("kafka")]

WRITTEN = (CONSUMER_OFFSETS, TRANSACTION_STATE)
TOPIC = 2
GROUP, TRANSACTION = 0, 1


@pytest.fixture(scope="module")
def both(pair: Pair) -> Pair:
    """Both brokers, with their internal topics."""
    for peer in (pair.kafka, pair.broker):
        for kind, topic in ((GROUP, CONSUMER_OFFSETS), (TRANSACTION, TRANSACTION_STATE)):
            peer.ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=["any"]), 4)
            peer.topic_id(topic)
            wait_for_leaders(peer, topic, partitions=1)
    pair.learn(*WRITTEN)
    return pair


@pytest.mark.parametrize("topic", WRITTEN)
@pytest.mark.parametrize("version", range(3, 14))
def test_clients_cannot_produce_to_an_internal_topic(both: Pair, topic: str, version: int) -> None:
    for acks in (-1, 1):
        answer = produce(both, topic, batch(b"x"), version, acks=acks)
        assert answer["error_code"] == ErrorCode.INVALID_TOPIC_EXCEPTION
    produce(both, topic, batch(b"x"), version, partition=9999)
    produce(both, topic, batch(b"x"), version, acks=5)


@pytest.mark.parametrize("topic", WRITTEN)
def test_without_acknowledgement_the_connection_is_closed(both: Pair, topic: str) -> None:
    def request(peer: Peer) -> ProduceRequest:
        data = TopicProduceData(
            name=topic, partition_data=[PartitionProduceData(index=0, records=batch(b"x"))]
        )
        return ProduceRequest(acks=0, timeout_ms=5000, topic_data=[data])

    both.same_or_both_close(request, 12)


@pytest.mark.parametrize("topic", WRITTEN)
def test_clients_cannot_produce_to_an_internal_topic_idempotently(both: Pair, topic: str) -> None:
    def request(peer: Peer) -> ProduceRequest:
        records = batch(b"x", producer_id=producer_id(peer), producer_epoch=0, base_sequence=0)
        data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=records)])
        return ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[data])

    both.same(request, 12)


@pytest.mark.parametrize("version", range(3))
def test_clients_cannot_delete_records_of_an_internal_topic(both: Pair, version: int) -> None:
    topics = [
        DeleteRecordsTopic(name=topic, partitions=[DeleteRecordsPartition(partition_index=0, offset=0)])
        for topic in WRITTEN
    ]
    both.same(DeleteRecordsRequest(topics=topics, timeout_ms=5000), version)


def test_an_internal_topic_has_configs_like_any_other(both: Pair) -> None:
    configs = [AlterableConfig(name="retention.ms", value="5000")]
    resources = [
        AlterConfigsResource(resource_type=TOPIC, resource_name=topic, configs=configs) for topic in WRITTEN
    ]
    both.same(IncrementalAlterConfigsRequest(resources=resources, validate_only=True), 1)


def test_an_internal_topic_is_created_once(both: Pair) -> None:
    topics = [
        CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        for name in INTERNAL_TOPICS
        if name in WRITTEN
    ]
    both.same(CreateTopicsRequest(topics=topics, timeout_ms=5000), 5)
