"""The keys and values of the records in __transaction_state, as declared.

Written by tools/generate_messages.py from Kafka's schemas; change that, not this.
"""

from penstock.records.internal.record import RecordKey, RecordValue
from penstock.schema import words
from penstock.schema.words import Struct


class TransactionLogKey(RecordKey):
    TYPE = 0
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = None

    transactional_id: str = words.string("0")


class PartitionsSchema(Struct):
    topic: str = words.string("0+")
    partition_ids: list[int] = words.array(words.int32, "0+")


class TransactionLogValue(RecordValue):
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = 1

    producer_id: int = words.int64("0+")
    previous_producer_id: int = words.int64("1+", tag=0, default=-1)
    next_producer_id: int = words.int64("1+", tag=1, default=-1)
    producer_epoch: int = words.int16("0+")
    next_producer_epoch: int = words.int16("1+", tag=3, default=-1)
    transaction_timeout_ms: int = words.int32("0+")
    transaction_status: int = words.int8("0+")
    transaction_partitions: list[PartitionsSchema] | None = words.array(PartitionsSchema, "0+", nullable="0+")
    transaction_last_update_timestamp_ms: int = words.int64("0+")
    transaction_start_timestamp_ms: int = words.int64("0+")
    client_transaction_version: int = words.int16("1+", tag=2)
