"""CreateTopics (key 19), v2-v7: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.wire import schema
from penstock.wire.schema import Message, Struct


class CreatableReplicaAssignment(Struct):
    partition_index: int = schema.int32("0+")
    broker_ids: list[int] = schema.array(schema.int32, "0+")


class CreatableTopicConfig(Struct):
    name: str = schema.string("0+")
    value: str | None = schema.string("0+", nullable="0+")


class CreatableTopic(Struct):
    name: str = schema.string("0+")
    num_partitions: int = schema.int32("0+")
    replication_factor: int = schema.int16("0+")
    assignments: list[CreatableReplicaAssignment] = schema.array(CreatableReplicaAssignment, "0+")
    configs: list[CreatableTopicConfig] = schema.array(CreatableTopicConfig, "0+")


class CreateTopicsRequest(Message):
    API_KEY = 19
    VERSIONS = (2, 7)
    FLEXIBLE_SINCE = 5

    topics: list[CreatableTopic] = schema.array(CreatableTopic, "0+")
    timeout_ms: int = schema.int32("0+", default=60000)
    validate_only: bool = schema.boolean("1+")


class CreatableTopicConfigs(Struct):
    name: str = schema.string("5+")
    value: str | None = schema.string("5+", nullable="5+")
    read_only: bool = schema.boolean("5+")
    config_source: int = schema.int8("5+", default=-1, ignorable=True)
    is_sensitive: bool = schema.boolean("5+")


class CreatableTopicResult(Struct):
    name: str = schema.string("0+")
    topic_id: bytes = schema.uuid("7+", ignorable=True)
    error_code: int = schema.int16("0+")
    error_message: str | None = schema.string("1+", nullable="0+", ignorable=True)
    topic_config_error_code: int = schema.int16("5+", tag=0, ignorable=True)
    num_partitions: int = schema.int32("5+", default=-1, ignorable=True)
    replication_factor: int = schema.int16("5+", default=-1, ignorable=True)
    configs: list[CreatableTopicConfigs] | None = schema.array(
        CreatableTopicConfigs, "5+", nullable="5+", ignorable=True
    )


class CreateTopicsResponse(Message):
    API_KEY = 19
    VERSIONS = (2, 7)
    FLEXIBLE_SINCE = 5

    throttle_time_ms: int = schema.int32("2+", ignorable=True)
    topics: list[CreatableTopicResult] = schema.array(CreatableTopicResult, "0+")
