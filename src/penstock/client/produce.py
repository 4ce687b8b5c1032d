"""Produce batches to partitions: Produce v3-v13, one batch per partition and request, retried until it is appended.

Order within a partition is the caller's: it holds if the next batch is sent after the result of this one, retries
included. A retry may append a batch twice unless the batch has a producer id.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from penstock.base.buffers import Buffer
from penstock.base.errors import Refusal
from penstock.base.ids import ZERO_ID, TopicPartition
from penstock.client.batch_limits import refusal_of_size
from penstock.client.client import Client
from penstock.client.connection import Connection
from penstock.client.errors import AnsweredError, ClientError, refusal_of
from penstock.client.topics import by_topic
from penstock.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

ACKS_NONE = 0
ACKS_LEADER = 1
ACKS_ALL = -1

NO_OFFSET = -1
_TIMEOUT_MS = 30_000
_LAST_VERSION_BY_NAME = 12


class ProduceResult(NamedTuple):
    """The base offset of an appended batch; NO_OFFSET if the broker does not answer (acks=0)."""

    base_offset: int
    log_append_time_ms: int = -1
    log_start_offset: int = -1


async def produce(
    client: Client,
    batches: Mapping[TopicPartition, Buffer],
    *,
    acks: int = ACKS_ALL,
    transactional_id: str | None = None,
    version_max: int | None = None,
) -> dict[TopicPartition, ProduceResult | Refusal]:
    """Append one batch to each partition. Raises only if no broker is reachable."""
    results: dict[TopicPartition, ProduceResult | Refusal] = {}

    async def attempt() -> None:
        for partition, batch in batches.items():
            refusal = None if partition in results else await refusal_of_size(client, partition, len(batch))
            if refusal is not None:
                results[partition] = refusal
        leaders = await client.leaders(each for each in batches if each not in results)
        attempts = [
            _produce_to(
                client,
                node_id,
                {each: batches[each] for each in partitions},
                acks=acks,
                transactional_id=transactional_id,
                version_max=version_max,
            )
            for node_id, partitions in leaders.items()
        ]
        again: ClientError | None = None
        for outcome in await asyncio.gather(*attempts, return_exceptions=True):
            if isinstance(outcome, ClientError):
                again = outcome
                continue
            if isinstance(outcome, BaseException):
                raise outcome
            for partition, result in outcome.items():
                if isinstance(result, Refusal) and result.code.retriable:
                    again = AnsweredError(result, f"produce to {partition}")
                else:
                    results[partition] = result
        if again is not None:
            raise again

    try:
        await client.retry(attempt)
    except AnsweredError as error:
        for partition in batches:
            results.setdefault(partition, error.refusal)
    return results


async def _produce_to(
    client: Client,
    node_id: int,
    batches: Mapping[TopicPartition, Buffer],
    *,
    acks: int,
    transactional_id: str | None,
    version_max: int | None,
) -> dict[TopicPartition, ProduceResult | Refusal]:
    connection = await client.node_connection(node_id)
    return await produce_on(
        client,
        connection,
        batches,
        acks=acks,
        transactional_id=transactional_id,
        version_max=version_max,
    )


async def produce_on(
    client: Client,
    connection: Connection,
    batches: Mapping[TopicPartition, Buffer],
    *,
    acks: int = ACKS_ALL,
    transactional_id: str | None = None,
    version_max: int | None = None,
) -> dict[TopicPartition, ProduceResult | Refusal]:
    """Send one request, once, on this connection."""
    request = ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=_TIMEOUT_MS,
        topic_data=[
            TopicProduceData(
                name=topic,
                topic_id=client.cluster.topic_id(topic),
                partition_data=[
                    PartitionProduceData(index=index, records=batches[TopicPartition(topic, index)])
                    for index in indexes
                ],
            )
            for topic, indexes in by_topic(list(batches)).items()
        ],
    )
    if any(topic.topic_id == ZERO_ID for topic in request.topic_data):
        version_max = min(version_max or _LAST_VERSION_BY_NAME, _LAST_VERSION_BY_NAME)
    if acks == ACKS_NONE:
        await connection.tell(request, version_max=version_max)
        return dict.fromkeys(batches, ProduceResult(NO_OFFSET))
    # The broker may wait for replicas until the request's own timeout, and needs time to answer after that.
    timeout_ms = _TIMEOUT_MS + client.settings.limits.request_timeout_ms
    response = await connection.ask(request, ProduceResponse, timeout_ms=timeout_ms, version_max=version_max)
    return _results(client, request.topic_data, response)


def _results(
    client: Client, asked: Sequence[TopicProduceData], response: ProduceResponse
) -> dict[TopicPartition, ProduceResult | Refusal]:
    names = {topic.topic_id: topic.name for topic in asked}
    results: dict[TopicPartition, ProduceResult | Refusal] = {}
    for topic in response.responses:
        name = topic.name or names.get(topic.topic_id, "")
        for each in topic.partition_responses:
            partition = TopicPartition(name, each.index)
            if each.current_leader is not None:
                leader = each.current_leader
                client.cluster.learn_leader(
                    name, each.index, leader=leader.leader_id, leader_epoch=leader.leader_epoch
                )
            results[partition] = _refusal(each) or ProduceResult(
                each.base_offset, each.log_append_time_ms, each.log_start_offset
            )
    return results


def _refusal(each: PartitionProduceResponse) -> Refusal | None:
    message = each.error_message
    for record_error in each.record_errors:
        message = record_error.batch_index_error_message or message
    return refusal_of(each.error_code, message)
