"""Metadata (key 3), v0-v13: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class MetadataRequestTopic(Struct):
    topic_id: bytes = words.uuid("10+", ignorable=True)
    name: str | None = words.string("0+", nullable="10+")


class MetadataRequest(Message):
    API_KEY = 3
    VERSIONS = (0, 13)
    FLEXIBLE_SINCE = 9

    topics: list[MetadataRequestTopic] | None = words.array(MetadataRequestTopic, "0+", nullable="1+")
    allow_auto_topic_creation: bool = words.boolean("4+", default=True)
    include_cluster_authorized_operations: bool = words.boolean("8-10")
    include_topic_authorized_operations: bool = words.boolean("8+")


class MetadataResponseBroker(Struct):
    node_id: int = words.int32("0+")
    host: str = words.string("0+")
    port: int = words.int32("0+")
    rack: str | None = words.string("1+", nullable="1+", default=None, ignorable=True)


class MetadataResponsePartition(Struct):
    error_code: int = words.int16("0+")
    partition_index: int = words.int32("0+")
    leader_id: int = words.int32("0+")
    leader_epoch: int = words.int32("7+", default=-1, ignorable=True)
    replica_nodes: list[int] = words.array(words.int32, "0+")
    isr_nodes: list[int] = words.array(words.int32, "0+")
    offline_replicas: list[int] = words.array(words.int32, "5+", ignorable=True)


class MetadataResponseTopic(Struct):
    error_code: int = words.int16("0+")
    name: str | None = words.string("0+", nullable="12+")
    topic_id: bytes = words.uuid("10+", ignorable=True)
    is_internal: bool = words.boolean("1+", ignorable=True)
    partitions: list[MetadataResponsePartition] = words.array(MetadataResponsePartition, "0+")
    topic_authorized_operations: int = words.int32("8+", default=-2147483648)


class MetadataResponse(Message):
    API_KEY = 3
    VERSIONS = (0, 13)
    FLEXIBLE_SINCE = 9

    throttle_time_ms: int = words.int32("3+", ignorable=True)
    brokers: list[MetadataResponseBroker] = words.array(MetadataResponseBroker, "0+")
    cluster_id: str | None = words.string("2+", nullable="2+", default=None, ignorable=True)
    controller_id: int = words.int32("1+", default=-1, ignorable=True)
    topics: list[MetadataResponseTopic] = words.array(MetadataResponseTopic, "0+")
    cluster_authorized_operations: int = words.int32("8-10", default=-2147483648)
    error_code: int = words.int16("13+", ignorable=True)
