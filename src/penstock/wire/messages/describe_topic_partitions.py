"""DescribeTopicPartitions (key 75), v0-v0: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.wire import schema
from penstock.wire.schema import Message, Struct


class TopicRequest(Struct):
    name: str = schema.string("0+")


class Cursor(Struct):
    topic_name: str = schema.string("0+")
    partition_index: int = schema.int32("0+")


class DescribeTopicPartitionsRequest(Message):
    API_KEY = 75
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0

    topics: list[TopicRequest] = schema.array(TopicRequest, "0+")
    response_partition_limit: int = schema.int32("0+", default=2000)
    cursor: Cursor | None = schema.struct(Cursor, "0+", nullable="0+", default=None)


class DescribeTopicPartitionsResponsePartition(Struct):
    error_code: int = schema.int16("0+")
    partition_index: int = schema.int32("0+")
    leader_id: int = schema.int32("0+")
    leader_epoch: int = schema.int32("0+", default=-1, ignorable=True)
    replica_nodes: list[int] = schema.array(schema.int32, "0+")
    isr_nodes: list[int] = schema.array(schema.int32, "0+")
    eligible_leader_replicas: list[int] | None = schema.array(schema.int32, "0+", nullable="0+", default=None)
    last_known_elr: list[int] | None = schema.array(schema.int32, "0+", nullable="0+", default=None)
    offline_replicas: list[int] = schema.array(schema.int32, "0+", ignorable=True)


class DescribeTopicPartitionsResponseTopic(Struct):
    error_code: int = schema.int16("0+")
    name: str | None = schema.string("0+", nullable="0+")
    topic_id: bytes = schema.uuid("0+", ignorable=True)
    is_internal: bool = schema.boolean("0+", ignorable=True)
    partitions: list[DescribeTopicPartitionsResponsePartition] = schema.array(
        DescribeTopicPartitionsResponsePartition, "0+"
    )
    topic_authorized_operations: int = schema.int32("0+", default=-2147483648)


class DescribeTopicPartitionsResponse(Message):
    API_KEY = 75
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0

    throttle_time_ms: int = schema.int32("0+", ignorable=True)
    topics: list[DescribeTopicPartitionsResponseTopic] = schema.array(
        DescribeTopicPartitionsResponseTopic, "0+"
    )
    next_cursor: Cursor | None = schema.struct(Cursor, "0+", nullable="0+", default=None)
