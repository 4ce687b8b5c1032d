"""What a log remembers of one idempotent producer, as a value.

It stands here, and not with the log that saves it or the core that decides by it, because the two may not
know each other. The decisions are `core.producers`, the file is `storage`'s.
"""

from typing import NamedTuple

NO_TRANSACTION = -1


class ProducerEntry(NamedTuple):
    """One line of a producer-state snapshot, with Kafka's fields in Kafka's order."""

    producer_id: int
    producer_epoch: int
    last_sequence: int  # of the producer's newest batch
    last_offset: int  # of that batch
    offset_delta: int  # that batch's last offset minus its first
    timestamp: int  # that batch's newest record, in ms
    coordinator_epoch: int  # of the coordinator that wrote the last marker; -1 if none did
    current_txn_first_offset: int  # where the open transaction began; NO_TRANSACTION if none is open
