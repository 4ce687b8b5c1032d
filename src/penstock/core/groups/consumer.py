"""Groups of the consumer protocol (KIP-848) in one shard.

ConsumerGroupHeartbeat and ConsumerGroupDescribe, v0-v1, and what classic members ask of such groups.

    consumer_group.py        the group: members, target, who holds what; replay
    consumer_member.py       a member
    holders.py               who holds which partition
    consumer_requests.py     what is asked and answered
    consumer_heartbeats.py   ConsumerGroupHeartbeat
    consumer_classic.py      classic members in such a group
    consumer_rebalancing.py  from a change to what members do about it
    reconciliation.py        one step of one member
    subscriptions.py         topics, by name and by regular expression (regex/)
    assignors/               who shall have what
    migration.py             from and to the classic protocol
    consumer_draft.py        a group as it will be when a decision's records have been replayed
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from penstock.base.errors import ErrorCode
from penstock.core.coordination import Decision
from penstock.core.deadlines import Key
from penstock.core.groups.assignment import together
from penstock.core.groups.classic import ClassicGroup
from penstock.core.groups.consumer_classic import ClassicMembers
from penstock.core.groups.consumer_draft import Draft
from penstock.core.groups.consumer_group import ConsumerGroup
from penstock.core.groups.consumer_heartbeats import ConsumerHeartbeats
from penstock.core.groups.consumer_member import ConsumerMember, MemberState
from penstock.core.groups.consumer_rebalancing import ConsumerRebalancing
from penstock.core.groups.consumer_requests import (
    ConsumerHeartbeat,
    DescribedConsumer,
    DescribedConsumerGroup,
    HeartbeatAnswer,
)
from penstock.core.groups.consumer_settings import ConsumerGroupSettings, TimesOf
from penstock.core.groups.effects import Effects
from penstock.core.groups.group import Group
from penstock.core.groups.migration import Migration
from penstock.core.groups.requests import Heartbeat, Join, Joined, Leave, Sync, Synced
from penstock.core.groups.subscriptions import Topics
from penstock.records.internal import group_shapes as shapes
from penstock.records.internal.record import InternalRecord

if TYPE_CHECKING:
    from penstock.core.groups.shard import GroupShard

# After this, what was due and could not be written is tried again.
_AGAIN_MS: Final = 5_000


def consumer_groups(
    topics: Topics, settings: ConsumerGroupSettings, times_of: TimesOf
) -> Callable[["GroupShard"], "ConsumerGroups"]:
    """What a `GroupShard` is given to make its consumer side with."""
    return lambda shard: ConsumerGroups(shard, topics, settings, times_of)


class ConsumerGroups:
    """Implements `shard.ConsumerSide`; shares the groups and timers of its shard."""

    def __init__(
        self, shard: "GroupShard", topics: Topics, settings: ConsumerGroupSettings, times_of: TimesOf
    ) -> None:
        self._shard = shard
        self._groups = shard.groups
        self._rebalancing = ConsumerRebalancing(shard.groups, shard.deadlines, topics, settings, times_of)
        self._migration = Migration(
            self._rebalancing,
            topics,
            settings.migration_policy,
            consumer_members_max=settings.members_max,
            classic_members_max=shard.settings.members_max,
            begin_rebalance=self._begin_classic_rebalance,
        )
        self._heartbeats = ConsumerHeartbeats(self._rebalancing, self._migration, settings, times_of)
        self._classic = ClassicMembers(self._rebalancing, self._migration, topics, settings)

    # Requests of the consumer protocol

    def heartbeat(self, request: ConsumerHeartbeat, now_ms: int) -> Decision[HeartbeatAnswer]:
        """ConsumerGroupHeartbeat."""
        return self._heartbeats.heartbeat(self._groups.get(request.group_id), request, now_ms)

    def describe(self, group_id: str) -> Decision[DescribedConsumerGroup]:
        """ConsumerGroupDescribe, for one group."""
        if not group_id:
            return Decision.refused(ErrorCode.INVALID_GROUP_ID)
        group = self._groups.get(group_id)
        if group is None:
            return Decision.refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        if not isinstance(group, ConsumerGroup):
            return Decision.refused(
                ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group."
            )
        return Decision(
            DescribedConsumerGroup(
                group_id=group_id,
                state=group.state_name,
                epoch=group.epoch,
                assignment_epoch=group.target_epoch,
                assignor=self._rebalancing.assignor_of(group),
                members=tuple(_described(group, member) for member in group.members.values()),
            )
        )

    # Requests of classic members

    def join(self, group: Group, request: Join, now_ms: int) -> Decision[Joined]:
        assert isinstance(group, ConsumerGroup)
        return self._classic.join(group, request, now_ms)

    def sync(self, group: Group, request: Sync, now_ms: int) -> Decision[Synced]:
        assert isinstance(group, ConsumerGroup)
        return self._classic.sync(group, request, now_ms)

    def classic_heartbeat(self, group: Group, request: Heartbeat, now_ms: int) -> Decision[ErrorCode]:
        assert isinstance(group, ConsumerGroup)
        return self._classic.heartbeat(group, request, now_ms)

    def leave(self, group: Group, request: Leave, now_ms: int) -> Decision[tuple[ErrorCode, ...]]:
        assert isinstance(group, ConsumerGroup)
        return self._classic.leave(group, request, now_ms)

    # The log

    def replay(self, record: InternalRecord) -> None:
        """A record of types 3 to 8 and 16."""
        group_id: str = record.key.group_id  # type: ignore[attr-defined]
        group = self._groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            if record.value is None:
                return  # of a group that is gone, or classic by now
            group = self._groups[group_id] = ConsumerGroup(group_id)
        group.replay(record)
        if record.value is None and isinstance(record.key, shapes.ConsumerGroupMetadataKey):
            self._rebalancing.forget(group_id)
            del self._groups[group_id]

    def loaded(self, now_ms: int) -> None:
        for group_id, group in self._groups.items():
            if isinstance(group, ConsumerGroup):
                for member in group.members.values():
                    self._rebalancing.await_heartbeat(group_id, member, now_ms)
                    if member.state is MemberState.UNREVOKED:
                        self._rebalancing.await_revocation(group_id, member, now_ms)

    # Timers

    def expire(self, key: Key, now_ms: int) -> Iterator[Decision[None]]:
        """A timer whose key begins with "consumer" is due."""
        _, kind, group_id, *rest = key
        if kind == "assignment":
            decision = self._rebalancing.assign_now(group_id, now_ms)
        else:
            decision = self._fence(group_id, rest[0], now_ms)
        if decision is not None:
            if kind != "assignment":
                # If this cannot be written now, it is still to be done; else nobody is found then.
                self._shard.deadlines.set(key, now_ms + _AGAIN_MS)
            yield decision

    def _fence(self, group_id: str, member_id: str, now_ms: int) -> Decision[None] | None:
        """Nothing was heard of it, or it did not give up its partitions in time: the group goes on without it."""
        group = self._groups.get(group_id)
        if not isinstance(group, ConsumerGroup) or member_id not in group.members:
            return None
        draft = Draft(group)
        self._rebalancing.remove(draft, [member_id], now_ms)
        self._migration.downgrade_if_due(group, draft, now_ms)
        return draft.decision(None)

    def _begin_classic_rebalance(self, group_id: str, now_ms: int) -> Decision[None] | None:
        group = self._groups.get(group_id)
        if not isinstance(group, ClassicGroup) or group.is_empty:
            return None
        effects = Effects()
        self._shard.classic.loaded(group, now_ms)
        self._shard.classic.rebalancing.begin_or_go_on(group, now_ms, effects)
        return effects.decision(None)


def _described(group: ConsumerGroup, member: ConsumerMember) -> DescribedConsumer:
    return DescribedConsumer(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_names=sorted(member.subscribed_names),
        subscribed_regex=member.subscribed_regex,
        assignment=together(member.assigned, member.pending_revocation),
        target=group.target_of(member.member_id),
        is_classic=member.classic is not None,
    )
