"""Offsets of a partition's ends, or by timestamp. ListOffsets v1-v11."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from penstock.base.errors import Refusal
from penstock.base.ids import TopicPartition
from penstock.client.client import Client
from penstock.client.errors import AnsweredError, refusal_of
from penstock.client.fetch import READ_COMMITTED, READ_UNCOMMITTED
from penstock.client.topics import by_topic
from penstock.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

# Special timestamps of ListOffsets.
LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3

NO_OFFSET: Final = -1
_TIMEOUT_MS = 30_000


class AtOffset(NamedTuple):
    """A position by its offset."""

    offset: int


class AtTime(NamedTuple):
    """A position by time: the first record with this timestamp or a later one."""

    timestamp_ms: int


class FoundOffset(NamedTuple):
    """An offset; NO_OFFSET if all records are older."""

    offset: int
    timestamp: int
    leader_epoch: int


async def list_offsets(
    client: Client, timestamps: Mapping[TopicPartition, int], *, committed_only: bool = False
) -> dict[TopicPartition, FoundOffset | Refusal]:
    """For each partition the first offset at or after the timestamp, or that of a special timestamp."""
    found: dict[TopicPartition, FoundOffset | Refusal] = {}

    async def attempt() -> None:
        leaders = await client.leaders(each for each in timestamps if each not in found)
        requests = (
            client.ask_node(node_id, _request(partitions, timestamps, committed_only), ListOffsetsResponse)
            for node_id, partitions in leaders.items()
        )
        again: AnsweredError | None = None
        for response in await asyncio.gather(*requests):
            for topic in response.topics:
                for each in topic.partitions:
                    partition = TopicPartition(topic.name, each.partition_index)
                    refusal = refusal_of(each.error_code)
                    if refusal is not None and refusal.code.retriable:
                        again = AnsweredError(refusal, f"offsets of {partition}")
                    else:
                        answer = FoundOffset(each.offset, each.timestamp, each.leader_epoch)
                        found[partition] = refusal or answer
        if again is not None:
            raise again

    await client.retry(attempt)
    return found


async def find_offsets(
    client: Client, timestamps: Mapping[TopicPartition, int], *, committed_only: bool = False
) -> dict[TopicPartition, int]:
    """As `list_offsets`, the offsets alone; AnsweredError if one is refused."""
    offsets = {}
    for partition, found in (await list_offsets(client, timestamps, committed_only=committed_only)).items():
        if isinstance(found, Refusal):
            raise AnsweredError(found, f"offsets of {partition}")
        offsets[partition] = found.offset
    return offsets


def _request(
    partitions: Sequence[TopicPartition], timestamps: Mapping[TopicPartition, int], committed_only: bool
) -> ListOffsetsRequest:
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=READ_COMMITTED if committed_only else READ_UNCOMMITTED,
        topics=[
            ListOffsetsTopic(
                name=topic,
                partitions=[
                    ListOffsetsPartition(
                        partition_index=index, timestamp=timestamps[TopicPartition(topic, index)]
                    )
                    for index in indexes
                ],
            )
            for topic, indexes in by_topic(partitions).items()
        ],
        timeout_ms=_TIMEOUT_MS,
    )
