"""ListOffsets (key 2), v1-v11: offsets by timestamp and by the special timestamps.

For a read_committed consumer the latest offset is the last stable offset, for a follower the log end offset. A request
with a replica id from a client that is no broker is refused. A new leader answers OFFSET_NOT_AVAILABLE until its high
watermark is at least as high as any that earlier leaders returned: otherwise offsets would seem to go back.
Leaves out tiered storage: there is none, so the latest tiered offset is unknown and no segment waits for upload.
"""

from penstock.apis.broker_callers import is_broker
from penstock.apis.context import Call
from penstock.apis.needs import Need
from penstock.apis.rights import DESCRIBE, TOPIC
from penstock.base.errors import ErrorCode
from penstock.services.replicas.leader import LeaderRole
from penstock.services.replicas.replica import NOT_FOUND, TimestampedOffset
from penstock.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

REQUEST = ListOffsetsRequest
VERSIONS = (1, 11)
NEEDS = (Need(DESCRIBE, TOPIC, "topics.name"),)

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6

LEADER_EPOCH_SINCE = 4
NOT_AVAILABLE_SINCE = 5
READ_COMMITTED = 1

# The version in which each special timestamp appeared; before it, the value is not allowed.
_SPECIAL_SINCE = {
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}


async def handle(call: Call, request: ListOffsetsRequest) -> ListOffsetsResponse:
    topics = []
    for topic in request.topics:
        asked_of: dict[int, list[ListOffsetsPartition]] = {}
        for asked in topic.partitions:
            asked_of.setdefault(asked.partition_index, []).append(asked)
        committed = request.isolation_level == READ_COMMITTED
        answers = [
            await _answer(
                call, topic.name, index, asked, committed=committed, for_follower=request.replica_id >= 0
            )
            for index, asked in asked_of.items()
        ]
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=answers))
    return ListOffsetsResponse(topics=topics)


async def _answer(
    call: Call,
    topic: str,
    index: int,
    several: list[ListOffsetsPartition],
    *,
    committed: bool,
    for_follower: bool,
) -> ListOffsetsPartitionResponse:
    if for_follower and not is_broker(call):
        return ListOffsetsPartitionResponse(
            partition_index=index, error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        )
    leader = call.services.logs.replicas.find_leader(topic, index)
    asked = several[0]
    code = leader if isinstance(leader, ErrorCode) else leader.replica.epoch_error(asked.current_leader_epoch)
    if len(several) > 1:
        code = ErrorCode.INVALID_REQUEST  # a partition must not be in the request twice
    elif code is ErrorCode.NONE and not _is_known(asked.timestamp, call.version):
        code = ErrorCode.UNSUPPORTED_VERSION
    if code is not ErrorCode.NONE:
        return ListOffsetsPartitionResponse(partition_index=index, error_code=code)
    assert isinstance(leader, LeaderRole)
    if for_follower and asked.timestamp == LATEST:
        found: TimestampedOffset | ErrorCode = TimestampedOffset(
            -1, leader.log_end_offset, leader.leader_epoch
        )
    else:
        found = await _look_up(leader, asked.timestamp, committed=committed)
    if found is ErrorCode.OFFSET_NOT_AVAILABLE and call.version < NOT_AVAILABLE_SINCE:
        found = ErrorCode.LEADER_NOT_AVAILABLE
    if isinstance(found, ErrorCode):
        return ListOffsetsPartitionResponse(partition_index=index, error_code=found)
    return ListOffsetsPartitionResponse(
        partition_index=index,
        timestamp=found.timestamp,
        offset=found.offset,
        leader_epoch=found.leader_epoch if call.version >= LEADER_EPOCH_SINCE else -1,
    )


def _is_known(timestamp: int, version: int) -> bool:
    """Whether a special timestamp exists in that version."""
    return timestamp >= EARLIEST_PENDING_UPLOAD and version >= _SPECIAL_SINCE.get(timestamp, 0)


async def _look_up(leader: LeaderRole, timestamp: int, *, committed: bool) -> TimestampedOffset | ErrorCode:
    replica = leader.replica
    if timestamp == LATEST:
        if not leader.is_settled:
            return ErrorCode.OFFSET_NOT_AVAILABLE
        latest = replica.readable_offset(committed=committed)
        return TimestampedOffset(-1, latest, leader.leader_epoch)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        start = replica.log_start_offset
        return TimestampedOffset(-1, start, replica.epoch_at(start))
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return TimestampedOffset(-1, -1, -1)
    if timestamp == MAX_TIMESTAMP:
        found = await replica.offset_of_max_timestamp(committed=committed)
    else:
        found = await replica.offset_for_timestamp(timestamp, committed=committed)
    if found is NOT_FOUND and not leader.is_settled:
        return ErrorCode.OFFSET_NOT_AVAILABLE
    return found
