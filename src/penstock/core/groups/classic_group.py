"""A classic group: its members, its state, its record, and the rules for its offsets.

    Empty ──join──▶ PreparingRebalance ──all joined or timed out──▶ CompletingRebalance ──leader's assignment──▶ Stable
      ▲                │      ▲  ▲                                           │                                      │
      └──no members────┘      │  └───────a member joins, leaves or times out─┴──────────────────────────────────────┘

Durable is the last generation that was written: when the leader sent its assignments, or when the group became empty.
`replay` applies it. A rebalance in progress is not durable: after a fail-over the new coordinator has the last
generation, and members with another one rejoin.
"""

from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

from penstock.base.errors import ErrorCode, PeerError
from penstock.core.coordinator_shard import Completion
from penstock.core.deadlines import Deadlines, Key
from penstock.core.groups.classic_member import ClassicMember
from penstock.core.groups.effects import Effects
from penstock.core.groups.group import CONSUMER_PROTOCOL_TYPE, NO_MEMBER, GroupType
from penstock.core.groups.requests import JoinedMember
from penstock.records.consumer_protocol import read_subscription
from penstock.records.internal.group_shapes import GroupMetadataKey, GroupMetadataValue
from penstock.records.internal.record import InternalRecord

STREAMS_PROTOCOL = "stream"
_NO_TIMESTAMP = -1


class ClassicState(StrEnum):
    """The names are those that clients are shown."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"


EMPTY = ClassicState.EMPTY
PREPARING_REBALANCE = ClassicState.PREPARING_REBALANCE
COMPLETING_REBALANCE = ClassicState.COMPLETING_REBALANCE
STABLE = ClassicState.STABLE


class Subscriptions(NamedTuple):
    """All topics that the members subscribed to, if that can be known."""

    topics: frozenset[str] | None


class ClassicGroup:
    """One group, in the order in which its members joined. Implements `group.Group`."""

    type = GroupType.CLASSIC
    replaceable_by = frozenset({GroupType.CONSUMER})

    def __init__(self, group_id: str, deadlines: Deadlines) -> None:
        self.group_id = group_id
        self.deadlines = deadlines
        self.state = EMPTY
        self.state_since_ms: int | None = None
        self.generation = 0
        self.protocol_type = ""
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, ClassicMember] = {}
        # Member ids that were given out (MEMBER_ID_REQUIRED) and not used to join yet.
        self.expected: set[str] = set()
        # Members whose SyncGroup is missing in this generation.
        self.unsynced: set[str] = set()
        # Of the initial rebalance of an empty group: when it ends at the latest, and whether a member joined since its
        # delay was last extended.
        self.initial_rebalance_ends_ms: int | None = None
        self.joined_in_delay = False
        self._static: dict[str, str] = {}
        # The topics that members subscribed to, cached.
        self._subscriptions: Subscriptions | None = None

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def is_empty(self) -> bool:
        return self.state is EMPTY

    @property
    def is_simple(self) -> bool:
        """A simple group: it never had members, and exists for its offsets only."""
        return self.is_empty and not self.protocol_type and not self.expected

    @property
    def is_of_streams(self) -> bool:
        """Whether its members are Kafka Streams applications."""
        return self.protocol == STREAMS_PROTOCOL

    @property
    def uses_consumer_protocol(self) -> bool:
        """Whether its members' metadata can be read: what they subscribed to."""
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    # Members

    def add(self, member: ClassicMember, protocol_type: str) -> None:
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self._static[member.instance_id] = member.member_id
        self.expected.discard(member.member_id)
        self.changed()

    def remove(self, member_id: str) -> None:
        """Remove a member or an unused member id, and its timers; if the leader leaves, the oldest member leads."""
        self.expected.discard(member_id)
        self.unsynced.discard(member_id)
        self.deadlines.cancel(self.session_key(member_id))
        self.deadlines.cancel(self.hold_key(member_id))
        member = self.members.pop(member_id, None)
        if member is None:
            return
        if member.instance_id is not None and self._static.get(member.instance_id) == member_id:
            del self._static[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self.changed()

    def evict(self, member_id: str, effects: Effects) -> None:
        """Remove a member; its waiting requests are answered with UNKNOWN_MEMBER_ID."""
        member = self.members.get(member_id)
        if member is not None:
            member.dismiss(ErrorCode.UNKNOWN_MEMBER_ID, effects)
        self.remove(member_id)

    def replace(self, old: ClassicMember, new: ClassicMember) -> None:
        """A static member rejoined under a new member id: it takes the place of the old one."""
        was_leader = self.leader == old.member_id
        members = list(self.members.values())
        members[members.index(old)] = new
        self.remove(old.member_id)
        self.members = {member.member_id: member for member in members}
        if new.instance_id is not None:
            self._static[new.instance_id] = new.member_id
        if was_leader:
            self.leader = new.member_id

    def static_member_id(self, instance_id: str) -> str | None:
        return self._static.get(instance_id)

    def check_member(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Whether this is a member, and the current one with its instance id."""
        if instance_id is not None:
            holder = self._static.get(instance_id)
            if holder is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if holder != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    @property
    def joining_count(self) -> int:
        return sum(member.joining is not None for member in self.members.values())

    @property
    def all_joined(self) -> bool:
        return not self.expected and all(member.joining is not None for member in self.members.values())

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of the members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def members_for_leader(self) -> tuple[JoinedMember, ...]:
        return tuple(
            JoinedMember(member.member_id, member.instance_id, member.metadata_for(self.protocol))
            for member in self.members.values()
        )

    # Timers

    def session_key(self, member_id: str) -> Key:
        return ("classic", "session", self.group_id, member_id)

    @property
    def join_key(self) -> Key:
        return ("classic", "join", self.group_id)

    @property
    def sync_key(self) -> Key:
        return ("classic", "sync", self.group_id)

    def hold_key(self, member_id: str) -> Key:
        return ("classic", "hold", self.group_id, member_id)

    def await_heartbeat(self, member: ClassicMember, now_ms: int) -> None:
        self.deadlines.set(self.session_key(member.member_id), now_ms + member.session_timeout_ms)

    def cancel_timers(self) -> None:
        for member_id in (*self.members, *sorted(self.expected)):
            self.deadlines.cancel(self.session_key(member_id))
            self.deadlines.cancel(self.hold_key(member_id))
        self.deadlines.cancel(self.join_key)
        self.deadlines.cancel(self.sync_key)

    def release(self, error: ErrorCode) -> tuple[Completion, ...]:
        """The group is upgraded to the consumer protocol: cancel its timers, and answer its waiting requests."""
        self.cancel_timers()
        effects = Effects()
        for member in self.members.values():
            member.dismiss(error, effects, member_id=member.member_id)
        return tuple(effects.completions)

    # State

    def enter(self, state: ClassicState, now_ms: int) -> None:
        self.state = state
        self.state_since_ms = now_ms
        self.changed()

    def changed(self) -> None:
        """Members joined, left, or changed their metadata."""
        self._subscriptions = None

    def record(self, assignments: Mapping[str, bytes] | None = None) -> InternalRecord:
        """The record of the group, with these assignments or its members' own."""
        members = [
            member.record(
                self.protocol,
                member.assignment if assignments is None else assignments.get(member.member_id, b""),
            )
            for member in self.members.values()
        ]
        value = GroupMetadataValue(
            protocol_type=self.protocol_type,
            generation=self.generation,
            protocol=self.protocol,
            leader=self.leader,
            current_state_timestamp=_NO_TIMESTAMP if self.state_since_ms is None else self.state_since_ms,
            members=members,
        )
        return InternalRecord(GroupMetadataKey(group=self.group_id), value)

    def first_record(self, now_ms: int) -> InternalRecord:
        """The record that creates the group, for its first JoinGroup."""
        value = GroupMetadataValue(
            protocol_type="",
            generation=0,
            protocol=None,
            leader=None,
            current_state_timestamp=now_ms,
            members=[],
        )
        return InternalRecord(GroupMetadataKey(group=self.group_id), value)

    def tombstones(self) -> Iterable[InternalRecord]:
        return (InternalRecord(GroupMetadataKey(group=self.group_id), None),)

    def replay(self, value: GroupMetadataValue) -> None:
        """Apply a generation from the log. It ends the rebalance that led to it, and no other.

        Members that the record describes unchanged keep their state that is not durable: other protocols and waiting
        requests. While loading, a later generation may have newer metadata of a member.
        """
        if self.state is PREPARING_REBALANCE:
            return  # the group was just created by this JoinGroup
        known = self.members
        self.members = {}
        self._static = {}
        for metadata in value.members:
            member = known.get(metadata.member_id)
            if member is None or not member.agrees_with(metadata, value.protocol):
                member = ClassicMember.recorded(metadata, value.protocol)
            member.assignment = bytes(metadata.assignment)
            self.members[member.member_id] = member
            if member.instance_id is not None:
                self._static[member.instance_id] = member.member_id
        self.state = STABLE if value.members else EMPTY
        timestamp = value.current_state_timestamp
        self.state_since_ms = None if timestamp == _NO_TIMESTAMP else timestamp
        self.generation = value.generation
        self.protocol_type = value.protocol_type or ""
        self.protocol = value.protocol
        self.leader = value.leader
        self.changed()

    # What offset requests need

    def check_commit(
        self,
        *,
        member_id: str,
        instance_id: str | None,
        generation: int,
        transactional: bool,
        version: int,  # noqa: ARG002
        partitions: Collection[tuple[bytes, int]],  # noqa: ARG002
    ) -> ErrorCode:
        if generation < 0 and self.is_empty:
            return ErrorCode.NONE  # an admin client, or a consumer with manual assignment
        if generation >= 0 or member_id != NO_MEMBER or instance_id is not None:
            error = self.check_member(member_id, instance_id)
            if error is not ErrorCode.NONE:
                return error
            if generation != self.generation:
                return ErrorCode.ILLEGAL_GENERATION
        elif not transactional:
            # Only the first versions of TxnOffsetCommit cannot name a member.
            return ErrorCode.UNKNOWN_MEMBER_ID
        if self.state is COMPLETING_REBALANCE and not transactional:
            # Its partitions may be assigned to another member already.
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def committed(self, *, member_id: str, now_ms: int) -> None:
        member = self.members.get(member_id)
        if member is not None and self.state in (STABLE, PREPARING_REBALANCE):
            self.await_heartbeat(member, now_ms)

    def check_fetch(self, *, member_id: str | None, member_epoch: int) -> ErrorCode:  # noqa: ARG002
        return ErrorCode.NONE

    def check_offset_delete(self) -> ErrorCode:
        if self.is_empty or self.uses_consumer_protocol:
            return ErrorCode.NONE
        return ErrorCode.NON_EMPTY_GROUP

    def is_subscribed_to(self, topic: str) -> bool:
        topics = self._subscribed_topics()
        if topics is None:
            return self.uses_consumer_protocol  # unknown: better to keep too many offsets
        return topic in topics

    def offsets_age_from_ms(self, commit_timestamp_ms: int) -> int | None:
        if not self.protocol_type:
            return commit_timestamp_ms
        if self.is_empty:
            return commit_timestamp_ms if self.state_since_ms is None else self.state_since_ms
        if self.state is STABLE and self.uses_consumer_protocol and self._subscribed_topics() is not None:
            return commit_timestamp_ms
        return None

    def _subscribed_topics(self) -> frozenset[str] | None:
        """None if unknown: the group is not of consumers, or a member's metadata cannot be read."""
        if self._subscriptions is None:
            self._subscriptions = Subscriptions(self._read_subscriptions())
        return self._subscriptions.topics

    def _read_subscriptions(self) -> frozenset[str] | None:
        if not self.protocol_type:
            return None
        if not self.members:
            return frozenset()
        if not self.uses_consumer_protocol or self.protocol is None:
            return None
        topics: set[str] = set()
        try:
            for member in self.members.values():
                topics.update(read_subscription(member.metadata_for(self.protocol)).topics)
        except PeerError:
            return None
        return frozenset(topics)
