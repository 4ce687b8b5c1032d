"""ConsumerGroupHeartbeat (key 68), v0-v1: joins, stays in and leaves a consumer group (KIP-848)."""

from penstock.apis.context import Call
from penstock.apis.group_requests import client_of, code_of, message_of, when_answered
from penstock.apis.needs import Need
from penstock.apis.reply import Reply
from penstock.apis.rights import DESCRIBE, GROUP, READ, TOPIC
from penstock.base.errors import ErrorCode, Refusal
from penstock.base.features import GROUP_VERSION
from penstock.base.ids import TopicId, format_id
from penstock.core.groups.consumer_groups import ConsumerGroups
from penstock.core.groups.consumer_requests import ConsumerHeartbeat, HeartbeatAnswer
from penstock.core.groups.partition_sets import assignment_of, listed
from penstock.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

REQUEST = ConsumerGroupHeartbeatRequest
VERSIONS = (0, 1)
NEEDS = (
    Need(READ, GROUP, "group_id"),
    Need(DESCRIBE, TOPIC, "subscribed_topic_names"),
)
CANCEL_ON_DISCONNECT = True
LOW_PRIORITY = True


def handle(call: Call, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse | Reply:
    if call.services.cluster.image.features.level(GROUP_VERSION) == 0:
        return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    heartbeat = _heartbeat(call, request)
    answer = call.services.coordinators.groups.ask_at_once(
        request.group_id,
        lambda shard, now_ms: shard.kind(ConsumerGroups).consumer_group_heartbeat(heartbeat, now_ms),
    )
    return when_answered(answer, _respond)


def _respond(answer: HeartbeatAnswer | Refusal) -> ConsumerGroupHeartbeatResponse:
    if isinstance(answer, Refusal):
        return ConsumerGroupHeartbeatResponse(error_code=code_of(answer), error_message=message_of(answer))
    return ConsumerGroupHeartbeatResponse(
        member_id=answer.member_id,
        member_epoch=answer.member_epoch,
        heartbeat_interval_ms=answer.heartbeat_interval_ms,
        assignment=None
        if answer.assignment is None
        else Assignment(
            topic_partitions=[
                TopicPartitions(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in listed(answer.assignment)
            ]
        ),
    )


def _heartbeat(call: Call, request: ConsumerGroupHeartbeatRequest) -> ConsumerHeartbeat:
    owned = request.topic_partitions
    return ConsumerHeartbeat(
        group_id=request.group_id,
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        client=client_of(call),
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        subscribed_names=request.subscribed_topic_names,
        subscribed_regex=request.subscribed_topic_regex,
        server_assignor=request.server_assignor,
        owned=None
        if owned is None
        else assignment_of((TopicId(topic.topic_id), topic.partitions) for topic in owned),
        new_member_id=format_id(TopicId(call.services.node.world.entropy.random_bytes(16))),
        version=call.version,
    )
