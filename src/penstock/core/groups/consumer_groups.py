"""The consumer kind (KIP-848): groups for which the coordinator computes the assignment.

ConsumerGroupHeartbeat and ConsumerGroupDescribe, v0-v1, and the requests of classic members of such groups.

    consumer_group.py        the group: members, target assignment, partition owners; replay
    consumer_member.py       a member
    partition_ownership.py   which member owns which partition
    consumer_requests.py     requests and responses
    consumer_heartbeats.py   ConsumerGroupHeartbeat
    classic_members_of_consumer_groups.py  JoinGroup, SyncGroup, Heartbeat and LeaveGroup to such a group
    consumer_rebalancing.py  from a change of members or topics to the target assignment, and to each member
    consumer_timeouts.py     session and revocation timeouts
    reconciliation.py        one step of one member to its target assignment
    subscriptions.py         topics, by name and by regular expression (regex/)
    assignors/               compute the target assignment
    migration.py             upgrade from and downgrade to the classic protocol
    consumer_draft.py        a group as it will be when a decision's records have been replayed
"""

from collections.abc import Iterable

from penstock.base.errors import ErrorCode
from penstock.core.coordinator_shard import Decision
from penstock.core.deadlines import Key
from penstock.core.groups.classic_groups import ClassicGroups
from penstock.core.groups.classic_members_of_consumer_groups import ClassicMembers
from penstock.core.groups.consumer_group import REPLAYED, ConsumerGroup
from penstock.core.groups.consumer_heartbeats import ConsumerHeartbeats
from penstock.core.groups.consumer_member import ConsumerMember
from penstock.core.groups.consumer_rebalancing import ConsumerRebalancing
from penstock.core.groups.consumer_requests import (
    ConsumerHeartbeat,
    DescribedConsumer,
    DescribedConsumerGroup,
    HeartbeatAnswer,
)
from penstock.core.groups.consumer_settings import ConsumerGroupSettings, TimesOf
from penstock.core.groups.consumer_timeouts import ConsumerTimeouts
from penstock.core.groups.group import GroupType
from penstock.core.groups.kinds import GroupKind, GroupKindFactory, ShardState
from penstock.core.groups.migration import Migration
from penstock.core.groups.partition_sets import together
from penstock.core.groups.requests import Heartbeat, Join, Joined, Leave, Sync, Synced
from penstock.core.groups.subscriptions import Topics
from penstock.records.internal.group_shapes import ConsumerGroupMetadataKey
from penstock.records.internal.record import InternalRecord


def consumer_groups(topics: Topics, settings: ConsumerGroupSettings, times_of: TimesOf) -> GroupKindFactory:
    """Makes the consumer kind of a shard."""
    return lambda shard: ConsumerGroups(shard, topics, settings, times_of)


class ConsumerGroups(GroupKind):
    """Consumer groups, some of whose members may speak the classic protocol."""

    group_type = GroupType.CONSUMER
    record_keys = REPLAYED

    def __init__(
        self, shard: ShardState, topics: Topics, settings: ConsumerGroupSettings, times_of: TimesOf
    ) -> None:
        self._groups = shard.groups
        self._rebalancing = ConsumerRebalancing(shard.groups, shard.deadlines, topics, settings, times_of)
        self._migration = Migration(
            shard.groups,
            self._rebalancing,
            topics,
            settings.migration_policy,
            consumer_members_max=settings.members_max,
            classic_members_max=shard.settings.members_max,
            begin_rebalance=shard.kinds.of_class(ClassicGroups).begin_rebalance,
        )
        self._heartbeats = ConsumerHeartbeats(
            shard.groups, self._rebalancing, self._migration, settings, times_of
        )
        self._classic = ClassicMembers(shard.groups, self._rebalancing, self._migration, topics, settings)
        self._timeouts = ConsumerTimeouts(shard.groups, shard.deadlines, self._rebalancing, self._migration)

    # Requests of the consumer protocol

    def consumer_group_heartbeat(self, request: ConsumerHeartbeat, now_ms: int) -> Decision[HeartbeatAnswer]:
        """ConsumerGroupHeartbeat."""
        return self._heartbeats.heartbeat(request, now_ms)

    def consumer_group_describe(self, group_id: str) -> Decision[DescribedConsumerGroup]:
        """ConsumerGroupDescribe, for one group."""
        if not group_id:
            return Decision.refused(ErrorCode.INVALID_GROUP_ID)
        group = self._groups.find(group_id, ConsumerGroup)
        if group is None:
            reason = "is not a consumer group" if group_id in self._groups else "not found"
            return Decision.refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {reason}.")
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

    def join_group(self, request: Join, now_ms: int) -> Decision[Joined]:
        return self._classic.join(request, now_ms)

    def sync_group(self, request: Sync, now_ms: int) -> Decision[Synced]:
        return self._classic.sync(request, now_ms)

    def heartbeat(self, request: Heartbeat, now_ms: int) -> Decision[ErrorCode]:
        return self._classic.heartbeat(request, now_ms)

    def leave_group(self, request: Leave, now_ms: int) -> Decision[tuple[ErrorCode, ...]]:
        return self._classic.leave(request, now_ms)

    # The log

    def replay(self, record: InternalRecord) -> None:
        group_id: str = record.key.group_id  # type: ignore[attr-defined]
        group = self._groups.find(group_id, ConsumerGroup)
        if group is None:
            if record.value is None:
                return  # the group was deleted, or is classic by now
            group = self._groups[group_id] = ConsumerGroup(group_id)
        group.replay(record)
        if record.value is None and isinstance(record.key, ConsumerGroupMetadataKey):
            self._rebalancing.forget_group(group_id)
            del self._groups[group_id]

    # Timers

    def loaded(self, now_ms: int) -> None:
        self._timeouts.loaded(now_ms)

    def expire(self, key: Key, now_ms: int) -> Iterable[Decision[None]]:
        return self._timeouts.expire(key, now_ms)


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
