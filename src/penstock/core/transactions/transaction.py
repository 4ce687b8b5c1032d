"""TransactionMetadata: the state of one transactional id, and its record in __transaction_state."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from penstock.base.errors import PeerError
from penstock.base.ids import TopicPartition
from penstock.core.transactions.states import STATES, TransactionState
from penstock.records.internal.record import InternalRecord
from penstock.records.internal.transaction_shapes import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)

NO_PRODUCER_ID = -1
NO_EPOCH = -1
NO_TIME = -1
EPOCH_MAX = 2**15 - 1

# The timeout of ids in two-phase commit: the client that prepared a transaction decides about it, however late.
NO_TIMEOUT = 2**31 - 1

VERSION_2 = 2


class ProducerIdAndEpoch(NamedTuple):
    """A producer id and epoch: the right to write."""

    producer_id: int
    epoch: int


NO_IDENTITY = ProducerIdAndEpoch(NO_PRODUCER_ID, NO_EPOCH)


class TransactionMetadata(NamedTuple):
    """One transactional id and the transaction it is in, or was in last."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    updated_ms: int
    partitions: frozenset[TopicPartition] = frozenset()
    started_ms: int = NO_TIME
    # The producer id and epoch before the last change; a client that got no response may send the old ones again.
    previous_producer_id: int = NO_PRODUCER_ID
    # The identity after this transaction; while it is ongoing, the one that alone may end it (two-phase commit).
    next_producer_id: int = NO_PRODUCER_ID
    next_producer_epoch: int = NO_EPOCH
    client_version: int = 0

    @property
    def identity(self) -> ProducerIdAndEpoch:
        """The producer id and epoch of the open transaction, or of the last one."""
        return ProducerIdAndEpoch(self.producer_id, self.producer_epoch)

    @property
    def holder(self) -> ProducerIdAndEpoch:
        """The producer id and epoch that may continue the transaction, or end it."""
        return (
            ProducerIdAndEpoch(self.next_producer_id, self.next_producer_epoch)
            if self.is_kept
            else self.identity
        )

    @property
    def epoch_is_exhausted(self) -> bool:
        """Whether only the last epoch is left, which is reserved for fencing."""
        return is_exhausted(self.producer_epoch)

    @property
    def is_kept(self) -> bool:
        """Whether an ongoing transaction was kept for a new producer, which can only end it (two-phase commit)."""
        return self.state is TransactionState.ONGOING and self.next_producer_epoch != NO_EPOCH

    @property
    def may_time_out(self) -> bool:
        return self.state is TransactionState.ONGOING and self.timeout_ms != NO_TIMEOUT

    def changed(self, **fields: Any) -> "TransactionMetadata":
        return self._replace(**fields)

    def record(self) -> InternalRecord:
        """The record with this state."""
        return InternalRecord(
            TransactionLogKey(transactional_id=self.transactional_id),
            TransactionLogValue(
                producer_id=self.producer_id,
                previous_producer_id=self.previous_producer_id,
                next_producer_id=self.next_producer_id,
                producer_epoch=self.producer_epoch,
                next_producer_epoch=self.next_producer_epoch,
                transaction_timeout_ms=self.timeout_ms,
                transaction_status=self.state,
                transaction_partitions=_by_topic(self.partitions) if self.partitions else None,
                transaction_last_update_timestamp_ms=self.updated_ms,
                transaction_start_timestamp_ms=self.started_ms,
                client_transaction_version=self.client_version,
            ),
        )


def tombstone(transactional_id: str) -> InternalRecord:
    """The record that deletes a transactional id."""
    return InternalRecord(TransactionLogKey(transactional_id=transactional_id), None)


def read_record(record: InternalRecord) -> tuple[str, TransactionMetadata | None]:
    """The transactional id and state in a record; None for a tombstone. PeerError for an unknown state."""
    key, value = record
    assert isinstance(key, TransactionLogKey)
    if value is None:
        return key.transactional_id, None
    assert isinstance(value, TransactionLogValue)
    if value.transaction_status not in STATES:
        raise PeerError(
            f"there is no transaction state {value.transaction_status}, which it gives to {key.transactional_id!r}"
        )
    return key.transactional_id, TransactionMetadata(
        transactional_id=key.transactional_id,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=STATES[value.transaction_status],
        updated_ms=value.transaction_last_update_timestamp_ms,
        partitions=_partitions(value.transaction_partitions),
        started_ms=value.transaction_start_timestamp_ms,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        next_producer_epoch=value.next_producer_epoch,
        client_version=value.client_transaction_version,
    )


def _partitions(topics: list[PartitionsSchema] | None) -> frozenset[TopicPartition]:
    if not topics:
        return frozenset()
    return frozenset(
        [TopicPartition(topic.topic, index) for topic in topics for index in topic.partition_ids]
    )


def is_exhausted(epoch: int) -> bool:
    return epoch >= EPOCH_MAX - 1


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Topics and their partitions' indexes, sorted."""
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        topics.setdefault(topic, []).append(index)
    return topics


def _by_topic(partitions: frozenset[TopicPartition]) -> list[PartitionsSchema]:
    return [
        PartitionsSchema(topic=topic, partition_ids=indexes)
        for topic, indexes in by_topic(partitions).items()
    ]
