"""EndQuorumEpoch (key 54), v0-v1: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class ReplicaInfo(Struct):
    candidate_id: int = words.int32("1+")
    candidate_directory_id: bytes = words.uuid("1+")


class PartitionData(Struct):
    partition_index: int = words.int32("0+")
    leader_id: int = words.int32("0+")
    leader_epoch: int = words.int32("0+")
    preferred_successors: list[int] = words.array(words.int32, "0", ignorable=True)
    preferred_candidates: list[ReplicaInfo] = words.array(ReplicaInfo, "1+", ignorable=True)


class TopicData(Struct):
    topic_name: str = words.string("0+")
    partitions: list[PartitionData] = words.array(PartitionData, "0+")


class LeaderEndpoint(Struct):
    name: str = words.string("1+")
    host: str = words.string("1+")
    port: int = words.uint16("1+")


class EndQuorumEpochRequest(Message):
    API_KEY = 54
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = 1

    cluster_id: str | None = words.string("0+", nullable="0+", default=None)
    topics: list[TopicData] = words.array(TopicData, "0+")
    leader_endpoints: list[LeaderEndpoint] = words.array(LeaderEndpoint, "1+", ignorable=True)


class PartitionDataResponse(Struct):
    partition_index: int = words.int32("0+")
    error_code: int = words.int16("0+")
    leader_id: int = words.int32("0+")
    leader_epoch: int = words.int32("0+")


class TopicDataResponse(Struct):
    topic_name: str = words.string("0+")
    partitions: list[PartitionDataResponse] = words.array(PartitionDataResponse, "0+")


class NodeEndpoint(Struct):
    node_id: int = words.int32("1+")
    host: str = words.string("1+")
    port: int = words.uint16("1+")


class EndQuorumEpochResponse(Message):
    API_KEY = 54
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = 1

    error_code: int = words.int16("0+")
    topics: list[TopicDataResponse] = words.array(TopicDataResponse, "0+")
    node_endpoints: list[NodeEndpoint] = words.array(NodeEndpoint, "1+", tag=0)
