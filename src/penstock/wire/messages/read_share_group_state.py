"""ReadShareGroupState (key 84), v0-v0: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class PartitionData(Struct):
    partition: int = words.int32("0+")
    leader_epoch: int = words.int32("0+")


class ReadStateData(Struct):
    topic_id: bytes = words.uuid("0+")
    partitions: list[PartitionData] = words.array(PartitionData, "0+")


class ReadShareGroupStateRequest(Message):
    API_KEY = 84
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0

    group_id: str = words.string("0+")
    topics: list[ReadStateData] = words.array(ReadStateData, "0+")


class StateBatch(Struct):
    first_offset: int = words.int64("0+")
    last_offset: int = words.int64("0+")
    delivery_state: int = words.int8("0+")
    delivery_count: int = words.int16("0+")


class PartitionResult(Struct):
    partition: int = words.int32("0+")
    error_code: int = words.int16("0+")
    error_message: str | None = words.string("0+", nullable="0+", default=None)
    state_epoch: int = words.int32("0+")
    start_offset: int = words.int64("0+")
    state_batches: list[StateBatch] = words.array(StateBatch, "0+")


class ReadStateResult(Struct):
    topic_id: bytes = words.uuid("0+")
    partitions: list[PartitionResult] = words.array(PartitionResult, "0+")


class ReadShareGroupStateResponse(Message):
    API_KEY = 84
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0

    results: list[ReadStateResult] = words.array(ReadStateResult, "0+")
