"""A disk in memory that can crash, the way `world.disk` says disks do.

A process crash revokes all handles and keeps everything that was written. A machine crash also goes back in time:
- a file has its synced content, then some of what was done to it since, in order; of what was appended since, any
  page may be zeros, and the end may be missing;
- a directory has the names of some moment since it was last synced, or, if the file system keeps no order, each
  change of a name since then happened or did not; and a name may survive while the file's content does not.
"""

import errno
import os
from collections.abc import Sequence
from random import Random

from penstock.base.buffers import Buffer
from penstock.world.disk import DiskUsage


class _Inode:
    def __init__(self) -> None:
        self.content = bytearray()
        self.synced = b""
        self.changes: list[
            bytes | int
        ] = []  # since the last sync: what was appended, or the size it was cut to

    def sync(self) -> None:
        self.synced = bytes(self.content)
        self.changes = []

    def crash(self, random: Random, page_bytes: int) -> None:
        content = bytearray(self.synced)
        certain = len(content)
        for change in self.changes[: random.randint(0, len(self.changes))]:
            if isinstance(change, int):
                del content[change:]
                certain = min(certain, change)
            else:
                content += change
        if random.random() < 0.5:
            del content[random.randint(certain, len(content)) :]
        if random.random() < 0.5:
            for start in range(certain - certain % page_bytes, len(content), page_bytes):
                if random.random() < 0.3:
                    first = max(start, certain)
                    end = min(start + page_bytes, len(content))
                    content[first:end] = bytes(end - first)
        self.content = content
        self.sync()


class _Directory:
    def __init__(self) -> None:
        self.entries: dict[str, _Directory | _Inode] = {}
        self.synced: dict[str, _Directory | _Inode] = {}
        self.changes: list[_NameChange] = []  # since the last sync

    def change(self, change: "_NameChange") -> None:
        change.apply(self.entries)
        self.changes.append(change)

    def sync(self) -> None:
        self.synced = dict(self.entries)
        self.changes = []

    def crash(self, random: Random, page_bytes: int) -> None:
        self.entries = dict(self.synced)
        if random.random() < 0.5:
            happened = self.changes[: random.randint(0, len(self.changes))]
        else:
            happened = [change for change in self.changes if random.random() < 0.5]
        for change in happened:
            change.apply(self.entries)
        self.sync()
        for name in sorted(self.entries):
            self.entries[name].crash(random, page_bytes)


class _NameChange:
    """A file appears, gets another name, or goes; nothing happens if it is not there."""

    def __init__(
        self, source: str, target: str | None = None, created: "_Directory | _Inode | None" = None
    ) -> None:
        self._source = source
        self._target = target
        self._created = created

    def apply(self, entries: "dict[str, _Directory | _Inode]") -> None:
        if self._created is not None:
            entries[self._source] = self._created
            return
        moved = entries.pop(self._source, None)
        if moved is not None and self._target is not None:
            entries[self._target] = moved


class CrashingFile:
    """A handle, dead after a crash."""

    def __init__(self, disk: "CrashingDisk", path: str, inode: _Inode) -> None:
        self._disk = disk
        self._inode: _Inode | None = inode
        self._life = disk.life
        self._path = path

    @property
    def path(self) -> str:
        return self._path

    @property
    def size(self) -> int:
        return len(self._live().content)

    def append(self, data: Sequence[Buffer]) -> None:
        inode = self._live()
        if self._disk.appends_fail is not None:
            raise OSError(self._disk.appends_fail, os.strerror(self._disk.appends_fail), self._path)
        joined = b"".join(data)
        inode.content += joined
        inode.changes.append(joined)

    def read_cached(self, position: int, count: int) -> bytes | None:
        if self._disk.nothing_is_cached:
            return None
        return self.read(position, count)

    def read(self, position: int, count: int) -> bytes:
        return bytes(self._live().content[position : position + count])

    def truncate(self, size: int) -> None:
        inode = self._live()
        assert 0 <= size <= len(inode.content)
        del inode.content[size:]
        inode.changes.append(size)

    def sync(self) -> None:
        inode = self._live()
        if self._disk.syncs_fail:
            raise OSError(errno.EIO, os.strerror(errno.EIO), self._path)
        inode.sync()

    def close(self) -> None:
        self._inode = None

    def _live(self) -> _Inode:
        if self._inode is None or self._life != self._disk.life:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), self._path)
        return self._inode


class CrashingLock:
    def __init__(self, disk: "CrashingDisk", path: str) -> None:
        self._disk = disk
        self._path = path

    def release(self) -> None:
        self._disk.locked.discard(self._path)


class CrashingDisk:
    """A tree in memory; `crash_process` and `crash_machine` take it back to what a start would find."""

    def __init__(self, *, page_bytes: int = 64) -> None:
        self.life = 0
        self.locked: set[str] = set()
        self.appends_fail: int | None = None  # with which error number
        self.syncs_fail = False
        self.nothing_is_cached = False
        self.operations = 0
        self.crash_after: int | None = None  # so many changes of names later, everything fails
        self._page_bytes = page_bytes
        self._root = _Directory()

    # ---- crashes

    def crash_process(self) -> None:
        self.life += 1
        self.locked.clear()
        self.crash_after = None
        self.appends_fail, self.syncs_fail = None, False

    def crash_machine(self, random: Random) -> None:
        self.crash_process()
        self._root.crash(random, self._page_bytes)

    def _step(self) -> None:
        """Count a step that a crash could come before; refuse it when that crash has come."""
        if self.crash_after is not None and self.operations >= self.crash_after:
            raise PowerCut
        self.operations += 1

    # ---- the disk

    def open(self, path: str, *, create: bool = False) -> CrashingFile:
        directory, name = self._place(path)
        entry = directory.entries.get(name)
        if entry is None and create:
            self._step()
            entry = _Inode()
            directory.change(_NameChange(name, created=entry))
        if entry is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        assert isinstance(entry, _Inode)
        return CrashingFile(self, path, entry)

    def exists(self, path: str) -> bool:
        try:
            directory, name = self._place(path)
        except FileNotFoundError:
            return False
        return name in directory.entries

    def size(self, path: str) -> int:
        return self.open(path).size

    def list(self, path: str = "") -> list[str]:
        return sorted(self._directory(path).entries)

    def make_dir(self, path: str) -> None:
        directory = self._root
        for name in path.split("/") if path else ():
            if name not in directory.entries:
                self._step()
                directory.change(_NameChange(name, created=_Directory()))
            entry = directory.entries[name]
            assert isinstance(entry, _Directory)
            directory = entry

    def rename(self, source: str, target: str) -> None:
        source_directory, source_name = self._place(source)
        target_directory, target_name = self._place(target)
        assert source_directory is target_directory, "nothing is moved between directories"
        if source_name not in source_directory.entries:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), source)
        self._step()
        source_directory.change(_NameChange(source_name, target_name))

    def remove(self, path: str) -> None:
        directory, name = self._place(path)
        if name in directory.entries:
            self._step()
            directory.change(_NameChange(name))

    def remove_tree(self, path: str) -> None:
        self.remove(path)

    def sync_dir(self, path: str) -> None:
        self._step()
        if self.syncs_fail:
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        self._directory(path).sync()

    def sync_all(self) -> bool:
        return False

    def usage(self) -> DiskUsage:
        return DiskUsage(total=1 << 40, usable=1 << 40)

    def lock(self, path: str) -> CrashingLock:
        if path in self.locked:
            raise BlockingIOError(errno.EWOULDBLOCK, os.strerror(errno.EWOULDBLOCK), path)
        self.open(path, create=True)
        self.locked.add(path)
        return CrashingLock(self, path)

    def _place(self, path: str) -> tuple[_Directory, str]:
        parent, _, name = path.rpartition("/")
        return self._directory(parent), name

    def _directory(self, path: str) -> _Directory:
        entry: _Directory | _Inode = self._root
        for name in path.split("/") if path else ():
            if not isinstance(entry, _Directory) or name not in entry.entries:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            entry = entry.entries[name]
        assert isinstance(entry, _Directory)
        return entry


class PowerCut(BaseException):
    """The crash a test asked for has come; nothing between here and the test may catch it."""
