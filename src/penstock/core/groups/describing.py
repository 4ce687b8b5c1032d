"""DescribeGroups for classic groups, and ListGroups for all."""

from collections.abc import Collection, Generator, Mapping

from penstock.base.errors import ErrorCode
from penstock.core.coordination import Decision
from penstock.core.groups.classic import STABLE, ClassicGroup
from penstock.core.groups.classic_member import ClassicMember
from penstock.core.groups.group import Group
from penstock.core.groups.requests import DescribedClassicMember, DescribedGroup, ListedGroup

# Listed in one go: well under a millisecond.
_GROUPS_PER_SLICE = 500


def describe(groups: Mapping[str, Group], group_id: str) -> Decision[DescribedGroup]:
    """A classic group. What its members said is shown while it is settled, and always what they were assigned last."""
    group = groups.get(group_id)
    if group is None:
        return Decision.refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
    if not isinstance(group, ClassicGroup):
        return Decision.refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a classic group.")
    is_stable = group.state is STABLE
    return Decision(
        DescribedGroup(
            group_id=group_id,
            state=group.state_name,
            protocol_type=group.protocol_type,
            protocol=(group.protocol or "") if is_stable else "",
            members=tuple(_member(group, member, is_stable) for member in group.members.values()),
        )
    )


def _member(group: ClassicGroup, member: ClassicMember, is_stable: bool) -> DescribedClassicMember:
    return DescribedClassicMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client.client_id,
        client_host=member.client.host,
        metadata=member.metadata_for(group.protocol) if is_stable else b"",
        assignment=member.assignment,
    )


def list_groups(
    groups: Mapping[str, Group], *, states: Collection[str], types: Collection[str]
) -> Generator[None, None, Decision[tuple[ListedGroup, ...]]]:
    """Those in one of the states and of one of the types, whatever their case; no filter lets all pass."""
    wanted_states = {state.lower() for state in states}
    wanted_types = {type_.lower() for type_ in types}
    listed = []
    for number, group_id in enumerate(list(groups), start=1):
        if number % _GROUPS_PER_SLICE == 0:
            yield
        group = groups.get(group_id)
        if group is None:
            continue
        state = group.state_name
        if wanted_states and state.lower() not in wanted_states:
            continue
        if wanted_types and group.type.value not in wanted_types:
            continue
        listed.append(ListedGroup(group_id, group.protocol_type, state, group.type.value))
    return Decision(tuple(listed))
