"""DeleteRecords (key 21), v0-v2: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class DeleteRecordsPartition(Struct):
    partition_index: int = words.int32("0+")
    offset: int = words.int64("0+")


class DeleteRecordsTopic(Struct):
    name: str = words.string("0+")
    partitions: list[DeleteRecordsPartition] = words.array(DeleteRecordsPartition, "0+")


class DeleteRecordsRequest(Message):
    API_KEY = 21
    VERSIONS = (0, 2)
    FLEXIBLE_SINCE = 2

    topics: list[DeleteRecordsTopic] = words.array(DeleteRecordsTopic, "0+")
    timeout_ms: int = words.int32("0+")


class DeleteRecordsPartitionResult(Struct):
    partition_index: int = words.int32("0+")
    low_watermark: int = words.int64("0+")
    error_code: int = words.int16("0+")


class DeleteRecordsTopicResult(Struct):
    name: str = words.string("0+")
    partitions: list[DeleteRecordsPartitionResult] = words.array(DeleteRecordsPartitionResult, "0+")


class DeleteRecordsResponse(Message):
    API_KEY = 21
    VERSIONS = (0, 2)
    FLEXIBLE_SINCE = 2

    throttle_time_ms: int = words.int32("0+")
    topics: list[DeleteRecordsTopicResult] = words.array(DeleteRecordsTopicResult, "0+")
