"""The state of one producer, and an aborted transaction, as values.

They are here because `storage`, which saves them, and `core.producer_state`, which decides by them, must not import
each other.
"""

from typing import NamedTuple

NO_TRANSACTION = -1


class EarlierBatch(NamedTuple):
    """A batch that a producer wrote before its newest one, kept to recognise retries."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp: int  # its newest record's, in ms


class ProducerEntry(NamedTuple):
    """An entry of a producer snapshot: Kafka's fields in Kafka's order, and the earlier batches, which Kafka omits."""

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
    """An entry of a transaction index: read_committed consumers skip this producer's records between these offsets."""

    producer_id: int
    first_offset: int
    last_offset: int  # of the marker
    last_stable_offset: int  # when the marker was written, with this transaction over
