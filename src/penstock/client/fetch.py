"""Batches from partitions. Fetch v4-v18, without sessions: one request to one broker, what lies there from an
offset on.

The batches stay closed: `read_batches` walks them for those who want records. `fetcher` goes on from here
over many partitions and brokers.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from penstock.base.errors import Refusal
from penstock.base.ids import ZERO_ID, TopicPartition
from penstock.client.client import Client
from penstock.client.errors import raise_if_refused, refusal_of
from penstock.client.topics import by_topic
from penstock.records.batch import BatchHeader, crc_holds, headers
from penstock.records.errors import CorruptBatchError
from penstock.records.record import Record, read_records
from penstock.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

_LAST_VERSION_BY_NAME = 12
_RECORDS_BYTES_MAX = 256 << 20


class FetchLimits(NamedTuple):
    """How much one request may bring and how long the broker may hold it back."""

    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 32 << 20
    partition_max_bytes: int = 4 << 20


class Fetched(NamedTuple):
    """One partition's part of an answer; `records` are whole batches, of which the last may be cut."""

    partition: TopicPartition
    records: memoryview
    high_watermark: int
    log_start_offset: int
    refusal: Refusal | None = None


async def fetch(
    client: Client, node_id: int, positions: Mapping[TopicPartition, int], limits: FetchLimits
) -> list[Fetched]:
    """Ask the leader of these partitions for what lies at their positions."""
    topics = [
        FetchTopic(
            topic=topic,
            topic_id=client.cluster.topic_id(topic),
            partitions=[
                _wanted(client, TopicPartition(topic, index), positions, limits) for index in indexes
            ],
        )
        for topic, indexes in by_topic(list(positions)).items()
    ]
    request = FetchRequest(
        max_wait_ms=limits.max_wait_ms, min_bytes=limits.min_bytes, max_bytes=limits.max_bytes, topics=topics
    )
    response = await client.ask_node(
        node_id,
        request,
        FetchResponse,
        timeout_ms=limits.max_wait_ms + client.settings.limits.request_timeout_ms,
        version_max=_LAST_VERSION_BY_NAME if any(each.topic_id == ZERO_ID for each in topics) else None,
    )
    raise_if_refused(response.error_code, None, "fetch")
    names = {each.topic_id: each.topic for each in topics}
    return [
        _fetched(
            client, TopicPartition(each.topic or names.get(each.topic_id, ""), data.partition_index), data
        )
        for each in response.responses
        for data in each.partitions
    ]


def read_batches(fetched: Fetched) -> Iterator[tuple[BatchHeader, memoryview]]:
    """The whole batches of an answer, their checksums held against their bytes."""
    for position, header in headers(fetched.records):
        if not crc_holds(fetched.records, position, header):
            raise CorruptBatchError(
                f"the batch at offset {header.base_offset} of {fetched.partition} is damaged: wrong CRC"
            )
        yield header, fetched.records[position : position + header.size]


def read_fetched(batch: memoryview, header: BatchHeader, *, from_offset: int) -> Iterator[Record]:
    """The records of one batch from an offset on; none of a control batch, which is not anybody's data."""
    if header.is_control:
        return
    for record in read_records(batch, limit=_RECORDS_BYTES_MAX):
        if record.offset >= from_offset:
            yield record


def _wanted(
    client: Client,
    partition: TopicPartition,
    positions: Mapping[TopicPartition, int],
    limits: FetchLimits,
) -> FetchPartition:
    known = client.cluster.partition(*partition)
    return FetchPartition(
        partition=partition.partition,
        current_leader_epoch=-1 if known is None else known.leader_epoch,
        fetch_offset=positions[partition],
        partition_max_bytes=limits.partition_max_bytes,
    )


def _fetched(client: Client, partition: TopicPartition, data: PartitionData) -> Fetched:
    if data.current_leader is not None:
        leader = data.current_leader
        client.cluster.learn_leader(*partition, leader=leader.leader_id, leader_epoch=leader.leader_epoch)
    assert data.records is None or isinstance(data.records, bytes | bytearray | memoryview)
    return Fetched(
        partition,
        memoryview(data.records or b""),
        data.high_watermark,
        data.log_start_offset,
        refusal_of(data.error_code),
    )
