"""CreatePartitions (key 37), v0-v3: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.wire import schema
from penstock.wire.schema import Message, Struct


class CreatePartitionsAssignment(Struct):
    broker_ids: list[int] = schema.array(schema.int32, "0+")


class CreatePartitionsTopic(Struct):
    name: str = schema.string("0+")
    count: int = schema.int32("0+")
    assignments: list[CreatePartitionsAssignment] | None = schema.array(
        CreatePartitionsAssignment, "0+", nullable="0+"
    )


class CreatePartitionsRequest(Message):
    API_KEY = 37
    VERSIONS = (0, 3)
    FLEXIBLE_SINCE = 2

    topics: list[CreatePartitionsTopic] = schema.array(CreatePartitionsTopic, "0+")
    timeout_ms: int = schema.int32("0+")
    validate_only: bool = schema.boolean("0+")


class CreatePartitionsTopicResult(Struct):
    name: str = schema.string("0+")
    error_code: int = schema.int16("0+")
    error_message: str | None = schema.string("0+", nullable="0+", default=None)


class CreatePartitionsResponse(Message):
    API_KEY = 37
    VERSIONS = (0, 3)
    FLEXIBLE_SINCE = 2

    throttle_time_ms: int = schema.int32("0+")
    results: list[CreatePartitionsTopicResult] = schema.array(CreatePartitionsTopicResult, "0+")
