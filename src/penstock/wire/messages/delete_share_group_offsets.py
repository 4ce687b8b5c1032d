"""DeleteShareGroupOffsets (key 92), v0-v0: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class DeleteShareGroupOffsetsRequestTopic(Struct):
    topic_name: str = words.string("0+")


class DeleteShareGroupOffsetsRequest(Message):
    API_KEY = 92
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0

    group_id: str = words.string("0+")
    topics: list[DeleteShareGroupOffsetsRequestTopic] = words.array(DeleteShareGroupOffsetsRequestTopic, "0+")


class DeleteShareGroupOffsetsResponseTopic(Struct):
    topic_name: str = words.string("0+")
    topic_id: bytes = words.uuid("0+")
    error_code: int = words.int16("0+")
    error_message: str | None = words.string("0+", nullable="0+", default=None)


class DeleteShareGroupOffsetsResponse(Message):
    API_KEY = 92
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0

    throttle_time_ms: int = words.int32("0+")
    error_code: int = words.int16("0+")
    error_message: str | None = words.string("0+", nullable="0+", default=None)
    responses: list[DeleteShareGroupOffsetsResponseTopic] = words.array(
        DeleteShareGroupOffsetsResponseTopic, "0+"
    )
