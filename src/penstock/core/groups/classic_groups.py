"""The classic kind: groups whose leader computes the assignment (JoinGroup, SyncGroup).

classic_group.py      the group: members, state, replay
classic_member.py     a member
classic_protocols.py  which protocol (assignor) the members have in common
classic_requests.py   JoinGroup, SyncGroup, Heartbeat, LeaveGroup
classic_rebalance.py  the steps of a rebalance
classic_timeouts.py   session, rebalance and sync timeouts
"""

from collections.abc import Iterator

from penstock.base.errors import ErrorCode
from penstock.core.coordinator_shard import Decision
from penstock.core.deadlines import Key
from penstock.core.groups.classic_group import STABLE, ClassicGroup
from penstock.core.groups.classic_member import ClassicMember
from penstock.core.groups.classic_rebalance import ClassicRebalancing
from penstock.core.groups.classic_requests import ClassicRequests
from penstock.core.groups.classic_timeouts import ClassicTimeouts
from penstock.core.groups.effects import Effects
from penstock.core.groups.group import NO_MEMBER, GroupType
from penstock.core.groups.kinds import GroupKind, ShardState
from penstock.core.groups.requests import (
    DescribedClassicMember,
    DescribedGroup,
    Heartbeat,
    Join,
    Joined,
    Leave,
    Sync,
    Synced,
)
from penstock.records.internal.group_shapes import GroupMetadataKey, GroupMetadataValue
from penstock.records.internal.record import InternalRecord


class ClassicGroups(GroupKind):
    """Classic groups, with members or for offsets only (simple groups)."""

    group_type = GroupType.CLASSIC
    record_keys = (GroupMetadataKey,)

    def __init__(self, shard: ShardState) -> None:
        self._groups = shard.groups
        self._deadlines = shard.deadlines
        self._rebalancing = ClassicRebalancing(initial_delay_ms=shard.settings.initial_rebalance_delay_ms)
        self._requests = ClassicRequests(shard.settings, self._rebalancing)
        self._timeouts = ClassicTimeouts(shard.settings, self._rebalancing)

    # Requests

    def join_group(self, request: Join, now_ms: int) -> Decision[Joined]:
        """JoinGroup: to a classic group, to a new one, or to one that replaces an empty group of another kind."""
        group = self._groups.find(request.group_id, ClassicGroup)
        effects = Effects()
        if group is None:
            if request.member_id != NO_MEMBER:
                return Decision(Joined(error=ErrorCode.UNKNOWN_MEMBER_ID, member_id=request.member_id))
            replaced = self._groups.get(request.group_id)
            effects.records.extend(() if replaced is None else replaced.tombstones())
            group = self._groups[request.group_id] = ClassicGroup(request.group_id, self._deadlines)
            effects.records.append(group.first_record(now_ms))
        return effects.decision(self._requests.join(group, request, now_ms, effects))

    def sync_group(self, request: Sync, now_ms: int) -> Decision[Synced]:
        group = self._groups.find(request.group_id, ClassicGroup)
        if group is None:
            return Decision(Synced(error=ErrorCode.UNKNOWN_MEMBER_ID))
        effects = Effects()
        return effects.decision(self._requests.sync(group, request, now_ms, effects))

    def heartbeat(self, request: Heartbeat, now_ms: int) -> Decision[ErrorCode]:
        group = self._groups.find(request.group_id, ClassicGroup)
        if group is None:
            return Decision(ErrorCode.UNKNOWN_MEMBER_ID)
        return Decision(self._requests.heartbeat(group, request, now_ms))

    def await_rebalance(self, request: Heartbeat, now_ms: int) -> Decision[ErrorCode]:
        group = self._groups.find(request.group_id, ClassicGroup)
        if group is None:
            return Decision(ErrorCode.NONE)
        effects = Effects()
        return effects.decision(self._requests.await_rebalance(group, request, now_ms, effects))

    def leave_group(self, request: Leave, now_ms: int) -> Decision[tuple[ErrorCode, ...]]:
        group = self._groups.find(request.group_id, ClassicGroup)
        if group is None:
            return Decision.refused(ErrorCode.UNKNOWN_MEMBER_ID)
        effects = Effects()
        return effects.decision(self._requests.leave(group, request, now_ms, effects))

    def describe_group(self, group_id: str) -> Decision[DescribedGroup]:
        """What members subscribed to is shown while the group is stable; what they were assigned last, always."""
        group = self._groups.find(group_id, ClassicGroup)
        if group is None:
            return Decision.refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        is_stable = group.state is STABLE
        return Decision(
            DescribedGroup(
                group_id=group_id,
                state=group.state_name,
                protocol_type=group.protocol_type,
                protocol=(group.protocol or "") if is_stable else "",
                members=tuple(_described(group, member, is_stable) for member in group.members.values()),
            )
        )

    # The log

    def replay(self, record: InternalRecord) -> None:
        key, value = record
        assert isinstance(key, GroupMetadataKey)
        group = self._groups.find(key.group, ClassicGroup)
        if value is not None:
            assert isinstance(value, GroupMetadataValue)
            if group is None:
                group = self._groups[key.group] = ClassicGroup(key.group, self._deadlines)
            group.replay(value)
        elif group is not None:
            group.cancel_timers()
            del self._groups[key.group]

    def create_simple_group(self, group_id: str) -> None:
        """Offsets were committed without members: the group holds the offsets only."""
        self._groups[group_id] = ClassicGroup(group_id, self._deadlines)

    # Timers

    def loaded(self, now_ms: int) -> None:
        for group in self._groups.all_of(ClassicGroup):
            self._timeouts.loaded(group, now_ms)

    def expire(self, key: Key, now_ms: int) -> Iterator[Decision[None]]:
        effects = Effects()
        group = self._groups.find(key[2], ClassicGroup)
        if group is not None:
            self._timeouts.expire(group, key, now_ms, effects)
        yield effects.decision(None)

    # Migration

    def begin_rebalance(self, group_id: str, now_ms: int) -> Decision[None] | None:
        """The group was just downgraded from the consumer protocol: its members have to join again."""
        group = self._groups.find(group_id, ClassicGroup)
        if group is None or group.is_empty:
            return None
        effects = Effects()
        self._timeouts.loaded(group, now_ms)
        self._rebalancing.begin_or_go_on(group, now_ms, effects)
        return effects.decision(None)


def _described(group: ClassicGroup, member: ClassicMember, is_stable: bool) -> DescribedClassicMember:
    return DescribedClassicMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client.client_id,
        client_host=member.client.host,
        metadata=member.metadata_for(group.protocol) if is_stable else b"",
        assignment=member.assignment,
    )
