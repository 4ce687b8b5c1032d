"""The timers of groups of the consumer protocol: sessions, revocations, and assignments that had to wait."""

from collections.abc import Iterator
from typing import Final

from penstock.core.coordinator_shard import Decision
from penstock.core.deadlines import Deadlines, Key
from penstock.core.groups.consumer_draft import Draft
from penstock.core.groups.consumer_group import ConsumerGroup
from penstock.core.groups.consumer_member import MemberState
from penstock.core.groups.consumer_rebalancing import ConsumerRebalancing
from penstock.core.groups.kinds import GroupTable
from penstock.core.groups.migration import Migration

# An eviction whose records could not be written is decided again after this time.
_RETRY_MS: Final = 5_000


class ConsumerTimeouts:
    """What happens to a group when one of its timers is due."""

    def __init__(
        self,
        groups: GroupTable,
        deadlines: Deadlines,
        rebalancing: ConsumerRebalancing,
        migration: Migration,
    ) -> None:
        self._groups = groups
        self._deadlines = deadlines
        self._rebalancing = rebalancing
        self._migration = migration

    def loaded(self, now_ms: int) -> None:
        """Start the timers of all members, with full timeouts."""
        for group in self._groups.all_of(ConsumerGroup):
            for member in group.members.values():
                self._rebalancing.await_heartbeat(group.group_id, member, now_ms)
                if member.state is MemberState.UNREVOKED:
                    self._rebalancing.await_revocation(group.group_id, member, now_ms)

    def expire(self, key: Key, now_ms: int) -> Iterator[Decision[None]]:
        """A timer of a group, by its key, is due."""
        _, timer, group_id, *rest = key
        if timer == "assignment":
            decision = self._rebalancing.update_due_target_assignment(group_id, now_ms)
        else:
            decision = self._evict_member(group_id, rest[0], now_ms)
            if decision is not None:
                # If the records cannot be written now, the member is still there then; else nothing is found.
                self._deadlines.set(key, now_ms + _RETRY_MS)
        if decision is not None:
            yield decision

    def _evict_member(self, group_id: str, member_id: str, now_ms: int) -> Decision[None] | None:
        """The member's session timed out, or it did not revoke its partitions within its rebalance timeout."""
        group = self._groups.find(group_id, ConsumerGroup)
        if group is None or member_id not in group.members:
            return None
        draft = Draft(group)
        self._rebalancing.remove_members(draft, [member_id], now_ms)
        self._migration.downgrade_if_due(group, draft, now_ms)
        return draft.decision(None)
