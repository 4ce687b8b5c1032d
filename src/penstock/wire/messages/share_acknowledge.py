"""ShareAcknowledge (key 79), v1-v2: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class AcknowledgementBatch(Struct):
    first_offset: int = words.int64("0+")
    last_offset: int = words.int64("0+")
    acknowledge_types: list[int] = words.array(words.int8, "0+")


class AcknowledgePartition(Struct):
    partition_index: int = words.int32("0+")
    acknowledgement_batches: list[AcknowledgementBatch] = words.array(AcknowledgementBatch, "0+")


class AcknowledgeTopic(Struct):
    topic_id: bytes = words.uuid("0+")
    partitions: list[AcknowledgePartition] = words.array(AcknowledgePartition, "0+")


class ShareAcknowledgeRequest(Message):
    API_KEY = 79
    VERSIONS = (1, 2)
    FLEXIBLE_SINCE = 0

    group_id: str | None = words.string("0+", nullable="0+", default=None)
    member_id: str | None = words.string("0+", nullable="0+")
    share_session_epoch: int = words.int32("0+")
    is_renew_ack: bool = words.boolean("2+")
    topics: list[AcknowledgeTopic] = words.array(AcknowledgeTopic, "0+")


class LeaderIdAndEpoch(Struct):
    leader_id: int = words.int32("0+")
    leader_epoch: int = words.int32("0+")


class PartitionData(Struct):
    partition_index: int = words.int32("0+")
    error_code: int = words.int16("0+")
    error_message: str | None = words.string("0+", nullable="0+", default=None)
    current_leader: LeaderIdAndEpoch = words.struct(LeaderIdAndEpoch, "0+")


class ShareAcknowledgeTopicResponse(Struct):
    topic_id: bytes = words.uuid("0+")
    partitions: list[PartitionData] = words.array(PartitionData, "0+")


class NodeEndpoint(Struct):
    node_id: int = words.int32("0+")
    host: str = words.string("0+")
    port: int = words.int32("0+")
    rack: str | None = words.string("0+", nullable="0+", default=None)


class ShareAcknowledgeResponse(Message):
    API_KEY = 79
    VERSIONS = (1, 2)
    FLEXIBLE_SINCE = 0

    throttle_time_ms: int = words.int32("0+")
    error_code: int = words.int16("0+")
    error_message: str | None = words.string("0+", nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = words.int32("2+", ignorable=True)
    responses: list[ShareAcknowledgeTopicResponse] = words.array(ShareAcknowledgeTopicResponse, "0+")
    node_endpoints: list[NodeEndpoint] = words.array(NodeEndpoint, "0+")
