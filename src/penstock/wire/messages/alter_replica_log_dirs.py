"""AlterReplicaLogDirs (key 34), v1-v2: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class AlterReplicaLogDirTopic(Struct):
    name: str = words.string("0+")
    partitions: list[int] = words.array(words.int32, "0+")


class AlterReplicaLogDir(Struct):
    path: str = words.string("0+")
    topics: list[AlterReplicaLogDirTopic] = words.array(AlterReplicaLogDirTopic, "0+")


class AlterReplicaLogDirsRequest(Message):
    API_KEY = 34
    VERSIONS = (1, 2)
    FLEXIBLE_SINCE = 2

    dirs: list[AlterReplicaLogDir] = words.array(AlterReplicaLogDir, "0+")


class AlterReplicaLogDirPartitionResult(Struct):
    partition_index: int = words.int32("0+")
    error_code: int = words.int16("0+")


class AlterReplicaLogDirTopicResult(Struct):
    topic_name: str = words.string("0+")
    partitions: list[AlterReplicaLogDirPartitionResult] = words.array(AlterReplicaLogDirPartitionResult, "0+")


class AlterReplicaLogDirsResponse(Message):
    API_KEY = 34
    VERSIONS = (1, 2)
    FLEXIBLE_SINCE = 2

    throttle_time_ms: int = words.int32("0+")
    results: list[AlterReplicaLogDirTopicResult] = words.array(AlterReplicaLogDirTopicResult, "0+")
