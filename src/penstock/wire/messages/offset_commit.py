"""OffsetCommit (key 8), v2-v10: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class OffsetCommitRequestPartition(Struct):
    partition_index: int = words.int32("0+")
    committed_offset: int = words.int64("0+")
    committed_leader_epoch: int = words.int32("6+", default=-1, ignorable=True)
    committed_metadata: str | None = words.string("0+", nullable="0+")


class OffsetCommitRequestTopic(Struct):
    name: str = words.string("0-9", ignorable=True)
    topic_id: bytes = words.uuid("10+", ignorable=True)
    partitions: list[OffsetCommitRequestPartition] = words.array(OffsetCommitRequestPartition, "0+")


class OffsetCommitRequest(Message):
    API_KEY = 8
    VERSIONS = (2, 10)
    FLEXIBLE_SINCE = 8

    group_id: str = words.string("0+")
    generation_id_or_member_epoch: int = words.int32("1+", default=-1, ignorable=True)
    member_id: str = words.string("1+", ignorable=True)
    group_instance_id: str | None = words.string("7+", nullable="7+", default=None)
    retention_time_ms: int = words.int64("2-4", default=-1, ignorable=True)
    topics: list[OffsetCommitRequestTopic] = words.array(OffsetCommitRequestTopic, "0+")


class OffsetCommitResponsePartition(Struct):
    partition_index: int = words.int32("0+")
    error_code: int = words.int16("0+")


class OffsetCommitResponseTopic(Struct):
    name: str = words.string("0-9", ignorable=True)
    topic_id: bytes = words.uuid("10+", ignorable=True)
    partitions: list[OffsetCommitResponsePartition] = words.array(OffsetCommitResponsePartition, "0+")


class OffsetCommitResponse(Message):
    API_KEY = 8
    VERSIONS = (2, 10)
    FLEXIBLE_SINCE = 8

    throttle_time_ms: int = words.int32("3+", ignorable=True)
    topics: list[OffsetCommitResponseTopic] = words.array(OffsetCommitResponseTopic, "0+")
