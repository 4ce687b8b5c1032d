"""A member of a group of the consumer protocol: its metadata, and its current assignment.

Immutable: a change makes another member. Two records hold one: its metadata (`ConsumerGroupMemberMetadata`), and its
epoch and partitions (`ConsumerGroupCurrentMemberAssignment`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

from penstock.base.ids import TopicId
from penstock.core.groups.partition_sets import Assignment, assignment_of, listed, together
from penstock.records.internal.group_shapes import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    TopicPartitions,
)

# Member epochs with a special meaning in a heartbeat.
JOINING: Final = 0
LEAVING: Final = -1
AWAY: Final = -2  # a static member that leaves temporarily

NEVER_JOINED: Final = 0

Epochs: TypeAlias = Mapping[TopicId, Mapping[int, int]]


class MemberState(IntEnum):
    """How far a member is with its target assignment; the numbers are those of the record."""

    STABLE = 1  # it has the target assignment of its epoch
    UNREVOKED = 2  # it has to revoke partitions first
    UNRELEASED = 3  # it waits for partitions that other members have not revoked yet
    UNKNOWN = 127  # written by a coordinator that knows more states than this one


class ClassicMembership(NamedTuple):
    """The metadata of a member that speaks the classic protocol."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]  # names and what goes with them (its subscription), best first


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    """One member of a consumer group."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_names: frozenset[str] = frozenset()
    subscribed_regex: str | None = None
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicMembership | None = None  # None: it speaks the consumer protocol
    epoch: int = NEVER_JOINED
    previous_epoch: int = NEVER_JOINED  # still accepted, if the response with the newer one got lost
    state: MemberState = MemberState.STABLE
    assigned: Assignment = field(default_factory=dict)
    pending_revocation: Assignment = field(default_factory=dict)
    since: Epochs = field(default_factory=dict)  # the epoch in which each partition was assigned

    @property
    def is_away(self) -> bool:
        return self.epoch == AWAY

    @property
    def held(self) -> Assignment:
        """All partitions that no other member may get: its own, and those it has not revoked yet."""
        return together(self.assigned, self.pending_revocation) if self.pending_revocation else self.assigned

    def at_epoch(self, epoch: int) -> "ConsumerMember":
        return replace(self, previous_epoch=self.epoch, epoch=epoch)

    def described_by(self, value: ConsumerGroupMemberMetadataValue) -> "ConsumerMember":
        """The member with the metadata of this record."""
        classic = value.classic_member_metadata
        return replace(
            self,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            subscribed_names=frozenset(value.subscribed_topic_names),
            subscribed_regex=value.subscribed_topic_regex or None,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            server_assignor=value.server_assignor,
            classic=None if classic is None else _classic_membership(classic),
        )

    def description(self) -> ConsumerGroupMemberMetadataValue:
        return ConsumerGroupMemberMetadataValue(
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            subscribed_topic_names=sorted(self.subscribed_names),
            subscribed_topic_regex=self.subscribed_regex,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            server_assignor=self.server_assignor,
            classic_member_metadata=None if self.classic is None else _classic_metadata(self.classic),
        )

    def placed_by(self, value: ConsumerGroupCurrentMemberAssignmentValue) -> "ConsumerMember":
        """The member with the epoch and partitions of this record."""
        since: dict[TopicId, dict[int, int]] = {}
        for topic in (*value.assigned_partitions, *value.partitions_pending_revocation):
            epochs = topic.assignment_epochs or [value.member_epoch] * len(topic.partitions)
            known = since.setdefault(TopicId(bytes(topic.topic_id)), {})
            known.update(zip(topic.partitions, epochs, strict=True))
        return replace(
            self,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=_state(value.state),
            assigned=_partitions(value.assigned_partitions),
            pending_revocation=_partitions(value.partitions_pending_revocation),
            since=since,
        )

    def place(self) -> ConsumerGroupCurrentMemberAssignmentValue:
        return ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=self.epoch,
            previous_member_epoch=self.previous_epoch,
            state=self.state,
            assigned_partitions=self._topics(self.assigned),
            partitions_pending_revocation=self._topics(self.pending_revocation),
        )

    def displaced(self) -> "ConsumerMember":
        """The member without epoch and partitions, as before the first record of its assignment."""
        return replace(
            self,
            epoch=NEVER_JOINED,
            previous_epoch=NEVER_JOINED,
            state=MemberState.STABLE,
            assigned={},
            pending_revocation={},
            since={},
        )

    def _topics(self, assignment: Assignment) -> list[TopicPartitions]:
        return [
            TopicPartitions(
                topic_id=topic_id,
                partitions=partitions,
                assignment_epochs=list(map(self.since[topic_id].__getitem__, partitions)),
            )
            for topic_id, partitions in listed(assignment)
        ]


def _partitions(topics: Iterable[TopicPartitions]) -> Assignment:
    return assignment_of((TopicId(bytes(topic.topic_id)), topic.partitions) for topic in topics)


def _state(number: int) -> MemberState:
    try:
        return MemberState(number)
    except ValueError:
        return MemberState.UNKNOWN


def _classic_membership(metadata: ClassicMemberMetadata) -> ClassicMembership:
    protocols = tuple((protocol.name, bytes(protocol.metadata)) for protocol in metadata.supported_protocols)
    return ClassicMembership(metadata.session_timeout_ms, protocols)


def _classic_metadata(membership: ClassicMembership) -> ClassicMemberMetadata:
    protocols = [ClassicProtocol(name=name, metadata=metadata) for name, metadata in membership.protocols]
    return ClassicMemberMetadata(
        session_timeout_ms=membership.session_timeout_ms, supported_protocols=protocols
    )
