"""Metadata (key 3), v0-v13: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.wire import schema
from penstock.wire.schema import Message, Struct


class MetadataRequestTopic(Struct):
    topic_id: bytes = schema.uuid("10+", ignorable=True)
    name: str | None = schema.string("0+", nullable="10+")


class MetadataRequest(Message):
    API_KEY = 3
    VERSIONS = (0, 13)
    FLEXIBLE_SINCE = 9

    topics: list[MetadataRequestTopic] | None = schema.array(MetadataRequestTopic, "0+", nullable="1+")
    allow_auto_topic_creation: bool = schema.boolean("4+", default=True)
    include_cluster_authorized_operations: bool = schema.boolean("8-10")
    include_topic_authorized_operations: bool = schema.boolean("8+")


class MetadataResponseBroker(Struct):
    node_id: int = schema.int32("0+")
    host: str = schema.string("0+")
    port: int = schema.int32("0+")
    rack: str | None = schema.string("1+", nullable="1+", default=None, ignorable=True)


class MetadataResponsePartition(Struct):
    error_code: int = schema.int16("0+")
    partition_index: int = schema.int32("0+")
    leader_id: int = schema.int32("0+")
    leader_epoch: int = schema.int32("7+", default=-1, ignorable=True)
    replica_nodes: list[int] = schema.array(schema.int32, "0+")
    isr_nodes: list[int] = schema.array(schema.int32, "0+")
    offline_replicas: list[int] = schema.array(schema.int32, "5+", ignorable=True)


class MetadataResponseTopic(Struct):
    error_code: int = schema.int16("0+")
    name: str | None = schema.string("0+", nullable="12+")
    topic_id: bytes = schema.uuid("10+", ignorable=True)
    is_internal: bool = schema.boolean("1+", ignorable=True)
    partitions: list[MetadataResponsePartition] = schema.array(MetadataResponsePartition, "0+")
    topic_authorized_operations: int = schema.int32("8+", default=-2147483648)


class MetadataResponse(Message):
    API_KEY = 3
    VERSIONS = (0, 13)
    FLEXIBLE_SINCE = 9

    throttle_time_ms: int = schema.int32("3+", ignorable=True)
    brokers: list[MetadataResponseBroker] = schema.array(MetadataResponseBroker, "0+")
    cluster_id: str | None = schema.string("2+", nullable="2+", default=None, ignorable=True)
    controller_id: int = schema.int32("1+", default=-1, ignorable=True)
    topics: list[MetadataResponseTopic] = schema.array(MetadataResponseTopic, "0+")
    cluster_authorized_operations: int = schema.int32("8-10", default=-2147483648)
    error_code: int = schema.int16("13+", ignorable=True)
