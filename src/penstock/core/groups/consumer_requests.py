"""Requests and responses of the consumer protocol, and validation of ConsumerGroupHeartbeat."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from penstock.base.errors import ErrorCode, Refusal
from penstock.core.groups.consumer_member import AWAY, JOINING, LEAVING
from penstock.core.groups.partition_sets import Assignment
from penstock.core.groups.requests import ClientInfo

UNCHANGED = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerHeartbeat:
    """ConsumerGroupHeartbeat. None (and -1 as the timeout) means unchanged."""

    group_id: str
    member_id: str
    member_epoch: int
    client: ClientInfo
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = UNCHANGED
    subscribed_names: Sequence[str] | None = None
    subscribed_regex: str | None = None
    server_assignor: str | None = None
    owned: Assignment | None = None
    # Random, drawn by the caller, since the core is pure: for a member without an id (version 0 only).
    new_member_id: str = ""
    version: int = 1

    @property
    def is_full(self) -> bool:
        """Whether all fields are set, so that the response has the whole assignment."""
        return (
            self.rebalance_timeout_ms != UNCHANGED
            and (self.subscribed_names is not None or self.subscribed_regex is not None)
            and self.owned is not None
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatAnswer:
    """The response to ConsumerGroupHeartbeat; with the assignment only if it changed."""

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    assignment: Assignment | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedConsumer:
    """A member in ConsumerGroupDescribe."""

    member_id: str
    instance_id: str | None
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    subscribed_names: Sequence[str]
    subscribed_regex: str | None
    assignment: Assignment
    target: Assignment
    is_classic: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedConsumerGroup:
    """The response to ConsumerGroupDescribe for one group."""

    group_id: str
    state: str
    epoch: int
    assignment_epoch: int
    assignor: str
    members: Sequence[DescribedConsumer] = field(default_factory=tuple)


def check(request: ConsumerHeartbeat, assignors: Sequence[str]) -> Refusal | None:
    """Validate a heartbeat, whatever the state of the group; None if it is valid."""
    reason = _invalid(request)
    if reason is not None:
        return Refusal(ErrorCode.INVALID_REQUEST, reason)
    assignor = request.server_assignor
    if assignor is not None and assignor not in assignors:
        known = ", ".join(assignors)
        return Refusal(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {assignor} is not supported. Supported assignors: {known}.",
        )
    return None


def _invalid(request: ConsumerHeartbeat) -> str | None:
    joins = request.member_epoch == JOINING
    if not request.group_id.strip():
        return "GroupId can't be empty."
    if not request.member_id.strip() and (request.version > 0 or not joins):
        return "MemberId can't be empty."
    if request.instance_id is not None and not request.instance_id.strip():
        return "InstanceId can't be empty."
    if request.rack_id is not None and not request.rack_id.strip():
        return "RackId can't be empty."
    if joins:
        return _invalid_join(request)
    if request.member_epoch == AWAY and request.instance_id is None:
        return "InstanceId can't be null."
    if request.member_epoch < min(AWAY, LEAVING):
        return "MemberEpoch is invalid."
    return None


def _invalid_join(request: ConsumerHeartbeat) -> str | None:
    if request.rebalance_timeout_ms == UNCHANGED:
        return "RebalanceTimeoutMs must be provided in first request."
    if request.owned is None or request.owned:
        return "TopicPartitions must be empty when (re-)joining."
    if request.subscribed_names is None and request.subscribed_regex is None:
        return "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
    return None
