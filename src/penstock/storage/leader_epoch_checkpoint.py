"""The leader epochs of a log: which epoch began at which offset, and their checkpoint file.

`leader-epoch-checkpoint` is Kafka's: a version line, a line with the number of entries, then one line
`<epoch> <start offset>` each. It is synced before the recovery point in its checkpoint passes the start of an epoch;
later epochs are found in the batches that a start after a crash scans anyway.
"""

from bisect import bisect_right
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from penstock.storage import file_names
from penstock.world.disk import Disk, File

UNKNOWN_EPOCH = -1
UNKNOWN_OFFSET = -1


class EpochEntry(NamedTuple):
    """The first offset written under an epoch."""

    epoch: int
    start_offset: int


class LeaderEpochs:
    """The epochs of one log, oldest first. Epochs and offsets both grow strictly."""

    __slots__ = ("_entries", "changed", "changes", "latest_epoch", "unsafe_from")

    def __init__(self, entries: Iterable[EpochEntry] = ()) -> None:
        self._entries = list(entries)
        self.latest_epoch = self._entries[-1].epoch if self._entries else UNKNOWN_EPOCH
        self.changed = False  # since the file was last written
        self.changes = 0  # counted, so that a sync knows whether it covers them all
        # From here on the synced file may be wrong: after a crash, epochs are read from the batches. None: nowhere.
        self.unsafe_from: int | None = None

    @property
    def entries(self) -> list[EpochEntry]:
        return list(self._entries)

    def assign(self, epoch: int, start_offset: int) -> None:
        """Begin an epoch at `start_offset`."""
        if epoch <= self.latest_epoch:
            return
        # An epoch without batches is dropped.
        kept = [entry for entry in self._entries if entry.start_offset < start_offset]
        self._replace([*kept, EpochEntry(epoch, start_offset)], wrong_from=start_offset)

    def epoch_at(self, offset: int) -> int:
        """The epoch that `offset` was, or would be, written under."""
        index = bisect_right(self._entries, offset, key=_start_offset) - 1
        return self._entries[index].epoch if index >= 0 else UNKNOWN_EPOCH

    def end_offset(self, epoch: int, *, log_end_offset: int) -> EpochEntry:
        """The largest known epoch not above `epoch`, and the offset at which it ended.

        Both are -1 if no such epoch is known, as OffsetForLeaderEpoch answers.
        """
        if epoch < 0 or epoch > self.latest_epoch:
            return EpochEntry(UNKNOWN_EPOCH, UNKNOWN_OFFSET)
        if epoch == self.latest_epoch:
            return EpochEntry(epoch, log_end_offset)
        index = bisect_right(self._entries, epoch, key=_epoch)
        if not index:
            # Older than the oldest known epoch: it ended where that begins.
            return EpochEntry(epoch, self._entries[0].start_offset)
        return EpochEntry(self._entries[index - 1].epoch, self._entries[index].start_offset)

    def truncate_from(self, offset: int) -> None:
        """Drop every epoch that began at `offset` or behind it."""
        if self._entries and self._entries[-1].start_offset >= offset:
            self._replace(
                [entry for entry in self._entries if entry.start_offset < offset], wrong_from=offset
            )

    def truncate_before(self, offset: int) -> None:
        """Drop the epochs before `offset`; the epoch of `offset` begins there now."""
        index = bisect_right(self._entries, offset, key=_start_offset) - 1
        if index < 0 or (index == 0 and self._entries[0].start_offset == offset):
            return
        self._replace([EpochEntry(self._entries[index].epoch, offset), *self._entries[index + 1 :]])

    def _replace(self, entries: list[EpochEntry], *, wrong_from: int | None = None) -> None:
        """`wrong_from`: the file is wrong from this offset on. (A start drops what lies below the log start offset.)"""
        self._entries = entries
        self.latest_epoch = entries[-1].epoch if entries else UNKNOWN_EPOCH
        self.changed = True
        self.changes += 1
        if wrong_from is not None:
            self.unsafe_from = wrong_from if self.unsafe_from is None else min(self.unsafe_from, wrong_from)

    def synced(self, changes: int) -> None:
        """Note that the file is synced with the first `changes` changes."""
        if changes == self.changes:
            self.unsafe_from = None

    def encode(self) -> bytes:
        lines = ["0", str(len(self._entries))]
        lines += [f"{epoch} {start_offset}" for epoch, start_offset in self._entries]
        return ("\n".join(lines) + "\n").encode("ascii")


def write_epochs(disk: Disk, directory: str, epochs: LeaderEpochs) -> File:
    """Replace the checkpoint file. Returns it open: it has to be synced, then closed."""
    path = f"{directory}/{file_names.LEADER_EPOCHS}"
    disk.remove(path + ".tmp")
    file = disk.open(path + ".tmp", create=True)
    try:
        file.append([epochs.encode()])
        disk.rename(path + ".tmp", path)
    except OSError:
        file.close()
        raise
    epochs.changed = False
    return file


def decode_epochs(content: bytes) -> LeaderEpochs | None:
    """The epochs in a checkpoint file, or None if it is damaged."""
    try:
        version, count, *lines = content.decode("ascii").split("\n")
        entries = [EpochEntry(*map(int, line.split(" "))) for line in lines[:-1]]
        whole = version == "0" and lines[-1] == "" and len(entries) == int(count)
    except (ValueError, TypeError, IndexError):
        return None
    grows = all(a.epoch < b.epoch and a.start_offset < b.start_offset for a, b in pairwise(entries))
    return LeaderEpochs(entries) if whole and grows else None


def _epoch(entry: EpochEntry) -> int:
    return entry.epoch


def _start_offset(entry: EpochEntry) -> int:
    return entry.start_offset
