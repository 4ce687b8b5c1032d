"""ConsumerGroupDescribe (key 69), v0-v1: consumer groups, with the current and target assignments of members."""

from penstock.apis.context import Call
from penstock.apis.group_requests import GROUP_OPERATIONS, code_of, message_of
from penstock.apis.needs import Need
from penstock.apis.rights import DESCRIBE, GROUP
from penstock.base.errors import ErrorCode, Refusal
from penstock.base.features import GROUP_VERSION
from penstock.core.groups import partition_sets as assignments
from penstock.core.groups.consumer_groups import ConsumerGroups
from penstock.core.groups.consumer_requests import DescribedConsumer
from penstock.wire.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)

REQUEST = ConsumerGroupDescribeRequest
VERSIONS = (0, 1)
NEEDS = (Need(DESCRIBE, GROUP, "group_ids"),)
CANCEL_ON_DISCONNECT = True
LOW_PRIORITY = True

CLASSIC = 0
CONSUMER = 1


async def handle(call: Call, request: ConsumerGroupDescribeRequest) -> ConsumerGroupDescribeResponse:
    if call.services.cluster.image.features.level(GROUP_VERSION) == 0:
        return ConsumerGroupDescribeResponse(
            groups=[
                DescribedGroup(group_id=group_id, error_code=ErrorCode.UNSUPPORTED_VERSION)
                for group_id in request.group_ids
            ]
        )
    groups = [await _describe(call, group_id) for group_id in request.group_ids]
    if request.include_authorized_operations:
        for group in groups:
            if not group.error_code:
                group.authorized_operations = GROUP_OPERATIONS
    return ConsumerGroupDescribeResponse(groups=groups)


async def _describe(call: Call, group_id: str) -> DescribedGroup:
    found = await call.services.coordinators.groups.ask(
        group_id, lambda shard, _: shard.kind(ConsumerGroups).consumer_group_describe(group_id)
    )
    if isinstance(found, Refusal):
        return DescribedGroup(group_id=group_id, error_code=code_of(found), error_message=message_of(found))
    return DescribedGroup(
        group_id=group_id,
        group_state=found.state,
        group_epoch=found.epoch,
        assignment_epoch=found.assignment_epoch,
        assignor_name=found.assignor,
        members=[_member(call, member) for member in found.members],
    )


def _member(call: Call, member: DescribedConsumer) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.subscribed_names),
        subscribed_topic_regex=member.subscribed_regex or "",  # as Kafka has it
        assignment=_assignment(call, member.assignment),
        target_assignment=_assignment(call, member.target),
        member_type=CLASSIC if member.is_classic else CONSUMER,
    )


def _assignment(call: Call, assignment: assignments.Assignment) -> Assignment:
    """With the topics' names; deleted topics are left out."""
    names = ((topic_id, call.services.cluster.image.name_of(topic_id)) for topic_id in sorted(assignment))
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=name, partitions=sorted(assignment[topic_id]))
            for topic_id, name in names
            if name is not None
        ]
    )
