"""DescribeLogDirs (key 35), v1-v5: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.wire import schema
from penstock.wire.schema import Message, Struct


class DescribableLogDirTopic(Struct):
    topic: str = schema.string("0+")
    partitions: list[int] = schema.array(schema.int32, "0+")


class DescribeLogDirsRequest(Message):
    API_KEY = 35
    VERSIONS = (1, 5)
    FLEXIBLE_SINCE = 2

    topics: list[DescribableLogDirTopic] | None = schema.array(DescribableLogDirTopic, "0+", nullable="0+")


class DescribeLogDirsPartition(Struct):
    partition_index: int = schema.int32("0+")
    partition_size: int = schema.int64("0+")
    offset_lag: int = schema.int64("0+")
    is_future_key: bool = schema.boolean("0+")


class DescribeLogDirsTopic(Struct):
    name: str = schema.string("0+")
    partitions: list[DescribeLogDirsPartition] = schema.array(DescribeLogDirsPartition, "0+")


class DescribeLogDirsResult(Struct):
    error_code: int = schema.int16("0+")
    log_dir: str = schema.string("0+")
    topics: list[DescribeLogDirsTopic] = schema.array(DescribeLogDirsTopic, "0+")
    total_bytes: int = schema.int64("4+", default=-1, ignorable=True)
    usable_bytes: int = schema.int64("4+", default=-1, ignorable=True)
    is_cordoned: bool = schema.boolean("5+", ignorable=True)


class DescribeLogDirsResponse(Message):
    API_KEY = 35
    VERSIONS = (1, 5)
    FLEXIBLE_SINCE = 2

    throttle_time_ms: int = schema.int32("0+")
    error_code: int = schema.int16("3+", ignorable=True)
    results: list[DescribeLogDirsResult] = schema.array(DescribeLogDirsResult, "0+")
