"""AddPartitionsToTxn (key 24), v0-v5: partitions that a transaction will write to.

Up to v3 clients send it, for one transaction; from v4 on brokers send it, for several, and `verify_only` asks whether
partitions were added. If one partition does not exist, no partition of its transaction is added. The coordinator does
not look at the leaders of the partitions.
"""

import asyncio

from penstock.apis.broker_callers import is_broker
from penstock.apis.context import Call
from penstock.apis.needs import Need
from penstock.apis.reply import Reply
from penstock.apis.rights import CLUSTER_ACTION, TOPIC, TRANSACTIONAL_ID, WRITE
from penstock.base.errors import ErrorCode, Refusal
from penstock.base.ids import TopicPartition
from penstock.core.transactions.requests import AddPartitions
from penstock.core.transactions.transaction import VERSION_2, ProducerIdAndEpoch, by_topic
from penstock.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

REQUEST = AddPartitionsToTxnRequest
VERSIONS = (0, 5)
NEEDS = (
    Need(WRITE, TRANSACTIONAL_ID, "v3_and_below_transactional_id"),
    Need(WRITE, TRANSACTIONAL_ID, "transactions.transactional_id", or_cluster=CLUSTER_ACTION),
    Need(WRITE, TOPIC, "v3_and_below_topics.name"),
    Need(WRITE, TOPIC, "transactions.topics.name", or_cluster=CLUSTER_ACTION),
)
CANCEL_ON_DISCONNECT = True

FENCED_SINCE = 2  # the version with PRODUCER_FENCED
SEVERAL_SINCE = 4


def handle(call: Call, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse | Reply:
    if call.version >= SEVERAL_SINCE:
        if not is_broker(call):
            return AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        # Transactions of many clients: one must not block the others on this connection.
        return Reply(_answer_several(call, request), next_may_start=True)
    return Reply(_answer_one(call, request))


async def _answer_several(call: Call, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
    """Answer all concurrently: each may wait until the coordinator's records are replicated."""
    answers = await asyncio.gather(*(_answer(call, transaction) for transaction in request.transactions))
    return AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResult(transactional_id=transaction.transactional_id, topic_results=results)
            for transaction, results in zip(request.transactions, answers, strict=True)
        ]
    )


async def _answer_one(call: Call, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
    only = AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=await _answer(call, only))


async def _answer(
    call: Call, transaction: AddPartitionsToTxnTransaction
) -> list[AddPartitionsToTxnTopicResult]:
    partitions = _partitions(transaction.topics)
    unknown = [where for where in partitions if not _exists(call, where)]
    if unknown:
        codes = dict.fromkeys(partitions, ErrorCode.OPERATION_NOT_ATTEMPTED)
        codes.update(dict.fromkeys(unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    else:
        codes = await _ask(call, transaction, frozenset(partitions))
    return _results(codes)


async def _ask(
    call: Call, transaction: AddPartitionsToTxnTransaction, partitions: frozenset[TopicPartition]
) -> dict[TopicPartition, ErrorCode]:
    transactional_id = transaction.transactional_id
    identity = ProducerIdAndEpoch(transaction.producer_id, transaction.producer_epoch)
    if not transactional_id:
        return dict.fromkeys(sorted(partitions), ErrorCode.INVALID_REQUEST)
    if transaction.verify_only:
        verified = await call.services.coordinators.transactions.ask(
            transactional_id, lambda shard, _: shard.verify(transactional_id, identity, partitions)
        )
        return dict.fromkeys(sorted(partitions), verified.code) if isinstance(verified, Refusal) else verified
    version = VERSION_2 if call.version >= SEVERAL_SINCE else 0
    wanted = AddPartitions(transactional_id, identity, partitions, version)
    answer = await call.services.coordinators.transactions.ask(
        transactional_id, lambda shard, now_ms: shard.add_partitions(wanted, now_ms)
    )
    code = answer.code if isinstance(answer, Refusal) else ErrorCode.NONE
    if code is ErrorCode.PRODUCER_FENCED and call.version < FENCED_SINCE:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return dict.fromkeys(sorted(partitions), code)


def _exists(call: Call, where: TopicPartition) -> bool:
    topic = call.services.cluster.image.topic(where.topic)
    return topic is not None and 0 <= where.partition < len(topic.partitions)


def _partitions(topics: list[AddPartitionsToTxnTopic]) -> list[TopicPartition]:
    return [TopicPartition(topic.name, index) for topic in topics for index in topic.partitions]


def _results(codes: dict[TopicPartition, ErrorCode]) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            name=topic,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=index, partition_error_code=codes[TopicPartition(topic, index)]
                )
                for index in indexes
            ],
        )
        for topic, indexes in by_topic(codes).items()
    ]
