"""DeleteRecords (key 21), v0-v2: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.wire import schema
from penstock.wire.schema import Message, Struct


class DeleteRecordsPartition(Struct):
    partition_index: int = schema.int32("0+")
    offset: int = schema.int64("0+")


class DeleteRecordsTopic(Struct):
    name: str = schema.string("0+")
    partitions: list[DeleteRecordsPartition] = schema.array(DeleteRecordsPartition, "0+")


class DeleteRecordsRequest(Message):
    API_KEY = 21
    VERSIONS = (0, 2)
    FLEXIBLE_SINCE = 2

    topics: list[DeleteRecordsTopic] = schema.array(DeleteRecordsTopic, "0+")
    timeout_ms: int = schema.int32("0+")


class DeleteRecordsPartitionResult(Struct):
    partition_index: int = schema.int32("0+")
    low_watermark: int = schema.int64("0+")
    error_code: int = schema.int16("0+")


class DeleteRecordsTopicResult(Struct):
    name: str = schema.string("0+")
    partitions: list[DeleteRecordsPartitionResult] = schema.array(DeleteRecordsPartitionResult, "0+")


class DeleteRecordsResponse(Message):
    API_KEY = 21
    VERSIONS = (0, 2)
    FLEXIBLE_SINCE = 2

    throttle_time_ms: int = schema.int32("0+")
    topics: list[DeleteRecordsTopicResult] = schema.array(DeleteRecordsTopicResult, "0+")
