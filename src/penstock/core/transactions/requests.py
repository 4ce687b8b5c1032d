"""Requests to the transaction coordinator, and responses that are more than an error code."""

from typing import NamedTuple

from penstock.base.ids import TopicPartition
from penstock.core.groups.regex import Expression
from penstock.core.transactions.transaction import (
    NO_IDENTITY,
    NO_PRODUCER_ID,
    ProducerIdAndEpoch,
    TransactionMetadata,
)


class InitProducer(NamedTuple):
    """InitProducerId with a transactional id."""

    transactional_id: str
    timeout_ms: int
    spare_producer_id: int  # used if a new one is needed
    current: ProducerIdAndEpoch | None = None  # the client's own, if it recovers from an error
    two_phase: bool = False
    keep_prepared: bool = False


class Initialized(NamedTuple):
    """The client's producer id and epoch from now on."""

    identity: ProducerIdAndEpoch
    ongoing: ProducerIdAndEpoch = NO_IDENTITY  # of the transaction that was kept


class AddPartitions(NamedTuple):
    """AddPartitionsToTxn, AddOffsetsToTxn, or a write to a partition by a client of version 2."""

    transactional_id: str
    identity: ProducerIdAndEpoch
    partitions: frozenset[TopicPartition]
    client_version: int = 0


class EndTransaction(NamedTuple):
    """EndTxn."""

    transactional_id: str
    identity: ProducerIdAndEpoch
    commit: bool
    client_version: int = 0
    spare_producer_id: int = NO_PRODUCER_ID  # used if the epochs are exhausted


class ListFilter(NamedTuple):
    """Which transactions to list; an empty or None field does not filter."""

    states: tuple[str, ...] = ()
    producer_ids: tuple[int, ...] = ()
    longer_than_ms: int = -1
    expression: Expression | None = None  # for the whole of an id


class Listed(NamedTuple):
    """Transactions of one shard, and states asked for that do not exist."""

    transactions: list[TransactionMetadata]
    unknown_states: list[str]
