"""Members of a consumer group that speak the classic protocol: JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

Such a member does not know that the coordinator computes the assignment. Its JoinGroup is answered at once: it is not
the leader, and the generation is its member epoch. SyncGroup returns its current assignment. Whenever it has another
step to take to its target assignment, its Heartbeat is answered with REBALANCE_IN_PROGRESS, and its next JoinGroup is
that step. Its subscription has the partitions it owns.
"""

from dataclasses import replace

from penstock.base.errors import ErrorCode, PeerError
from penstock.base.ids import TopicPartition
from penstock.core.coordinator_shard import Decision
from penstock.core.groups import consumer_records as records
from penstock.core.groups.consumer_draft import Draft
from penstock.core.groups.consumer_group import ConsumerGroup
from penstock.core.groups.consumer_heartbeats import replace_static
from penstock.core.groups.consumer_member import ClassicMembership, ConsumerMember, MemberState
from penstock.core.groups.consumer_rebalancing import ConsumerRebalancing
from penstock.core.groups.consumer_settings import ConsumerGroupSettings
from penstock.core.groups.group import CONSUMER_PROTOCOL_TYPE, NO_MEMBER
from penstock.core.groups.kinds import GroupTable
from penstock.core.groups.migration import Migration, by_id, embedded
from penstock.core.groups.partition_sets import without
from penstock.core.groups.requests import Heartbeat, Join, Joined, Leave, LeavingMember, Sync, Synced
from penstock.core.groups.subscriptions import Topics
from penstock.records.consumer_protocol import Subscription, read_subscription


class ClassicMembers:
    """Requests of classic members, for all consumer groups of a shard."""

    def __init__(
        self,
        groups: GroupTable,
        rebalancing: ConsumerRebalancing,
        migration: Migration,
        topics: Topics,
        settings: ConsumerGroupSettings,
    ) -> None:
        self._groups = groups
        self._rebalancing = rebalancing
        self._migration = migration
        self._topics = topics
        self._settings = settings

    def _group(self, group_id: str) -> ConsumerGroup:
        group = self._groups.find(group_id, ConsumerGroup)
        assert group is not None  # the shard dispatches by the group's kind
        return group

    # Joining

    def join(self, request: Join, now_ms: int) -> Decision[Joined]:
        group = self._group(request.group_id)
        member_id = request.member_id
        if len(group.members) >= self._settings.members_max and not _is_member(group, request):
            return Decision(Joined(error=ErrorCode.GROUP_MAX_SIZE_REACHED, member_id=member_id))
        if not _supports(group, request):
            return Decision(Joined(error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id=member_id))
        if member_id == NO_MEMBER and request.instance_id is None and request.requires_known_member_id:
            return Decision(Joined(error=ErrorCode.MEMBER_ID_REQUIRED, member_id=_new_id(request)))
        try:
            subscription = read_subscription(request.protocols[0].metadata)
        except PeerError:
            return Decision(Joined(error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id=member_id))
        draft = Draft(group)
        member = self._find(draft, request)
        if isinstance(member, ErrorCode):
            return Decision(Joined(error=member, member_id=member_id))
        return self._carry_on(group, draft, member, request, subscription, now_ms)

    def _find(self, draft: Draft, request: Join) -> ConsumerMember | ErrorCode:
        group = draft.group
        if request.instance_id is None:
            member_id = request.member_id or _new_id(request)
            return group.members.get(member_id) or ConsumerMember(member_id=member_id)
        static = group.static_member(request.instance_id)
        if request.member_id != NO_MEMBER:
            if static is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            return static if static.member_id == request.member_id else ErrorCode.FENCED_INSTANCE_ID
        if static is None:
            return ConsumerMember(member_id=_new_id(request))
        return replace_static(draft, static, _new_id(request), self._rebalancing)

    def _carry_on(
        self,
        before: ConsumerGroup,
        draft: Draft,
        member: ConsumerMember,
        request: Join,
        subscription: Subscription,
        now_ms: int,
    ) -> Decision[Joined]:
        group_id = before.group_id
        described = _described(member, request, subscription)
        if described != draft.group.members.get(described.member_id):
            draft.write(records.member_description(group_id, described))
        changed = described.subscribed_names != member.subscribed_names
        if changed:
            draft.bump_epoch()
        self._rebalancing.update_subscribed_topics(draft, now_ms, changed=changed)
        self._rebalancing.update_target_assignment(draft, now_ms)
        owned = by_id(
            (
                TopicPartition(topic.topic, partition)
                for topic in subscription.owned_partitions
                for partition in topic.partitions
            ),
            self._topics,
        )
        moved = self._rebalancing.reconcile_member(draft, described, owned, now_ms)
        # It has joined: now it has its rebalance timeout for SyncGroup.
        self._rebalancing.cancel_revocation_timeout(group_id, moved.member_id)
        self._rebalancing.await_revocation(group_id, moved, now_ms)
        self._rebalancing.await_heartbeat(group_id, moved, now_ms)
        self._migration.downgrade_if_due(before, draft, now_ms)
        joined = Joined(
            member_id=moved.member_id,
            generation=moved.epoch,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocol=request.protocols[0].name,
        )
        return draft.decision(joined)

    # Synchronising

    def sync(self, request: Sync, now_ms: int) -> Decision[Synced]:
        group = self._group(request.group_id)
        member = _check_member(group, request.member_id, request.instance_id)
        if isinstance(member, ErrorCode):
            return Decision(Synced(error=member))
        error = self._check_sync(group, member, request, now_ms)
        if error is not ErrorCode.NONE:
            return Decision(Synced(error=error))
        if member.state is not MemberState.UNREVOKED:
            self._rebalancing.cancel_revocation_timeout(group.group_id, member.member_id)
        assert member.classic is not None
        return Decision(
            Synced(
                protocol_type=CONSUMER_PROTOCOL_TYPE,
                protocol=member.classic.protocols[0][0],
                assignment=embedded(member.assigned, self._topics),
            )
        )

    def _check_sync(
        self, group: ConsumerGroup, member: ConsumerMember, request: Sync, now_ms: int
    ) -> ErrorCode:
        assert member.classic is not None
        if request.generation != member.epoch:
            return ErrorCode.ILLEGAL_GENERATION
        if request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if request.protocol not in (None, member.classic.protocols[0][0]):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if group.epoch > member.epoch and member.state is not MemberState.UNREVOKED:
            self._rebalancing.await_revocation(group.group_id, member, now_ms)
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    # Staying and leaving

    def heartbeat(self, request: Heartbeat, now_ms: int) -> Decision[ErrorCode]:
        group = self._group(request.group_id)
        member = _check_member(group, request.member_id, request.instance_id)
        if isinstance(member, ErrorCode):
            return Decision(member)
        if request.generation != member.epoch:
            return Decision(ErrorCode.ILLEGAL_GENERATION)
        self._rebalancing.await_heartbeat(group.group_id, member, now_ms)
        if not _has_to_join(group, member):
            return Decision(ErrorCode.NONE)
        self._rebalancing.await_revocation(group.group_id, member, now_ms)
        return Decision(ErrorCode.REBALANCE_IN_PROGRESS)

    def leave(self, request: Leave, now_ms: int) -> Decision[tuple[ErrorCode, ...]]:
        group = self._group(request.group_id)
        found = [_leaving(group, leaving) for leaving in request.members]
        going = {member.member_id: member for member in found if isinstance(member, ConsumerMember)}
        draft = Draft(group)
        if going:
            self._rebalancing.remove_members(draft, list(going), now_ms)
            self._migration.downgrade_if_due(group, draft, now_ms)
        errors = (each if isinstance(each, ErrorCode) else ErrorCode.NONE for each in found)
        return draft.decision(tuple(errors))


def _is_member(group: ConsumerGroup, request: Join) -> bool:
    if request.instance_id is not None and group.static_member(request.instance_id) is not None:
        return True
    return request.member_id in group.members


def _supports(group: ConsumerGroup, request: Join) -> bool:
    """Whether it is a consumer, and supports a protocol that all other classic members support."""
    if request.protocol_type != CONSUMER_PROTOCOL_TYPE or not request.protocols:
        return False
    others = [
        {name for name, _ in member.classic.protocols}
        for member in group.members.values()
        if member.classic is not None and member.member_id != request.member_id
    ]
    return any(all(name in names for names in others) for name, _ in request.protocols)


def _new_id(request: Join) -> str:
    return f"{request.instance_id or request.client.client_id}-{request.new_member_suffix}"


def _described(member: ConsumerMember, request: Join, subscription: Subscription) -> ConsumerMember:
    described = replace(
        member,
        instance_id=request.instance_id if request.instance_id is not None else member.instance_id,
        rack_id=subscription.rack_id if subscription.rack_id is not None else member.rack_id,
        client_id=request.client.client_id,
        client_host=request.client.host,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        subscribed_names=frozenset(subscription.topics),
        subscribed_regex=None,
        server_assignor=None,
        classic=ClassicMembership(
            request.session_timeout_ms, tuple((name, metadata) for name, metadata in request.protocols)
        ),
    )
    return member if described == member else described


def _check_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None
) -> ConsumerMember | ErrorCode:
    if instance_id is not None:
        static = group.static_member(instance_id)
        if static is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if static.member_id != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
    member = group.members.get(member_id)
    if member is None or member.classic is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return member


def _has_to_join(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Whether it has a step to take to its target assignment."""
    if member.epoch < group.epoch or member.state is MemberState.UNREVOKED:
        return True
    return member.state is MemberState.UNRELEASED and not _waits_for_others(group, member)


def _waits_for_others(group: ConsumerGroup, member: ConsumerMember) -> bool:
    missing = without(group.target_of(member.member_id), member.assigned)
    return any(group.free_of(topic_id, partitions) != partitions for topic_id, partitions in missing.items())


def _leaving(group: ConsumerGroup, leaving: LeavingMember) -> ConsumerMember | ErrorCode:
    if leaving.instance_id is None:
        member = group.members.get(leaving.member_id)
        return ErrorCode.UNKNOWN_MEMBER_ID if member is None or member.classic is None else member
    static = group.static_member(leaving.instance_id)
    if static is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if leaving.member_id not in (NO_MEMBER, static.member_id):
        return ErrorCode.FENCED_INSTANCE_ID
    return static
