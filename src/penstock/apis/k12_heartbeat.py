"""Heartbeat (key 12), v0-v4: a member of a classic group is alive, and hears whether the group is being rebalanced."""

from penstock.apis.group_requests import code_of
from penstock.base.errors import ErrorCode, Refusal
from penstock.core.groups.requests import Heartbeat
from penstock.services.context import Call
from penstock.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

REQUEST = HeartbeatRequest
VERSIONS = (0, 4)
WAITS = True


async def handle(call: Call, request: HeartbeatRequest) -> HeartbeatResponse:
    if not request.group_id:
        return HeartbeatResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    heartbeat = Heartbeat(
        group_id=request.group_id,
        member_id=request.member_id,
        generation=request.generation_id,
        instance_id=request.group_instance_id,
    )
    answer = await call.services.coordinators.groups.ask(
        request.group_id, lambda shard, now_ms: shard.heartbeat(heartbeat, now_ms)
    )
    if isinstance(answer, Refusal):
        # Loading takes a moment: that is no reason for a member to join again, which is all that clients would do.
        loading = answer.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return HeartbeatResponse(error_code=ErrorCode.NONE if loading else code_of(answer))
    return HeartbeatResponse(error_code=answer)
