"""OffsetForLeaderEpoch (key 23), v2-v4: the end offset of a leader epoch, so that a reader detects log divergence.

Consumers ask with replica id -1, or none (-2). A client that is no broker and gives a replica id is refused.
"""

from penstock.apis.broker_callers import is_broker
from penstock.apis.context import Call
from penstock.apis.needs import Need
from penstock.apis.rights import CLUSTER_ACTION, DESCRIBE, TOPIC
from penstock.base.errors import ErrorCode, UserError
from penstock.base.ids import parse_id
from penstock.controller.majority_elections import report_of
from penstock.controller.requests_to_unproven_peers import CONTROLLER_ASKS
from penstock.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

REQUEST = OffsetForLeaderEpochRequest
VERSIONS = (2, 4)
NEEDS = (Need(DESCRIBE, TOPIC, "topics.topic", or_cluster=CLUSTER_ACTION),)

_CONSUMERS = (-1, -2)


def handle(call: Call, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
    answer = _answer
    if request.replica_id not in _CONSUMERS:
        if not is_broker(call):
            answer = _refuse
        elif request.replica_id == CONTROLLER_ASKS:
            answer = _report_by_name
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[answer(call, topic.topic, asked) for asked in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _answer(call: Call, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    leader = call.services.logs.replicas.find_leader(topic, asked.partition)
    if isinstance(leader, ErrorCode):
        return EpochEndOffset(partition=asked.partition, error_code=leader)
    code = leader.replica.epoch_error(asked.current_leader_epoch)
    if code is not ErrorCode.NONE:
        return EpochEndOffset(partition=asked.partition, error_code=code)
    epoch, end_offset = leader.replica.end_of_epoch(asked.leader_epoch)
    return EpochEndOffset(partition=asked.partition, leader_epoch=epoch, end_offset=end_offset)


def _refuse(call: Call, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    del call, topic
    return EpochEndOffset(partition=asked.partition, error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def _report_by_name(call: Call, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    """Answer a controller without LogEnds (`controller.requests_to_unproven_peers`): `topic` is the topic's id."""
    try:
        topic_id = parse_id(topic)
    except UserError:
        return EpochEndOffset(partition=asked.partition, error_code=ErrorCode.UNKNOWN_TOPIC_ID)
    found = report_of(
        call.services.logs.replicas, topic_id, asked.partition, leader_epoch=asked.current_leader_epoch
    )
    if isinstance(found, ErrorCode):
        return EpochEndOffset(partition=asked.partition, error_code=found)
    return EpochEndOffset(
        partition=asked.partition, leader_epoch=found.last_epoch, end_offset=found.end_offset
    )
