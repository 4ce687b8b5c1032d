"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup to classic groups.

The responses are those of Kafka 4.3.1. One thing is ours: a member that is removed or joins twice leaves no request
waiting for ever.
"""

from typing import Final

from penstock.base.errors import ErrorCode
from penstock.core.coordinator_shard import Pending
from penstock.core.groups.classic_group import (
    COMPLETING_REBALANCE,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
    ClassicGroup,
)
from penstock.core.groups.classic_member import ClassicMember
from penstock.core.groups.classic_protocols import elect, have_one_in_common
from penstock.core.groups.classic_rebalance import ClassicRebalancing, joined
from penstock.core.groups.effects import Effects
from penstock.core.groups.group import NO_MEMBER
from penstock.core.groups.requests import Heartbeat, Join, Joined, Leave, LeavingMember, Sync, Synced
from penstock.core.groups.settings import GroupSettings

# Held heartbeats per session timeout: a client that waits for the response sends several before its session times out.
_WAITS_IN_A_SESSION: Final = 4


class ClassicRequests:
    """Requests to an existing group; `ClassicGroups` creates a new one before its first JoinGroup."""

    def __init__(self, settings: GroupSettings, rebalancing: ClassicRebalancing) -> None:
        self._settings = settings
        self._rebalancing = rebalancing

    # Joining

    def join(
        self, group: ClassicGroup, request: Join, now_ms: int, effects: Effects
    ) -> Joined | Pending[Joined]:
        """The response, or a `Pending` until all members have joined."""
        if not self._has_room(group, request.member_id):
            if request.member_id in group.members:
                group.evict(request.member_id, effects)
                self._rebalancing.begin_or_go_on(group, now_ms, effects)
            return Joined(error=ErrorCode.GROUP_MAX_SIZE_REACHED)
        if not _supports(group, request):
            return Joined(error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id=request.member_id)
        if request.member_id != NO_MEMBER:
            return self._join_again(group, request, now_ms, effects)
        if request.instance_id is not None:
            member_id = f"{request.instance_id}-{request.new_member_suffix}"
            holder = group.static_member_id(request.instance_id)
            if holder is None:
                return self._add(group, member_id, request, now_ms, effects)
            return self._replace(group, group.members[holder], member_id, request, now_ms, effects)
        member_id = f"{request.client.client_id}-{request.new_member_suffix}"
        if not request.requires_known_member_id:
            return self._add(group, member_id, request, now_ms, effects)
        # Without a member id first, each retry of a client would leave another member behind.
        group.expected.add(member_id)
        group.deadlines.set(group.session_key(member_id), now_ms + request.session_timeout_ms)
        return Joined(error=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id)

    def _has_room(self, group: ClassicGroup, member_id: str) -> bool:
        if group.state is EMPTY:
            return True
        member = group.members.get(member_id)
        if group.state is PREPARING_REBALANCE:
            # Joined members count: if group.max.size was lowered, the last to rejoin are rejected.
            is_joining = member is not None and member.joining is not None
            return is_joining or group.joining_count < self._settings.members_max
        return member is not None or len(group.members) < self._settings.members_max

    def _add(
        self, group: ClassicGroup, member_id: str, request: Join, now_ms: int, effects: Effects
    ) -> Pending[Joined]:
        member = ClassicMember.joins(member_id, request)
        pending: Pending[Joined] = Pending()
        member.joining = pending
        group.joined_in_delay = True
        group.add(member, request.protocol_type)
        # A new member has no generation and cannot send heartbeats; and a broken connection is not noticed here.
        new_member_ends_ms = now_ms + self._settings.new_member_join_timeout_ms
        group.deadlines.set(group.session_key(member_id), new_member_ends_ms)
        self._rebalancing.begin_or_go_on(group, now_ms, effects)
        return pending

    def _join_again(
        self, group: ClassicGroup, request: Join, now_ms: int, effects: Effects
    ) -> Joined | Pending[Joined]:
        member_id = request.member_id
        if member_id in group.expected and request.instance_id is None:
            return self._add(group, member_id, request, now_ms, effects)
        error = group.check_member(member_id, request.instance_id)
        if error is not ErrorCode.NONE:
            return Joined(error=error, member_id=member_id)
        member = group.members[member_id]
        if _missed_the_response(group, member, request):
            return joined(group, member) if group.state is COMPLETING_REBALANCE else _follows(group, member)
        return self._update(group, member, request, now_ms, effects)

    def _update(
        self, group: ClassicGroup, member: ClassicMember, request: Join, now_ms: int, effects: Effects
    ) -> Pending[Joined]:
        member.update(request)
        group.changed()
        pending: Pending[Joined] = Pending()
        member.wait_to_join(pending, effects)
        self._rebalancing.begin_or_go_on(group, now_ms, effects)
        return pending

    def _replace(
        self,
        group: ClassicGroup,
        old: ClassicMember,
        member_id: str,
        request: Join,
        now_ms: int,
        effects: Effects,
    ) -> Joined | Pending[Joined]:
        """A static member was restarted: it takes its old place, and a client with the old member id is fenced."""
        leader_before = group.leader
        member = ClassicMember.joins(member_id, request)
        member.is_new = False
        member.assignment = old.assignment
        old.dismiss(ErrorCode.FENCED_INSTANCE_ID, effects, member_id=old.member_id)
        group.replace(old, member)
        group.await_heartbeat(member, now_ms)
        if group.state is STABLE and elect(tuple(group.members.values())) == group.protocol:
            # No rebalance is needed: the restarted member gets its old assignment.
            effects.records.append(group.record())
            if not request.supports_skipping_assignment:
                # It must not learn that it leads: it would send an assignment that no member waits for.
                return _follows(group, member, leader=leader_before)
            return _keeps_its_place(group, member)
        pending: Pending[Joined] = Pending()
        member.joining = pending
        self._rebalancing.begin_or_go_on(group, now_ms, effects)
        return pending

    # Synchronising

    def sync(
        self, group: ClassicGroup, request: Sync, now_ms: int, effects: Effects
    ) -> Synced | Pending[Synced]:
        """The member's assignment; a `Pending` until the leader has sent its SyncGroup."""
        error = _check_sync(group, request)
        if error is not ErrorCode.NONE:
            return Synced(error=error)
        member = group.members[request.member_id]
        group.unsynced.discard(member.member_id)
        if not group.unsynced:
            group.deadlines.cancel(group.sync_key)
        if group.state is STABLE:
            return _synced(group, member.assignment)
        pending: Pending[Synced] = Pending()
        member.wait_to_sync(pending, effects)
        if group.leader == member.member_id:
            self._assign(group, dict(request.assignments), now_ms, effects)
        return pending

    def _assign(
        self, group: ClassicGroup, assignments: dict[str, bytes], now_ms: int, effects: Effects
    ) -> None:
        """Write the generation with its assignments: replaying the record makes the group stable."""
        effects.records.append(group.record(assignments))
        for member in group.members.values():
            if member.answer_sync(_synced(group, assignments.get(member.member_id, b"")), effects):
                group.await_heartbeat(member, now_ms)

    # Living and leaving

    def heartbeat(self, group: ClassicGroup, request: Heartbeat, now_ms: int) -> ErrorCode:
        error = group.check_member(request.member_id, request.instance_id)
        if error is not ErrorCode.NONE:
            return error
        if request.generation != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
        group.await_heartbeat(group.members[request.member_id], now_ms)
        if group.state is PREPARING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def await_rebalance(
        self, group: ClassicGroup, request: Heartbeat, now_ms: int, effects: Effects
    ) -> ErrorCode | Pending[ErrorCode]:
        """After a heartbeat that was answered with NONE: hold the next answer until the group rebalances."""
        member = group.members[request.member_id]
        wait_ms = min(self._settings.heartbeat_wait_ms, member.session_timeout_ms // _WAITS_IN_A_SESSION)
        # A Java consumer that closes waits for all its responses. Its LeaveGroup ends the wait; but static members and
        # Kafka Streams send none.
        if wait_ms <= 0 or member.is_static or group.is_of_streams or not group.uses_consumer_protocol:
            return ErrorCode.NONE
        pending: Pending[ErrorCode] = Pending()
        member.hold_heartbeat(pending, effects)
        group.deadlines.set(group.hold_key(member.member_id), now_ms + wait_ms)
        return pending

    def leave(
        self, group: ClassicGroup, request: Leave, now_ms: int, effects: Effects
    ) -> tuple[ErrorCode, ...]:
        errors = tuple(self._leave(group, leaving, effects) for leaving in request.members)
        if ErrorCode.NONE in errors and group.state is not EMPTY:
            self._rebalancing.begin_or_go_on(group, now_ms, effects)
        return errors

    def _leave(self, group: ClassicGroup, leaving: LeavingMember, effects: Effects) -> ErrorCode:
        member_id = leaving.member_id
        if member_id == NO_MEMBER:
            # An admin client names the instance id only.
            holder = None if leaving.instance_id is None else group.static_member_id(leaving.instance_id)
            if holder is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            member_id = holder
        elif member_id not in group.expected:
            error = group.check_member(member_id, leaving.instance_id)
            if error is not ErrorCode.NONE:
                return error
        group.evict(member_id, effects)
        return ErrorCode.NONE


def _supports(group: ClassicGroup, request: Join) -> bool:
    if not request.protocol_type or not request.protocols:
        return False
    if group.state is EMPTY:
        return True
    members = tuple(group.members.values())
    return request.protocol_type == group.protocol_type and have_one_in_common(request.protocols, members)


def _missed_the_response(group: ClassicGroup, member: ClassicMember, request: Join) -> bool:
    """Its metadata is unchanged: it only missed a response. A leader that rejoins a stable group wants a rebalance: it
    has seen a change, such as new partitions, that its own metadata does not show."""
    if group.state is PREPARING_REBALANCE or member.protocols != request.protocols:
        return False
    return group.state is COMPLETING_REBALANCE or group.leader != member.member_id


def _follows(group: ClassicGroup, member: ClassicMember, *, leader: str | None = None) -> Joined:
    return Joined(
        member_id=member.member_id,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol=group.protocol,
        leader=leader or group.leader or "",
    )


def _keeps_its_place(group: ClassicGroup, member: ClassicMember) -> Joined:
    is_leader = group.leader == member.member_id
    return Joined(
        member_id=member.member_id,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol=group.protocol,
        leader=group.leader or "",
        skip_assignment=is_leader,
        members=group.members_for_leader() if is_leader else (),
    )


def _check_sync(group: ClassicGroup, request: Sync) -> ErrorCode:
    if group.state is EMPTY:
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = group.check_member(request.member_id, request.instance_id)
    if error is not ErrorCode.NONE:
        return error
    if request.generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    # Since version 5 a member names its protocol.
    if request.protocol_type is not None and request.protocol_type != group.protocol_type:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if request.protocol is not None and request.protocol != group.protocol:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _synced(group: ClassicGroup, assignment: bytes) -> Synced:
    return Synced(protocol_type=group.protocol_type, protocol=group.protocol, assignment=assignment)
