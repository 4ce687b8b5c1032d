"""Fetch batches from partitions: Fetch v4-v18, without fetch sessions, one request to one broker.

The batches are not decoded; `read_batches` does that. `fetcher` fetches from many partitions and brokers.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from penstock.base.errors import Refusal
from penstock.base.ids import ZERO_ID, TopicPartition
from penstock.client.client import Client
from penstock.client.errors import raise_if_refused, refusal_of
from penstock.client.topics import by_topic
from penstock.records.batch import BatchHeader, crc_holds, headers
from penstock.records.control import read_marker
from penstock.records.errors import CorruptBatchError
from penstock.records.record import Record, read_records
from penstock.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1

_NOTHING: Final = memoryview(b"")
_LAST_VERSION_BY_NAME = 12
_RECORDS_BYTES_MAX = 256 << 20


class FetchLimits(NamedTuple):
    """The limits of one request: bytes, and how long the broker may delay the response."""

    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 32 << 20
    partition_max_bytes: int = 4 << 20


class Fetched(NamedTuple):
    """One partition's part of a response; `records` are batches, the last of which may be truncated."""

    partition: TopicPartition
    records: memoryview
    high_watermark: int
    log_start_offset: int
    refusal: Refusal | None = None
    last_stable_offset: int = -1
    aborted: tuple[tuple[int, int], ...] = ()  # (first offset, producer id) of aborted transactions


async def fetch(
    client: Client,
    node_id: int,
    positions: Mapping[TopicPartition, int],
    limits: FetchLimits,
    *,
    committed_only: bool = False,
) -> list[Fetched]:
    """Fetch from the leader of these partitions, each at its position."""
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
        max_wait_ms=limits.max_wait_ms,
        min_bytes=limits.min_bytes,
        max_bytes=limits.max_bytes,
        isolation_level=READ_COMMITTED if committed_only else READ_UNCOMMITTED,
        topics=topics,
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
    """The complete batches of a response, with their CRCs checked.

    A batch of an aborted transaction has only its header, so that the caller can advance past it.
    """
    aborted = Aborted(fetched.aborted)
    for position, header in headers(fetched.records):
        if not crc_holds(fetched.records, position, header):
            raise CorruptBatchError(
                f"the batch at offset {header.base_offset} of {fetched.partition} is damaged: wrong CRC"
            )
        batch = fetched.records[position : position + header.size]
        yield header, _NOTHING if aborted.hides(header, batch) else batch


class Aborted:
    """Recognises the batches of aborted transactions, reading a log in order."""

    def __init__(self, transactions: Iterable[tuple[int, int]]) -> None:
        self._coming = deque(sorted(transactions))  # by first offset
        self._open: set[int] = set()  # producers inside an aborted transaction

    def hides(self, header: BatchHeader, batch: memoryview) -> bool:
        while self._coming and self._coming[0][0] <= header.last_offset:
            self._open.add(self._coming.popleft()[1])
        if header.producer_id not in self._open:
            return False
        if header.is_control:
            marker = read_marker(batch, header)
            if marker is not None and not marker.committed:
                self._open.discard(header.producer_id)
            return False
        return header.is_transactional


def read_fetched(batch: memoryview, header: BatchHeader, *, from_offset: int) -> Iterator[Record]:
    """The records of one batch from an offset on; none of a control batch, which has no user data."""
    if header.is_control or not len(batch):
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
        data.last_stable_offset,
        tuple((each.first_offset, each.producer_id) for each in data.aborted_transactions or ()),
    )
