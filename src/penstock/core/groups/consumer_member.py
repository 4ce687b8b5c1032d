"""A member of a group of the consumer protocol: what it told about itself, and how far it has come.

Immutable: a change is another member. Two records hold one: what it told (`ConsumerGroupMemberMetadata`), and
its epoch and partitions (`ConsumerGroupCurrentMemberAssignment`).
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

# What a heartbeat says instead of an epoch.
JOINING: Final = 0
LEAVING: Final = -1
AWAY: Final = -2  # a static member that means to come back

NEVER_JOINED: Final = 0

Epochs: TypeAlias = Mapping[TopicId, Mapping[int, int]]


class MemberState(IntEnum):
    """Where a member is on the way to its target; the numbers are those of the record."""

    STABLE = 1  # it has what it shall have in its epoch
    UNREVOKED = 2  # it has to give up partitions before anything else
    UNRELEASED = 3  # it waits for partitions that others have not given up yet
    UNKNOWN = 127  # written by a coordinator that knows more states than this one


class ClassicMembership(NamedTuple):
    """What a member brings that speaks the classic protocol."""

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
    previous_epoch: int = NEVER_JOINED  # what it may still say if the answer with the newer one got lost
    state: MemberState = MemberState.STABLE
    assigned: Assignment = field(default_factory=dict)
    pending_revocation: Assignment = field(default_factory=dict)
    since: Epochs = field(default_factory=dict)  # in which epoch each of these partitions became its own

    @property
    def is_away(self) -> bool:
        return self.epoch == AWAY

    @property
    def held(self) -> Assignment:
        """All partitions that nobody else may get: its own, and those it has not yet given up."""
        return together(self.assigned, self.pending_revocation) if self.pending_revocation else self.assigned

    def at_epoch(self, epoch: int) -> "ConsumerMember":
        return replace(self, previous_epoch=self.epoch, epoch=epoch)

    def described_by(self, value: ConsumerGroupMemberMetadataValue) -> "ConsumerMember":
        """As this record says who it is and what it wants."""
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
        """At the epoch and with the partitions that this record says."""
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
        """Without epoch and partitions: as it is before any record said where it is."""
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
