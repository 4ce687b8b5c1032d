"""Migration: upgrades and downgrades groups with members between the classic and the consumer protocol.

`group.consumer.migration.policy` says which of the two are allowed.

*Upgrade*: the first member that speaks the consumer protocol joins a classic group of consumers. The group becomes a
consumer group: its generation becomes the group epoch, its leader's last assignment the target assignment, and its
classic members stay members that send JoinGroup, SyncGroup and Heartbeat (`classic_members_of_consumer_groups`).

*Downgrade*: the last member that speaks the consumer protocol leaves, and classic members stay. The group becomes
classic, with the epoch it had until then as generation, and its members are asked to join again.

A group without members changes its protocol with the next member that joins, whatever the policy.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from penstock.base.errors import ErrorCode, PeerError, Refusal
from penstock.base.ids import TopicPartition
from penstock.core.coordinator_shard import Decision, Work
from penstock.core.groups import consumer_records as records
from penstock.core.groups.classic_group import ClassicGroup
from penstock.core.groups.classic_member import ClassicMember
from penstock.core.groups.consumer_draft import Draft
from penstock.core.groups.consumer_group import ConsumerGroup
from penstock.core.groups.consumer_member import ClassicMembership, ConsumerMember
from penstock.core.groups.consumer_rebalancing import ConsumerRebalancing
from penstock.core.groups.consumer_settings import MigrationPolicy
from penstock.core.groups.group import CONSUMER_PROTOCOL_TYPE, Group, GroupType
from penstock.core.groups.kinds import GroupTable
from penstock.core.groups.partition_sets import Assignment, assignment_of, listed
from penstock.core.groups.subscriptions import Topics
from penstock.records import consumer_protocol
from penstock.records.consumer_protocol import read_assignment, read_subscription
from penstock.records.internal.group_shapes import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from penstock.records.internal.record import InternalRecord

# Begins the rebalance of a classic group that has just been downgraded.
BeginRebalance = Callable[[str, int], Decision[None] | None]


class Migration:
    """Both ways, for all groups of a shard."""

    def __init__(
        self,
        groups: GroupTable,
        rebalancing: ConsumerRebalancing,
        topics: Topics,
        policy: MigrationPolicy,
        *,
        consumer_members_max: int,
        classic_members_max: int,
        begin_rebalance: BeginRebalance,
    ) -> None:
        self._groups = groups
        self._rebalancing = rebalancing
        self._topics = topics
        self._policy = policy
        self._consumer_members_max = consumer_members_max
        self._classic_members_max = classic_members_max
        self._begin_rebalance = begin_rebalance

    # Classic to consumer

    def upgrade(self, other: Group) -> Draft | Refusal:
        """The group of another kind as a consumer group; nothing has happened yet. A group without members is
        replaced; of those with members only a classic group can be upgraded."""
        if other.is_empty and GroupType.CONSUMER in other.replaceable_by:
            draft = Draft.of_new_group(other.group_id)
            draft.records[:0] = other.tombstones()
            return draft
        group = self._groups.find(other.group_id, ClassicGroup)
        try:
            members = None if group is None else self._members_of(group)
        except PeerError:
            members = None
        if group is None or members is None:
            return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {other.group_id} is not a consumer group.")
        draft = Draft(ConsumerGroup(group.group_id))
        draft.write(*_as_consumer_group(group.group_id, group.generation, members))
        draft.records[:0] = group.tombstones()
        return draft

    def _members_of(self, group: ClassicGroup) -> list[ConsumerMember] | None:
        """The classic members in the consumer protocol's terms; None if the group must not or cannot be moved."""
        may_move = self._policy.allows_upgrade and len(group.members) < self._consumer_members_max
        if not may_move or not group.uses_consumer_protocol:
            return None
        return [self._as_consumer_member(member, group) for member in group.members.values()]

    def _as_consumer_member(self, member: ClassicMember, group: ClassicGroup) -> ConsumerMember:
        protocol = group.protocol if group.protocol in member.protocol_names else member.protocols[0].name
        subscription = read_subscription(member.metadata_for(protocol))
        assigned = by_id(read_assignment(member.assignment), self._topics)
        return ConsumerMember(
            member_id=member.member_id,
            instance_id=member.instance_id,
            rack_id=subscription.rack_id,
            client_id=member.client.client_id,
            client_host=member.client.host,
            subscribed_names=frozenset(subscription.topics),
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            classic=ClassicMembership(
                member.session_timeout_ms, tuple((name, metadata) for name, metadata in member.protocols)
            ),
            epoch=group.generation,
            previous_epoch=group.generation,
            assigned=assigned,
            since={
                topic_id: dict.fromkeys(partitions, group.generation)
                for topic_id, partitions in assigned.items()
            },
        )

    def release(self, draft: Draft, now_ms: int) -> None:
        """If the draft upgrades a classic group: answer its waiting requests, so that the members join again, and keep
        their sessions going."""
        group = self._groups.find(draft.group.group_id, ClassicGroup)
        if group is None:
            return
        draft.completions.extend(group.release(ErrorCode.REBALANCE_IN_PROGRESS))
        for member in draft.group.members.values():
            if member.classic is not None:
                self._rebalancing.await_heartbeat(group.group_id, member, now_ms)

    # Consumer to classic

    def downgrade_if_due(self, before: ConsumerGroup, draft: Draft, now_ms: int) -> None:
        """If only classic members are left, end the draft as a classic group."""
        members = list(draft.group.members.values())
        is_due = bool(members) and all(member.classic is not None for member in members)
        if not is_due or not self._policy.allows_downgrade or len(members) > self._classic_members_max:
            return
        for member in members:
            self._rebalancing.cancel_timers(before.group_id, member.member_id)
        self._rebalancing.forget_group(before.group_id)
        draft.become((*before.tombstones(), self._as_classic_group(before, members, now_ms)))
        draft.work = self._rebalance(before.group_id, now_ms)

    def _rebalance(self, group_id: str, now_ms: int) -> Work:
        yield
        return self._begin_rebalance(group_id, now_ms)

    def _as_classic_group(
        self, group: ConsumerGroup, members: Sequence[ConsumerMember], now_ms: int
    ) -> InternalRecord:
        protocol = common_protocol(members)
        value = GroupMetadataValue(
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            generation=group.epoch,
            protocol=protocol,
            leader=members[0].member_id,
            current_state_timestamp=now_ms,
            members=[self._as_classic_member(member, protocol) for member in members],
        )
        return InternalRecord(GroupMetadataKey(group=group.group_id), value)

    def _as_classic_member(self, member: ConsumerMember, protocol: str) -> MemberMetadata:
        assert member.classic is not None
        return MemberMetadata(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout=member.rebalance_timeout_ms,
            session_timeout=member.classic.session_timeout_ms,
            subscription=dict(member.classic.protocols).get(protocol, b""),
            assignment=embedded(member.assigned, self._topics),
        )


def _as_consumer_group(
    group_id: str, generation: int, members: Iterable[ConsumerMember]
) -> Iterator[InternalRecord]:
    yield records.group_epoch(group_id, epoch=generation, metadata_hash=0)
    for member in members:
        yield records.member_description(group_id, member)
        yield records.target(group_id, member.member_id, member.assigned)
        yield records.member_place(group_id, member)
    yield records.target_epoch(group_id, epoch=generation, timestamp_ms=0)


def common_protocol(members: Sequence[ConsumerMember]) -> str:
    """The first protocol of the first classic member that all of them know."""
    known = [tuple(name for name, _ in member.classic.protocols) for member in members if member.classic]
    return next((name for name in known[0] if all(name in names for names in known)), known[0][0])


def by_id(partitions: Iterable[TopicPartition], topics: Topics) -> Assignment:
    """Partitions of topics that exist, as consumers name them to each other, in the coordinator's terms."""
    known = ((topics.named(topic), partition) for topic, partition in partitions)
    return assignment_of((topic.topic_id, (partition,)) for topic, partition in known if topic is not None)


def embedded(assignment: Assignment, topics: Topics) -> bytes:
    """An assignment as SyncGroup brings it to a classic consumer."""
    known = ((topics.with_id(topic_id), partitions) for topic_id, partitions in listed(assignment))
    assigned = [
        consumer_protocol.AssignedTopic(topic=topic.name, partitions=partitions)
        for topic, partitions in known
        if topic is not None
    ]
    return consumer_protocol.write_assignment(consumer_protocol.Assignment(assigned_partitions=assigned))
