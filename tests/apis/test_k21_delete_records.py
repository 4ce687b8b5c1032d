import pytest

from penstock.base.errors import ErrorCode
from penstock.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tests.apis.requests import list_offset, values_in
from tests.raw_client import RawClient, batch_of

EARLIEST = -2


def delete_before(client: RawClient, topic: str, offset: int, *, partition: int = 0):
    asked = DeleteRecordsPartition(partition_index=partition, offset=offset)
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=[asked])])
    return client.ask(request, 2).topics[0].partitions[0]


def fill(client: RawClient, topic: str, count: int = 5, **configs: str) -> None:
    client.create_topic(topic, **configs)
    for number in range(count):
        client.produce(topic, batch_of(b"%d" % number))


def test_all_records_below_the_offset_are_deleted(client: RawClient, topic: str):
    fill(client, topic)
    deleted = delete_before(client, topic, 3)
    assert (deleted.error_code, deleted.low_watermark) == (0, 3)
    assert list_offset(client, topic, EARLIEST).offset == 3
    assert client.fetch(topic, 2).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert values_in(client.fetch(topic, 3).records) == [b"3", b"4"]
    assert client.fetch(topic, 3).log_start_offset == 3


def test_offset_minus_one_deletes_up_to_the_high_watermark(client: RawClient, topic: str):
    fill(client, topic)
    assert delete_before(client, topic, -1).low_watermark == 5
    assert client.produce(topic, batch_of(b"next")).base_offset == 5


def test_the_log_start_offset_never_decreases(client: RawClient, topic: str):
    fill(client, topic)
    delete_before(client, topic, 4)
    assert delete_before(client, topic, 2).low_watermark == 4


@pytest.mark.parametrize("offset", [6, -2])
def test_an_offset_outside_the_log_is_refused(client: RawClient, topic: str, offset: int):
    fill(client, topic)
    refused = delete_before(client, topic, offset)
    assert (refused.error_code, refused.low_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)


def test_unknown_partitions_get_an_error_code(client: RawClient, topic: str):
    assert delete_before(client, topic, 0).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    client.create_topic(topic)
    assert delete_before(client, topic, 0, partition=9).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_compacted_topics_delete_by_compaction_only(client: RawClient, topic: str):
    client.create_topic(topic, cleanup_policy="compact")
    assert delete_before(client, topic, -1).error_code == ErrorCode.POLICY_VIOLATION


def test_records_in_the_middle_of_a_batch_can_be_deleted(client: RawClient, topic: str):
    client.create_topic(topic)
    client.produce(topic, batch_of(b"0", b"1", b"2"))
    delete_before(client, topic, 2)
    # The batch comes whole, as in Kafka; the client drops what lies before the offset it asked for.
    assert values_in(client.fetch(topic, 2).records) == [b"0", b"1", b"2"]
    assert client.fetch(topic, 1).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
