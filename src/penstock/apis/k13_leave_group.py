"""LeaveGroup (key 13), v0-v5: members leave a classic group, or an administrator removes them."""

from penstock.apis.group_requests import code_of
from penstock.base.errors import ErrorCode, Refusal
from penstock.core.groups.requests import Leave, Leaving
from penstock.services.context import Call
from penstock.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse

REQUEST = LeaveGroupRequest
VERSIONS = (0, 5)
WAITS = True

SEVERAL_MEMBERS_SINCE = 3


async def handle(call: Call, request: LeaveGroupRequest) -> LeaveGroupResponse:
    if not request.group_id:
        return LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    several = call.version >= SEVERAL_MEMBERS_SINCE
    members = (
        [Leaving(member.member_id, member.group_instance_id) for member in request.members]
        if several
        else [Leaving(request.member_id)]
    )
    leave = Leave(group_id=request.group_id, members=members)
    codes = await call.services.coordinators.groups.ask(
        request.group_id, lambda shard, now_ms: shard.leave(leave, now_ms)
    )
    if isinstance(codes, Refusal):
        if codes.code is not ErrorCode.UNKNOWN_MEMBER_ID:
            return LeaveGroupResponse(error_code=code_of(codes))
        codes = (ErrorCode.UNKNOWN_MEMBER_ID,) * len(members)  # there is no such group, and so no member
    if not several:
        return LeaveGroupResponse(error_code=codes[0])
    return LeaveGroupResponse(
        members=[
            MemberResponse(member_id=member.member_id, group_instance_id=member.instance_id, error_code=code)
            for member, code in zip(members, codes, strict=True)
        ]
    )
