"""Vote (key 52), v0-v2: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class PartitionData(Struct):
    partition_index: int = words.int32("0+")
    replica_epoch: int = words.int32("0+")
    replica_id: int = words.int32("0+")
    replica_directory_id: bytes = words.uuid("1+", ignorable=True)
    voter_directory_id: bytes = words.uuid("1+", ignorable=True)
    last_offset_epoch: int = words.int32("0+")
    last_offset: int = words.int64("0+")
    pre_vote: bool = words.boolean("2+")


class TopicData(Struct):
    topic_name: str = words.string("0+")
    partitions: list[PartitionData] = words.array(PartitionData, "0+")


class VoteRequest(Message):
    API_KEY = 52
    VERSIONS = (0, 2)
    FLEXIBLE_SINCE = 0

    cluster_id: str | None = words.string("0+", nullable="0+", default=None)
    voter_id: int = words.int32("1+", default=-1, ignorable=True)
    topics: list[TopicData] = words.array(TopicData, "0+")


class PartitionDataResponse(Struct):
    partition_index: int = words.int32("0+")
    error_code: int = words.int16("0+")
    leader_id: int = words.int32("0+")
    leader_epoch: int = words.int32("0+")
    vote_granted: bool = words.boolean("0+")


class TopicDataResponse(Struct):
    topic_name: str = words.string("0+")
    partitions: list[PartitionDataResponse] = words.array(PartitionDataResponse, "0+")


class NodeEndpoint(Struct):
    node_id: int = words.int32("1+")
    host: str = words.string("1+")
    port: int = words.uint16("1+")


class VoteResponse(Message):
    API_KEY = 52
    VERSIONS = (0, 2)
    FLEXIBLE_SINCE = 0

    error_code: int = words.int16("0+")
    topics: list[TopicDataResponse] = words.array(TopicDataResponse, "0+")
    node_endpoints: list[NodeEndpoint] = words.array(NodeEndpoint, "1+", tag=0)
