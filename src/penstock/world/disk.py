"""The disk: files that grow at the end, are read anywhere, and are synced on request.

Paths are relative to the disk's root and use '/'. An append lands in the page cache and does not wait for the
device, so it may run on the loop; `sync`, `sync_dir` and `read` may block and run through `Work`;
`read_cached` never blocks. However many `File`s exist, the number of open descriptors is bounded by the disk.
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
    """Whether the disk, or what a user may have of it, is full: that passes, unlike any other error of a disk."""
    return error.errno in _NO_ROOM


class DiskUsage(NamedTuple):
    """The device behind the disk, in bytes."""

    total: int
    usable: int


class File(Protocol):
    """One file. Handles stay valid until `close`; descriptors come and go behind them."""

    @property
    def path(self) -> str: ...

    @property
    def size(self) -> int:
        """How many bytes the file holds, as known from opening and appending."""
        ...

    def append(self, data: Sequence[Buffer]) -> None:
        """Write all of `data` at the end. On failure the file is cut back to its old size; raises OSError."""
        ...

    def read_cached(self, position: int, count: int) -> Buffer | None:
        """Up to `count` bytes, fewer only at the end, if that needs no waiting for the device; else None.

        What comes back is the caller's to keep: a later append or truncate does not change it.
        """
        ...

    def read(self, position: int, count: int) -> bytes:
        """Up to `count` bytes; fewer only at the end of the file. May block."""
        ...

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes."""
        ...

    def sync(self) -> None:
        """Return when the content is on the device. May block. A failure is final: never sync again."""
        ...

    def close(self) -> None:
        """Give the handle back; fine to repeat. Any other use afterwards raises OSError."""
        ...


class FileReading:
    """What a handle passes on as it is, if it looks after nothing but changes of its file."""

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
        """Create a directory and its parents; fine if it exists."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Atomic; replaces a target file, as if it were removed first. Open `File`s of the source follow."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file; fine if it is not there. Open `File`s of it raise FileNotFoundError from then on."""
        ...

    def remove_tree(self, path: str) -> None:
        """Remove a directory with all it holds; fine if it is not there."""
        ...

    def sync_dir(self, path: str) -> None:
        """Make the names in a directory certain. May block."""
        ...

    def sync_all(self) -> bool:
        """Sync everything written so far in one call; False, and nothing done, where the system cannot.

        May block. Raises OSError when it fails, and from then on always.
        """
        ...

    def usage(self) -> DiskUsage: ...

    def lock(self, path: str) -> Lock:
        """Take the lock file, or raise BlockingIOError if somebody has it."""
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
