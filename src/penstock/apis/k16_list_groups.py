"""ListGroups (key 16), v0-v5: the groups that this broker coordinates, filtered by state (v4) and type (v5)."""

from penstock.apis.context import Call
from penstock.apis.group_requests import code_of
from penstock.apis.needs import ListedOnly
from penstock.apis.rights import DESCRIBE, GROUP
from penstock.base.errors import Refusal
from penstock.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

REQUEST = ListGroupsRequest
VERSIONS = (0, 5)
NEEDS = (ListedOnly(DESCRIBE, GROUP),)
CANCEL_ON_DISCONNECT = True
LOW_PRIORITY = True


async def handle(call: Call, request: ListGroupsRequest) -> ListGroupsResponse:
    shards = await call.services.coordinators.groups.ask_all(
        lambda shard, _: shard.list_groups(states=request.states_filter, types=request.types_filter)
    )
    if isinstance(shards, Refusal):
        return ListGroupsResponse(error_code=code_of(shards))
    return ListGroupsResponse(
        groups=[
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                group_state=group.state,
                group_type=group.type,
            )
            for groups in shards
            for group in groups
        ]
    )
