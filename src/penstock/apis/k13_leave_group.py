"""LeaveGroup (key 13), v0-v5: members leave a classic group, or an administrator removes them."""

from collections.abc import Sequence

from penstock.apis.context import Call
from penstock.apis.group_requests import code_of, when_answered
from penstock.apis.needs import Need
from penstock.apis.reply import Reply
from penstock.apis.rights import GROUP, READ
from penstock.base.errors import ErrorCode, Refusal
from penstock.core.groups.requests import Leave, LeavingMember
from penstock.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse

REQUEST = LeaveGroupRequest
VERSIONS = (0, 5)
NEEDS = (Need(READ, GROUP, "group_id"),)
CANCEL_ON_DISCONNECT = True
LOW_PRIORITY = True

SEVERAL_MEMBERS_SINCE = 3


def handle(call: Call, request: LeaveGroupRequest) -> LeaveGroupResponse | Reply:
    if not request.group_id:
        return LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    several = call.version >= SEVERAL_MEMBERS_SINCE
    members = (
        [LeavingMember(member.member_id, member.group_instance_id) for member in request.members]
        if several
        else [LeavingMember(request.member_id)]
    )
    leave = Leave(group_id=request.group_id, members=members)
    codes = call.services.coordinators.groups.ask_at_once(
        request.group_id, lambda shard, now_ms: shard.leave_group(leave, now_ms)
    )
    return when_answered(codes, lambda codes: _respond(members, codes, several=several))


def _respond(
    members: Sequence[LeavingMember], codes: tuple[ErrorCode, ...] | Refusal, *, several: bool
) -> LeaveGroupResponse:
    if isinstance(codes, Refusal):
        if codes.code is not ErrorCode.UNKNOWN_MEMBER_ID:
            return LeaveGroupResponse(error_code=code_of(codes))
        codes = (ErrorCode.UNKNOWN_MEMBER_ID,) * len(members)  # an unknown group has no members
    if not several:
        return LeaveGroupResponse(error_code=codes[0])
    return LeaveGroupResponse(
        members=[
            MemberResponse(member_id=member.member_id, group_instance_id=member.instance_id, error_code=code)
            for member, code in zip(members, codes, strict=True)
        ]
    )
