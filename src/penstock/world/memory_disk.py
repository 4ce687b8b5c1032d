"""A disk in memory: for topics with `penstock.storage=memory`, and for brokers without a data directory.

A file is a list of chunks of one size, of which the last one grows. Full chunks never change again: a read
inside one is a view without a copy. `sync` does nothing; the content is lost when the process ends.
"""

import errno
import os
import threading
from collections.abc import Sequence

from penstock.base.buffers import Buffer
from penstock.world.disk import DiskUsage

CHUNK_BYTES = 1 << 20


class _Directory:
    """A directory: names, each of a file or directory."""

    def __init__(self, *, name: str, parent: "_Directory | None") -> None:
        self.name = name
        self.parent = parent
        self.entries: dict[str, _Directory | _Content] = {}


class _Content:
    """The content of a file, shared by all handles and independent of its name."""

    def __init__(self, *, name: str, parent: _Directory) -> None:
        self.name = name
        self.parent: _Directory | None = parent  # None once it is removed
        self.chunks: list[bytearray] = []  # all but the last are full
        self.size = 0

    def add(self, data: Buffer) -> None:
        count = len(data)
        room = -self.size % CHUNK_BYTES  # 0 both when the last chunk is full and when there is none
        if count <= room:
            self.chunks[-1] += data
        else:
            view = memoryview(data)
            if room:
                self.chunks[-1] += view[:room]
            for start in range(room, count, CHUNK_BYTES):
                self.chunks.append(bytearray(view[start : start + CHUNK_BYTES]))
        self.size += count

    def cut(self, size: int) -> None:
        whole, rest = divmod(size, CHUNK_BYTES)
        # Views may be out on the chunk that is cut, and a reader may walk the list: new ones of both.
        last = [self.chunks[whole][:rest]] if rest else []
        self.chunks = self.chunks[:whole] + last
        self.size = size

    def read(self, position: int, count: int) -> Buffer:
        """Up to `count` bytes; safe while another thread appends, because it uses one snapshot of the list."""
        chunks = self.chunks
        size = (len(chunks) - 1) * CHUNK_BYTES + len(chunks[-1]) if chunks else 0
        count = min(count, size - position)
        if count <= 0:
            return b""
        index, start = divmod(position, CHUNK_BYTES)
        if start + count <= CHUNK_BYTES:
            return _part(chunks[index], start, start + count)
        parts = []
        while count > 0:
            part = _part(chunks[index], start, min(start + count, CHUNK_BYTES))
            parts.append(part)
            count -= len(part)
            index, start = index + 1, 0
        return b"".join(parts)


def _part(chunk: bytearray, start: int, end: int) -> Buffer:
    if len(chunk) == CHUNK_BYTES:
        return memoryview(chunk)[start:end]
    return chunk[start:end]  # a copy: a bytearray with views cannot grow


class MemoryFile:
    """A handle on a file's content."""

    __slots__ = ("_content", "_disk", "_last_path")

    def __init__(self, disk: "MemoryDisk", content: _Content) -> None:
        self._disk = disk
        self._content: _Content | None = content
        self._last_path = _path_of(content)

    @property
    def path(self) -> str:
        if self._content is not None and self._content.parent is not None:
            self._last_path = _path_of(self._content)
        return self._last_path

    @property
    def size(self) -> int:
        return self._content.size if self._content is not None else 0

    def append(self, data: Sequence[Buffer]) -> None:
        content = self._live()
        self._disk.claim(sum(map(len, data)), path=self._last_path)
        for buffer in data:
            if buffer:
                content.add(buffer)

    def read_cached(self, position: int, count: int) -> Buffer | None:
        return self._live().read(position, count)

    def read(self, position: int, count: int) -> bytes:
        return bytes(self._live().read(position, count))

    def truncate(self, size: int) -> None:
        content = self._live()
        assert 0 <= size <= content.size, f"{self.path} has {content.size} bytes; cannot be cut to {size}"
        self._disk.give_back(content.size - size)
        content.cut(size)

    def sync(self) -> None:
        self._live()

    def close(self) -> None:
        self._content = None

    def _live(self) -> _Content:
        content = self._content
        if content is None:
            raise _error(errno.EBADF, self._last_path)
        if content.parent is None:
            raise _error(errno.ENOENT, self._last_path)
        return content


class MemoryLock:
    """A lock on a path."""

    def __init__(self, disk: "MemoryDisk", path: str) -> None:
        self._disk = disk
        self._path = path

    def release(self) -> None:
        self._disk.locked.discard(self._path)


class MemoryDisk:
    """A tree in memory of at most `size_max` bytes; by default as much as the machine has."""

    def __init__(self, *, size_max: int | None = None) -> None:
        self._size_max = size_max if size_max is not None else _machine_memory()
        self._used = 0
        self._root = _Directory(name="", parent=None)
        self._lock = threading.RLock()  # the tree and the count of bytes; a file's content has one writer
        self.locked: set[str] = set()

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        with self._lock:
            directory, name = self._place(path)
            entry = directory.entries.get(name)
            if entry is None and create:
                entry = directory.entries[name] = _Content(name=name, parent=directory)
            if entry is None:
                raise _error(errno.ENOENT, path)
            if isinstance(entry, _Directory):
                raise _error(errno.EISDIR, path)
            return MemoryFile(self, entry)

    def exists(self, path: str) -> bool:
        with self._lock:
            return self._find(path) is not None

    def size(self, path: str) -> int:
        with self._lock:
            entry = self._find(path)
            if entry is None:
                raise _error(errno.ENOENT, path)
            return entry.size if isinstance(entry, _Content) else 0

    def list(self, path: str = "") -> list[str]:
        with self._lock:
            return sorted(self._directory(path).entries)

    def make_dir(self, path: str) -> None:
        with self._lock:
            directory = self._root
            for name in path.split("/") if path else ():
                entry = directory.entries.get(name)
                if entry is None:
                    entry = directory.entries[name] = _Directory(name=name, parent=directory)
                if isinstance(entry, _Content):
                    raise _error(errno.EEXIST, path)
                directory = entry

    def rename(self, source: str, target: str) -> None:
        with self._lock:
            source_directory, source_name = self._place(source)
            target_directory, target_name = self._place(target)
            entry = source_directory.entries.get(source_name)
            if entry is None:
                raise _error(errno.ENOENT, source)
            replaced = target_directory.entries.get(target_name)
            if replaced is entry:
                return
            self._check_replaceable(entry, replaced, target)
            if replaced is not None:
                self._detach(replaced)
            del source_directory.entries[source_name]
            target_directory.entries[target_name] = entry
            entry.name, entry.parent = target_name, target_directory

    def remove(self, path: str) -> None:
        with self._lock:
            entry = self._find(path)
            if isinstance(entry, _Directory):
                raise _error(errno.EISDIR, path)
            if entry is not None:
                self._detach(entry)

    def remove_tree(self, path: str) -> None:
        with self._lock:
            entry = self._find(path)
            if entry is not None:
                self._detach(entry)

    def sync_dir(self, path: str) -> None:
        with self._lock:
            self._directory(path)

    def sync_all(self) -> bool:
        return True

    def usage(self) -> DiskUsage:
        return DiskUsage(total=self._size_max, usable=self._size_max - self._used)

    def lock(self, path: str) -> MemoryLock:
        with self._lock:
            if path in self.locked:
                raise _error(errno.EWOULDBLOCK, path)
            self.open(path, create=True).close()
            self.locked.add(path)
            return MemoryLock(self, path)

    def claim(self, count: int, *, path: str) -> None:
        """Reserve bytes that are about to be written; ENOSPC if the disk is full."""
        with self._lock:
            if self._used + count > self._size_max:
                raise _error(errno.ENOSPC, path)
            self._used += count

    def give_back(self, count: int) -> None:
        """Release reserved bytes."""
        with self._lock:
            self._used -= count

    def _place(self, path: str) -> tuple[_Directory, str]:
        parent, _, name = path.rpartition("/")
        return self._directory(parent), name

    def _directory(self, path: str) -> _Directory:
        entry = self._find(path)
        if entry is None:
            raise _error(errno.ENOENT, path)
        if isinstance(entry, _Content):
            raise _error(errno.ENOTDIR, path)
        return entry

    def _find(self, path: str) -> _Directory | _Content | None:
        entry: _Directory | _Content | None = self._root
        for name in path.split("/") if path else ():
            if not isinstance(entry, _Directory):
                return None
            entry = entry.entries.get(name)
        return entry

    def _check_replaceable(
        self, entry: _Directory | _Content, replaced: _Directory | _Content | None, target: str
    ) -> None:
        if isinstance(replaced, _Directory):
            if isinstance(entry, _Content):
                raise _error(errno.EISDIR, target)
            if replaced.entries:
                raise _error(errno.ENOTEMPTY, target)
        elif replaced is not None and isinstance(entry, _Directory):
            raise _error(errno.ENOTDIR, target)

    def _detach(self, entry: _Directory | _Content) -> None:
        """Remove an entry and all below it from the tree."""
        if isinstance(entry, _Directory):
            for below in list(entry.entries.values()):
                self._detach(below)
        else:
            self._used -= entry.size
        if entry.parent is not None:
            del entry.parent.entries[entry.name]
            entry.parent = None


def _path_of(content: _Content) -> str:
    names = [content.name]
    directory = content.parent
    while directory is not None and directory.parent is not None:
        names.append(directory.name)
        directory = directory.parent
    return "/".join(reversed(names))


def _error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)


def _machine_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
