"""DescribeShareGroupOffsets (key 90), v0-v1: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class DescribeShareGroupOffsetsRequestTopic(Struct):
    topic_name: str = words.string("0+")
    partitions: list[int] = words.array(words.int32, "0+")


class DescribeShareGroupOffsetsRequestGroup(Struct):
    group_id: str = words.string("0+")
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None = words.array(
        DescribeShareGroupOffsetsRequestTopic, "0+", nullable="0+"
    )


class DescribeShareGroupOffsetsRequest(Message):
    API_KEY = 90
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = 0

    groups: list[DescribeShareGroupOffsetsRequestGroup] = words.array(
        DescribeShareGroupOffsetsRequestGroup, "0+"
    )


class DescribeShareGroupOffsetsResponsePartition(Struct):
    partition_index: int = words.int32("0+")
    start_offset: int = words.int64("0+")
    leader_epoch: int = words.int32("0+")
    lag: int = words.int64("1+", default=-1, ignorable=True)
    error_code: int = words.int16("0+")
    error_message: str | None = words.string("0+", nullable="0+", default=None)


class DescribeShareGroupOffsetsResponseTopic(Struct):
    topic_name: str = words.string("0+")
    topic_id: bytes = words.uuid("0+")
    partitions: list[DescribeShareGroupOffsetsResponsePartition] = words.array(
        DescribeShareGroupOffsetsResponsePartition, "0+"
    )


class DescribeShareGroupOffsetsResponseGroup(Struct):
    group_id: str = words.string("0+")
    topics: list[DescribeShareGroupOffsetsResponseTopic] = words.array(
        DescribeShareGroupOffsetsResponseTopic, "0+"
    )
    error_code: int = words.int16("0+")
    error_message: str | None = words.string("0+", nullable="0+", default=None)


class DescribeShareGroupOffsetsResponse(Message):
    API_KEY = 90
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = 0

    throttle_time_ms: int = words.int32("0+")
    groups: list[DescribeShareGroupOffsetsResponseGroup] = words.array(
        DescribeShareGroupOffsetsResponseGroup, "0+"
    )
