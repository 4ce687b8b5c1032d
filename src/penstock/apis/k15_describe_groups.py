"""DescribeGroups (key 15), v0-v6: the members of classic groups, their subscriptions and assignments.

Before version 6, an unknown group is described as dead.
"""

from penstock.apis.context import Call
from penstock.apis.group_requests import GROUP_OPERATIONS, code_of, message_of
from penstock.apis.needs import Need
from penstock.apis.rights import DESCRIBE, GROUP
from penstock.base.errors import ErrorCode, Refusal
from penstock.wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

REQUEST = DescribeGroupsRequest
VERSIONS = (0, 6)
NEEDS = (Need(DESCRIBE, GROUP, "groups"),)
CANCEL_ON_DISCONNECT = True
LOW_PRIORITY = True

NOT_FOUND_SINCE = 6


async def handle(call: Call, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    groups = [await _describe(call, group_id) for group_id in request.groups]
    if request.include_authorized_operations:
        for group in groups:
            if not group.error_code:
                group.authorized_operations = GROUP_OPERATIONS
    return DescribeGroupsResponse(groups=groups)


async def _describe(call: Call, group_id: str) -> DescribedGroup:
    found = await call.services.coordinators.groups.ask(
        group_id, lambda shard, _: shard.describe_group(group_id)
    )
    if isinstance(found, Refusal):
        return _not_described(call, group_id, found)
    return DescribedGroup(
        group_id=group_id,
        group_state=found.state,
        protocol_type=found.protocol_type,
        protocol_data=found.protocol,
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata,
                member_assignment=member.assignment,
            )
            for member in found.members
        ],
    )


def _not_described(call: Call, group_id: str, refusal: Refusal) -> DescribedGroup:
    if refusal.code is not ErrorCode.GROUP_ID_NOT_FOUND:
        return DescribedGroup(group_id=group_id, error_code=code_of(refusal))
    dead = DescribedGroup(group_id=group_id, group_state="Dead")
    if call.version >= NOT_FOUND_SINCE:
        dead.error_code = refusal.code
        dead.error_message = message_of(refusal)
    return dead
