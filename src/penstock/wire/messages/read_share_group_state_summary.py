"""ReadShareGroupStateSummary (key 87), v0-v1: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class PartitionData(Struct):
    partition: int = words.int32("0+")
    leader_epoch: int = words.int32("0+")


class ReadStateSummaryData(Struct):
    topic_id: bytes = words.uuid("0+")
    partitions: list[PartitionData] = words.array(PartitionData, "0+")


class ReadShareGroupStateSummaryRequest(Message):
    API_KEY = 87
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = 0

    group_id: str = words.string("0+")
    topics: list[ReadStateSummaryData] = words.array(ReadStateSummaryData, "0+")


class PartitionResult(Struct):
    partition: int = words.int32("0+")
    error_code: int = words.int16("0+")
    error_message: str | None = words.string("0+", nullable="0+", default=None)
    state_epoch: int = words.int32("0+")
    leader_epoch: int = words.int32("0+")
    start_offset: int = words.int64("0+")
    delivery_complete_count: int = words.int32("1+", default=-1, ignorable=True)


class ReadStateSummaryResult(Struct):
    topic_id: bytes = words.uuid("0+")
    partitions: list[PartitionResult] = words.array(PartitionResult, "0+")


class ReadShareGroupStateSummaryResponse(Message):
    API_KEY = 87
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = 0

    results: list[ReadStateSummaryResult] = words.array(ReadStateSummaryResult, "0+")
