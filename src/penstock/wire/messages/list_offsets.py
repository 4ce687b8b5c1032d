"""ListOffsets (key 2), v1-v11: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.wire import schema
from penstock.wire.schema import Message, Struct


class ListOffsetsPartition(Struct):
    partition_index: int = schema.int32("0+")
    current_leader_epoch: int = schema.int32("4+", default=-1, ignorable=True)
    timestamp: int = schema.int64("0+")


class ListOffsetsTopic(Struct):
    name: str = schema.string("0+")
    partitions: list[ListOffsetsPartition] = schema.array(ListOffsetsPartition, "0+")


class ListOffsetsRequest(Message):
    API_KEY = 2
    VERSIONS = (1, 11)
    FLEXIBLE_SINCE = 6

    replica_id: int = schema.int32("0+")
    isolation_level: int = schema.int8("2+")
    topics: list[ListOffsetsTopic] = schema.array(ListOffsetsTopic, "0+")
    timeout_ms: int = schema.int32("10+", ignorable=True)


class ListOffsetsPartitionResponse(Struct):
    partition_index: int = schema.int32("0+")
    error_code: int = schema.int16("0+")
    timestamp: int = schema.int64("1+", default=-1)
    offset: int = schema.int64("1+", default=-1)
    leader_epoch: int = schema.int32("4+", default=-1)


class ListOffsetsTopicResponse(Struct):
    name: str = schema.string("0+")
    partitions: list[ListOffsetsPartitionResponse] = schema.array(ListOffsetsPartitionResponse, "0+")


class ListOffsetsResponse(Message):
    API_KEY = 2
    VERSIONS = (1, 11)
    FLEXIBLE_SINCE = 6

    throttle_time_ms: int = schema.int32("2+", ignorable=True)
    topics: list[ListOffsetsTopicResponse] = schema.array(ListOffsetsTopicResponse, "0+")
