"""AlterShareGroupOffsets (key 91), v0-v0: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class AlterShareGroupOffsetsRequestPartition(Struct):
    partition_index: int = words.int32("0+")
    start_offset: int = words.int64("0+")


class AlterShareGroupOffsetsRequestTopic(Struct):
    topic_name: str = words.string("0+")
    partitions: list[AlterShareGroupOffsetsRequestPartition] = words.array(
        AlterShareGroupOffsetsRequestPartition, "0+"
    )


class AlterShareGroupOffsetsRequest(Message):
    API_KEY = 91
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0

    group_id: str = words.string("0+")
    topics: list[AlterShareGroupOffsetsRequestTopic] = words.array(AlterShareGroupOffsetsRequestTopic, "0+")


class AlterShareGroupOffsetsResponsePartition(Struct):
    partition_index: int = words.int32("0+")
    error_code: int = words.int16("0+")
    error_message: str | None = words.string("0+", nullable="0+", default=None)


class AlterShareGroupOffsetsResponseTopic(Struct):
    topic_name: str = words.string("0+")
    topic_id: bytes = words.uuid("0+")
    partitions: list[AlterShareGroupOffsetsResponsePartition] = words.array(
        AlterShareGroupOffsetsResponsePartition, "0+"
    )


class AlterShareGroupOffsetsResponse(Message):
    API_KEY = 91
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0

    throttle_time_ms: int = words.int32("0+")
    error_code: int = words.int16("0+")
    error_message: str | None = words.string("0+", nullable="0+", default=None)
    responses: list[AlterShareGroupOffsetsResponseTopic] = words.array(
        AlterShareGroupOffsetsResponseTopic, "0+"
    )
