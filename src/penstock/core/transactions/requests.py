"""What the transaction coordinator is asked, and what it answers where that is not just an error code."""

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
    spare_producer_id: int  # to be used where a new one is needed
    current: ProducerIdAndEpoch | None = None  # what the client has, if it goes on after an error
    two_phase: bool = False
    keep_prepared: bool = False


class Initialized(NamedTuple):
    """Who the client is from now on."""

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
    spare_producer_id: int = NO_PRODUCER_ID  # to be used where the epochs are used up


class ListFilter(NamedTuple):
    """Which transactions to list; what is empty or None filters nothing."""

    states: tuple[str, ...] = ()
    producer_ids: tuple[int, ...] = ()
    longer_than_ms: int = -1
    expression: Expression | None = None  # for the whole of an id


class Listed(NamedTuple):
    """Transactions of one shard, and states asked for that do not exist."""

    transactions: list[TransactionMetadata]
    unknown_states: list[str]
