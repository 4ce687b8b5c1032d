"""DeleteRecords (key 21), v0-v2: advances the log start offset of partitions.

Answers when the logs of all live replicas start there, so that the next leader does not return deleted records either.
After a timeout the records are deleted on the leader all the same.
"""

from typing import NamedTuple

from penstock.apis.context import Call
from penstock.apis.needs import Need
from penstock.apis.reply import Reply
from penstock.apis.rights import DELETE, TOPIC
from penstock.base.errors import ErrorCode
from penstock.services.replicas.leader import NO_OFFSET
from penstock.services.replicas.replica import Replica
from penstock.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

REQUEST = DeleteRecordsRequest
VERSIONS = (0, 2)
NEEDS = (Need(DELETE, TOPIC, "topics.name"),)


class _Waiting(NamedTuple):
    """A partition whose followers have to replicate its new log start offset."""

    replica: Replica
    start_offset: int
    result: DeleteRecordsPartitionResult


def handle(call: Call, request: DeleteRecordsRequest) -> DeleteRecordsResponse | Reply:
    waiting: list[_Waiting] = []
    response = DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[_delete(call, topic.name, asked, waiting) for asked in topic.partitions],
            )
            for topic in request.topics
        ]
    )
    if not waiting:
        return response
    deadline = call.services.node.world.loop.time() + request.timeout_ms / 1000
    return Reply(_when_followers_have_it(call, response, waiting, deadline), next_may_start=True)


def _delete(
    call: Call, topic: str, asked: DeleteRecordsPartition, waiting: list[_Waiting]
) -> DeleteRecordsPartitionResult:
    result = DeleteRecordsPartitionResult(partition_index=asked.partition_index, low_watermark=NO_OFFSET)
    leader = call.services.logs.replicas.find_leader(topic, asked.partition_index)
    if not isinstance(leader, ErrorCode) and leader.replica.is_internal:
        leader = ErrorCode.INVALID_TOPIC_EXCEPTION  # its coordinator's state would no longer match its log
    outcome = leader if isinstance(leader, ErrorCode) else leader.delete_records(asked.offset)
    if isinstance(leader, ErrorCode) or isinstance(outcome, ErrorCode):
        result.error_code = outcome
        return result
    result.low_watermark = leader.low_watermark(call.services.cluster.image.alive())
    if result.low_watermark < outcome:
        waiting.append(_Waiting(leader.replica, outcome, result))
    return result


async def _when_followers_have_it(
    call: Call, response: DeleteRecordsResponse, waiting: list[_Waiting], deadline: float
) -> DeleteRecordsResponse:
    for each in waiting:
        each.result.error_code = await _wait(call, each, deadline)
    return response


async def _wait(call: Call, waiting: _Waiting, deadline: float) -> ErrorCode:
    (replica, start_offset, result), loop = waiting, call.services.node.world.loop
    while not replica.is_offline and (leader := replica.leader) is not None:
        result.low_watermark = leader.low_watermark(call.services.cluster.image.alive())
        if result.low_watermark >= start_offset:
            return ErrorCode.NONE
        left_s = deadline - loop.time()
        if left_s <= 0:
            return ErrorCode.REQUEST_TIMED_OUT
        await leader.followers_changed(timeout_s=left_s)
    result.low_watermark = NO_OFFSET
    return ErrorCode.KAFKA_STORAGE_ERROR if replica.is_leader else ErrorCode.NOT_LEADER_OR_FOLLOWER
