"""GroupShard: all groups and offsets of one partition of `__consumer_offsets`.

One method per request; each returns a `Decision` or, where the answer may take long, a generator that returns one.
Requests to a group go to its kind (`kinds.py`); requests that only one kind has are methods of that kind:
`shard.kind(ConsumerGroups).consumer_group_heartbeat(request, now_ms)`.
"""

from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from typing import TypeVar

from penstock.base.errors import ErrorCode
from penstock.core.coordinator_shard import BatchProducer, Decision
from penstock.core.deadlines import Key
from penstock.core.groups.classic_groups import ClassicGroups
from penstock.core.groups.group import GroupType
from penstock.core.groups.kinds import GroupKind, GroupKindFactory, ShardState
from penstock.core.groups.listing import list_groups
from penstock.core.groups.offset_expiry import OffsetExpiry
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
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from penstock.records.internal.record import InternalRecord

K = TypeVar("K", bound=GroupKind)

_OFFSET_EXPIRY: Key = ("offsets", "expiry")


class GroupShard:
    """Implements `coordination.Shard`. Requests with an empty group id are rejected before they come here.

    The classic kind is always there: JoinGroup, and offset commits without members, create classic groups.
    """

    def __init__(self, settings: GroupSettings, kinds: Sequence[GroupKindFactory] = ()) -> None:
        self.settings = settings
        self.offsets = Offsets()
        state = ShardState(settings)
        self.groups = state.groups
        self.deadlines = state.deadlines
        self._kinds = state.kinds
        self._classic = ClassicGroups(state)
        self._kinds.add(self._classic)
        for create in kinds:
            self._kinds.add(create(state))
        self._offset_requests = OffsetRequests(self.groups, self.offsets, settings)
        self._offset_expiry = OffsetExpiry(
            self.groups, self.offsets, retention_ms=settings.offsets_retention_ms
        )

    def kind(self, kind_class: type[K]) -> K:
        """The kind of that class, for the requests that only it has."""
        return self._kinds.of_class(kind_class)

    def _kind_of(self, group_id: str) -> GroupKind:
        """The kind of the group; classic if there is none, so that the classic kind answers that it is unknown."""
        group = self.groups.get(group_id)
        return self._classic if group is None else self._kinds.of_type(group.type)

    # Members that speak the classic protocol

    def join_group(self, request: Join, now_ms: int) -> Decision[Joined]:
        """JoinGroup. An empty group that may become classic is replaced."""
        settings = self.settings
        if (
            not settings.session_timeout_ms_min
            <= request.session_timeout_ms
            <= settings.session_timeout_ms_max
        ):
            return Decision(Joined(error=ErrorCode.INVALID_SESSION_TIMEOUT, member_id=request.member_id))
        group = self.groups.get(request.group_id)
        if group is None or (group.is_empty and GroupType.CLASSIC in group.replaceable_by):
            return self._classic.join_group(request, now_ms)
        return self._kinds.of_type(group.type).join_group(request, now_ms)

    def sync_group(self, request: Sync, now_ms: int) -> Decision[Synced]:
        """SyncGroup."""
        return self._kind_of(request.group_id).sync_group(request, now_ms)

    def heartbeat(self, request: Heartbeat, now_ms: int) -> Decision[ErrorCode]:
        """Heartbeat."""
        return self._kind_of(request.group_id).heartbeat(request, now_ms)

    def await_rebalance(self, request: Heartbeat, now_ms: int) -> Decision[ErrorCode]:
        """Hold a Heartbeat that was just answered with NONE until the group rebalances.

        The answer is the error to tell the member, or REQUEST_TIMED_OUT if nothing happened for a while; NONE, at
        once, if the heartbeat is not to be held.
        """
        return self._kind_of(request.group_id).await_rebalance(request, now_ms)

    def leave_group(self, request: Leave, now_ms: int) -> Decision[tuple[ErrorCode, ...]]:
        """LeaveGroup."""
        return self._kind_of(request.group_id).leave_group(request, now_ms)

    # Offsets

    def commit_offsets(self, request: OffsetCommit, now_ms: int) -> Decision[tuple[ErrorCode, ...]]:
        """OffsetCommit."""
        return self._offset_requests.commit(request, now_ms)

    def commit_offsets_in_transaction(
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

    def delete_offsets_of_topics(self, is_deleted: Callable[[str, bytes], bool]) -> Iterator[Decision[None]]:
        """Delete the offsets of deleted topics; to be carried out like `expire`."""
        return self._offset_expiry.delete_offsets_of_topics(is_deleted)

    # Groups

    def describe_group(self, group_id: str) -> Decision[DescribedGroup]:
        """DescribeGroups, for one group."""
        return self._kind_of(group_id).describe_group(group_id)

    def list_groups(
        self, *, states: Collection[str], types: Collection[str]
    ) -> Generator[None, None, Decision[tuple[ListedGroup, ...]]]:
        """ListGroups: the groups of this shard."""
        return list_groups(self.groups, states=states, types=types)

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
            case _:
                self._kinds.of_record(key).replay(record)

    def replay_marker(self, producer: BatchProducer, *, committed: bool, offset: int) -> None:  # noqa: ARG002
        self.offsets.replay_marker(producer.id, committed=committed)

    def _replay_offset(
        self,
        key: OffsetCommitKey,
        value: OffsetCommitValue | None,
        offset: int,
        producer: BatchProducer | None,
    ) -> None:
        if value is not None and key.group not in self.groups:
            self._classic.create_simple_group(key.group)
        producer_id = None if producer is None else producer.id
        self.offsets.replay(key, value, log_offset=offset, producer_id=producer_id)

    # Timers

    def loaded(self, now_ms: int) -> None:
        for kind in self._kinds:
            kind.loaded(now_ms)
        self.deadlines.set(_OFFSET_EXPIRY, now_ms + self.settings.offsets_check_interval_ms)

    def deadline(self) -> int | None:
        return self.deadlines.next_ms()

    def expire(self, now_ms: int) -> Iterator[Decision[None]]:
        for key in self.deadlines.due(now_ms):
            if key == _OFFSET_EXPIRY:
                self.deadlines.set(_OFFSET_EXPIRY, now_ms + self.settings.offsets_check_interval_ms)
                yield from self._offset_expiry.expire(now_ms)
            else:
                yield from self._kinds.of_type(key[0]).expire(key, now_ms)


def _current_key(key: LegacyOffsetCommitKey) -> OffsetCommitKey:
    return OffsetCommitKey(group=key.group, topic=key.topic, partition=key.partition)


def _current_value(value: LegacyOffsetCommitValue | None) -> OffsetCommitValue | None:
    if value is None:
        return None
    return OffsetCommitValue(
        offset=value.offset, metadata=value.metadata, commit_timestamp=value.commit_timestamp
    )
