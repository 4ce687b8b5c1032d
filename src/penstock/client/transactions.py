"""Transactions as an administrator sees them: list, describe, a partition's producers, abort hanging ones.
ListTransactions v0-v2, DescribeTransactions v0, DescribeProducers v0, WriteTxnMarkers v1, InitProducerId.
"""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from penstock.base.errors import Refusal
from penstock.base.ids import TopicPartition
from penstock.client.client import Client
from penstock.client.cluster import CoordinatorKind
from penstock.client.coordinators import ask_coordinator, find_coordinators
from penstock.client.errors import AnsweredError, raise_if_refused, refusal_of
from penstock.client.topics import by_topic
from penstock.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from penstock.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from penstock.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from penstock.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from penstock.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

_FENCING_TIMEOUT_MS = 1_000
TRANSACTION_STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)


class ListedTransaction(NamedTuple):
    transactional_id: str
    producer_id: int
    state: str


class TransactionDescription(NamedTuple):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    started_ms: int  # -1 if none is open
    partitions: tuple[TopicPartition, ...]


class ActiveProducer(NamedTuple):
    """A producer of a partition; `transaction_start` is -1 if it has no open transaction there."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    transaction_start: int


async def list_transactions(
    client: Client,
    *,
    states: Sequence[str] = (),
    producer_ids: Sequence[int] = (),
    older_than_ms: int = -1,
) -> list[ListedTransaction]:
    """The transactional ids of all coordinators, sorted."""
    request = ListTransactionsRequest(
        state_filters=list(states), producer_id_filters=list(producer_ids), duration_filter=older_than_ms
    )

    async def ask(node_id: int) -> list[ListedTransaction]:
        answer = await client.ask_node(node_id, request, ListTransactionsResponse)
        raise_if_refused(answer.error_code, None, f"list the transactions of broker {node_id}")
        return [
            ListedTransaction(each.transactional_id, each.producer_id, each.transaction_state)
            for each in answer.transaction_states
        ]

    async def attempt() -> list[ListedTransaction]:
        found = await asyncio.gather(*(ask(broker.node_id) for broker in await client.brokers()))
        return sorted(each for part in found for each in part)

    return await client.retry(attempt)


async def describe_transactions(
    client: Client, transactional_ids: Sequence[str]
) -> dict[str, TransactionDescription | Refusal]:
    """State, producer and partitions of each; a Refusal with TRANSACTIONAL_ID_NOT_FOUND for an unknown id."""

    async def attempt() -> dict[str, TransactionDescription | Refusal]:
        found: dict[str, TransactionDescription | Refusal] = {}
        by_node = await find_coordinators(client, CoordinatorKind.TRANSACTION, transactional_ids)
        for node_id, ids in by_node.items():
            request = DescribeTransactionsRequest(transactional_ids=ids)
            answer = await client.ask_node(node_id, request, DescribeTransactionsResponse)
            for each in answer.transaction_states:
                refusal = refusal_of(each.error_code)
                if refusal is not None and refusal.code.retriable:
                    raise AnsweredError(refusal, f"describe transactional id {each.transactional_id!r}")
                found[each.transactional_id] = refusal or TransactionDescription(
                    each.transactional_id,
                    each.producer_id,
                    each.producer_epoch,
                    each.transaction_state,
                    each.transaction_timeout_ms,
                    each.transaction_start_time_ms,
                    tuple(
                        TopicPartition(topic.topic, index)
                        for topic in each.topics
                        for index in topic.partitions
                    ),
                )
        return found

    return await client.retry(attempt)


async def describe_producers(
    client: Client, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, list[ActiveProducer] | Refusal]:
    """The idempotent and transactional producers of these partitions."""

    async def ask(
        node_id: int, led: Sequence[TopicPartition]
    ) -> dict[TopicPartition, list[ActiveProducer] | Refusal]:
        request = DescribeProducersRequest(
            topics=[
                TopicRequest(name=topic, partition_indexes=indexes)
                for topic, indexes in by_topic(led).items()
            ]
        )
        answer = await client.ask_node(node_id, request, DescribeProducersResponse)
        found: dict[TopicPartition, list[ActiveProducer] | Refusal] = {}
        for topic in answer.topics:
            for each in topic.partitions:
                partition = TopicPartition(topic.name, each.partition_index)
                refusal = refusal_of(each.error_code, each.error_message)
                if refusal is not None and refusal.code.retriable:
                    raise AnsweredError(refusal, f"describe the producers of {partition}")
                found[partition] = refusal or [
                    ActiveProducer(
                        producer.producer_id,
                        producer.producer_epoch,
                        producer.last_sequence,
                        producer.last_timestamp,
                        producer.coordinator_epoch,
                        producer.current_txn_start_offset,
                    )
                    for producer in each.active_producers
                ]
        return found

    async def attempt() -> dict[TopicPartition, list[ActiveProducer] | Refusal]:
        found: dict[TopicPartition, list[ActiveProducer] | Refusal] = {}
        leaders = await client.leaders(partitions)
        for part in await asyncio.gather(*(ask(*item) for item in leaders.items())):
            found |= part
        return found

    return await client.retry(attempt)


async def fence_producer(client: Client, transactional_id: str) -> tuple[int, int]:
    """Abort the id's open transaction and fence its producer, with InitProducerId; the new producer id and epoch."""
    answer = await ask_coordinator(
        client,
        CoordinatorKind.TRANSACTION,
        transactional_id,
        InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=_FENCING_TIMEOUT_MS),
        InitProducerIdResponse,
        code_of=lambda answer: answer.error_code,
        about=f"fence transactional id {transactional_id!r}",
    )
    return answer.producer_id, answer.producer_epoch


async def abort_hanging(client: Client, partition: TopicPartition, producer: ActiveProducer) -> None:
    """Write an abort marker for a transaction that its coordinator does not know (any more)."""
    marker = WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name=partition.topic, partition_indexes=[partition.partition])],
        coordinator_epoch=max(producer.coordinator_epoch, 0),
    )

    async def attempt() -> None:
        (node_id,) = await client.leaders([partition])
        answer = await client.ask_node(
            node_id, WriteTxnMarkersRequest(markers=[marker]), WriteTxnMarkersResponse
        )
        for answered in answer.markers:
            for topic in answered.topics:
                for each in topic.partitions:
                    raise_if_refused(each.error_code, None, f"abort a transaction in {partition}")

    await client.retry(attempt)
