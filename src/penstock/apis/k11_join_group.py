"""JoinGroup (key 11), v0-v9: joins a classic group, and waits until all members have joined."""

from penstock.apis.context import Call
from penstock.apis.group_requests import client_of, code_of, new_uuid, when_answered
from penstock.apis.needs import Need
from penstock.apis.reply import Reply
from penstock.apis.rights import GROUP, READ
from penstock.base.errors import ErrorCode, Refusal
from penstock.core.groups.requests import Join, Joined, SupportedProtocol
from penstock.schema.words import STRING_BYTES_MAX
from penstock.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember

REQUEST = JoinGroupRequest
VERSIONS = (0, 9)
NEEDS = (Need(READ, GROUP, "group_id"),)
CANCEL_ON_DISCONNECT = True
LOW_PRIORITY = True

REBALANCE_TIMEOUT_SINCE = 1
MEMBER_ID_REQUIRED_SINCE = 4
NULL_PROTOCOL_SINCE = 7
SKIP_ASSIGNMENT_SINCE = 9


def handle(call: Call, request: JoinGroupRequest) -> JoinGroupResponse | Reply:
    if not request.group_id:
        return _response(call, Joined(error=ErrorCode.INVALID_GROUP_ID, member_id=request.member_id))
    join = _join(call, request)
    if _name_bytes(join) + len(join.new_member_suffix) >= STRING_BYTES_MAX:
        # The response would have no room for the member id.
        return _response(call, Joined(error=ErrorCode.INVALID_REQUEST, member_id=request.member_id))
    joined = call.services.coordinators.groups.ask_at_once(
        request.group_id, lambda shard, now_ms: shard.join_group(join, now_ms)
    )
    return when_answered(joined, lambda joined: _respond(call, request, joined))


def _join(call: Call, request: JoinGroupRequest) -> Join:
    has_rebalance_timeout = call.version >= REBALANCE_TIMEOUT_SINCE
    return Join(
        group_id=request.group_id,
        client=client_of(call),
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=request.rebalance_timeout_ms
        if has_rebalance_timeout
        else request.session_timeout_ms,
        protocol_type=request.protocol_type,
        protocols=tuple(SupportedProtocol(one.name, one.metadata) for one in request.protocols),
        new_member_suffix=new_uuid(call),
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        requires_known_member_id=call.version >= MEMBER_ID_REQUIRED_SINCE,
        supports_skipping_assignment=call.version >= SKIP_ASSIGNMENT_SINCE,
    )


def _name_bytes(join: Join) -> int:
    """The length of the prefix of a new member's id."""
    name = join.client.client_id if join.instance_id is None else join.instance_id
    return len(name.encode())


def _respond(call: Call, request: JoinGroupRequest, joined: Joined | Refusal) -> JoinGroupResponse:
    if isinstance(joined, Refusal):
        joined = Joined(error=code_of(joined), member_id=request.member_id)
    return _response(call, joined)


def _response(call: Call, joined: Joined) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=joined.error,
        generation_id=joined.generation,
        protocol_type=joined.protocol_type,
        protocol_name=""
        if joined.protocol is None and call.version < NULL_PROTOCOL_SINCE
        else joined.protocol,
        leader=joined.leader,
        skip_assignment=joined.skip_assignment,
        member_id=joined.member_id,
        members=[
            JoinGroupResponseMember(
                member_id=member.member_id, group_instance_id=member.instance_id, metadata=member.metadata
            )
            for member in joined.members
        ],
    )
