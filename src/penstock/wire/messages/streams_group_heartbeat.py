"""StreamsGroupHeartbeat (key 88), v0-v0: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class KeyValue(Struct):
    key: str = words.string("0+")
    value: str = words.string("0+")


class TopicInfo(Struct):
    name: str = words.string("0+")
    partitions: int = words.int32("0+")
    replication_factor: int = words.int16("0+")
    topic_configs: list[KeyValue] = words.array(KeyValue, "0+")


class Endpoint(Struct):
    host: str = words.string("0+")
    port: int = words.uint16("0+")


class TaskOffset(Struct):
    subtopology_id: str = words.string("0+")
    partition: int = words.int32("0+")
    offset: int = words.int64("0+")


class TaskIds(Struct):
    subtopology_id: str = words.string("0+")
    partitions: list[int] = words.array(words.int32, "0+")


class CopartitionGroup(Struct):
    source_topics: list[int] = words.array(words.int16, "0+")
    source_topic_regex: list[int] = words.array(words.int16, "0+")
    repartition_source_topics: list[int] = words.array(words.int16, "0+")


class Subtopology(Struct):
    subtopology_id: str = words.string("0+")
    source_topics: list[str] = words.array(words.string, "0+")
    source_topic_regex: list[str] = words.array(words.string, "0+")
    state_changelog_topics: list[TopicInfo] = words.array(TopicInfo, "0+")
    repartition_sink_topics: list[str] = words.array(words.string, "0+")
    repartition_source_topics: list[TopicInfo] = words.array(TopicInfo, "0+")
    copartition_groups: list[CopartitionGroup] = words.array(CopartitionGroup, "0+")


class Topology(Struct):
    epoch: int = words.int32("0+")
    subtopologies: list[Subtopology] = words.array(Subtopology, "0+")


class StreamsGroupHeartbeatRequest(Message):
    API_KEY = 88
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0

    group_id: str = words.string("0+")
    member_id: str = words.string("0+")
    member_epoch: int = words.int32("0+")
    endpoint_information_epoch: int = words.int32("0+")
    instance_id: str | None = words.string("0+", nullable="0+", default=None)
    rack_id: str | None = words.string("0+", nullable="0+", default=None)
    rebalance_timeout_ms: int = words.int32("0+", default=-1)
    topology: Topology | None = words.struct(Topology, "0+", nullable="0+", default=None)
    active_tasks: list[TaskIds] | None = words.array(TaskIds, "0+", nullable="0+", default=None)
    standby_tasks: list[TaskIds] | None = words.array(TaskIds, "0+", nullable="0+", default=None)
    warmup_tasks: list[TaskIds] | None = words.array(TaskIds, "0+", nullable="0+", default=None)
    process_id: str | None = words.string("0+", nullable="0+", default=None)
    user_endpoint: Endpoint | None = words.struct(Endpoint, "0+", nullable="0+", default=None)
    client_tags: list[KeyValue] | None = words.array(KeyValue, "0+", nullable="0+", default=None)
    task_offsets: list[TaskOffset] | None = words.array(TaskOffset, "0+", nullable="0+", default=None)
    task_end_offsets: list[TaskOffset] | None = words.array(TaskOffset, "0+", nullable="0+", default=None)
    shutdown_application: bool = words.boolean("0+")


class Status(Struct):
    status_code: int = words.int8("0+")
    status_detail: str = words.string("0+")


class TopicPartition(Struct):
    topic: str = words.string("0+")
    partitions: list[int] = words.array(words.int32, "0+")


class EndpointToPartitions(Struct):
    user_endpoint: Endpoint = words.struct(Endpoint, "0+")
    active_partitions: list[TopicPartition] = words.array(TopicPartition, "0+")
    standby_partitions: list[TopicPartition] = words.array(TopicPartition, "0+")


class StreamsGroupHeartbeatResponse(Message):
    API_KEY = 88
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0

    throttle_time_ms: int = words.int32("0+")
    error_code: int = words.int16("0+")
    error_message: str | None = words.string("0+", nullable="0+", default=None)
    member_id: str = words.string("0+")
    member_epoch: int = words.int32("0+")
    heartbeat_interval_ms: int = words.int32("0+")
    acceptable_recovery_lag: int = words.int32("0+")
    task_offset_interval_ms: int = words.int32("0+")
    status: list[Status] | None = words.array(Status, "0+", nullable="0+")
    active_tasks: list[TaskIds] | None = words.array(TaskIds, "0+", nullable="0+", default=None)
    standby_tasks: list[TaskIds] | None = words.array(TaskIds, "0+", nullable="0+", default=None)
    warmup_tasks: list[TaskIds] | None = words.array(TaskIds, "0+", nullable="0+", default=None)
    endpoint_information_epoch: int = words.int32("0+")
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = words.array(
        EndpointToPartitions, "0+", nullable="0+", default=None
    )
