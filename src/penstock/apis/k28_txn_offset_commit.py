"""TxnOffsetCommit (key 28), v0-v5: commits offsets with the producer's transaction.

From v5 on this request adds the partition of __consumer_offsets to the transaction (transactions version 2); in earlier
versions it verifies that AddOffsetsToTxn did. `core.groups` checks members and generations.
"""

from penstock.apis.context import Call
from penstock.apis.needs import Need
from penstock.apis.rights import GROUP, READ, TOPIC, TRANSACTIONAL_ID, WRITE
from penstock.base.errors import ErrorCode, Refusal
from penstock.base.ids import CONSUMER_OFFSETS
from penstock.core.coordinator_shard import BatchProducer, Decision
from penstock.core.groups.requests import NO_TOPIC_ID, OffsetCommit, OffsetToCommit
from penstock.core.groups.shard import GroupShard
from penstock.core.transaction_verification import Verification
from penstock.core.transactions.transaction import ProducerIdAndEpoch
from penstock.services.replicas.replica import Replica
from penstock.services.transactions.produce_verifier import FirstBatch, produce_refusal
from penstock.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

REQUEST = TxnOffsetCommitRequest
VERSIONS = (0, 5)
NEEDS = (
    Need(WRITE, TRANSACTIONAL_ID, "transactional_id"),
    Need(READ, GROUP, "group_id"),
    Need(READ, TOPIC, "topics.name"),
)
CANCEL_ON_DISCONNECT = True

ABORTABLE_SINCE = 4  # the version with TRANSACTION_ABORTABLE
ADDING_SINCE = 5  # clients of transactions version 2

_NO_SEQUENCE = -1


async def handle(call: Call, request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse:
    offsets = [
        _offset(call, topic.name, partition) for topic in request.topics for partition in topic.partitions
    ]
    known = [_exists(call, offset) for offset in offsets]
    commit = OffsetCommit(
        group_id=request.group_id,
        offsets=[offset for offset, is_known in zip(offsets, known, strict=True) if is_known],
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id,
    )
    answers = iter(await _commit(call, request, commit) if commit.offsets else ())
    codes = iter([next(answers) if is_known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION for is_known in known])
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=next(codes)
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _offset(call: Call, topic: str, partition: TxnOffsetCommitRequestPartition) -> OffsetToCommit:
    known = call.services.cluster.image.topic(topic)
    return OffsetToCommit(
        topic,
        partition.partition_index,
        partition.committed_offset,
        partition.committed_leader_epoch,
        partition.committed_metadata,
        NO_TOPIC_ID if known is None else known.topic_id,
    )


def _exists(call: Call, offset: OffsetToCommit) -> bool:
    topic = call.services.cluster.image.topic(offset.topic)
    return topic is not None and 0 <= offset.partition < len(topic.partitions)


async def _commit(call: Call, request: TxnOffsetCommitRequest, commit: OffsetCommit) -> list[ErrorCode]:
    """One code per offset, in order."""
    groups = call.services.coordinators.groups
    index = groups.index_for(commit.group_id)
    if index is None:
        return [ErrorCode.NOT_COORDINATOR] * len(commit.offsets)
    leader = call.services.logs.replicas.find_leader(CONSUMER_OFFSETS, index)
    if isinstance(leader, ErrorCode):
        return [ErrorCode.NOT_COORDINATOR] * len(commit.offsets)
    partition = leader.replica
    identity = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    verification = await _verify(call, request.transactional_id, identity, partition)
    if isinstance(verification, ErrorCode):
        refusal = produce_refusal(verification, knows_abortable=call.version >= ABORTABLE_SINCE)
        return [_client_code(refusal.code)] * len(commit.offsets)

    def decide(shard: GroupShard, now_ms: int) -> Decision[tuple[ErrorCode, ...]]:
        if not _is_verified(partition, identity, verification):
            return Decision.refused(ErrorCode.INVALID_TXN_STATE)
        return shard.commit_offsets_in_transaction(commit, BatchProducer(*identity), now_ms)

    answer = await groups.ask(commit.group_id, decide)
    if isinstance(answer, Refusal):
        return [answer.code] * len(commit.offsets)
    return list(answer)


async def _verify(
    call: Call, transactional_id: str, identity: ProducerIdAndEpoch, partition: Replica
) -> Verification | ErrorCode | None:
    """The verification with which the transaction may begin in this partition; None if it has begun."""
    adds = call.version >= ADDING_SINCE
    if partition.producers.is_in_transaction(*identity):
        return None
    if not adds and not partition.topic_rules.verifies_transactions:
        return None
    verifier = call.services.transactions.verifier
    beginning = FirstBatch(partition, _NO_SEQUENCE)
    return (await verifier.ask(transactional_id, identity, [beginning], adds=adds))[partition]


def _is_verified(partition: Replica, identity: ProducerIdAndEpoch, verification: Verification | None) -> bool:
    """Whether the transaction is open here, or may begin: no marker was appended since the coordinator was asked."""
    producers = partition.producers
    if producers.is_in_transaction(*identity) or not partition.topic_rules.verifies_transactions:
        return True
    return producers.verifications.holds(identity.producer_id, verification)


def _client_code(code: ErrorCode) -> ErrorCode:
    """The coordinator error that clients retry, in place of a partition's retriable error."""
    return ErrorCode.COORDINATOR_NOT_AVAILABLE if code is ErrorCode.NOT_ENOUGH_REPLICAS else code
