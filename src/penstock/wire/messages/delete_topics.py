"""DeleteTopics (key 20), v1-v6: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class DeleteTopicState(Struct):
    name: str | None = words.string("6+", nullable="6+", default=None)
    topic_id: bytes = words.uuid("6+")


class DeleteTopicsRequest(Message):
    API_KEY = 20
    VERSIONS = (1, 6)
    FLEXIBLE_SINCE = 4

    topics: list[DeleteTopicState] = words.array(DeleteTopicState, "6+")
    topic_names: list[str] = words.array(words.string, "0-5", ignorable=True)
    timeout_ms: int = words.int32("0+")


class DeletableTopicResult(Struct):
    name: str | None = words.string("0+", nullable="6+")
    topic_id: bytes = words.uuid("6+", ignorable=True)
    error_code: int = words.int16("0+")
    error_message: str | None = words.string("5+", nullable="5+", default=None, ignorable=True)


class DeleteTopicsResponse(Message):
    API_KEY = 20
    VERSIONS = (1, 6)
    FLEXIBLE_SINCE = 4

    throttle_time_ms: int = words.int32("1+", ignorable=True)
    responses: list[DeletableTopicResult] = words.array(DeletableTopicResult, "0+")
