"""Committed offsets of all groups of a shard, and those that wait for the end of their transaction.

An offset committed in a transaction takes effect with the commit marker, unless a later record of the log has committed
another meanwhile. Until then its partition has no stable offset. Only the `replay` methods change anything.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

from penstock.records.internal.group_shapes import OffsetCommitKey, OffsetCommitValue
from penstock.records.internal.record import InternalRecord

# Topic and partition: a plain tuple, as there may be hundreds of thousands.
Position: TypeAlias = tuple[str, int]


class CommittedRecord(NamedTuple):
    """A committed offset, and the log offset of its record: the later record wins."""

    value: OffsetCommitValue
    log_offset: int


class Offsets:
    """Committed and pending offsets, by group and partition."""

    def __init__(self) -> None:
        self._committed: dict[str, dict[Position, CommittedRecord]] = {}
        # By producer, as a marker ends what one producer has pending in all groups of the partition.
        self._pending: dict[int, dict[tuple[str, Position], CommittedRecord]] = {}
        # How many producers have offsets pending, by group and partition.
        self._open: dict[str, dict[Position, int]] = {}

    def of(self, group_id: str) -> Mapping[Position, CommittedRecord]:
        """The committed offsets of a group."""
        return self._committed.get(group_id, {})

    def is_open(self, group_id: str, position: Position) -> bool:
        """Whether a transaction may still change this offset."""
        return position in self._open.get(group_id, ())

    def has_open(self, group_id: str) -> bool:
        return group_id in self._open

    def positions(self, group_id: str) -> Iterator[Position]:
        """All partitions with a committed or pending offset."""
        committed = self.of(group_id)
        yield from committed
        yield from (position for position in self._open.get(group_id, ()) if position not in committed)

    def replay(
        self,
        key: OffsetCommitKey,
        value: OffsetCommitValue | None,
        *,
        log_offset: int,
        producer_id: int | None,
    ) -> None:
        position = key.topic, key.partition
        if value is None:
            self._remove(key.group, position)
        elif producer_id is None:
            self._committed.setdefault(key.group, {})[position] = CommittedRecord(value, log_offset)
        else:
            pending = self._pending.setdefault(producer_id, {})
            if (key.group, position) not in pending:
                opened = self._open.setdefault(key.group, {})
                opened[position] = opened.get(position, 0) + 1
            pending[key.group, position] = CommittedRecord(value, log_offset)

    def replay_marker(self, producer_id: int, *, committed: bool) -> None:
        """The producer's transaction ended: its pending offsets are committed, or discarded."""
        for (group_id, position), offset in self._pending.pop(producer_id, {}).items():
            self._close(group_id, position)
            if committed:
                offsets = self._committed.setdefault(group_id, {})
                current = offsets.get(position)
                if current is None or current.log_offset < offset.log_offset:
                    offsets[position] = offset

    def _remove(self, group_id: str, position: Position) -> None:
        offsets = self._committed.get(group_id)
        if offsets is not None:
            offsets.pop(position, None)
            if not offsets:
                del self._committed[group_id]
        if not self.is_open(group_id, position):
            return
        for producer_id, pending in list(self._pending.items()):
            if pending.pop((group_id, position), None) is not None:
                self._close(group_id, position)
                if not pending:
                    del self._pending[producer_id]

    def _close(self, group_id: str, position: Position) -> None:
        opened = self._open[group_id]
        opened[position] -= 1
        if not opened[position]:
            del opened[position]
            if not opened:
                del self._open[group_id]


def tombstones(group_id: str, positions: Iterable[Position]) -> list[InternalRecord]:
    """The records that delete these offsets."""
    return [
        InternalRecord(OffsetCommitKey(group=group_id, topic=topic, partition=partition), None)
        for topic, partition in positions
    ]
