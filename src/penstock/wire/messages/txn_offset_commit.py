"""TxnOffsetCommit (key 28), v0-v5: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class TxnOffsetCommitRequestPartition(Struct):
    partition_index: int = words.int32("0+")
    committed_offset: int = words.int64("0+")
    committed_leader_epoch: int = words.int32("2+", default=-1, ignorable=True)
    committed_metadata: str | None = words.string("0+", nullable="0+")


class TxnOffsetCommitRequestTopic(Struct):
    name: str = words.string("0+")
    partitions: list[TxnOffsetCommitRequestPartition] = words.array(TxnOffsetCommitRequestPartition, "0+")


class TxnOffsetCommitRequest(Message):
    API_KEY = 28
    VERSIONS = (0, 5)
    FLEXIBLE_SINCE = 3

    transactional_id: str = words.string("0+")
    group_id: str = words.string("0+")
    producer_id: int = words.int64("0+")
    producer_epoch: int = words.int16("0+")
    generation_id: int = words.int32("3+", default=-1)
    member_id: str = words.string("3+")
    group_instance_id: str | None = words.string("3+", nullable="3+", default=None)
    topics: list[TxnOffsetCommitRequestTopic] = words.array(TxnOffsetCommitRequestTopic, "0+")


class TxnOffsetCommitResponsePartition(Struct):
    partition_index: int = words.int32("0+")
    error_code: int = words.int16("0+")


class TxnOffsetCommitResponseTopic(Struct):
    name: str = words.string("0+")
    partitions: list[TxnOffsetCommitResponsePartition] = words.array(TxnOffsetCommitResponsePartition, "0+")


class TxnOffsetCommitResponse(Message):
    API_KEY = 28
    VERSIONS = (0, 5)
    FLEXIBLE_SINCE = 3

    throttle_time_ms: int = words.int32("0+")
    topics: list[TxnOffsetCommitResponseTopic] = words.array(TxnOffsetCommitResponseTopic, "0+")
