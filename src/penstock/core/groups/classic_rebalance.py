"""The rebalance of a classic group: wait for JoinGroups, begin a generation, wait for the leader's assignment.

The first rebalance of an empty group waits for more members (`group.initial.rebalance.delay.ms`): the delay starts
again whenever a member joined in it, and ends at the latest with the longest rebalance timeout of the members.
"""

from penstock.base.errors import ErrorCode
from penstock.core.groups.classic_group import (
    COMPLETING_REBALANCE,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
    ClassicGroup,
)
from penstock.core.groups.classic_member import ClassicMember
from penstock.core.groups.classic_protocols import elect
from penstock.core.groups.effects import Effects
from penstock.core.groups.requests import Joined, Synced


class ClassicRebalancing:
    """The steps of a rebalance. None of them is durable until the generation is written."""

    def __init__(self, *, initial_delay_ms: int) -> None:
        self._initial_delay_ms = initial_delay_ms

    def begin_or_go_on(self, group: ClassicGroup, now_ms: int, effects: Effects) -> None:
        """A member joined, left or changed: begin a rebalance, or complete the one in progress if all have joined."""
        if group.state is not PREPARING_REBALANCE:
            self.begin(group, now_ms, effects)
        elif group.initial_rebalance_ends_ms is None and group.all_joined:
            self.complete_join(group, now_ms, effects)

    def begin(self, group: ClassicGroup, now_ms: int, effects: Effects) -> None:
        """Begin a rebalance: all members have to join again."""
        for member in group.members.values():
            if member.answer_heartbeat(ErrorCode.REBALANCE_IN_PROGRESS, effects):
                group.deadlines.cancel(group.hold_key(member.member_id))
                group.await_heartbeat(member, now_ms)
        if group.state is COMPLETING_REBALANCE:
            for member in group.members.values():
                member.assignment = b""
                if member.answer_sync(Synced(error=ErrorCode.REBALANCE_IN_PROGRESS), effects):
                    group.await_heartbeat(member, now_ms)
        group.unsynced.clear()
        group.deadlines.cancel(group.sync_key)
        is_initial = group.state is EMPTY
        group.enter(PREPARING_REBALANCE, now_ms)
        if is_initial:
            longest_ms = max(group.rebalance_timeout_ms, self._initial_delay_ms)
            group.initial_rebalance_ends_ms = now_ms + longest_ms
            group.joined_in_delay = False
            group.deadlines.set(group.join_key, now_ms + self._initial_delay_ms)
        elif group.all_joined:
            self.complete_join(group, now_ms, effects)
        else:
            group.deadlines.set(group.join_key, now_ms + group.rebalance_timeout_ms)

    def rebalance_timed_out(self, group: ClassicGroup, now_ms: int, effects: Effects) -> None:
        """The rebalance timeout, or the initial rebalance delay, which may be extended."""
        ends_ms = group.initial_rebalance_ends_ms
        if ends_ms is not None and group.joined_in_delay and now_ms < ends_ms:
            group.joined_in_delay = False
            group.deadlines.set(group.join_key, min(now_ms + self._initial_delay_ms, ends_ms))
        else:
            self.complete_join(group, now_ms, effects)

    def complete_join(self, group: ClassicGroup, now_ms: int, effects: Effects) -> None:
        """Begin the next generation, without dynamic members that have not joined; static ones may be restarting."""
        group.deadlines.cancel(group.join_key)
        for member in list(group.members.values()):
            if member.joining is None and not member.is_static:
                group.remove(member.member_id)
        if group.members and not _elect_leader(group):
            # Only static members, none of which rejoined yet: they have until their sessions time out.
            group.deadlines.set(group.join_key, now_ms + group.rebalance_timeout_ms)
            return
        group.initial_rebalance_ends_ms = None
        group.generation += 1
        group.unsynced.clear()
        if not group.members:
            group.protocol = None
            group.leader = None
            group.enter(EMPTY, now_ms)
            effects.records.append(group.record())
            return
        group.protocol = elect(tuple(group.members.values()))
        group.enter(COMPLETING_REBALANCE, now_ms)
        for member in group.members.values():
            member.answer_join(joined(group, member), effects)
            member.is_new = False
            group.await_heartbeat(member, now_ms)
            group.unsynced.add(member.member_id)
        group.deadlines.set(group.sync_key, now_ms + group.rebalance_timeout_ms)

    def sync_timed_out(self, group: ClassicGroup, now_ms: int, effects: Effects) -> None:
        """Evict the members without a SyncGroup, and rebalance the others."""
        if group.state not in (COMPLETING_REBALANCE, STABLE) or not group.unsynced:
            return
        for member_id in sorted(group.unsynced):
            group.evict(member_id, effects)
        self.begin(group, now_ms, effects)


def joined(group: ClassicGroup, member: ClassicMember) -> Joined:
    """The JoinGroup response of this member for the current generation."""
    is_leader = group.leader == member.member_id
    return Joined(
        member_id=member.member_id,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol=group.protocol,
        leader=group.leader or "",
        members=group.members_for_leader() if is_leader else (),
    )


def _elect_leader(group: ClassicGroup) -> bool:
    """Keep the leader if it joined, else elect the first member that did. False if none joined."""
    leader = None if group.leader is None else group.members.get(group.leader)
    if leader is not None and leader.joining is not None:
        return True
    for member in group.members.values():
        if member.joining is not None:
            group.leader = member.member_id
            return True
    return False
