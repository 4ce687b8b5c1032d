"""What a log remembers of one producer and of an aborted transaction, as values.

They stand here, and not with the log that saves them or the core that decides by them, because the two may not
know each other. The decisions are `core.producer_state`, the files are `storage`'s.
"""

from typing import NamedTuple

NO_TRANSACTION = -1


class EarlierBatch(NamedTuple):
    """A batch that a producer wrote before its newest one, to be known again when it is repeated."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp: int  # its newest record's, in ms


class ProducerEntry(NamedTuple):
    """One line of a producer-state snapshot, with Kafka's fields in Kafka's order, and what Kafka forgets."""

    producer_id: int
    producer_epoch: int
    last_sequence: int  # of the producer's newest batch
    last_offset: int  # of that batch
    offset_delta: int  # that batch's last offset minus its first
    timestamp: int  # that batch's newest record, in ms
    coordinator_epoch: int  # of the coordinator that wrote the last marker; -1 if none did
    current_txn_first_offset: int  # where the open transaction began; NO_TRANSACTION if none is open
    earlier: tuple[EarlierBatch, ...] = ()  # of the same epoch, the oldest first


class AbortedTransaction(NamedTuple):
    """One line of a segment's .txnindex: records of this producer between these offsets are to be ignored."""

    producer_id: int
    first_offset: int
    last_offset: int  # of the marker
    last_stable_offset: int  # when the marker was written, with this transaction over
