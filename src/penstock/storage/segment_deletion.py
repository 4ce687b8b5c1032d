"""Segments that are out of the log, and their files, which are removed after `file.delete.delay.ms`."""

from typing import NamedTuple

from penstock.storage import file_names
from penstock.storage.segment import Segment
from penstock.world.disk import Disk


class SegmentDeletion(NamedTuple):
    """Files to remove when `due_ms` has come. `run` may block."""

    due_ms: int
    segment: Segment

    def run(self, disk: Disk) -> None:
        self.segment.close()
        for kind in file_names.SEGMENT_SUFFIXES:
            disk.remove(self.segment.path(kind))


class PendingDeletions:
    """The segments of one log whose files wait for their removal: readers may still be using them."""

    __slots__ = ("_deletions",)

    def __init__(self) -> None:
        self._deletions: list[SegmentDeletion] = []

    def add(self, segment: Segment, *, due_ms: int) -> None:
        """Rename the files to .deleted and keep them until `due_ms`."""
        segment.deleted = True
        segment.move_to(file_names.DELETED)
        self._deletions.append(SegmentDeletion(due_ms, segment))

    def take_due(self, now_ms: int) -> list[SegmentDeletion]:
        if not self._deletions:
            return []
        due = [deletion for deletion in self._deletions if deletion.due_ms <= now_ms]
        self._deletions = [deletion for deletion in self._deletions if deletion.due_ms > now_ms]
        return due

    def close(self) -> None:
        for deletion in self._deletions:
            deletion.segment.close()
