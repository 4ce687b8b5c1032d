"""StreamsGroupDescribe (key 89), v0-v0: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class StreamsGroupDescribeRequest(Message):
    API_KEY = 89
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0

    group_ids: list[str] = words.array(words.string, "0+")
    include_authorized_operations: bool = words.boolean("0+")


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


class KeyValue(Struct):
    key: str = words.string("0+")
    value: str = words.string("0+")


class TopicInfo(Struct):
    name: str = words.string("0+")
    partitions: int = words.int32("0+")
    replication_factor: int = words.int16("0+")
    topic_configs: list[KeyValue] = words.array(KeyValue, "0+")


class Assignment(Struct):
    active_tasks: list[TaskIds] = words.array(TaskIds, "0+")
    standby_tasks: list[TaskIds] = words.array(TaskIds, "0+")
    warmup_tasks: list[TaskIds] = words.array(TaskIds, "0+")


class Subtopology(Struct):
    subtopology_id: str = words.string("0+")
    source_topics: list[str] = words.array(words.string, "0+")
    repartition_sink_topics: list[str] = words.array(words.string, "0+")
    state_changelog_topics: list[TopicInfo] = words.array(TopicInfo, "0+")
    repartition_source_topics: list[TopicInfo] = words.array(TopicInfo, "0+")


class Topology(Struct):
    epoch: int = words.int32("0+")
    subtopologies: list[Subtopology] | None = words.array(Subtopology, "0+", nullable="0+", default=None)


class Member(Struct):
    member_id: str = words.string("0+")
    member_epoch: int = words.int32("0+")
    instance_id: str | None = words.string("0+", nullable="0+", default=None)
    rack_id: str | None = words.string("0+", nullable="0+", default=None)
    client_id: str = words.string("0+")
    client_host: str = words.string("0+")
    topology_epoch: int = words.int32("0+")
    process_id: str = words.string("0+")
    user_endpoint: Endpoint | None = words.struct(Endpoint, "0+", nullable="0+", default=None)
    client_tags: list[KeyValue] = words.array(KeyValue, "0+")
    task_offsets: list[TaskOffset] = words.array(TaskOffset, "0+")
    task_end_offsets: list[TaskOffset] = words.array(TaskOffset, "0+")
    assignment: Assignment = words.struct(Assignment, "0+")
    target_assignment: Assignment = words.struct(Assignment, "0+")
    is_classic: bool = words.boolean("0+")


class DescribedGroup(Struct):
    error_code: int = words.int16("0+")
    error_message: str | None = words.string("0+", nullable="0+", default=None)
    group_id: str = words.string("0+")
    group_state: str = words.string("0+")
    group_epoch: int = words.int32("0+")
    assignment_epoch: int = words.int32("0+")
    topology: Topology | None = words.struct(Topology, "0+", nullable="0+", default=None)
    members: list[Member] = words.array(Member, "0+")
    authorized_operations: int = words.int32("0+", default=-2147483648)


class StreamsGroupDescribeResponse(Message):
    API_KEY = 89
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0

    throttle_time_ms: int = words.int32("0+")
    groups: list[DescribedGroup] = words.array(DescribedGroup, "0+")
