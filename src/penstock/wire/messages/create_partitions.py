"""CreatePartitions (key 37), v0-v3: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class CreatePartitionsAssignment(Struct):
    broker_ids: list[int] = words.array(words.int32, "0+")


class CreatePartitionsTopic(Struct):
    name: str = words.string("0+")
    count: int = words.int32("0+")
    assignments: list[CreatePartitionsAssignment] | None = words.array(
        CreatePartitionsAssignment, "0+", nullable="0+"
    )


class CreatePartitionsRequest(Message):
    API_KEY = 37
    VERSIONS = (0, 3)
    FLEXIBLE_SINCE = 2

    topics: list[CreatePartitionsTopic] = words.array(CreatePartitionsTopic, "0+")
    timeout_ms: int = words.int32("0+")
    validate_only: bool = words.boolean("0+")


class CreatePartitionsTopicResult(Struct):
    name: str = words.string("0+")
    error_code: int = words.int16("0+")
    error_message: str | None = words.string("0+", nullable="0+", default=None)


class CreatePartitionsResponse(Message):
    API_KEY = 37
    VERSIONS = (0, 3)
    FLEXIBLE_SINCE = 2

    throttle_time_ms: int = words.int32("0+")
    results: list[CreatePartitionsTopicResult] = words.array(CreatePartitionsTopicResult, "0+")
