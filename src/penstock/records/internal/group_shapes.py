"""The keys and values of the records in __consumer_offsets, as declared.

Written by tools/generate_messages.py from Kafka's schemas; change that, not this.
"""

from penstock.records.internal.record import RecordKey, RecordValue
from penstock.schema import words
from penstock.schema.words import Struct


class LegacyOffsetCommitKey(RecordKey):
    TYPE = 0
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = None

    group: str = words.string("0")
    topic: str = words.string("0")
    partition: int = words.int32("0")


class LegacyOffsetCommitValue(RecordValue):
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = None

    offset: int = words.int64("0")
    metadata: str = words.string("0")
    commit_timestamp: int = words.int64("0")


class OffsetCommitKey(RecordKey):
    TYPE = 1
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = None

    group: str = words.string("0")
    topic: str = words.string("0")
    partition: int = words.int32("0")


class OffsetCommitValue(RecordValue):
    VERSIONS = (0, 4)
    FLEXIBLE_SINCE = 4

    offset: int = words.int64("0+")
    leader_epoch: int = words.int32("3+", default=-1, ignorable=True)
    metadata: str = words.string("0+")
    commit_timestamp: int = words.int64("0+")
    expire_timestamp: int = words.int64("1", default=-1, ignorable=True)
    topic_id: bytes = words.uuid("4+", tag=0, ignorable=True)


class GroupMetadataKey(RecordKey):
    TYPE = 2
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = None

    group: str = words.string("0")


class MemberMetadata(Struct):
    member_id: str = words.string("0+")
    group_instance_id: str | None = words.string("3+", nullable="3+", default=None, ignorable=True)
    client_id: str = words.string("0+")
    client_host: str = words.string("0+")
    rebalance_timeout: int = words.int32("1+", default=-1, ignorable=True)
    session_timeout: int = words.int32("0+")
    subscription: bytes = words.blob("0+")
    assignment: bytes = words.blob("0+")


class GroupMetadataValue(RecordValue):
    VERSIONS = (0, 4)
    FLEXIBLE_SINCE = 4

    protocol_type: str = words.string("0+")
    generation: int = words.int32("0+")
    protocol: str | None = words.string("0+", nullable="0+")
    leader: str | None = words.string("0+", nullable="0+")
    current_state_timestamp: int = words.int64("2+", default=-1, ignorable=True)
    members: list[MemberMetadata] = words.array(MemberMetadata, "0+")


class ConsumerGroupMetadataKey(RecordKey):
    TYPE = 3
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = None

    group_id: str = words.string("0")


class ConsumerGroupMetadataValue(RecordValue):
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0

    epoch: int = words.int32("0+")
    metadata_hash: int = words.int64("0+", tag=0)


class ConsumerGroupPartitionMetadataKey(RecordKey):
    TYPE = 4
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = None

    group_id: str = words.string("0")


class PartitionMetadata(Struct):
    partition: int = words.int32("0+")
    racks: list[str] = words.array(words.string, "0+")


class TopicMetadata(Struct):
    topic_id: bytes = words.uuid("0+")
    topic_name: str = words.string("0+")
    num_partitions: int = words.int32("0+")
    partition_metadata: list[PartitionMetadata] = words.array(PartitionMetadata, "0+")


class ConsumerGroupPartitionMetadataValue(RecordValue):
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0

    topics: list[TopicMetadata] = words.array(TopicMetadata, "0+")


class ConsumerGroupMemberMetadataKey(RecordKey):
    TYPE = 5
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = None

    group_id: str = words.string("0")
    member_id: str = words.string("0")


class ClassicProtocol(Struct):
    name: str = words.string("0+")
    metadata: bytes = words.blob("0+")


class ClassicMemberMetadata(Struct):
    session_timeout_ms: int = words.int32("0+")
    supported_protocols: list[ClassicProtocol] = words.array(ClassicProtocol, "0+")


class ConsumerGroupMemberMetadataValue(RecordValue):
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0

    instance_id: str | None = words.string("0+", nullable="0+")
    rack_id: str | None = words.string("0+", nullable="0+")
    client_id: str = words.string("0+")
    client_host: str = words.string("0+")
    subscribed_topic_names: list[str] = words.array(words.string, "0+")
    subscribed_topic_regex: str | None = words.string("0+", nullable="0+")
    rebalance_timeout_ms: int = words.int32("0+", default=-1)
    server_assignor: str | None = words.string("0+", nullable="0+")
    classic_member_metadata: ClassicMemberMetadata | None = words.struct(
        ClassicMemberMetadata, "0+", nullable="0+", tag=0
    )


class ConsumerGroupTargetAssignmentMetadataKey(RecordKey):
    TYPE = 6
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = None

    group_id: str = words.string("0")


class ConsumerGroupTargetAssignmentMetadataValue(RecordValue):
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0

    assignment_epoch: int = words.int32("0+")
    assignment_timestamp: int = words.int64("0+", tag=0, ignorable=True)


class ConsumerGroupTargetAssignmentMemberKey(RecordKey):
    TYPE = 7
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = None

    group_id: str = words.string("0")
    member_id: str = words.string("0")


class TopicPartition(Struct):
    topic_id: bytes = words.uuid("0+")
    partitions: list[int] = words.array(words.int32, "0+")


class ConsumerGroupTargetAssignmentMemberValue(RecordValue):
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0

    topic_partitions: list[TopicPartition] = words.array(TopicPartition, "0+")


class ConsumerGroupCurrentMemberAssignmentKey(RecordKey):
    TYPE = 8
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = None

    group_id: str = words.string("0")
    member_id: str = words.string("0")


class TopicPartitions(Struct):
    topic_id: bytes = words.uuid("0+")
    partitions: list[int] = words.array(words.int32, "0+")
    assignment_epochs: list[int] | None = words.array(words.int32, "0+", nullable="0+", tag=0)


class ConsumerGroupCurrentMemberAssignmentValue(RecordValue):
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0

    member_epoch: int = words.int32("0+")
    previous_member_epoch: int = words.int32("0+")
    state: int = words.int8("0+")
    assigned_partitions: list[TopicPartitions] = words.array(TopicPartitions, "0+")
    partitions_pending_revocation: list[TopicPartitions] = words.array(TopicPartitions, "0+")


class ConsumerGroupRegularExpressionKey(RecordKey):
    TYPE = 16
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = None

    group_id: str = words.string("0")
    regular_expression: str = words.string("0")


class ConsumerGroupRegularExpressionValue(RecordValue):
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0

    topics: list[str] = words.array(words.string, "0+")
    version: int = words.int64("0+")
    timestamp: int = words.int64("0+")
