"""DescribeTopicPartitions (key 75), v0-v0: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class TopicRequest(Struct):
    name: str = words.string("0+")


class Cursor(Struct):
    topic_name: str = words.string("0+")
    partition_index: int = words.int32("0+")


class DescribeTopicPartitionsRequest(Message):
    API_KEY = 75
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0

    topics: list[TopicRequest] = words.array(TopicRequest, "0+")
    response_partition_limit: int = words.int32("0+", default=2000)
    cursor: Cursor | None = words.struct(Cursor, "0+", nullable="0+", default=None)


class DescribeTopicPartitionsResponsePartition(Struct):
    error_code: int = words.int16("0+")
    partition_index: int = words.int32("0+")
    leader_id: int = words.int32("0+")
    leader_epoch: int = words.int32("0+", default=-1, ignorable=True)
    replica_nodes: list[int] = words.array(words.int32, "0+")
    isr_nodes: list[int] = words.array(words.int32, "0+")
    eligible_leader_replicas: list[int] | None = words.array(words.int32, "0+", nullable="0+", default=None)
    last_known_elr: list[int] | None = words.array(words.int32, "0+", nullable="0+", default=None)
    offline_replicas: list[int] = words.array(words.int32, "0+", ignorable=True)


class DescribeTopicPartitionsResponseTopic(Struct):
    error_code: int = words.int16("0+")
    name: str | None = words.string("0+", nullable="0+")
    topic_id: bytes = words.uuid("0+", ignorable=True)
    is_internal: bool = words.boolean("0+", ignorable=True)
    partitions: list[DescribeTopicPartitionsResponsePartition] = words.array(
        DescribeTopicPartitionsResponsePartition, "0+"
    )
    topic_authorized_operations: int = words.int32("0+", default=-2147483648)


class DescribeTopicPartitionsResponse(Message):
    API_KEY = 75
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0

    throttle_time_ms: int = words.int32("0+", ignorable=True)
    topics: list[DescribeTopicPartitionsResponseTopic] = words.array(
        DescribeTopicPartitionsResponseTopic, "0+"
    )
    next_cursor: Cursor | None = words.struct(Cursor, "0+", nullable="0+", default=None)
