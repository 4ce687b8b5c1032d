"""DescribeLogDirs (key 35), v1-v5: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class DescribableLogDirTopic(Struct):
    topic: str = words.string("0+")
    partitions: list[int] = words.array(words.int32, "0+")


class DescribeLogDirsRequest(Message):
    API_KEY = 35
    VERSIONS = (1, 5)
    FLEXIBLE_SINCE = 2

    topics: list[DescribableLogDirTopic] | None = words.array(DescribableLogDirTopic, "0+", nullable="0+")


class DescribeLogDirsPartition(Struct):
    partition_index: int = words.int32("0+")
    partition_size: int = words.int64("0+")
    offset_lag: int = words.int64("0+")
    is_future_key: bool = words.boolean("0+")


class DescribeLogDirsTopic(Struct):
    name: str = words.string("0+")
    partitions: list[DescribeLogDirsPartition] = words.array(DescribeLogDirsPartition, "0+")


class DescribeLogDirsResult(Struct):
    error_code: int = words.int16("0+")
    log_dir: str = words.string("0+")
    topics: list[DescribeLogDirsTopic] = words.array(DescribeLogDirsTopic, "0+")
    total_bytes: int = words.int64("4+", default=-1, ignorable=True)
    usable_bytes: int = words.int64("4+", default=-1, ignorable=True)
    is_cordoned: bool = words.boolean("5+", ignorable=True)


class DescribeLogDirsResponse(Message):
    API_KEY = 35
    VERSIONS = (1, 5)
    FLEXIBLE_SINCE = 2

    throttle_time_ms: int = words.int32("0+")
    error_code: int = words.int16("3+", ignorable=True)
    results: list[DescribeLogDirsResult] = words.array(DescribeLogDirsResult, "0+")
