"""Expiry of committed offsets and of empty groups.

An offset expires `offsets.retention.minutes` after

    the group became empty                   a group whose members joined it
    it was committed                         a simple group, which never had members
    it was committed, if not subscribed to   a stable group of consumers

and never while a transaction may change it. OffsetCommit v2-v4 could set a retention time of its own instead. An empty
group is deleted with its last offset.
"""

from collections.abc import Callable, Iterator, Mapping

from penstock.core.coordinator_shard import Decision
from penstock.core.groups.group import Group
from penstock.core.groups.offsets import Offsets, Position, tombstones
from penstock.core.groups.requests import NO_TOPIC_ID

# Offsets per decision, so that no decision takes long or exceeds the size of a batch.
OFFSETS_PER_DECISION = 1_000
_GROUPS_PER_SLICE = 100
_BYTES_PER_DECISION = 500_000
_BYTES_PER_OFFSET = 300  # beside the group's name: the longest name of a topic, and what is around the two

_NO_EXPIRY = -1

# Nothing to append; other requests may be served.
_PAUSE: Decision[None] = Decision(None)


class OffsetExpiry:
    """Scans the groups of a shard, one after the other; requests may be served between two decisions."""

    def __init__(self, groups: Mapping[str, Group], offsets: Offsets, *, retention_ms: int) -> None:
        self._groups = groups
        self._offsets = offsets
        self._retention_ms = retention_ms

    def expire(self, now_ms: int) -> Iterator[Decision[None]]:
        """Tombstones for expired offsets, and for empty groups without offsets."""
        for number, group_id in enumerate(list(self._groups), start=1):
            if number % _GROUPS_PER_SLICE == 0:
                yield _PAUSE
            yield from self._remove(
                group_id, lambda group, position: self._is_expired(group, position, now_ms)
            )
            group = self._groups.get(group_id)
            if group is not None and group.is_empty and not self._has_offsets(group_id):
                yield Decision(None, tuple(group.tombstones()))

    def delete_offsets_of_topics(self, is_deleted: Callable[[str, bytes], bool]) -> Iterator[Decision[None]]:
        """Delete the offsets of deleted topics: a topic created later under the same name begins without offsets.
        `is_deleted` takes the name and the id of a topic; the id is zero where it is not known."""
        for number, group_id in enumerate(list(self._groups), start=1):
            if number % _GROUPS_PER_SLICE == 0:
                yield _PAUSE
            yield from self._remove(
                group_id, lambda group, position: is_deleted(position[0], self._topic_id(group, position))
            )

    def _remove(
        self, group_id: str, is_removable: Callable[[Group, Position], bool]
    ) -> Iterator[Decision[None]]:
        """Tombstones for offsets of a group, each checked just before: it may have been committed again, or the group
        deleted, while other requests were served."""
        positions = list(self._offsets.positions(group_id))
        room = _BYTES_PER_DECISION // (_BYTES_PER_OFFSET + len(group_id.encode()))
        count = min(OFFSETS_PER_DECISION, room)
        for start in range(0, len(positions), count):
            group = self._groups.get(group_id)
            if group is None:
                return
            slice_ = positions[start : start + count]
            removed = [position for position in slice_ if is_removable(group, position)]
            if removed:
                yield Decision(None, tuple(tombstones(group_id, removed)))
            elif len(slice_) == count:
                yield _PAUSE

    def _topic_id(self, group: Group, position: Position) -> bytes:
        committed = self._offsets.of(group.group_id).get(position)
        return NO_TOPIC_ID if committed is None else committed.value.topic_id

    def _is_expired(self, group: Group, position: Position, now_ms: int) -> bool:
        committed = self._offsets.of(group.group_id).get(position)
        if committed is None or self._offsets.is_open(group.group_id, position):
            return False
        value = committed.value
        age_from_ms = group.offsets_age_from_ms(value.commit_timestamp)
        if age_from_ms is None or group.is_subscribed_to(position[0]):
            return False
        if value.expire_timestamp != _NO_EXPIRY:
            return now_ms >= value.expire_timestamp
        return now_ms - age_from_ms >= self._retention_ms

    def _has_offsets(self, group_id: str) -> bool:
        return bool(self._offsets.of(group_id)) or self._offsets.has_open(group_id)
