"""CreateTopics (key 19), v2-v7: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class CreatableReplicaAssignment(Struct):
    partition_index: int = words.int32("0+")
    broker_ids: list[int] = words.array(words.int32, "0+")


class CreatableTopicConfig(Struct):
    name: str = words.string("0+")
    value: str | None = words.string("0+", nullable="0+")


class CreatableTopic(Struct):
    name: str = words.string("0+")
    num_partitions: int = words.int32("0+")
    replication_factor: int = words.int16("0+")
    assignments: list[CreatableReplicaAssignment] = words.array(CreatableReplicaAssignment, "0+")
    configs: list[CreatableTopicConfig] = words.array(CreatableTopicConfig, "0+")


class CreateTopicsRequest(Message):
    API_KEY = 19
    VERSIONS = (2, 7)
    FLEXIBLE_SINCE = 5

    topics: list[CreatableTopic] = words.array(CreatableTopic, "0+")
    timeout_ms: int = words.int32("0+", default=60000)
    validate_only: bool = words.boolean("1+")


class CreatableTopicConfigs(Struct):
    name: str = words.string("5+")
    value: str | None = words.string("5+", nullable="5+")
    read_only: bool = words.boolean("5+")
    config_source: int = words.int8("5+", default=-1, ignorable=True)
    is_sensitive: bool = words.boolean("5+")


class CreatableTopicResult(Struct):
    name: str = words.string("0+")
    topic_id: bytes = words.uuid("7+", ignorable=True)
    error_code: int = words.int16("0+")
    error_message: str | None = words.string("1+", nullable="0+", ignorable=True)
    topic_config_error_code: int = words.int16("5+", tag=0, ignorable=True)
    num_partitions: int = words.int32("5+", default=-1, ignorable=True)
    replication_factor: int = words.int16("5+", default=-1, ignorable=True)
    configs: list[CreatableTopicConfigs] | None = words.array(
        CreatableTopicConfigs, "5+", nullable="5+", ignorable=True
    )


class CreateTopicsResponse(Message):
    API_KEY = 19
    VERSIONS = (2, 7)
    FLEXIBLE_SINCE = 5

    throttle_time_ms: int = words.int32("2+", ignorable=True)
    topics: list[CreatableTopicResult] = words.array(CreatableTopicResult, "0+")
