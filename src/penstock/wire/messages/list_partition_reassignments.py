"""ListPartitionReassignments (key 46), v0-v0: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class ListPartitionReassignmentsTopics(Struct):
    name: str = words.string("0+")
    partition_indexes: list[int] = words.array(words.int32, "0+")


class ListPartitionReassignmentsRequest(Message):
    API_KEY = 46
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0

    timeout_ms: int = words.int32("0+", default=60000)
    topics: list[ListPartitionReassignmentsTopics] | None = words.array(
        ListPartitionReassignmentsTopics, "0+", nullable="0+", default=None
    )


class OngoingPartitionReassignment(Struct):
    partition_index: int = words.int32("0+")
    replicas: list[int] = words.array(words.int32, "0+")
    adding_replicas: list[int] = words.array(words.int32, "0+")
    removing_replicas: list[int] = words.array(words.int32, "0+")


class OngoingTopicReassignment(Struct):
    name: str = words.string("0+")
    partitions: list[OngoingPartitionReassignment] = words.array(OngoingPartitionReassignment, "0+")


class ListPartitionReassignmentsResponse(Message):
    API_KEY = 46
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0

    throttle_time_ms: int = words.int32("0+")
    error_code: int = words.int16("0+")
    error_message: str | None = words.string("0+", nullable="0+")
    topics: list[OngoingTopicReassignment] = words.array(OngoingTopicReassignment, "0+")
