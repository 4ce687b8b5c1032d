"""Which files and names of a log are not synced yet, and the plan to sync them.

A plan is made on the event loop, run in a worker thread, and handed back. It does not cover what is written while it
runs; `name_changes` and `truncations` tell what it covers.
"""

import errno
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from penstock.storage.segment import Segment
from penstock.world.disk import Disk, File

NOT_COVERED = -1  # a plan without the leader epochs, for which the disk was full

_GONE = (errno.ENOENT, errno.EBADF)


class SyncPlan(NamedTuple):
    """The files and directories to sync so that all below `target_offset` is durable.

    `run` blocks; then the plan is passed to `Log.synced`.
    """

    target_offset: int
    files: tuple[File, ...]
    directories: tuple[str, ...]
    truncations: int  # of the log before the plan was made: a later one makes the plan void
    name_changes: int  # files created or renamed before the plan was made
    epoch_changes: int = NOT_COVERED  # of the leader epochs, before their file was last written

    def run(self, disk: Disk) -> None:
        """Sync all; OSError means that the log has failed for good."""
        for file in self.files:
            try:
                file.sync()
            except OSError as error:
                # Removed by retention or truncation meanwhile: its content is not needed any more.
                if error.errno not in _GONE:
                    raise
        for directory in self.directories:
            disk.sync_dir(directory)


class UnsyncedFiles:
    """The files and names of one log that still have to be synced, beside its active segment."""

    __slots__ = ("_directories", "_files", "_name_changes", "_path", "_segments")

    def __init__(
        self, path: str, *, segments: list[Segment], files: list[File], directories: tuple[str, ...]
    ) -> None:
        self._path = path
        # Closed segments, and after how many name changes each was closed: an earlier plan may have the same file as
        # the active segment's, and does not cover what was appended later.
        self._segments = [(0, segment) for segment in segments]
        self._files = files  # indexes, snapshots and others: closed here once they are synced
        self._directories = directories
        self._name_changes = 0

    def add_segment(self, segment: Segment) -> None:
        self.note_names_changed()
        self._segments.append((self._name_changes, segment))

    def drop_segment(self, segment: Segment) -> None:
        self._segments = [known for known in self._segments if known[1] is not segment]

    def add_files(self, files: Iterable[File]) -> None:
        self._files += files
        self.note_names_changed()

    def note_names_changed(self) -> None:
        self._name_changes += 1
        if self._path not in self._directories:
            self._directories = (*self._directories, self._path)

    def plan(
        self, target_offset: int, active: Sequence[File], *, truncations: int, epoch_changes: int
    ) -> SyncPlan:
        files = (*(segment.file for _, segment in self._segments), *active, *self._files)
        return SyncPlan(
            target_offset, files, self._directories, truncations, self._name_changes, epoch_changes
        )

    def done(self, plan: SyncPlan) -> None:
        """Forget the files and names that the plan has synced."""
        self._segments = [known for known in self._segments if known[0] > plan.name_changes]
        done = set(map(id, plan.files))
        for file in self._files:
            if id(file) in done:
                file.close()
        self._files = [file for file in self._files if id(file) not in done]
        if plan.name_changes == self._name_changes:
            self._directories = ()

    def close(self) -> None:
        for file in self._files:
            file.close()
