"""DescribeQuorum (key 55), v0-v2: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class PartitionData(Struct):
    partition_index: int = words.int32("0+")


class TopicData(Struct):
    topic_name: str = words.string("0+")
    partitions: list[PartitionData] = words.array(PartitionData, "0+")


class DescribeQuorumRequest(Message):
    API_KEY = 55
    VERSIONS = (0, 2)
    FLEXIBLE_SINCE = 0

    topics: list[TopicData] = words.array(TopicData, "0+")


class ReplicaState(Struct):
    replica_id: int = words.int32("0+")
    replica_directory_id: bytes = words.uuid("2+")
    log_end_offset: int = words.int64("0+")
    last_fetch_timestamp: int = words.int64("1+", default=-1, ignorable=True)
    last_caught_up_timestamp: int = words.int64("1+", default=-1, ignorable=True)


class PartitionDataResponse(Struct):
    partition_index: int = words.int32("0+")
    error_code: int = words.int16("0+")
    error_message: str | None = words.string("2+", nullable="2+", ignorable=True)
    leader_id: int = words.int32("0+")
    leader_epoch: int = words.int32("0+")
    high_watermark: int = words.int64("0+")
    current_voters: list[ReplicaState] = words.array(ReplicaState, "0+")
    observers: list[ReplicaState] = words.array(ReplicaState, "0+")


class TopicDataResponse(Struct):
    topic_name: str = words.string("0+")
    partitions: list[PartitionDataResponse] = words.array(PartitionDataResponse, "0+")


class Listener(Struct):
    name: str = words.string("2+")
    host: str = words.string("2+")
    port: int = words.uint16("2+")


class Node(Struct):
    node_id: int = words.int32("2+")
    listeners: list[Listener] = words.array(Listener, "2+")


class DescribeQuorumResponse(Message):
    API_KEY = 55
    VERSIONS = (0, 2)
    FLEXIBLE_SINCE = 0

    error_code: int = words.int16("0+")
    error_message: str | None = words.string("2+", nullable="2+", ignorable=True)
    topics: list[TopicDataResponse] = words.array(TopicDataResponse, "0+")
    nodes: list[Node] = words.array(Node, "2+")
