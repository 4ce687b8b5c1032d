"""Requests that the comparisons of answers are made of: topics, batches, produced records, listed offsets."""

import struct
import time
from collections.abc import Callable
from typing import Any

from crc32c import crc32c

from penstock.base.errors import ErrorCode
from penstock.records.builder import build_batch
from penstock.records.record import Record
from penstock.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from penstock.wire.messages.init_producer_id import InitProducerIdRequest
from penstock.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from penstock.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.foreign.wire_peer import Pair, Peer

NOW_MS = int(time.time() * 1000)
UNKNOWN_ID = b"sixteen bytes..."
LATEST = -1


def create(pair: Pair, name: str, *, partitions: int = 1, **configs: object) -> str:
    """A topic on both brokers, ready to be used."""
    settings = [
        CreatableTopicConfig(name=key.replace("_", "."), value=str(value)) for key, value in configs.items()
    ]
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=settings)
    for peer in (pair.kafka, pair.broker):
        created = peer.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 5)
        assert created.topics[0].error_code == 0, created
        wait_for_leaders(peer, name, partitions=partitions)
    pair.learn(name)
    return name


def wait_for_leaders(peer: Peer, topic: str, *, partitions: int) -> None:
    """Kafka shows a topic to clients a moment before its partitions can be written."""
    wanted = [ListOffsetsPartition(partition_index=index, timestamp=LATEST) for index in range(partitions)]
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=wanted)])
    deadline_s = time.monotonic() + 10
    while any(each.error_code for each in peer.ask(request, 5).topics[0].partitions):
        assert time.monotonic() < deadline_s, f"{topic} has no leaders"


def batch(*values: bytes, timestamp: int = NOW_MS, keyed: bool = True, **options: Any) -> bytes:
    records = [
        Record(offset, timestamp + offset, b"key" if keyed else None, value, ())
        for offset, value in enumerate(values)
    ]
    return build_batch(records, **options)


def changed(data: bytes, position: int, layout: str, value: int, *, reseal: bool = False) -> bytes:
    """The batch with one field of its header set to something else, and its CRC made to fit or not."""
    copy = bytearray(data)
    struct.pack_into(layout, copy, position, value)
    if reseal:
        struct.pack_into(">I", copy, 17, crc32c(bytes(copy[21:])))
    return bytes(copy)


def produce(
    pair: Pair, topic: str, records: bytes, version: int = 12, *, acks: int = -1, partition: int = 0
) -> dict[str, Any]:
    """The comparison of one produced partition, by name before version 13 and by id from there on."""
    answer = pair.same(producing(topic, records, version, acks=acks, partition=partition), version)
    partitions: dict[str, Any] = answer["responses"][0]["partition_responses"][0]
    return partitions


def producing(
    topic: str, records: bytes, version: int, *, acks: int = -1, partition: int = 0
) -> Callable[[Peer], ProduceRequest]:
    def request(peer: Peer) -> ProduceRequest:
        data = TopicProduceData(partition_data=[PartitionProduceData(index=partition, records=records)])
        if version >= 13:
            data.topic_id = peer.topic_id(topic)
        else:
            data.name = topic
        return ProduceRequest(acks=acks, timeout_ms=5000, topic_data=[data])

    return request


def producer_id(peer: Peer) -> int:
    """An id of this broker's. Kafka has none ready until the first who asks has been told to come again."""
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
    deadline_s = time.monotonic() + 10
    while (answer := peer.ask(request, 4)).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        assert time.monotonic() < deadline_s
    assert answer.error_code == 0
    return int(answer.producer_id)


def offsets(
    topic: str, *timestamps: int, epoch: int = -1, partition: int = 0, isolation: int = 0
) -> ListOffsetsRequest:
    partitions = [
        ListOffsetsPartition(partition_index=partition, current_leader_epoch=epoch, timestamp=timestamp)
        for timestamp in timestamps
    ]
    topics = [ListOffsetsTopic(name=topic, partitions=partitions)]
    return ListOffsetsRequest(replica_id=-1, topics=topics, timeout_ms=5000, isolation_level=isolation)
