"""Produce (key 0), v3-v13: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class PartitionProduceData(Struct):
    index: int = words.int32("0+")
    records: words.Records = words.records("0+", nullable="0+")


class TopicProduceData(Struct):
    name: str = words.string("0-12", ignorable=True)
    topic_id: bytes = words.uuid("13+", ignorable=True)
    partition_data: list[PartitionProduceData] = words.array(PartitionProduceData, "0+")


class ProduceRequest(Message):
    API_KEY = 0
    VERSIONS = (3, 13)
    FLEXIBLE_SINCE = 9

    transactional_id: str | None = words.string("3+", nullable="3+", default=None)
    acks: int = words.int16("0+")
    timeout_ms: int = words.int32("0+")
    topic_data: list[TopicProduceData] = words.array(TopicProduceData, "0+")


class BatchIndexAndErrorMessage(Struct):
    batch_index: int = words.int32("8+")
    batch_index_error_message: str | None = words.string("8+", nullable="8+", default=None)


class LeaderIdAndEpoch(Struct):
    leader_id: int = words.int32("10+", default=-1)
    leader_epoch: int = words.int32("10+", default=-1)


class PartitionProduceResponse(Struct):
    index: int = words.int32("0+")
    error_code: int = words.int16("0+")
    base_offset: int = words.int64("0+")
    log_append_time_ms: int = words.int64("2+", default=-1, ignorable=True)
    log_start_offset: int = words.int64("5+", default=-1, ignorable=True)
    record_errors: list[BatchIndexAndErrorMessage] = words.array(
        BatchIndexAndErrorMessage, "8+", ignorable=True
    )
    error_message: str | None = words.string("8+", nullable="8+", default=None, ignorable=True)
    current_leader: LeaderIdAndEpoch | None = words.struct(LeaderIdAndEpoch, "10+", tag=0)


class TopicProduceResponse(Struct):
    name: str = words.string("0-12", ignorable=True)
    topic_id: bytes = words.uuid("13+", ignorable=True)
    partition_responses: list[PartitionProduceResponse] = words.array(PartitionProduceResponse, "0+")


class NodeEndpoint(Struct):
    node_id: int = words.int32("10+")
    host: str = words.string("10+")
    port: int = words.int32("10+")
    rack: str | None = words.string("10+", nullable="10+", default=None)


class ProduceResponse(Message):
    API_KEY = 0
    VERSIONS = (3, 13)
    FLEXIBLE_SINCE = 9

    responses: list[TopicProduceResponse] = words.array(TopicProduceResponse, "0+")
    throttle_time_ms: int = words.int32("1+", ignorable=True)
    node_endpoints: list[NodeEndpoint] = words.array(NodeEndpoint, "10+", tag=0)
