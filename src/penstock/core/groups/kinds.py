"""The kinds of groups (classic, consumer; later share and streams), as the shard dispatches to them.

A `Group` answers for itself what offsets, listing, deletion and expiry ask (`group.py`). A `GroupKind` does what
concerns all groups of its kind in a shard: replay of its records, its timers, and JoinGroup, SyncGroup, Heartbeat,
LeaveGroup and DescribeGroups to one of its groups. The shard finds the kind

    by the group's type            for requests to a group that exists
    by the record's key            for replay
    by a timer key's first part    for timers, which is the type's value
    by class                       for requests that only one kind has, such as ConsumerGroupHeartbeat

A new kind is a module with a `Group` and a `GroupKind`, and an entry in `services.coordinators.group_kinds`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias, TypeVar, cast

from penstock.base.errors import ErrorCode
from penstock.core.coordinator_shard import Decision
from penstock.core.deadlines import Deadlines, Key
from penstock.core.groups.group import Group, GroupType
from penstock.core.groups.requests import DescribedGroup, Heartbeat, Join, Joined, Leave, Sync, Synced
from penstock.core.groups.settings import GroupSettings
from penstock.records.internal.record import InternalRecord, RecordKey

G = TypeVar("G", bound=Group)
K = TypeVar("K", bound="GroupKind")


class GroupTable(dict[str, Group]):
    """The groups of a shard, of all kinds, by group id."""

    def find(self, group_id: str, group_class: type[G]) -> G | None:
        """The group, if it exists and is of this class."""
        group = self.get(group_id)
        return group if isinstance(group, group_class) else None

    def all_of(self, group_class: type[G]) -> list[G]:
        return [group for group in self.values() if isinstance(group, group_class)]


class GroupKind(ABC):
    """All groups of one kind in a shard. Requests of classic members are rejected unless the kind takes them."""

    group_type: ClassVar[GroupType]
    record_keys: ClassVar[tuple[type[RecordKey], ...]]

    @abstractmethod
    def replay(self, record: InternalRecord) -> None:
        """Apply a record with one of `record_keys`. The group's tombstone removes it from the table only if the group
        there is of this kind: another kind may have taken over its id."""

    @abstractmethod
    def loaded(self, now_ms: int) -> None:
        """The shard's log has been replayed: start the timers of this kind's groups."""

    @abstractmethod
    def expire(self, key: Key, now_ms: int) -> Iterable[Decision[None]]:
        """A timer whose key begins with this kind's `group_type` is due."""

    def join_group(self, request: Join, now_ms: int) -> Decision[Joined]:  # noqa: ARG002
        """JoinGroup to a group of this kind."""
        return Decision(Joined(error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL))

    def sync_group(self, request: Sync, now_ms: int) -> Decision[Synced]:  # noqa: ARG002
        return Decision(Synced(error=ErrorCode.UNKNOWN_MEMBER_ID))

    def heartbeat(self, request: Heartbeat, now_ms: int) -> Decision[ErrorCode]:  # noqa: ARG002
        return Decision(ErrorCode.UNKNOWN_MEMBER_ID)

    def await_rebalance(self, request: Heartbeat, now_ms: int) -> Decision[ErrorCode]:  # noqa: ARG002
        """As `GroupShard.await_rebalance`; NONE at once where heartbeats are not held."""
        return Decision(ErrorCode.NONE)

    def leave_group(self, request: Leave, now_ms: int) -> Decision[tuple[ErrorCode, ...]]:  # noqa: ARG002
        return Decision.refused(ErrorCode.UNKNOWN_MEMBER_ID)

    def describe_group(self, group_id: str) -> Decision[DescribedGroup]:
        """DescribeGroups, which knows classic groups only."""
        return Decision.refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a classic group.")


class KindTable:
    """The kinds of a shard."""

    def __init__(self) -> None:
        self._by_type: dict[str, GroupKind] = {}
        self._by_record: dict[type[RecordKey], GroupKind] = {}

    def add(self, kind: GroupKind) -> None:
        self._by_type[kind.group_type] = kind
        self._by_record.update(dict.fromkeys(kind.record_keys, kind))

    def __iter__(self) -> Iterator[GroupKind]:
        return iter(self._by_type.values())

    def of_type(self, group_type: str) -> GroupKind:
        return self._by_type[group_type]

    def of_record(self, key: RecordKey) -> GroupKind:
        return self._by_record[type(key)]

    def of_class(self, kind_class: type[K]) -> K:
        return cast(K, self._by_type[kind_class.group_type])


@dataclass(frozen=True)
class ShardState:
    """What the kinds of one shard share: the groups, the timers, and each other."""

    settings: GroupSettings
    groups: GroupTable = field(default_factory=GroupTable)
    deadlines: Deadlines = field(default_factory=Deadlines)
    kinds: KindTable = field(default_factory=KindTable)


# Makes a kind for one shard.
GroupKindFactory: TypeAlias = Callable[[ShardState], GroupKind]
