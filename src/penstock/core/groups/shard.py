"""GroupShard: all groups and offsets of one partition of `__consumer_offsets`.

One method per request; each returns a `Decision` or, where the answer may take long, a generator that returns one.
Requests of the consumer protocol are methods of `GroupShard.consumer`.
"""

from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from typing import Protocol

from penstock.base.errors import ErrorCode
from penstock.core.coordination import BatchProducer, Decision
from penstock.core.deadlines import Deadlines, Key
from penstock.core.groups import describing
from penstock.core.groups.classic import ClassicGroup
from penstock.core.groups.classic_requests import ClassicRequests
from penstock.core.groups.effects import Effects
from penstock.core.groups.expiry import Expiry
from penstock.core.groups.group import NO_MEMBER, Group
from penstock.core.groups.offset_requests import OffsetRequests
from penstock.core.groups.offsets import Offsets
from penstock.core.groups.requests import (
    CommittedOffset,
    DeleteOffsets,
    DescribedGroup,
    FetchOffsets,
    Heartbeat,
    Join,
    Joined,
    Leave,
    ListedGroup,
    OffsetCommit,
    Sync,
    Synced,
)
from penstock.core.groups.settings import GroupSettings
from penstock.records.internal.group_shapes import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from penstock.records.internal.record import InternalRecord

_EXPIRY: Key = ("offsets", "expiry")


class ConsumerSide(Protocol):
    """What the shard needs of the consumer protocol. A group of that protocol is in `GroupShard.groups`; replaying
    the tombstone of one removes it only if what stands there is one: a classic group may have taken its place."""

    def replay(self, record: InternalRecord) -> None:
        """A record of types 3 to 8 and 16."""
        ...

    def loaded(self, now_ms: int) -> None: ...

    def expire(self, key: Key, now_ms: int) -> Iterable[Decision[None]]:
        """A timer whose key begins with "consumer" is due."""
        ...

    def join(self, group: Group, request: Join, now_ms: int) -> Decision[Joined]:
        """A classic member joins a group of the consumer protocol that has members; so for the next three."""
        ...

    def sync(self, group: Group, request: Sync, now_ms: int) -> Decision[Synced]: ...

    def classic_heartbeat(self, group: Group, request: Heartbeat, now_ms: int) -> Decision[ErrorCode]: ...

    def leave(self, group: Group, request: Leave, now_ms: int) -> Decision[tuple[ErrorCode, ...]]: ...


# Makes the consumer side of a shard, which shares the shard's groups and timers.
ConsumerSideFactory = Callable[["GroupShard"], ConsumerSide]


class GroupShard:
    """Implements `coordination.Shard`. A group id that is empty is refused before it comes here."""

    def __init__(self, settings: GroupSettings, consumer_side: ConsumerSideFactory) -> None:
        self.settings = settings
        self.groups: dict[str, Group] = {}
        self.deadlines = Deadlines()
        self.offsets = Offsets()
        self.classic = ClassicRequests(settings)
        self.consumer = consumer_side(self)
        self._offset_requests = OffsetRequests(self.groups, self.offsets, settings)
        self._expiry = Expiry(self.groups, self.offsets, retention_ms=settings.offsets_retention_ms)

    # Members of classic groups

    def join(self, request: Join, now_ms: int) -> Decision[Joined]:
        """JoinGroup."""
        settings = self.settings
        if (
            not settings.session_timeout_ms_min
            <= request.session_timeout_ms
            <= settings.session_timeout_ms_max
        ):
            return Decision(Joined(error=ErrorCode.INVALID_SESSION_TIMEOUT, member_id=request.member_id))
        group = self.groups.get(request.group_id)
        if group is not None and not isinstance(group, ClassicGroup) and not group.is_empty:
            return self.consumer.join(group, request, now_ms)
        effects = Effects()
        if not isinstance(group, ClassicGroup):
            if request.member_id != NO_MEMBER:
                return Decision(Joined(error=ErrorCode.UNKNOWN_MEMBER_ID, member_id=request.member_id))
            # Nobody is in a group of the consumer protocol any more: whoever comes decides anew.
            effects.records.extend(() if group is None else group.tombstones())
            group = self.groups[request.group_id] = ClassicGroup(request.group_id, self.deadlines)
            effects.records.append(group.first_record(now_ms))
        return effects.decision(self.classic.join(group, request, now_ms, effects))

    def sync(self, request: Sync, now_ms: int) -> Decision[Synced]:
        """SyncGroup."""
        group = self.groups.get(request.group_id)
        if group is None:
            return Decision(Synced(error=ErrorCode.UNKNOWN_MEMBER_ID))
        if not isinstance(group, ClassicGroup):
            return self.consumer.sync(group, request, now_ms)
        effects = Effects()
        return effects.decision(self.classic.sync(group, request, now_ms, effects))

    def heartbeat(self, request: Heartbeat, now_ms: int) -> Decision[ErrorCode]:
        """Heartbeat."""
        group = self.groups.get(request.group_id)
        if group is None:
            return Decision(ErrorCode.UNKNOWN_MEMBER_ID)
        if not isinstance(group, ClassicGroup):
            return self.consumer.classic_heartbeat(group, request, now_ms)
        return Decision(self.classic.heartbeat(group, request, now_ms))

    def await_news(self, request: Heartbeat, now_ms: int) -> Decision[ErrorCode]:
        """Heartbeat, for a member that was just answered NONE and wants to be told at once when that changes.

        The answer is the news, or REQUEST_TIMED_OUT if none came for a while; NONE, at once, if it is not to wait.
        """
        group = self.groups.get(request.group_id)
        if not isinstance(group, ClassicGroup):
            return Decision(ErrorCode.NONE)
        effects = Effects()
        return effects.decision(self.classic.await_news(group, request, now_ms, effects))

    def leave(self, request: Leave, now_ms: int) -> Decision[tuple[ErrorCode, ...]]:
        """LeaveGroup."""
        group = self.groups.get(request.group_id)
        if group is None:
            return Decision.refused(ErrorCode.UNKNOWN_MEMBER_ID)
        if not isinstance(group, ClassicGroup):
            return self.consumer.leave(group, request, now_ms)
        effects = Effects()
        return effects.decision(self.classic.leave(group, request, now_ms, effects))

    # Offsets

    def commit(self, request: OffsetCommit, now_ms: int) -> Decision[tuple[ErrorCode, ...]]:
        """OffsetCommit."""
        return self._offset_requests.commit(request, now_ms)

    def commit_in_transaction(
        self, request: OffsetCommit, producer: BatchProducer, now_ms: int
    ) -> Decision[tuple[ErrorCode, ...]]:
        """TxnOffsetCommit."""
        return self._offset_requests.commit(request, now_ms, producer)

    def fetch_offsets(self, request: FetchOffsets) -> Decision[tuple[CommittedOffset, ...]]:
        """OffsetFetch, for one group."""
        return self._offset_requests.fetch(request)

    def delete_offsets(self, request: DeleteOffsets) -> Decision[tuple[ErrorCode, ...]]:
        """OffsetDelete."""
        return self._offset_requests.delete(request)

    def forget_topics(self, is_gone: Callable[[str, bytes], bool]) -> Iterator[Decision[None]]:
        """Topics were deleted, and with them all that was committed for them; to be carried out like `expire`."""
        return self._expiry.forget_topics(is_gone)

    # Groups

    def describe(self, group_id: str) -> Decision[DescribedGroup]:
        """DescribeGroups, for one group."""
        return describing.describe(self.groups, group_id)

    def list_groups(
        self, *, states: Collection[str], types: Collection[str]
    ) -> Generator[None, None, Decision[tuple[ListedGroup, ...]]]:
        """ListGroups: what of it is in this shard."""
        return describing.list_groups(self.groups, states=states, types=types)

    def delete_group(self, group_id: str) -> Decision[None]:
        """DeleteGroups, for one group."""
        return self._offset_requests.delete_group(group_id)

    # The log

    def replay(self, record: InternalRecord, *, offset: int, producer: BatchProducer | None = None) -> None:
        key, value = record
        match key:
            case OffsetCommitKey():
                assert value is None or isinstance(value, OffsetCommitValue)
                self._replay_offset(key, value, offset, producer)
            case LegacyOffsetCommitKey():
                assert value is None or isinstance(value, LegacyOffsetCommitValue)
                self._replay_offset(_current_key(key), _current_value(value), offset, producer)
            case GroupMetadataKey():
                assert value is None or isinstance(value, GroupMetadataValue)
                self._replay_group(key.group, value)
            case _:
                self.consumer.replay(record)

    def replay_marker(self, producer: BatchProducer, *, committed: bool, offset: int) -> None:  # noqa: ARG002
        self.offsets.replay_marker(producer.id, committed=committed)

    def _replay_offset(
        self,
        key: OffsetCommitKey,
        value: OffsetCommitValue | None,
        offset: int,
        producer: BatchProducer | None,
    ) -> None:
        if value is not None:
            self._ensure_group(key.group)
        producer_id = None if producer is None else producer.id
        self.offsets.replay(key, value, log_offset=offset, producer_id=producer_id)

    def _replay_group(self, group_id: str, value: GroupMetadataValue | None) -> None:
        group = self.groups.get(group_id)
        if value is not None:
            if not isinstance(group, ClassicGroup):
                group = self.groups[group_id] = ClassicGroup(group_id, self.deadlines)
            group.replay(value)
        elif isinstance(group, ClassicGroup):
            group.cancel_timers()
            del self.groups[group_id]

    def _ensure_group(self, group_id: str) -> None:
        """Whoever commits offsets without joining has a group too, for its offsets only."""
        if group_id not in self.groups:
            self.groups[group_id] = ClassicGroup(group_id, self.deadlines)

    # Timers

    def loaded(self, now_ms: int) -> None:
        for group in list(self.groups.values()):
            if isinstance(group, ClassicGroup):
                self.classic.loaded(group, now_ms)
        self.consumer.loaded(now_ms)
        self.deadlines.set(_EXPIRY, now_ms + self.settings.offsets_check_interval_ms)

    def deadline(self) -> int | None:
        return self.deadlines.next_ms()

    def expire(self, now_ms: int) -> Iterator[Decision[None]]:
        for key in self.deadlines.due(now_ms):
            if key == _EXPIRY:
                self.deadlines.set(_EXPIRY, now_ms + self.settings.offsets_check_interval_ms)
                yield from self._expiry.expire(now_ms)
            elif key[0] == "consumer":
                yield from self.consumer.expire(key, now_ms)
            else:
                yield self._expire_classic(key, now_ms)

    def _expire_classic(self, key: Key, now_ms: int) -> Decision[None]:
        effects = Effects()
        group = self.groups.get(key[2])
        if isinstance(group, ClassicGroup):
            self.classic.expire(group, key, now_ms, effects)
        return effects.decision(None)


def _current_key(key: LegacyOffsetCommitKey) -> OffsetCommitKey:
    return OffsetCommitKey(group=key.group, topic=key.topic, partition=key.partition)


def _current_value(value: LegacyOffsetCommitValue | None) -> OffsetCommitValue | None:
    if value is None:
        return None
    return OffsetCommitValue(
        offset=value.offset, metadata=value.metadata, commit_timestamp=value.commit_timestamp
    )
