"""AssignReplicasToDirs (key 73), v0-v0: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class PartitionData(Struct):
    partition_index: int = words.int32("0+")


class TopicData(Struct):
    topic_id: bytes = words.uuid("0+")
    partitions: list[PartitionData] = words.array(PartitionData, "0+")


class DirectoryData(Struct):
    id: bytes = words.uuid("0+")
    topics: list[TopicData] = words.array(TopicData, "0+")


class AssignReplicasToDirsRequest(Message):
    API_KEY = 73
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0

    broker_id: int = words.int32("0+")
    broker_epoch: int = words.int64("0+", default=-1)
    directories: list[DirectoryData] = words.array(DirectoryData, "0+")


class PartitionDataResponse(Struct):
    partition_index: int = words.int32("0+")
    error_code: int = words.int16("0+")


class TopicDataResponse(Struct):
    topic_id: bytes = words.uuid("0+")
    partitions: list[PartitionDataResponse] = words.array(PartitionDataResponse, "0+")


class DirectoryDataResponse(Struct):
    id: bytes = words.uuid("0+")
    topics: list[TopicDataResponse] = words.array(TopicDataResponse, "0+")


class AssignReplicasToDirsResponse(Message):
    API_KEY = 73
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0

    throttle_time_ms: int = words.int32("0+")
    error_code: int = words.int16("0+")
    directories: list[DirectoryDataResponse] = words.array(DirectoryDataResponse, "0+")
