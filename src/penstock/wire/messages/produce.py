"""Produce (key 0), v3-v13: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.wire import schema
from penstock.wire.schema import Message, Struct


class PartitionProduceData(Struct):
    index: int = schema.int32("0+")
    records: schema.Records = schema.records("0+", nullable="0+")


class TopicProduceData(Struct):
    name: str = schema.string("0-12", ignorable=True)
    topic_id: bytes = schema.uuid("13+", ignorable=True)
    partition_data: list[PartitionProduceData] = schema.array(PartitionProduceData, "0+")


class ProduceRequest(Message):
    API_KEY = 0
    VERSIONS = (3, 13)
    FLEXIBLE_SINCE = 9

    transactional_id: str | None = schema.string("3+", nullable="3+", default=None)
    acks: int = schema.int16("0+")
    timeout_ms: int = schema.int32("0+")
    topic_data: list[TopicProduceData] = schema.array(TopicProduceData, "0+")


class BatchIndexAndErrorMessage(Struct):
    batch_index: int = schema.int32("8+")
    batch_index_error_message: str | None = schema.string("8+", nullable="8+", default=None)


class LeaderIdAndEpoch(Struct):
    leader_id: int = schema.int32("10+", default=-1)
    leader_epoch: int = schema.int32("10+", default=-1)


class PartitionProduceResponse(Struct):
    index: int = schema.int32("0+")
    error_code: int = schema.int16("0+")
    base_offset: int = schema.int64("0+")
    log_append_time_ms: int = schema.int64("2+", default=-1, ignorable=True)
    log_start_offset: int = schema.int64("5+", default=-1, ignorable=True)
    record_errors: list[BatchIndexAndErrorMessage] = schema.array(
        BatchIndexAndErrorMessage, "8+", ignorable=True
    )
    error_message: str | None = schema.string("8+", nullable="8+", default=None, ignorable=True)
    current_leader: LeaderIdAndEpoch | None = schema.struct(LeaderIdAndEpoch, "10+", tag=0)


class TopicProduceResponse(Struct):
    name: str = schema.string("0-12", ignorable=True)
    topic_id: bytes = schema.uuid("13+", ignorable=True)
    partition_responses: list[PartitionProduceResponse] = schema.array(PartitionProduceResponse, "0+")


class NodeEndpoint(Struct):
    node_id: int = schema.int32("10+")
    host: str = schema.string("10+")
    port: int = schema.int32("10+")
    rack: str | None = schema.string("10+", nullable="10+", default=None)


class ProduceResponse(Message):
    API_KEY = 0
    VERSIONS = (3, 13)
    FLEXIBLE_SINCE = 9

    responses: list[TopicProduceResponse] = schema.array(TopicProduceResponse, "0+")
    throttle_time_ms: int = schema.int32("1+", ignorable=True)
    node_endpoints: list[NodeEndpoint] = schema.array(NodeEndpoint, "10+", tag=0)
