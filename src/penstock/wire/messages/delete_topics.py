"""DeleteTopics (key 20), v1-v6: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.wire import schema
from penstock.wire.schema import Message, Struct


class DeleteTopicState(Struct):
    name: str | None = schema.string("6+", nullable="6+", default=None)
    topic_id: bytes = schema.uuid("6+")


class DeleteTopicsRequest(Message):
    API_KEY = 20
    VERSIONS = (1, 6)
    FLEXIBLE_SINCE = 4

    topics: list[DeleteTopicState] = schema.array(DeleteTopicState, "6+")
    topic_names: list[str] = schema.array(schema.string, "0-5", ignorable=True)
    timeout_ms: int = schema.int32("0+")


class DeletableTopicResult(Struct):
    name: str | None = schema.string("0+", nullable="6+")
    topic_id: bytes = schema.uuid("6+", ignorable=True)
    error_code: int = schema.int16("0+")
    error_message: str | None = schema.string("5+", nullable="5+", default=None, ignorable=True)


class DeleteTopicsResponse(Message):
    API_KEY = 20
    VERSIONS = (1, 6)
    FLEXIBLE_SINCE = 4

    throttle_time_ms: int = schema.int32("1+", ignorable=True)
    responses: list[DeletableTopicResult] = schema.array(DeletableTopicResult, "0+")
