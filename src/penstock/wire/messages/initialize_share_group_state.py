"""InitializeShareGroupState (key 83), v0-v0: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class PartitionData(Struct):
    partition: int = words.int32("0+")
    state_epoch: int = words.int32("0+")
    start_offset: int = words.int64("0+")


class InitializeStateData(Struct):
    topic_id: bytes = words.uuid("0+")
    partitions: list[PartitionData] = words.array(PartitionData, "0+")


class InitializeShareGroupStateRequest(Message):
    API_KEY = 83
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0

    group_id: str = words.string("0+")
    topics: list[InitializeStateData] = words.array(InitializeStateData, "0+")


class PartitionResult(Struct):
    partition: int = words.int32("0+")
    error_code: int = words.int16("0+")
    error_message: str | None = words.string("0+", nullable="0+", default=None)


class InitializeStateResult(Struct):
    topic_id: bytes = words.uuid("0+")
    partitions: list[PartitionResult] = words.array(PartitionResult, "0+")


class InitializeShareGroupStateResponse(Message):
    API_KEY = 83
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0

    results: list[InitializeStateResult] = words.array(InitializeStateResult, "0+")
