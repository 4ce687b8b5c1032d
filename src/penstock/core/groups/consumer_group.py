"""A group of the consumer protocol: its members, the target assignment, and the owner of each partition.

All of it is durable and changed by `replay` alone. The group epoch is bumped when members or their topics change; the
target assignment follows with that epoch; and each member enters the target epoch on its own (`reconciliation`).

    Empty         no members
    Assigning     the target assignment is behind the group epoch
    Reconciling   members have not reached their target assignment
    Stable        all members have
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from penstock.base.errors import ErrorCode
from penstock.base.ids import TopicId
from penstock.core.groups import consumer_records as records
from penstock.core.groups.consumer_member import ConsumerMember, MemberState
from penstock.core.groups.group import CONSUMER_PROTOCOL_TYPE, NO_MEMBER, GroupType
from penstock.core.groups.partition_ownership import PartitionOwners
from penstock.core.groups.partition_sets import NOTHING, Assignment, assignment_of, without
from penstock.core.groups.subscriptions import NO_TOPICS_HASH, ResolvedRegex
from penstock.records.internal import group_shapes as shapes
from penstock.records.internal.record import InternalRecord, RecordKey

# The first group epoch: so members have an epoch even before the first target assignment.
FIRST_EPOCH: Final = 1

# The first version of OffsetCommit that knows STALE_MEMBER_EPOCH.
_FIRST_COMMIT_WITH_EPOCHS: Final = 9


class _Shared(NamedTuple):
    """A set of names, and how many members subscribe to it."""

    names: frozenset[str]
    members: int


class ConsumerGroup:
    """One group, in the order in which its members joined. Implements `group.Group`."""

    type = GroupType.CONSUMER
    replaceable_by = frozenset({GroupType.CLASSIC})
    protocol_type = CONSUMER_PROTOCOL_TYPE

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.metadata_hash = NO_TOPICS_HASH
        self.target_epoch = 0
        self.target_timestamp_ms = 0
        self.members: dict[str, ConsumerMember] = {}
        self.targets: dict[str, Assignment] = {}
        self.regexes: dict[str, ResolvedRegex] = {}
        self.has_partition_metadata = False  # written by coordinators before Kafka 4.1
        self._owners = PartitionOwners()
        self._static: dict[str, str] = {}
        # The distinct subscriptions, and how many members have each: most members of a group have the same.
        self._subscriptions: dict[frozenset[str], _Shared] = {}
        self._regexes_in_use: dict[str, int] = {}

    def copy(self) -> "ConsumerGroup":
        """A copy that can be changed without changing this group."""
        copied = ConsumerGroup(self.group_id)
        copied.epoch = self.epoch
        copied.metadata_hash = self.metadata_hash
        copied.target_epoch = self.target_epoch
        copied.target_timestamp_ms = self.target_timestamp_ms
        copied.members = self.members.copy()
        copied.targets = self.targets.copy()
        copied.regexes = self.regexes.copy()
        copied.has_partition_metadata = self.has_partition_metadata
        copied._owners = self._owners.copy()
        copied._static = self._static.copy()
        copied._subscriptions = self._subscriptions.copy()
        copied._regexes_in_use = self._regexes_in_use.copy()
        return copied

    # State

    @property
    def state_name(self) -> str:
        if not self.members:
            return "Empty"
        if self.epoch > self.target_epoch:
            return "Assigning"
        if all(self.has_arrived(member) for member in self.members.values()):
            return "Stable"
        return "Reconciling"

    @property
    def is_empty(self) -> bool:
        return not self.members

    def has_arrived(self, member: ConsumerMember) -> bool:
        return member.state is MemberState.STABLE and member.epoch == self.target_epoch

    def free_of(self, topic_id: TopicId, partitions: frozenset[int]) -> frozenset[int]:
        """Those of the partitions that no member owns."""
        return self._owners.free_of(topic_id, partitions)

    def target_of(self, member_id: str) -> Assignment:
        return self.targets.get(member_id, NOTHING)

    def static_member(self, instance_id: str) -> ConsumerMember | None:
        member_id = self._static.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def preferred_assignor(self, default: str) -> str:
        """The server assignor that most members with a preference name; of equals, the first named."""
        votes: dict[str, int] = {}
        for member in self.members.values():
            if member.server_assignor is not None:
                votes[member.server_assignor] = votes.get(member.server_assignor, 0) + 1
        return max(votes, key=lambda name: votes[name]) if votes else default

    # Subscriptions

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """The names a member subscribes to; those of a regular expression once it has been resolved."""
        resolved = self.regexes.get(member.subscribed_regex) if member.subscribed_regex is not None else None
        return member.subscribed_names if resolved is None else member.subscribed_names | resolved.topics

    def subscribed_topics(self) -> frozenset[str]:
        resolved = (self.regexes[regex].topics for regex in self._regexes_in_use if regex in self.regexes)
        return frozenset[str]().union(*self._subscriptions, *resolved)

    def regexes_in_use(self) -> list[str]:
        return sorted(self._regexes_in_use)

    # Replay

    def replay(self, record: InternalRecord) -> None:
        """Take over a record with one of the keys in `REPLAYED`."""
        _REPLAY[type(record.key)](self, record.key, record.value)

    def _replay_epoch(
        self, _key: shapes.ConsumerGroupMetadataKey, value: shapes.ConsumerGroupMetadataValue | None
    ) -> None:
        self.epoch = 0 if value is None else value.epoch
        self.metadata_hash = NO_TOPICS_HASH if value is None else value.metadata_hash

    def _replay_partition_metadata(
        self,
        _key: shapes.ConsumerGroupPartitionMetadataKey,
        value: shapes.ConsumerGroupPartitionMetadataValue | None,
    ) -> None:
        self.has_partition_metadata = value is not None

    def _replay_member(
        self,
        key: shapes.ConsumerGroupMemberMetadataKey,
        value: shapes.ConsumerGroupMemberMetadataValue | None,
    ) -> None:
        old = self.members.get(key.member_id)
        if value is not None:
            self._put((old or ConsumerMember(member_id=key.member_id)).described_by(value))
        elif old is not None:
            self._owners.release(old.member_id, old.held)
            self._unsubscribe(old)
            del self.members[old.member_id]
            if old.instance_id is not None and self._static.get(old.instance_id) == old.member_id:
                del self._static[old.instance_id]

    def _replay_place(
        self,
        key: shapes.ConsumerGroupCurrentMemberAssignmentKey,
        value: shapes.ConsumerGroupCurrentMemberAssignmentValue | None,
    ) -> None:
        # Compaction may have removed an older record with the member's metadata; it does not remove the last one.
        old = self.members.get(key.member_id)
        held = NOTHING if old is None else old.held
        if value is not None:
            member = (old or ConsumerMember(member_id=key.member_id)).placed_by(value)
        elif old is not None:
            member = old.displaced()
        else:
            return
        self._put(member)
        self._owners.release(member.member_id, without(held, member.held))
        self._owners.take(member.member_id, member.held)

    def _replay_target_epoch(
        self,
        _key: shapes.ConsumerGroupTargetAssignmentMetadataKey,
        value: shapes.ConsumerGroupTargetAssignmentMetadataValue | None,
    ) -> None:
        self.target_epoch = 0 if value is None else value.assignment_epoch
        self.target_timestamp_ms = 0 if value is None else value.assignment_timestamp

    def _replay_target(
        self,
        key: shapes.ConsumerGroupTargetAssignmentMemberKey,
        value: shapes.ConsumerGroupTargetAssignmentMemberValue | None,
    ) -> None:
        if value is None:
            self.targets.pop(key.member_id, None)
        else:
            topics = ((TopicId(bytes(topic.topic_id)), topic.partitions) for topic in value.topic_partitions)
            self.targets[key.member_id] = assignment_of(topics)

    def _replay_regex(
        self,
        key: shapes.ConsumerGroupRegularExpressionKey,
        value: shapes.ConsumerGroupRegularExpressionValue | None,
    ) -> None:
        if value is None:
            self.regexes.pop(key.regular_expression, None)
        else:
            resolved = ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)
            self.regexes[key.regular_expression] = resolved

    def _put(self, member: ConsumerMember) -> None:
        old = self.members.get(member.member_id)
        if old is None or _subscription(old) != _subscription(member):
            if old is not None:
                self._unsubscribe(old)
            member = self._subscribe(member)
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self._static[member.instance_id] = member.member_id

    def _subscribe(self, member: ConsumerMember) -> ConsumerMember:
        """The member, sharing one set of topic names with the other members that have the same subscription."""
        shared = self._subscriptions.get(member.subscribed_names, _Shared(member.subscribed_names, 0))
        self._subscriptions[shared.names] = _Shared(shared.names, shared.members + 1)
        regex = member.subscribed_regex
        if regex is not None:
            self._regexes_in_use[regex] = self._regexes_in_use.get(regex, 0) + 1
        return replace(member, subscribed_names=shared.names)

    def _unsubscribe(self, member: ConsumerMember) -> None:
        shared = self._subscriptions[member.subscribed_names]
        if shared.members > 1:
            self._subscriptions[shared.names] = _Shared(shared.names, shared.members - 1)
        else:
            del self._subscriptions[shared.names]
        regex = member.subscribed_regex
        if regex is not None:
            self._regexes_in_use[regex] -= 1
            if not self._regexes_in_use[regex]:
                del self._regexes_in_use[regex]

    # What offset requests, listing and deletion need

    def check_commit(
        self,
        *,
        member_id: str,
        instance_id: str | None,
        generation: int,
        transactional: bool,
        version: int,
        partitions: Collection[tuple[bytes, int]],
    ) -> ErrorCode:
        if generation < 0 and self.is_empty:
            return ErrorCode.NONE  # an admin client, or a consumer with manual assignment
        if transactional and generation < 0 and member_id == NO_MEMBER and instance_id is None:
            return ErrorCode.NONE  # the first versions of TxnOffsetCommit could not name a member
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if member.classic is None and not transactional and version < _FIRST_COMMIT_WITH_EPOCHS:
            return ErrorCode.UNSUPPORTED_VERSION
        if member.classic is None and _owned_all(member, partitions, epoch=generation):
            return ErrorCode.NONE  # the member may not have its new epoch yet
        return _check_epoch(member, generation)

    def committed(self, *, member_id: str, now_ms: int) -> None:
        """Only heartbeats extend the session."""

    def check_fetch(self, *, member_id: str | None, member_epoch: int) -> ErrorCode:
        if member_id is None and member_epoch < 0:
            return ErrorCode.NONE
        member = self.members.get(member_id or NO_MEMBER)
        return ErrorCode.UNKNOWN_MEMBER_ID if member is None else _check_epoch(member, member_epoch)

    def check_offset_delete(self) -> ErrorCode:
        return ErrorCode.NONE

    def is_subscribed_to(self, topic: str) -> bool:
        if any(topic in resolved.topics for resolved in self.regexes.values()):
            return True
        return any(topic in names for names in self._subscriptions)

    def offsets_age_from_ms(self, commit_timestamp_ms: int) -> int | None:
        return commit_timestamp_ms

    def tombstones(self) -> Iterable[InternalRecord]:
        for member_id in self.members:
            yield from records.no_member(self.group_id, member_id)
        for regex in sorted(self.regexes):
            yield records.no_regex(self.group_id, regex)
        yield records.no_target_epoch(self.group_id)
        if self.has_partition_metadata:
            yield records.no_partition_metadata(self.group_id)
        yield records.no_group(self.group_id)


def _subscription(member: ConsumerMember) -> tuple[frozenset[str], str | None]:
    return member.subscribed_names, member.subscribed_regex


def _owned_all(member: ConsumerMember, partitions: Collection[tuple[bytes, int]], *, epoch: int) -> bool:
    """Whether the member owned these partitions in that earlier epoch, and ever since."""
    return epoch < member.epoch and all(
        member.since.get(TopicId(topic_id), {}).get(partition, member.epoch) <= epoch
        for topic_id, partition in partitions
    )


def _check_epoch(member: ConsumerMember, epoch: int) -> ErrorCode:
    if epoch == member.epoch:
        return ErrorCode.NONE
    return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION


_REPLAY: Final[Mapping[type[RecordKey], Callable[[ConsumerGroup, Any, Any], None]]] = {
    shapes.ConsumerGroupMetadataKey: ConsumerGroup._replay_epoch,
    shapes.ConsumerGroupPartitionMetadataKey: ConsumerGroup._replay_partition_metadata,
    shapes.ConsumerGroupMemberMetadataKey: ConsumerGroup._replay_member,
    shapes.ConsumerGroupTargetAssignmentMetadataKey: ConsumerGroup._replay_target_epoch,
    shapes.ConsumerGroupTargetAssignmentMemberKey: ConsumerGroup._replay_target,
    shapes.ConsumerGroupCurrentMemberAssignmentKey: ConsumerGroup._replay_place,
    shapes.ConsumerGroupRegularExpressionKey: ConsumerGroup._replay_regex,
}

REPLAYED: Final = tuple(_REPLAY)
