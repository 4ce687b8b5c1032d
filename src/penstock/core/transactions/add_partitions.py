"""AddPartitionsToTxn: adds partitions to a transaction, which begins it, or verifies that they were added."""

from penstock.base.errors import ErrorCode
from penstock.base.ids import TopicPartition
from penstock.core.coordinator_shard import Decision
from penstock.core.transactions.requests import AddPartitions
from penstock.core.transactions.states import TransactionState
from penstock.core.transactions.transaction import ProducerIdAndEpoch, TransactionMetadata


def add(known: TransactionMetadata | None, request: AddPartitions, now_ms: int) -> Decision[None]:
    """Begin a transaction with these partitions, or add them to the open one."""
    refusal = _refusal(known, request.identity)
    if refusal is not None:
        return Decision.refused(refusal)
    assert known is not None
    is_open = known.state is TransactionState.ONGOING
    if is_open and request.partitions <= known.partitions:
        return Decision(None)
    added = known.changed(
        state=TransactionState.ONGOING,
        partitions=known.partitions | request.partitions,
        started_ms=known.started_ms if is_open else now_ms,
        updated_ms=now_ms,
        client_version=request.client_version,
    )
    return Decision(None, (added.record(),))


def verify(
    known: TransactionMetadata | None, identity: ProducerIdAndEpoch, partitions: frozenset[TopicPartition]
) -> Decision[dict[TopicPartition, ErrorCode]]:
    """Which of the partitions are in the open transaction of this producer."""
    refusal = _refusal(known, identity)
    if refusal is not None:
        return Decision.refused(refusal)
    assert known is not None
    return Decision(
        {
            partition: ErrorCode.NONE if partition in known.partitions else ErrorCode.TRANSACTION_ABORTABLE
            for partition in sorted(partitions)
        }
    )


def _refusal(known: TransactionMetadata | None, asked: ProducerIdAndEpoch) -> ErrorCode | None:
    if known is None or asked.producer_id not in (known.producer_id, known.holder.producer_id):
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if asked != known.holder:
        return ErrorCode.PRODUCER_FENCED
    if known.state.is_prepared:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    # A transaction that was kept for another producer can only be ended.
    return ErrorCode.INVALID_TXN_STATE if known.is_kept else None
