"""DeleteGroups (key 42), v0-v2: deletes groups without members, with their committed offsets."""

from penstock.apis.context import Call
from penstock.apis.group_requests import code_of
from penstock.apis.needs import Need
from penstock.apis.rights import DELETE, GROUP
from penstock.base.errors import ErrorCode, Refusal
from penstock.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)

REQUEST = DeleteGroupsRequest
VERSIONS = (0, 2)
NEEDS = (Need(DELETE, GROUP, "groups_names"),)


async def handle(call: Call, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    unique = dict.fromkeys(request.groups_names)
    return DeleteGroupsResponse(
        results=[
            DeletableGroupResult(group_id=group_id, error_code=await _delete(call, group_id))
            for group_id in unique
        ]
    )


async def _delete(call: Call, group_id: str) -> ErrorCode:
    answer = await call.services.coordinators.groups.ask(
        group_id, lambda shard, _: shard.delete_group(group_id)
    )
    return code_of(answer) if isinstance(answer, Refusal) else ErrorCode.NONE
