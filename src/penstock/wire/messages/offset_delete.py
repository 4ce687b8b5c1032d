"""OffsetDelete (key 47), v0-v0: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class OffsetDeleteRequestPartition(Struct):
    partition_index: int = words.int32("0+")


class OffsetDeleteRequestTopic(Struct):
    name: str = words.string("0+")
    partitions: list[OffsetDeleteRequestPartition] = words.array(OffsetDeleteRequestPartition, "0+")


class OffsetDeleteRequest(Message):
    API_KEY = 47
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = None

    group_id: str = words.string("0+")
    topics: list[OffsetDeleteRequestTopic] = words.array(OffsetDeleteRequestTopic, "0+")


class OffsetDeleteResponsePartition(Struct):
    partition_index: int = words.int32("0+")
    error_code: int = words.int16("0+")


class OffsetDeleteResponseTopic(Struct):
    name: str = words.string("0+")
    partitions: list[OffsetDeleteResponsePartition] = words.array(OffsetDeleteResponsePartition, "0+")


class OffsetDeleteResponse(Message):
    API_KEY = 47
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = None

    error_code: int = words.int16("0+")
    throttle_time_ms: int = words.int32("0+", ignorable=True)
    topics: list[OffsetDeleteResponseTopic] = words.array(OffsetDeleteResponseTopic, "0+")
