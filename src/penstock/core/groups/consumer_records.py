"""The records of a group of the consumer protocol: types 3-8 and 16 of `__consumer_offsets`."""

from collections.abc import Iterable

from penstock.core.groups.consumer_member import ConsumerMember
from penstock.core.groups.partition_sets import Assignment, listed
from penstock.records.internal.group_shapes import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    TopicPartition,
)
from penstock.records.internal.record import InternalRecord


def group_epoch(group_id: str, *, epoch: int, metadata_hash: int) -> InternalRecord:
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return InternalRecord(ConsumerGroupMetadataKey(group_id=group_id), value)


def no_group(group_id: str) -> InternalRecord:
    return InternalRecord(ConsumerGroupMetadataKey(group_id=group_id), None)


def no_partition_metadata(group_id: str) -> InternalRecord:
    """Ends what only coordinators before Kafka 4.1 wrote."""
    return InternalRecord(ConsumerGroupPartitionMetadataKey(group_id=group_id), None)


def member_description(group_id: str, member: ConsumerMember) -> InternalRecord:
    key = ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id)
    return InternalRecord(key, member.description())


def member_place(group_id: str, member: ConsumerMember) -> InternalRecord:
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id)
    return InternalRecord(key, member.place())


def no_member(group_id: str, member_id: str) -> tuple[InternalRecord, ...]:
    """Partitions first, so that they are free before anything else is replayed."""
    return (
        InternalRecord(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None),
        InternalRecord(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None),
        InternalRecord(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None),
    )


def target(group_id: str, member_id: str, assignment: Assignment) -> InternalRecord:
    topics = [
        TopicPartition(topic_id=topic_id, partitions=partitions)
        for topic_id, partitions in listed(assignment)
    ]
    key = ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    return InternalRecord(key, ConsumerGroupTargetAssignmentMemberValue(topic_partitions=topics))


def target_epoch(group_id: str, *, epoch: int, timestamp_ms: int) -> InternalRecord:
    value = ConsumerGroupTargetAssignmentMetadataValue(
        assignment_epoch=epoch, assignment_timestamp=timestamp_ms
    )
    return InternalRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def no_target_epoch(group_id: str) -> InternalRecord:
    return InternalRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None)


def resolved_regex(
    group_id: str, regex: str, topics: Iterable[str], *, version: int, timestamp_ms: int
) -> InternalRecord:
    value = ConsumerGroupRegularExpressionValue(
        topics=sorted(topics), version=version, timestamp=timestamp_ms
    )
    return InternalRecord(_regex_key(group_id, regex), value)


def no_regex(group_id: str, regex: str) -> InternalRecord:
    return InternalRecord(_regex_key(group_id, regex), None)


def _regex_key(group_id: str, regex: str) -> ConsumerGroupRegularExpressionKey:
    return ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex)
