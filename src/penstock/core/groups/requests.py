"""Requests to a group shard and its responses, as plain data with the protocol's words.

A response that is only an error is a `Refusal` of `core.coordinator_shard`; except for JoinGroup and SyncGroup, whose
error responses have other fields too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.base.errors import ErrorCode
from penstock.core.groups.group import NO_GENERATION, NO_MEMBER

NO_OFFSET = -1
NO_LEADER_EPOCH = -1
NO_TOPIC_ID = bytes(16)
RETENTION_OF_BROKER = -1


class ClientInfo(NamedTuple):
    """The client of a request, as group descriptions show it."""

    client_id: str
    host: str


class SupportedProtocol(NamedTuple):
    """A protocol (assignor) that a member supports, and its metadata for it (its subscription)."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """JoinGroup."""

    group_id: str
    client: ClientInfo
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[SupportedProtocol, ...]
    # Random, drawn by the caller, since the core is pure: the end of the id of a new member.
    new_member_suffix: str
    member_id: str = NO_MEMBER
    instance_id: str | None = None
    requires_known_member_id: bool = True  # since version 4
    supports_skipping_assignment: bool = True  # since version 9


class JoinedMember(NamedTuple):
    """A member in the leader's JoinGroup response."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """The response to JoinGroup; the leader's has all members."""

    error: ErrorCode = ErrorCode.NONE
    member_id: str = NO_MEMBER
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = NO_MEMBER
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync:
    """SyncGroup; the leader's has the assignments of all members."""

    group_id: str
    member_id: str
    generation: int
    instance_id: str | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    assignments: Sequence[tuple[str, bytes]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Synced:
    """The response to SyncGroup."""

    error: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """Heartbeat; answered with an ErrorCode."""

    group_id: str
    member_id: str
    generation: int
    instance_id: str | None = None


class LeavingMember(NamedTuple):
    """A member that leaves; an admin client names the instance id only."""

    member_id: str
    instance_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave:
    """LeaveGroup; answered with one ErrorCode per member, in order."""

    group_id: str
    members: Sequence[LeavingMember]


class OffsetToCommit(NamedTuple):
    """A position in one partition. `None` as metadata is the empty string."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str | None = ""
    topic_id: bytes = NO_TOPIC_ID


class OffsetCommit(NamedTuple):
    """OffsetCommit and TxnOffsetCommit; answered with one ErrorCode per offset, in order."""

    group_id: str
    offsets: Sequence[OffsetToCommit]
    member_id: str = NO_MEMBER
    instance_id: str | None = None
    generation: int = NO_GENERATION
    version: int = 10
    retention_ms: int = RETENTION_OF_BROKER  # versions 2-4


class CommittedOffset(NamedTuple):
    """The response to OffsetFetch for one partition."""

    topic: str
    partition: int
    offset: int = NO_OFFSET
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""
    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOffsets:
    """OffsetFetch for one group; `partitions` None asks for all. Answered with a tuple of CommittedOffset."""

    group_id: str
    partitions: Sequence[tuple[str, int]] | None = None
    # By name: offsets that were committed for an earlier topic of that name, with another id, are ignored.
    topic_ids: Mapping[str, bytes] = field(default_factory=dict)
    member_id: str | None = None
    member_epoch: int = NO_GENERATION
    require_stable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOffsets:
    """OffsetDelete; answered with one ErrorCode per partition, in order."""

    group_id: str
    partitions: Sequence[tuple[str, int]]


class ListedGroup(NamedTuple):
    """A group in ListGroups."""

    group_id: str
    protocol_type: str
    state: str
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedClassicMember:
    """A member in DescribeGroups."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes = b""
    assignment: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedGroup:
    """A classic group in DescribeGroups; protocol and members' metadata only while it is stable."""

    group_id: str
    state: str
    protocol_type: str
    protocol: str
    members: Sequence[DescribedClassicMember] = field(default_factory=tuple)
