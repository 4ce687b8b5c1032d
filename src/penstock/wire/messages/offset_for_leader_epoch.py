"""OffsetForLeaderEpoch (key 23), v2-v4: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class OffsetForLeaderPartition(Struct):
    partition: int = words.int32("0+")
    current_leader_epoch: int = words.int32("2+", default=-1, ignorable=True)
    leader_epoch: int = words.int32("0+")


class OffsetForLeaderTopic(Struct):
    topic: str = words.string("0+")
    partitions: list[OffsetForLeaderPartition] = words.array(OffsetForLeaderPartition, "0+")


class OffsetForLeaderEpochRequest(Message):
    API_KEY = 23
    VERSIONS = (2, 4)
    FLEXIBLE_SINCE = 4

    replica_id: int = words.int32("3+", default=-2, ignorable=True)
    topics: list[OffsetForLeaderTopic] = words.array(OffsetForLeaderTopic, "0+")


class EpochEndOffset(Struct):
    error_code: int = words.int16("0+")
    partition: int = words.int32("0+")
    leader_epoch: int = words.int32("1+", default=-1, ignorable=True)
    end_offset: int = words.int64("0+", default=-1)


class OffsetForLeaderTopicResult(Struct):
    topic: str = words.string("0+")
    partitions: list[EpochEndOffset] = words.array(EpochEndOffset, "0+")


class OffsetForLeaderEpochResponse(Message):
    API_KEY = 23
    VERSIONS = (2, 4)
    FLEXIBLE_SINCE = 4

    throttle_time_ms: int = words.int32("2+", ignorable=True)
    topics: list[OffsetForLeaderTopicResult] = words.array(OffsetForLeaderTopicResult, "0+")
