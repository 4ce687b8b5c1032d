"""AlterPartitionReassignments (key 45), v0-v1: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class ReassignablePartition(Struct):
    partition_index: int = words.int32("0+")
    replicas: list[int] | None = words.array(words.int32, "0+", nullable="0+", default=None)


class ReassignableTopic(Struct):
    name: str = words.string("0+")
    partitions: list[ReassignablePartition] = words.array(ReassignablePartition, "0+")


class AlterPartitionReassignmentsRequest(Message):
    API_KEY = 45
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = 0

    timeout_ms: int = words.int32("0+", default=60000)
    allow_replication_factor_change: bool = words.boolean("1+", default=True)
    topics: list[ReassignableTopic] = words.array(ReassignableTopic, "0+")


class ReassignablePartitionResponse(Struct):
    partition_index: int = words.int32("0+")
    error_code: int = words.int16("0+")
    error_message: str | None = words.string("0+", nullable="0+")


class ReassignableTopicResponse(Struct):
    name: str = words.string("0+")
    partitions: list[ReassignablePartitionResponse] = words.array(ReassignablePartitionResponse, "0+")


class AlterPartitionReassignmentsResponse(Message):
    API_KEY = 45
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = 0

    throttle_time_ms: int = words.int32("0+")
    allow_replication_factor_change: bool = words.boolean("1+", default=True, ignorable=True)
    error_code: int = words.int16("0+")
    error_message: str | None = words.string("0+", nullable="0+")
    responses: list[ReassignableTopicResponse] = words.array(ReassignableTopicResponse, "0+")
