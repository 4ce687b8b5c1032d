"""Answers about records, compared field by field with Apache Kafka's, in every version: produce, fetch, offsets."""

import time
from typing import Any

import pytest

from penstock.base.errors import ErrorCode
from penstock.records.compression import Codec
from penstock.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from penstock.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from penstock.wire.messages.init_producer_id import InitProducerIdRequest
from penstock.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from penstock.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.foreign.asking import (
    NOW_MS,
    UNKNOWN_ID,
    batch,
    changed,
    create,
    offsets,
    produce,
    producer_id,
    producing,
)
from tests.foreign.wire_peer import Pair, Peer

pytestmark = [pytest.mark.foreign, pytest.mark.xdist_group("kafka")]

PRODUCE_VERSIONS = range(3, 14)


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_producing(pair: Pair, topic: str, version: int, acks: int) -> None:
    create(pair, topic)

    assert produce(pair, topic, batch(b"a", b"b"), version, acks=acks)["base_offset"] == 0
    assert produce(pair, topic, batch(b"c"), version, acks=acks)["base_offset"] == 2


@pytest.mark.parametrize("version", [3, 8, 12, 13])
def test_producing_with_append_time(pair: Pair, topic: str, version: int) -> None:
    create(pair, topic, message_timestamp_type="LogAppendTime")

    assert produce(pair, topic, batch(b"a", timestamp=5), version)["log_append_time_ms"] == "now"


@pytest.mark.parametrize("version", [3, 7, 8, 9, 10, 12])
def test_producing_to_what_is_not_there(pair: Pair, topic: str, version: int) -> None:
    produce(pair, topic, batch(b"a"), version)
    create(pair, topic)
    produce(pair, topic, batch(b"a"), version, partition=5)
    produce(pair, topic, batch(b"a"), version, partition=-1)


def test_producing_to_an_unknown_id(pair: Pair, topic: str) -> None:
    data = [PartitionProduceData(index=0, records=batch(b"a"))]
    topics = [TopicProduceData(topic_id=UNKNOWN_ID, partition_data=data)]
    pair.same(ProduceRequest(acks=1, timeout_ms=5000, topic_data=topics), 13)


@pytest.mark.parametrize("version", [3, 9, 12])
@pytest.mark.parametrize("acks", [2, -2, 100])
def test_producing_with_acks_that_do_not_exist(pair: Pair, topic: str, version: int, acks: int) -> None:
    create(pair, topic)

    refused = produce(pair, topic, batch(b"a"), version, acks=acks)
    assert refused["error_code"] == ErrorCode.INVALID_REQUIRED_ACKS


GOOD = batch(b"first", b"second", b"third")


UNUSUAL = {
    "a wrong CRC": changed(GOOD, 17, ">I", 1),
    "a flipped bit in a record": GOOD[:-1] + bytes([GOOD[-1] ^ 1]),
    "no records": changed(GOOD, 57, ">i", 0, reseal=True),
    "fewer records than said": changed(GOOD, 57, ">i", 2, reseal=True),
    "a last offset that does not fit": changed(GOOD, 23, ">i", 7, reseal=True),
    "a negative last offset": changed(GOOD, 23, ">i", -1, reseal=True),
    "a control batch": batch(b"a", control=True),
    "a length beyond the end": changed(GOOD, 8, ">i", len(GOOD)),
    "a length too small": changed(GOOD, 8, ">i", 10),
    "a negative length": changed(GOOD, 8, ">i", -1),
    "an unknown codec": changed(GOOD, 21, ">h", 7, reseal=True),
    "magic 1": changed(GOOD, 16, ">b", 1),
    "magic 0": changed(GOOD, 16, ">b", 0),
    "magic 3": changed(GOOD, 16, ">b", 3),
    "half a batch": GOOD[:40],
    "garbage": b"\x00" * 80,
    "nothing": b"",
    "two batches": GOOD + GOOD,
    "a base offset": changed(GOOD, 0, ">q", 17),
    "a producer without epoch": changed(GOOD, 43, ">q", 5, reseal=True),
}


@pytest.mark.parametrize("version", [3, 8, 12])
@pytest.mark.parametrize("name", UNUSUAL)
def test_producing_an_unusual_batch(pair: Pair, topic: str, name: str, version: int) -> None:
    create(pair, topic)

    pair.same_or_both_close(producing(topic, UNUSUAL[name], version, acks=1), version)
    pair.same(offsets(topic, -1), 7)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
@pytest.mark.parametrize("version", [3, 6, 7, 12])
def test_producing_under_each_codec(pair: Pair, topic: str, codec: Codec, version: int) -> None:
    create(pair, topic)
    produce(pair, topic, batch(b"a" * 1000, codec=codec), version)


def test_producing_null_keys_to_a_compacted_topic(pair: Pair, topic: str) -> None:
    create(pair, topic, cleanup_policy="compact")
    for version in (3, 8, 12):
        assert produce(pair, topic, batch(b"a", b"b", keyed=False), version)["error_code"] == 87
        assert produce(pair, topic, batch(b"a", b"b"), version)["error_code"] == 0


@pytest.mark.parametrize("version", [3, 8, 12])
def test_producing_more_than_the_topic_allows(pair: Pair, topic: str, version: int) -> None:
    create(pair, topic, max_message_bytes=1000)
    refused = produce(pair, topic, batch(b"x" * 2000), version)
    assert refused["error_code"] == ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("version", [3, 8, 12])
def test_producing_with_timestamps_out_of_bounds(pair: Pair, topic: str, version: int) -> None:
    hour_ms = 3_600_000
    create(pair, topic, message_timestamp_before_max_ms=hour_ms, message_timestamp_after_max_ms=hour_ms)
    for delta_ms in (-2 * hour_ms, 2 * hour_ms):
        refused = produce(pair, topic, batch(b"x", timestamp=NOW_MS + delta_ms), version)
        assert refused["error_code"] == ErrorCode.INVALID_TIMESTAMP
    assert produce(pair, topic, batch(b"x"), version)["error_code"] == 0


def test_an_idempotent_producers_sequence(pair: Pair, topic: str) -> None:
    create(pair, topic)
    ids = {peer: producer_id(peer) for peer in (pair.kafka, pair.broker)}

    def send(sequence: int, *, epoch: int = 0, count: int = 1) -> tuple[int, int]:
        def request(peer: Peer) -> ProduceRequest:
            records = batch(
                *[b"x"] * count, producer_id=ids[peer], producer_epoch=epoch, base_sequence=sequence
            )
            return producing(topic, records, 12)(peer)

        partition = pair.same(request, 12)["responses"][0]["partition_responses"][0]
        return partition["error_code"], partition["base_offset"]

    assert send(0, count=2) == (0, 0)
    assert send(2) == (0, 2)
    assert send(2) == (0, 2), "a duplicate is answered with the first offset"
    assert send(0, count=2) == (0, 0)
    assert send(9) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    for sequence in range(3, 9):
        assert send(sequence)[0] == 0
    assert send(0, count=2)[0] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "forgotten: five batches are kept"
    assert send(4) == (0, 4)
    assert send(3, count=2)[0] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(5, epoch=1)[0] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "a new epoch starts at 0"
    assert send(0, epoch=1)[0] == 0
    assert send(9, epoch=0)[0] == ErrorCode.INVALID_PRODUCER_EPOCH
    assert send(2**31 - 1, epoch=2)[0] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_unknown_producer_id_may_start_at_any_sequence(pair: Pair, topic: str) -> None:
    create(pair, topic)
    stranger = batch(b"x", producer_id=987654, producer_epoch=3, base_sequence=17)
    assert produce(pair, topic, stranger)["error_code"] == 0


def test_sequences_wrap(pair: Pair, topic: str) -> None:
    create(pair, topic)
    last = batch(b"x", b"y", producer_id=87654, producer_epoch=0, base_sequence=2**31 - 2)
    assert produce(pair, topic, last)["error_code"] == 0
    wrapped = batch(b"z", producer_id=87654, producer_epoch=0, base_sequence=0)
    assert produce(pair, topic, wrapped)["error_code"] == 0


@pytest.mark.parametrize("version", range(6))
def test_getting_a_producer_id(pair: Pair, version: int) -> None:
    producer_id(pair.kafka)
    given = pair.same(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), version)
    assert given["error_code"] == 0
    pair.same(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0), version)
    if version >= 3:
        again = InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=1000, producer_id=5, producer_epoch=3
        )
        pair.same(again, version)


@pytest.fixture(scope="module")
def written(pair: Pair) -> str:
    """Six records in three batches, the newest timestamp in the middle, the first two deleted."""
    topic = create(pair, f"written-{time.monotonic_ns()}", partitions=2)
    for timestamp in (0, 50_000, 20_000):
        produce(pair, topic, batch(b"a", b"b", timestamp=NOW_MS + timestamp))
    produce(pair, topic, batch(b"elsewhere"), partition=1)
    deleted = DeleteRecordsTopic(name=topic, partitions=[DeleteRecordsPartition(partition_index=0, offset=2)])
    pair.same(DeleteRecordsRequest(topics=[deleted], timeout_ms=10_000), 2)
    return topic


@pytest.mark.parametrize("version", range(1, 12))
@pytest.mark.parametrize("special", range(-7, 1))
def test_listing_offsets_by_special_timestamps(pair: Pair, written: str, version: int, special: int) -> None:
    pair.same(offsets(written, special), version)


@pytest.mark.parametrize("version", range(1, 12))
@pytest.mark.parametrize("after_ms", [0, 10_000, 50_000, 50_001, 60_000])
def test_listing_offsets_by_time(pair: Pair, written: str, version: int, after_ms: int) -> None:
    pair.same(offsets(written, NOW_MS + after_ms), version)


@pytest.mark.parametrize("timestamp", [-1, -2, -3, -4, -5, 0])
def test_listing_offsets_of_an_empty_partition(pair: Pair, topic: str, timestamp: int) -> None:
    create(pair, topic)
    pair.same(offsets(topic, timestamp), 9)


@pytest.mark.parametrize("version", [1, 4, 6, 11])
def test_listing_offsets_with_errors(pair: Pair, written: str, version: int) -> None:
    pair.same(offsets("no-such-topic", -1), version)
    pair.same(offsets(written, -1, partition=9), version)
    pair.same(offsets(written, -1, -2), version)
    if version >= 2:
        pair.same(offsets(written, -1, isolation=1), version)
    if version >= 4:
        for epoch in (0, 1):
            pair.same(offsets(written, -1, epoch=epoch), version)


@pytest.mark.parametrize("version", [2, 3, 4])
@pytest.mark.parametrize(
    ("partition", "current", "asked"),
    [(0, -1, 0), (0, 0, 0), (0, 1, 0), (0, -1, 1), (0, -1, -1), (0, -1, 100), (9, -1, 0)],
)
def test_offsets_for_leader_epochs(
    pair: Pair, written: str, version: int, partition: int, current: int, asked: int
) -> None:
    partitions = [
        OffsetForLeaderPartition(partition=partition, current_leader_epoch=current, leader_epoch=asked)
    ]
    for name in (written, "no-such-topic"):
        topics = [OffsetForLeaderTopic(topic=name, partitions=partitions)]
        pair.same(OffsetForLeaderEpochRequest(replica_id=-1, topics=topics), version)


@pytest.mark.parametrize("version", range(3))
def test_deleting_records(pair: Pair, topic: str, version: int) -> None:
    create(pair, topic)
    produce(pair, topic, batch(*[b"x"] * 10))

    def delete(offset: int, *, name: str = topic, partition: int = 0) -> dict[str, Any]:
        partitions = [DeleteRecordsPartition(partition_index=partition, offset=offset)]
        request = DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=name, partitions=partitions)], timeout_ms=10_000
        )
        answer: dict[str, Any] = pair.same(request, version)["topics"][0]["partitions"][0]
        return answer

    assert delete(4)["low_watermark"] == 4
    assert delete(2)["low_watermark"] == 4, "it never goes back"
    assert delete(11)["error_code"] == ErrorCode.OFFSET_OUT_OF_RANGE
    assert delete(-2)["error_code"] == ErrorCode.OFFSET_OUT_OF_RANGE
    assert delete(4, partition=9)["error_code"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert delete(4, name="no-such-topic")["error_code"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert delete(-1)["low_watermark"] == 10
    pair.same(offsets(topic, -2), 7)


def test_deleting_records_of_a_compacted_topic(pair: Pair, topic: str) -> None:
    create(pair, topic, cleanup_policy="compact")
    produce(pair, topic, batch(b"x"))
    partitions = [DeleteRecordsPartition(partition_index=0, offset=1)]
    topics = [DeleteRecordsTopic(name=topic, partitions=partitions)]
    pair.same(DeleteRecordsRequest(topics=topics, timeout_ms=10_000), 2)


@pytest.mark.parametrize("version", range(1, 6))
def test_describing_log_directories(pair: Pair, written: str, version: int) -> None:
    for partitions in ([0, 1], [0], [9]):
        topics = [DescribableLogDirTopic(topic=written, partitions=partitions)]
        pair.same(DescribeLogDirsRequest(topics=topics), version)
    unknown = [DescribableLogDirTopic(topic="no-such-topic", partitions=[0])]
    pair.same(DescribeLogDirsRequest(topics=unknown), version)
    pair.same(DescribeLogDirsRequest(topics=[]), version)
