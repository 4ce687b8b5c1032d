"""Partition reassignments: AlterPartitionReassignments v0-v1, ListPartitionReassignments v0.

New replicas copy first; the old ones are removed when the new ones are in the ISR. Until then it can be cancelled.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from penstock.base.errors import ErrorCode, Refusal
from penstock.base.ids import TopicPartition
from penstock.client.client import Client
from penstock.client.errors import AnsweredError, raise_if_refused, refusal_of
from penstock.client.topics import TIMEOUT_MS, by_topic
from penstock.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from penstock.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)

_RETRIED: Final = (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT)


class Reassignment(NamedTuple):
    """A reassignment in progress."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


async def alter_reassignments(
    client: Client, targets: Mapping[TopicPartition, Sequence[int] | None]
) -> dict[TopicPartition, Refusal | None]:
    """Reassign partitions to other replicas, or cancel a reassignment (None); None for each that was accepted."""
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=TIMEOUT_MS,
        topics=[
            ReassignableTopic(
                name=topic,
                partitions=[_reassignable(TopicPartition(topic, each), targets) for each in indexes],
            )
            for topic, indexes in by_topic(list(targets)).items()
        ],
    )

    async def attempt() -> dict[TopicPartition, Refusal | None]:
        answer = await client.ask_controller(request, AlterPartitionReassignmentsResponse)
        raise_if_refused(answer.error_code, answer.error_message, "move replicas")
        results: dict[TopicPartition, Refusal | None] = {}
        for topic in answer.responses:
            for each in topic.partitions:
                refusal = refusal_of(each.error_code, each.error_message)
                if refusal is not None and refusal.code in _RETRIED:
                    raise AnsweredError(refusal, f"move {topic.name}-{each.partition_index}")
                results[TopicPartition(topic.name, each.partition_index)] = refusal
        return results

    return await client.retry(attempt)


def _reassignable(
    partition: TopicPartition, targets: Mapping[TopicPartition, Sequence[int] | None]
) -> ReassignablePartition:
    replicas = targets[partition]
    return ReassignablePartition(
        partition_index=partition.partition, replicas=None if replicas is None else list(replicas)
    )


async def list_reassignments(
    client: Client, partitions: Sequence[TopicPartition] | None = None
) -> dict[TopicPartition, Reassignment]:
    """The reassignments in progress, of these partitions or of all."""
    topics = None
    if partitions is not None:
        topics = [
            ListPartitionReassignmentsTopics(name=topic, partition_indexes=indexes)
            for topic, indexes in by_topic(partitions).items()
        ]
    request = ListPartitionReassignmentsRequest(topics=topics)

    async def attempt() -> dict[TopicPartition, Reassignment]:
        answer = await client.ask_controller(request, ListPartitionReassignmentsResponse)
        raise_if_refused(answer.error_code, answer.error_message, "list moves of replicas")
        return {
            TopicPartition(topic.name, each.partition_index): Reassignment(
                tuple(each.replicas), tuple(each.adding_replicas), tuple(each.removing_replicas)
            )
            for topic in answer.topics
            for each in topic.partitions
        }

    return await client.retry(attempt)
