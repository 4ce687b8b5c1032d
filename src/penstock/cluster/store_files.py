"""The embedded store's files: numbered logs of changes, and snapshots that replace older logs.

`N.snapshot` holds the whole tree as it was when `N.log` was begun. Opening reads the newest snapshot and all logs from
its number on. Both consist of entries:

    marker (4 bytes) · CRC-32C of the rest (4) · length of the payload (4) · sequence number (8) · payload

An entry is written only after the one before it is synced. So after a crash at most the last entry is broken, and no
caller was told that it was written: it is truncated. A broken entry with an intact one anywhere after it is damage to
changes that were acknowledged, and the store refuses to open.
"""

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from crc32c import crc32c

from penstock.base.errors import StorageError
from penstock.cluster.node_tree import Change, NewSession, NodeTree, Put, Remove
from penstock.world.disk import Disk, File, read_file, write_file_atomically
from penstock.world.store import StoreNode

_MARKER = b"PSme"
_HEADER = struct.Struct(">4sIIQ")
_CHECKED = struct.Struct(">IQ")  # the part of the header that the CRC covers
_CHANGE = struct.Struct(">BiII")  # kind, version, length of the path, length of the data

_PUT, _PUT_EPHEMERAL, _REMOVE, _NEW_SESSION = range(4)


class StoreEntry(NamedTuple):
    """An intact entry of a file."""

    sequence: int
    changes: list[Change]
    end: int


class Recovery(NamedTuple):
    """What was found when the store was opened."""

    entries: int
    cut_bytes: int


class StoreFiles:
    """The current log, and the snapshots."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self._generation = 0
        self._sequence = 0
        self._log: File | None = None
        self._snapshot_size = 0

    def snapshot_due(self, *, log_bytes_min: int) -> bool:
        """Whether the log is larger than `log_bytes_min` and than the last snapshot."""
        return self._open_log.size >= max(log_bytes_min, self._snapshot_size)

    def recover(self, tree: NodeTree) -> Recovery:
        """Load snapshot and logs into the tree, and open the log for writing. Blocks: start-up only."""
        self._disk.make_dir(self._directory)
        self._sync_names()
        for name in self._disk.list(self._directory):
            if name.endswith(".tmp"):  # a snapshot that was not completed before a crash
                self._disk.remove(f"{self._directory}/{name}")
        snapshots, logs = self._numbers("snapshot"), self._numbers("log")
        first = snapshots[-1] if snapshots else 1
        logs = [number for number in logs if number >= first]
        if not logs and not snapshots:
            self._begin_log(first)
            return Recovery(entries=0, cut_bytes=0)
        if logs != list(range(first, first + len(logs))) or not logs:
            raise StorageError(
                f"{self._directory}: the metadata store lacks a log: from {first} on there is {logs}"
            )
        if snapshots:
            self._load_snapshot(first, tree)
        recovery = self._replay(logs, tree)
        self.sync()  # changes that are visible from now on must survive the next crash
        self._remove_older(first)
        return recovery

    def append(self, changes: Iterable[Change]) -> None:
        """Write the changes as one entry; they are durable once `sync` has returned."""
        entry = _encode_entry(self._sequence + 1, changes)
        self._open_log.append([entry])
        self._sequence += 1

    def sync(self) -> None:
        self._open_log.sync()

    def begin_next_log(self) -> tuple[int, int]:
        """Begin a new log; returns number and sequence number for the snapshot that precedes it. Blocks."""
        old = self._open_log
        self._begin_log(self._generation + 1)
        old.close()
        return self._generation, self._sequence

    def write_snapshot(
        self, number: int, sequence: int, *, nodes: dict[str, StoreNode], ephemerals: dict[str, None]
    ) -> None:
        """Write a snapshot of the tree with which a log began, and remove the files before it. Blocks."""
        # Sorting puts a parent before its children.
        puts = (Put(path, nodes[path], path in ephemerals) for path in sorted(nodes))
        content = _encode_entry(sequence, puts)
        write_file_atomically(self._disk, self._path(number, "snapshot"), content)
        self._snapshot_size = len(content)
        self._remove_older(number)

    def close(self) -> None:
        if self._log is not None:
            self._log.close()

    @property
    def _open_log(self) -> File:
        assert self._log is not None, "recover() opens the log"
        return self._log

    def _path(self, number: int, kind: str) -> str:
        return f"{self._directory}/{number:010d}.{kind}"

    def _numbers(self, kind: str) -> list[int]:
        names = (name.split(".") for name in self._disk.list(self._directory))
        return sorted(int(parts[0]) for parts in names if parts[0].isdigit() and parts[1:] == [kind])

    def _sync_names(self) -> None:
        """Sync the directory. A crash may have come before the last start could: without its name, a synced log is
        lost.
        """
        self._disk.sync_dir(self._directory.rpartition("/")[0])
        self._disk.sync_dir(self._directory)

    def _begin_log(self, number: int) -> None:
        begun = self._disk.open(self._path(number, "log"), create=True)
        self._disk.sync_dir(self._directory)
        self._log, self._generation = begun, number

    def _remove_older(self, number: int) -> None:
        for kind in ("log", "snapshot"):
            for old in self._numbers(kind):
                if old < number:
                    self._disk.remove(self._path(old, kind))

    def _load_snapshot(self, number: int, tree: NodeTree) -> None:
        path = self._path(number, "snapshot")
        content = read_file(self._disk, path)
        entry = _entry_at(content, 0)
        if entry is None or entry.end != len(content):
            raise StorageError(f"{path}: the snapshot of the metadata store is damaged")
        tree.apply_all(entry.changes)
        self._sequence = entry.sequence
        self._snapshot_size = len(content)

    def _replay(self, numbers: list[int], tree: NodeTree) -> Recovery:
        entries = cut_bytes = 0
        for number in numbers:
            path = self._path(number, "log")
            log = self._disk.open(path)
            content = log.read(0, log.size)
            end = 0
            for entry in _entries(content):
                if entry.sequence != self._sequence + 1:
                    raise StorageError(
                        f"{path}: entry {entry.sequence} of the metadata store follows entry {self._sequence}"
                    )
                tree.apply_all(entry.changes)
                self._sequence = entry.sequence
                end = entry.end
                entries += 1
            if number != numbers[-1]:
                log.close()
            if end < len(content):
                if number != numbers[-1] or _has_entry_behind(content, end):
                    raise StorageError(f"{path}: the metadata store is damaged at byte {end}")
                log.truncate(end)
                cut_bytes = len(content) - end
        self._log = log
        self._generation = numbers[-1]
        return Recovery(entries=entries, cut_bytes=cut_bytes)


def _encode_entry(sequence: int, changes: Iterable[Change]) -> bytes:
    payload = b"".join(part for change in changes for part in _encode_change(change))
    crc = crc32c(payload, crc32c(_CHECKED.pack(len(payload), sequence)))
    return _HEADER.pack(_MARKER, crc, len(payload), sequence) + payload


def _encode_change(change: Change) -> tuple[bytes, ...]:
    match change:
        case Put(path, node, ephemeral):
            name = path.encode()
            kind = _PUT_EPHEMERAL if ephemeral else _PUT
            return _CHANGE.pack(kind, node.version, len(name), len(node.data)), name, node.data
        case Remove(path):
            name = path.encode()
            return _CHANGE.pack(_REMOVE, 0, len(name), 0), name
        case NewSession():
            return (_CHANGE.pack(_NEW_SESSION, 0, 0, 0),)


def _entries(content: bytes) -> Iterator[StoreEntry]:
    """The intact entries from the start, up to the first broken one."""
    position = 0
    while (entry := _entry_at(content, position)) is not None:
        yield entry
        position = entry.end


def _entry_at(content: bytes, position: int) -> StoreEntry | None:
    start = position + _HEADER.size
    if start > len(content):
        return None
    marker, crc, length, sequence = _HEADER.unpack_from(content, position)
    payload = content[start : start + length]
    if marker != _MARKER or len(payload) != length:
        return None
    if crc != crc32c(payload, crc32c(_CHECKED.pack(length, sequence))):
        return None
    return StoreEntry(sequence, _decode_changes(payload), start + length)


def _decode_changes(payload: bytes) -> list[Change]:
    changes: list[Change] = []
    position = 0
    while position < len(payload):
        kind, version, path_length, data_length = _CHANGE.unpack_from(payload, position)
        position += _CHANGE.size
        path = payload[position : position + path_length].decode()
        position += path_length
        data = payload[position : position + data_length]
        position += data_length
        if kind == _NEW_SESSION:
            changes.append(NewSession())
        elif kind == _REMOVE:
            changes.append(Remove(path))
        else:
            changes.append(Put(path, StoreNode(data, version), kind == _PUT_EPHEMERAL))
    return changes


def _has_entry_behind(content: bytes, position: int) -> bool:
    """Whether there is an intact entry anywhere after a broken one."""
    while (position := content.find(_MARKER, position + 1)) >= 0:
        if _entry_at(content, position) is not None:
            return True
    return False
