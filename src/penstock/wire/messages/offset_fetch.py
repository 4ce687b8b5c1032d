"""OffsetFetch (key 9), v1-v10: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class OffsetFetchRequestTopic(Struct):
    name: str = words.string("0-7")
    partition_indexes: list[int] = words.array(words.int32, "0-7")


class OffsetFetchRequestTopics(Struct):
    name: str = words.string("8-9", ignorable=True)
    topic_id: bytes = words.uuid("10+", ignorable=True)
    partition_indexes: list[int] = words.array(words.int32, "8+")


class OffsetFetchRequestGroup(Struct):
    group_id: str = words.string("8+")
    member_id: str | None = words.string("9+", nullable="9+", default=None, ignorable=True)
    member_epoch: int = words.int32("9+", default=-1, ignorable=True)
    topics: list[OffsetFetchRequestTopics] | None = words.array(OffsetFetchRequestTopics, "8+", nullable="8+")


class OffsetFetchRequest(Message):
    API_KEY = 9
    VERSIONS = (1, 10)
    FLEXIBLE_SINCE = 6

    group_id: str = words.string("0-7")
    topics: list[OffsetFetchRequestTopic] | None = words.array(OffsetFetchRequestTopic, "0-7", nullable="2-7")
    groups: list[OffsetFetchRequestGroup] = words.array(OffsetFetchRequestGroup, "8+")
    require_stable: bool = words.boolean("7+")


class OffsetFetchResponsePartition(Struct):
    partition_index: int = words.int32("0-7")
    committed_offset: int = words.int64("0-7")
    committed_leader_epoch: int = words.int32("5-7", default=-1, ignorable=True)
    metadata: str | None = words.string("0-7", nullable="0-7")
    error_code: int = words.int16("0-7")


class OffsetFetchResponseTopic(Struct):
    name: str = words.string("0-7")
    partitions: list[OffsetFetchResponsePartition] = words.array(OffsetFetchResponsePartition, "0-7")


class OffsetFetchResponsePartitions(Struct):
    partition_index: int = words.int32("8+")
    committed_offset: int = words.int64("8+")
    committed_leader_epoch: int = words.int32("8+", default=-1, ignorable=True)
    metadata: str | None = words.string("8+", nullable="8+")
    error_code: int = words.int16("8+")


class OffsetFetchResponseTopics(Struct):
    name: str = words.string("8-9", ignorable=True)
    topic_id: bytes = words.uuid("10+", ignorable=True)
    partitions: list[OffsetFetchResponsePartitions] = words.array(OffsetFetchResponsePartitions, "8+")


class OffsetFetchResponseGroup(Struct):
    group_id: str = words.string("8+")
    topics: list[OffsetFetchResponseTopics] = words.array(OffsetFetchResponseTopics, "8+")
    error_code: int = words.int16("8+")


class OffsetFetchResponse(Message):
    API_KEY = 9
    VERSIONS = (1, 10)
    FLEXIBLE_SINCE = 6

    throttle_time_ms: int = words.int32("3+", ignorable=True)
    topics: list[OffsetFetchResponseTopic] = words.array(OffsetFetchResponseTopic, "0-7")
    error_code: int = words.int16("2-7", ignorable=True)
    groups: list[OffsetFetchResponseGroup] = words.array(OffsetFetchResponseGroup, "8+")
