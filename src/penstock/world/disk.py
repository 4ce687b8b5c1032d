"""The disk: files that are appended to, read anywhere, and synced on request.

Paths are relative to the disk's root and use '/'. An append lands in the page cache and does not wait for the
device, so it may run on the event loop; `sync`, `sync_dir` and `read` may block and run through `Work`;
`read_cached` never blocks. However many `File`s exist, the disk bounds the number of open descriptors.
Every call may come from any thread; only `append` and `truncate` of one file come from one thread at a time.

What a crash keeps: after a process crash, everything appended. After a machine crash, per file the synced
part and any of the rest; a created, renamed or removed name is certain only after its directory's `sync_dir`.
"""

import errno
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from penstock.base.buffers import Buffer

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


def found_no_room(error: OSError) -> bool:
    """Whether the disk or a quota is full (ENOSPC, EDQUOT): unlike other disk errors, that may pass."""
    return error.errno in _NO_ROOM


class DiskUsage(NamedTuple):
    """The device behind the disk, in bytes."""

    total: int
    usable: int


class File(Protocol):
    """One file. Handles stay valid until `close`; the descriptors behind them are opened and closed as needed."""

    @property
    def path(self) -> str: ...

    @property
    def size(self) -> int:
        """The file's size in bytes."""
        ...

    def append(self, data: Sequence[Buffer]) -> None:
        """Write all of `data` at the end. On failure the file is cut back to its old size; raises OSError."""
        ...

    def read_cached(self, position: int, count: int) -> Buffer | None:
        """Up to `count` bytes, fewer only at the end, if the page cache has them; else None.

        Later appends and truncations do not change the returned buffer.
        """
        ...

    def read(self, position: int, count: int) -> bytes:
        """Up to `count` bytes; fewer only at the end of the file. May block."""
        ...

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes."""
        ...

    def sync(self) -> None:
        """Return when the content is on the device. May block. A failure is final: later calls fail too."""
        ...

    def close(self) -> None:
        """Close the handle; may be called again. Any other use afterwards raises OSError."""
        ...


class FileReading:
    """The reading half of a handle that wraps another one and changes only how the file is written."""

    __slots__ = ("_file", "read", "read_cached")

    def __init__(self, file: File) -> None:
        self._file = file
        self.read = file.read
        self.read_cached = file.read_cached

    @property
    def path(self) -> str:
        return self._file.path

    @property
    def size(self) -> int:
        return self._file.size

    def close(self) -> None:
        self._file.close()


class Lock(Protocol):
    """Held until released, or until the process ends."""

    def release(self) -> None: ...


class Disk(Protocol):
    """A directory tree."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and appending; FileNotFoundError unless it exists or `create`."""
        ...

    def exists(self, path: str) -> bool: ...

    def size(self, path: str) -> int: ...

    def list(self, path: str = "") -> list[str]:
        """The names in a directory, sorted; FileNotFoundError if there is none."""
        ...

    def make_dir(self, path: str) -> None:
        """Create a directory and its parents; no error if it exists."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Atomic; replaces a target file, as if it were removed first. Open `File`s of the source follow."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file; no error if it does not exist. Open `File`s of it raise FileNotFoundError from then on."""
        ...

    def remove_tree(self, path: str) -> None:
        """Remove a directory and its content; no error if it does not exist."""
        ...

    def sync_dir(self, path: str) -> None:
        """Sync a directory: created, renamed and removed names in it are durable then. May block."""
        ...

    def sync_all(self) -> bool:
        """Sync everything written so far in one call; False, without effect, if the system cannot.

        May block. Once it has raised OSError, every later call does.
        """
        ...

    def usage(self) -> DiskUsage: ...

    def lock(self, path: str) -> Lock:
        """Lock a file, or raise BlockingIOError if it is locked."""
        ...


def read_file(disk: Disk, path: str) -> bytes:
    """All of a small file."""
    file = disk.open(path)
    try:
        return file.read(0, file.size)
    finally:
        file.close()


def write_file_atomically(disk: Disk, path: str, content: bytes, *, sync: bool = True) -> None:
    """Replace a small file so that a reader, or a crash, sees the old content or the new, never a mixture."""
    temporary = path + ".tmp"
    disk.remove(temporary)
    file = disk.open(temporary, create=True)
    try:
        file.append([content])
        if sync:
            file.sync()
    finally:
        file.close()
    disk.rename(temporary, path)
    if sync:
        disk.sync_dir(path.rpartition("/")[0])
