"""OffsetForLeaderEpoch (key 23), v2-v4: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.wire import schema
from penstock.wire.schema import Message, Struct


class OffsetForLeaderPartition(Struct):
    partition: int = schema.int32("0+")
    current_leader_epoch: int = schema.int32("2+", default=-1, ignorable=True)
    leader_epoch: int = schema.int32("0+")


class OffsetForLeaderTopic(Struct):
    topic: str = schema.string("0+")
    partitions: list[OffsetForLeaderPartition] = schema.array(OffsetForLeaderPartition, "0+")


class OffsetForLeaderEpochRequest(Message):
    API_KEY = 23
    VERSIONS = (2, 4)
    FLEXIBLE_SINCE = 4

    replica_id: int = schema.int32("3+", default=-2, ignorable=True)
    topics: list[OffsetForLeaderTopic] = schema.array(OffsetForLeaderTopic, "0+")


class EpochEndOffset(Struct):
    error_code: int = schema.int16("0+")
    partition: int = schema.int32("0+")
    leader_epoch: int = schema.int32("1+", default=-1, ignorable=True)
    end_offset: int = schema.int64("0+", default=-1)


class OffsetForLeaderTopicResult(Struct):
    topic: str = schema.string("0+")
    partitions: list[EpochEndOffset] = schema.array(EpochEndOffset, "0+")


class OffsetForLeaderEpochResponse(Message):
    API_KEY = 23
    VERSIONS = (2, 4)
    FLEXIBLE_SINCE = 4

    throttle_time_ms: int = schema.int32("2+", ignorable=True)
    topics: list[OffsetForLeaderTopicResult] = schema.array(OffsetForLeaderTopicResult, "0+")
