"""ListOffsets (key 2), v1-v11: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class ListOffsetsPartition(Struct):
    partition_index: int = words.int32("0+")
    current_leader_epoch: int = words.int32("4+", default=-1, ignorable=True)
    timestamp: int = words.int64("0+")


class ListOffsetsTopic(Struct):
    name: str = words.string("0+")
    partitions: list[ListOffsetsPartition] = words.array(ListOffsetsPartition, "0+")


class ListOffsetsRequest(Message):
    API_KEY = 2
    VERSIONS = (1, 11)
    FLEXIBLE_SINCE = 6

    replica_id: int = words.int32("0+")
    isolation_level: int = words.int8("2+")
    topics: list[ListOffsetsTopic] = words.array(ListOffsetsTopic, "0+")
    timeout_ms: int = words.int32("10+", ignorable=True)


class ListOffsetsPartitionResponse(Struct):
    partition_index: int = words.int32("0+")
    error_code: int = words.int16("0+")
    timestamp: int = words.int64("1+", default=-1)
    offset: int = words.int64("1+", default=-1)
    leader_epoch: int = words.int32("4+", default=-1)


class ListOffsetsTopicResponse(Struct):
    name: str = words.string("0+")
    partitions: list[ListOffsetsPartitionResponse] = words.array(ListOffsetsPartitionResponse, "0+")


class ListOffsetsResponse(Message):
    API_KEY = 2
    VERSIONS = (1, 11)
    FLEXIBLE_SINCE = 6

    throttle_time_ms: int = words.int32("2+", ignorable=True)
    topics: list[ListOffsetsTopicResponse] = words.array(ListOffsetsTopicResponse, "0+")
