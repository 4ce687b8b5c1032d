"""OffsetForLeaderEpoch (key 23), v2-v4: where an epoch ended, so that a reader can tell that its log diverged.

The controller asks any replica of a partition that nobody leads for the last epoch in its log, and its end
(`controller.majority_elections`); topics go by their ids then.
"""

from penstock.apis.context import Call
from penstock.base.errors import ErrorCode
from penstock.controller.majority_elections import CONTROLLER_ASKS, report_of
from penstock.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

REQUEST = OffsetForLeaderEpochRequest
VERSIONS = (2, 4)


def handle(call: Call, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
    answer = _report if request.replica_id == CONTROLLER_ASKS else _answer
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
    partition = call.services.logs.replicas.find(topic, asked.partition)
    if isinstance(partition, ErrorCode):
        return EpochEndOffset(partition=asked.partition, error_code=partition)
    code = partition.epoch_error(asked.current_leader_epoch)
    if code is not ErrorCode.NONE:
        return EpochEndOffset(partition=asked.partition, error_code=code)
    epoch, end_offset = partition.end_of_epoch(asked.leader_epoch)
    return EpochEndOffset(partition=asked.partition, leader_epoch=epoch, end_offset=end_offset)


def _report(call: Call, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    found = report_of(
        call.services.logs.replicas, topic, asked.partition, leader_epoch=asked.current_leader_epoch
    )
    if isinstance(found, ErrorCode):
        return EpochEndOffset(partition=asked.partition, error_code=found)
    return EpochEndOffset(
        partition=asked.partition, leader_epoch=found.last_epoch, end_offset=found.end_offset
    )
