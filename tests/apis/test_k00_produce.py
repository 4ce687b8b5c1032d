"""Produce: acks, offsets, timestamps, codecs and rejected batches. Idempotent producers are in another file."""

import struct
import time
from typing import Any

import pytest
from crc32c import crc32c

from penstock.base.errors import ErrorCode
from penstock.records.batch import read_header
from penstock.records.builder import build_batch
from penstock.records.compression import Codec
from penstock.records.record import Record
from penstock.testing import EmbeddedBroker
from penstock.wire.headers import RequestHeader, frame_request
from penstock.wire.messages.metadata import MetadataRequest
from penstock.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.apis.requests import delete_topic, end_offset, records_in, topic_id, values_in
from tests.raw_client import RawClient, batch_of, produce_request

NOW_MS = int(time.time() * 1000)
HOUR_MS = 3_600_000


def keyed(*values: bytes, key: bytes = b"k", **fields: Any) -> bytes:
    return build_batch([Record(i, NOW_MS, key, value, ()) for i, value in enumerate(values)], **fields)


def changed(batch: bytes, position: int, layout: str, value: int, *, sealed: bool = True) -> bytes:
    """The batch with one header field replaced, and its CRC made to fit unless `sealed` is False."""
    copy = bytearray(batch)
    struct.pack_into(layout, copy, position, value)
    if sealed:
        struct.pack_into(">I", copy, 17, crc32c(bytes(copy[21:])))
    return bytes(copy)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_versions_of_the_old_formats_are_refused_by_closing(client: RawClient, version: int):
    client.socket.sendall(b"".join(frame_request(RequestHeader(0, version, 1, "raw"), [bytes(20)])))
    assert client.is_closed_by_broker()


@pytest.mark.parametrize("acks", [-1, 1])
def test_offsets_grow_by_the_records_of_each_batch(client: RawClient, topic: str, acks: int):
    client.create_topic(topic)
    assert client.produce(topic, batch_of(b"0", b"1", b"2"), acks=acks).base_offset == 0
    answer = client.produce(topic, batch_of(b"3"), acks=acks)
    assert (answer.error_code, answer.base_offset, answer.log_start_offset) == (0, 3, 0)
    assert [record.offset for record in records_in(client.fetch(topic, 0).records)] == [0, 1, 2, 3]


def test_with_acks_0_nothing_is_answered_and_the_records_are_there(client: RawClient, topic: str):
    client.create_topic(topic)
    client.send(produce_request(topic, batch_of(b"x"), acks=0), 12)
    metadata = MetadataRequest(topics=[])
    assert client.ask(metadata, 12).brokers, "the next answer belongs to the next request"
    assert values_in(client.fetch(topic, 0).records) == [b"x"]


def test_with_acks_0_an_error_closes_the_connection(client: RawClient, topic: str):
    client.send(produce_request(topic, batch_of(b"x"), acks=0), 12)
    assert client.is_closed_by_broker()


@pytest.mark.parametrize("acks", [2, -2, 77])
def test_acks_that_do_not_exist_are_refused(client: RawClient, topic: str, acks: int):
    client.create_topic(topic)
    assert client.produce(topic, batch_of(b"x"), acks=acks).error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert end_offset(client, topic) == 0


def test_min_insync_replicas_asks_for_no_more_than_there_are_replicas(client: RawClient, topic: str):
    client.create_topic(topic, min_insync_replicas="2")
    assert client.produce(topic, batch_of(b"x"), acks=-1).error_code == 0
    assert end_offset(client, topic) == 1


def test_unknown_topics_and_partitions_get_an_error_code(client: RawClient, topic: str):
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert client.produce(topic, batch_of(b"x")).error_code == unknown
    client.create_topic(topic)
    assert client.produce(topic, batch_of(b"x"), partition=1).error_code == unknown
    assert client.produce(topic, batch_of(b"x"), partition=-1).error_code == unknown


def test_a_rejected_batch_does_not_keep_other_partitions_from_being_written(client: RawClient, topic: str):
    client.create_topic(topic, partitions=2)
    good = PartitionProduceData(index=0, records=batch_of(b"good"))
    wrong = PartitionProduceData(index=1, records=changed(batch_of(b"bad"), 17, ">I", 1, sealed=False))
    data = TopicProduceData(name=topic, partition_data=[good, wrong])
    answer = client.ask(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[data]), 12)
    codes = [p.error_code for p in answer.responses[0].partition_responses]
    assert codes == [0, ErrorCode.CORRUPT_MESSAGE]
    assert (end_offset(client, topic, 0), end_offset(client, topic, 1)) == (1, 0)


def by_id(client: RawClient, identity: bytes, batch: bytes):
    data = PartitionProduceData(index=0, records=batch)
    topics = [TopicProduceData(topic_id=identity, partition_data=[data])]
    answer = client.ask(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=topics), 13)
    assert answer.responses[0].topic_id == identity
    return answer.responses[0].partition_responses[0]


def test_from_version_13_topics_are_named_by_id(client: RawClient, topic: str):
    client.create_topic(topic)
    assert by_id(client, topic_id(client, topic), batch_of(b"x")).base_offset == 0
    assert by_id(client, b"sixteen bytes...", batch_of(b"x")).error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_the_id_of_a_deleted_topic_never_writes_to_its_successor(client: RawClient, topic: str):
    client.create_topic(topic)
    old = topic_id(client, topic)
    delete_topic(client, topic)
    client.create_topic(topic)
    assert by_id(client, old, batch_of(b"x")).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert end_offset(client, topic) == 0


GOOD = batch_of(b"value", b"another")


@pytest.mark.parametrize(
    ("records", "codes"),
    [
        (changed(GOOD, 17, ">I", 0xBAD, sealed=False), {ErrorCode.CORRUPT_MESSAGE}),
        (GOOD[:-1] + b"!", {ErrorCode.CORRUPT_MESSAGE}),
        (changed(GOOD, 8, ">i", 5, sealed=False), {ErrorCode.CORRUPT_MESSAGE}),
        (changed(GOOD, 8, ">i", -1, sealed=False), {ErrorCode.CORRUPT_MESSAGE}),
        (changed(GOOD, 8, ">i", 2**31 - 1, sealed=False), {ErrorCode.INVALID_RECORD}),
        (GOOD[:40], {ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD}),
        (bytes(80), {ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD}),
        (GOOD + GOOD, {ErrorCode.INVALID_RECORD}),
        (changed(GOOD, 23, ">i", 5), {ErrorCode.INVALID_RECORD}),
        (changed(GOOD, 57, ">i", 0), {ErrorCode.INVALID_RECORD}),
        (changed(GOOD, 57, ">i", -1), {ErrorCode.INVALID_RECORD}),
        (changed(GOOD, 21, ">h", 7), {ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, ErrorCode.CORRUPT_MESSAGE}),
        (batch_of(b"x", control=True), {ErrorCode.INVALID_RECORD}),
    ],
    ids=[
        "wrong crc",
        "changed byte",
        "length too small",
        "negative length",
        "length of 2 GB",
        "half a batch",
        "zeros",
        "two batches",
        "last offset that does not fit the count",
        "no records",
        "negative count",
        "unknown codec",
        "control batch",
    ],
)
def test_an_invalid_batch_is_rejected_and_the_connection_stays_open(
    client: RawClient, topic: str, records: bytes, codes: set[ErrorCode]
):
    client.create_topic(topic)
    assert client.produce(topic, records).error_code in codes
    assert client.produce(topic, GOOD).base_offset == 0, "nothing of it was written"


@pytest.mark.parametrize("magic", [0, 1, 3])
def test_other_formats_than_the_current_one_are_refused(client: RawClient, topic: str, magic: int):
    client.create_topic(topic)
    try:
        refused = client.produce(topic, changed(GOOD, 16, ">b", magic, sealed=False)).error_code
    except ConnectionError:
        return  # Kafka closes the connection for some of them
    assert refused in (
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.INVALID_RECORD,
        ErrorCode.CORRUPT_MESSAGE,
    )


def test_a_batch_larger_than_max_message_bytes_is_refused(client: RawClient, topic: str):
    fits = batch_of(b"x" * 500)
    client.create_topic(topic, max_message_bytes=str(len(fits)))
    assert client.produce(topic, fits).error_code == 0
    assert client.produce(topic, batch_of(b"x" * 501)).error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_a_compressed_batch_counts_with_its_compressed_size(client: RawClient, topic: str):
    client.create_topic(topic, max_message_bytes="1000")
    assert client.produce(topic, batch_of(b"x" * 100_000, codec=Codec.ZSTD)).error_code == 0


def test_records_without_key_are_refused_on_compacted_topics(client: RawClient, topic: str):
    client.create_topic(topic, cleanup_policy="compact,delete")
    refused = client.produce(topic, batch_of(b"no key"))
    assert refused.error_code == ErrorCode.INVALID_RECORD
    assert "key" in refused.error_message
    assert client.produce(topic, keyed(b"value")).error_code == 0


@pytest.mark.parametrize("codec", list(Codec))
def test_batches_are_stored_as_the_producer_sent_them(client: RawClient, topic: str, codec: Codec):
    client.create_topic(topic)
    batch = batch_of(b"x" * 300, b"y", codec=codec)
    client.produce(topic, batch)
    stored = bytes(client.fetch(topic, 0).records)
    assert stored[16:] == batch[16:], "all but base offset, length and leader epoch"
    assert read_header(stored).codec is codec


@pytest.mark.parametrize("sent", [Codec.NONE, Codec.LZ4])
@pytest.mark.parametrize("kind", ["gzip", "snappy", "lz4", "zstd", "uncompressed"])
def test_the_broker_recompresses_to_the_topics_compression_type(
    client: RawClient, topic: str, kind: str, sent: Codec
):
    client.create_topic(topic, compression_type=kind)
    client.produce(topic, batch_of(b"a" * 1000, b"b", codec=sent))
    data = client.fetch(topic, 0).records
    assert read_header(data).codec is (Codec.NONE if kind == "uncompressed" else Codec[kind.upper()])
    assert values_in(data) == [b"a" * 1000, b"b"]


def test_a_batch_the_broker_makes_larger_than_max_message_bytes_is_refused(client: RawClient, topic: str):
    client.create_topic(topic, compression_type="uncompressed", max_message_bytes="1000")
    refused = client.produce(topic, batch_of(b"x" * 2000, codec=Codec.ZSTD))
    assert refused.error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert end_offset(client, topic) == 0


def test_recompressed_batches_are_validated_first(client: RawClient, topic: str):
    client.create_topic(topic, compression_type="zstd")
    nonsense = changed(GOOD[:61] + b"\xff" * (len(GOOD) - 61), 57, ">i", 2)
    refused = client.produce(topic, nonsense).error_code
    assert refused in (ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE)
    assert end_offset(client, topic) == 0


def test_with_log_append_time_the_brokers_clock_dates_the_batch(client: RawClient, topic: str):
    client.create_topic(topic, message_timestamp_type="LogAppendTime")
    answer = client.produce(topic, batch_of(b"x", timestamp=5))
    assert answer.log_append_time_ms >= NOW_MS
    header = read_header(client.fetch(topic, 0).records)
    assert header.log_append_time
    assert header.max_timestamp == answer.log_append_time_ms
    assert [r.timestamp for r in records_in(client.fetch(topic, 0).records)] == [answer.log_append_time_ms]


def test_with_create_time_the_producers_timestamps_stay(client: RawClient, topic: str):
    client.create_topic(topic)
    assert client.produce(topic, batch_of(b"x", timestamp=5)).log_append_time_ms == -1
    assert [record.timestamp for record in records_in(client.fetch(topic, 0).records)] == [5]


@pytest.mark.parametrize("delta_ms", [-2 * HOUR_MS, 2 * HOUR_MS])
def test_timestamps_too_far_from_the_brokers_clock_are_refused(client: RawClient, topic: str, delta_ms: int):
    client.create_topic(
        topic,
        message_timestamp_before_max_ms=str(HOUR_MS),
        message_timestamp_after_max_ms=str(HOUR_MS),
    )
    refused = client.produce(topic, batch_of(b"x", timestamp=NOW_MS + delta_ms))
    assert refused.error_code == ErrorCode.INVALID_TIMESTAMP
    assert client.produce(topic, batch_of(b"x", timestamp=NOW_MS)).error_code == 0


def test_records_are_validated_only_if_the_topic_asks_for_it(client: RawClient, topic: str):
    client.create_topic(topic + "header")
    client.create_topic(topic + "records", penstock_produce_validation="records")
    nonsense = changed(GOOD[:61] + b"\xff" * (len(GOOD) - 61), 57, ">i", 2)
    assert client.produce(topic + "header", nonsense).error_code == 0
    refused = client.produce(topic + "records", nonsense).error_code
    assert refused in (ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE)
    assert end_offset(client, topic + "records") == 0


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_a_decompression_bomb_is_refused(topic: str, codec: Codec):
    settings = {"penstock.decompressed.bytes.max": 1_000_000}
    bomb = batch_of(bytes(5_000_000), codec=codec)
    with EmbeddedBroker(settings=settings) as broker, RawClient(broker.bootstrap_servers) as client:
        client.create_topic(topic, penstock_produce_validation="records")
        client.create_topic(topic + "compressed", compression_type="uncompressed")
        for name in (topic, topic + "compressed"):
            refused = client.produce(name, bomb)
            assert refused.error_code == ErrorCode.MESSAGE_TOO_LARGE
            assert "penstock.decompressed.bytes.max" in refused.error_message
            assert client.produce(name, batch_of(b"small", codec=codec)).error_code == 0


def test_null_and_empty_records_are_refused(client: RawClient, topic: str):
    client.create_topic(topic)
    for records in (None, b""):
        try:
            answer = client.ask(produce_request(topic, records), 12)
        except ConnectionError:
            return
        assert answer.responses[0].partition_responses[0].error_code in (
            ErrorCode.INVALID_RECORD,
            ErrorCode.CORRUPT_MESSAGE,
        )
    assert end_offset(client, topic) == 0


def test_answers_come_in_the_order_of_the_requests(client: RawClient, topic: str):
    client.create_topic(topic)
    sent = [client.send(produce_request(topic, batch_of(b"%d" % n)), 12) for n in range(200)]
    answered = []
    for _ in sent:
        frame = client.receive_frame()
        answered.append(int.from_bytes(frame[:4], "big"))
    assert answered == sent
    assert end_offset(client, topic) == 200
