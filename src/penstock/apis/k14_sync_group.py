"""SyncGroup (key 14), v0-v5: the leader of a classic group sends the assignments, and every member gets its own."""

from penstock.apis.context import Call
from penstock.apis.group_requests import code_of, when_answered
from penstock.apis.needs import Need
from penstock.apis.reply import Reply
from penstock.apis.rights import GROUP, READ
from penstock.base.errors import ErrorCode, Refusal
from penstock.core.groups.requests import Sync, Synced
from penstock.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

REQUEST = SyncGroupRequest
VERSIONS = (0, 5)
NEEDS = (Need(READ, GROUP, "group_id"),)
CANCEL_ON_DISCONNECT = True
LOW_PRIORITY = True

PROTOCOL_REQUIRED_SINCE = 5


def handle(call: Call, request: SyncGroupRequest) -> SyncGroupResponse | Reply:
    if call.version >= PROTOCOL_REQUIRED_SINCE and None in (request.protocol_type, request.protocol_name):
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if not request.group_id:
        return SyncGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    sync = Sync(
        group_id=request.group_id,
        member_id=request.member_id,
        generation=request.generation_id,
        instance_id=request.group_instance_id,
        protocol_type=request.protocol_type,
        protocol=request.protocol_name,
        assignments=[(one.member_id, one.assignment) for one in request.assignments],
    )
    synced = call.services.coordinators.groups.ask_at_once(
        request.group_id, lambda shard, now_ms: shard.sync_group(sync, now_ms)
    )
    return when_answered(synced, _respond)


def _respond(synced: Synced | Refusal) -> SyncGroupResponse:
    if isinstance(synced, Refusal):
        # While the shard is being loaded, REBALANCE_IN_PROGRESS makes the member rejoin.
        loading = synced.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS if loading else code_of(synced))
    return SyncGroupResponse(
        error_code=synced.error,
        protocol_type=synced.protocol_type,
        protocol_name=synced.protocol,
        assignment=synced.assignment,
    )
