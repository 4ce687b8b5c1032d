"""The limits and times of groups of the consumer protocol, with Kafka's names and defaults."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from penstock.core.groups.assignors import ASSIGNORS


class MigrationPolicy(StrEnum):
    """Whether a group that has members may change its protocol (group.consumer.migration.policy)."""

    BIDIRECTIONAL = "bidirectional"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    DISABLED = "disabled"

    @property
    def allows_upgrade(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.UPGRADE)

    @property
    def allows_downgrade(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.DOWNGRADE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupSettings:
    """What the broker's settings say."""

    # group.consumer.max.size
    members_max: int = 2**31 - 1
    # group.consumer.migration.policy
    migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    # group.consumer.assignors; the first is the default
    assignors: tuple[str, ...] = tuple(ASSIGNORS)
    # Members and partitions up to which an assignment is computed at once, inside the request that asks for it. Larger
    # ones are computed in slices beside the requests, and no more often than the group's interval says.
    assigned_at_once_max: int = 1_000
    # Topic names up to which a regular expression is resolved at once.
    matched_at_once_max: int = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTimes:
    """The times that a group's own configs can set, else the broker's settings."""

    # consumer.session.timeout.ms, group.consumer.session.timeout.ms
    session_timeout_ms: int = 45_000
    # consumer.heartbeat.interval.ms, group.consumer.heartbeat.interval.ms
    heartbeat_interval_ms: int = 5_000
    # consumer.assignment.interval.ms, group.consumer.assignment.interval.ms
    assignment_interval_ms: int = 1_000


class TimesOf(Protocol):
    """Looks up a group's times; called at every use, since configs may change."""

    def __call__(self, group_id: str) -> GroupTimes: ...
