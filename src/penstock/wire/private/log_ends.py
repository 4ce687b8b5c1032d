"""LogEnds (key 10001), v0: the controller asks replicas of partitions without a leader where their logs end.

For majority elections (`controller.majority_elections`). `leader_epoch` is the epoch in which the partition has no
leader: a replica whose metadata do not have that epoch yet answers with an error.
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class LogEndsPartition(Struct):
    partition_index: int = words.int32("0+")
    leader_epoch: int = words.int32("0+")


class LogEndsTopic(Struct):
    topic_id: bytes = words.uuid("0+")
    partitions: list[LogEndsPartition] = words.array(LogEndsPartition, "0+")


class LogEndsRequest(Message):
    API_KEY = 10001
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0

    topics: list[LogEndsTopic] = words.array(LogEndsTopic, "0+")


class LogEndsPartitionResult(Struct):
    partition_index: int = words.int32("0+")
    error_code: int = words.int16("0+")
    last_epoch: int = words.int32("0+", default=-1)  # the leader epoch of the last batch
    end_offset: int = words.int64("0+", default=-1)


class LogEndsTopicResult(Struct):
    topic_id: bytes = words.uuid("0+")
    partitions: list[LogEndsPartitionResult] = words.array(LogEndsPartitionResult, "0+")


class LogEndsResponse(Message):
    API_KEY = 10001
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0

    topics: list[LogEndsTopicResult] = words.array(LogEndsTopicResult, "0+")
