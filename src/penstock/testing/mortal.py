"""A disk that dies with the broker that uses it, so that a killed broker in this process leaves what kill -9 would.

After `die` whatever the broker still does changes nothing: neither the code that its tasks run when they are ended,
nor the threads of its work. What was written stays, as it stays in the page cache of a process that was killed.
"""

import errno
import os
from collections.abc import Sequence
from weakref import WeakSet

from penstock.base.buffers import Buffer
from penstock.testing.faults import Faults
from penstock.world.disk import Disk, DiskUsage, File, FileReading, Lock


class Killed(BaseException):
    """Code of a killed broker tries to change its disk. No OSError: the broker must not handle it as a disk error."""


class MortalFile(FileReading):
    """A handle that changes nothing once the broker is dead."""

    __slots__ = ("__weakref__", "_disk")

    def __init__(self, disk: "MortalDisk", file: File) -> None:
        super().__init__(file)
        self._disk = disk

    def append(self, data: Sequence[Buffer]) -> None:
        self._disk.require_life()
        self._disk.require_room(self._file)
        self._file.append(data)

    def truncate(self, size: int) -> None:
        self._disk.require_life()
        self._file.truncate(size)

    def sync(self) -> None:
        self._disk.require_life()
        self._file.sync()


class MortalDisk:
    """A disk, for one life of a broker."""

    def __init__(self, disk: Disk, faults: Faults) -> None:
        self._disk = disk
        self._faults = faults
        self._dead = False
        self._files: WeakSet[MortalFile] = WeakSet()
        self._locks: list[Lock] = []
        self.exists = disk.exists
        self.size = disk.size
        self.list = disk.list

    def die(self) -> None:
        """From now on nothing is changed any more."""
        self._dead = True

    def let_go(self) -> None:
        """Close every file and release every lock, as the system does when a process is gone."""
        for file in list(self._files):
            file.close()
        for lock in self._locks:
            lock.release()

    def require_life(self) -> None:
        if self._dead:
            raise Killed

    def require_room(self, file: File) -> None:
        if self._faults.disk_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), file.path)

    def open(self, path: str, *, create: bool = False) -> MortalFile:
        self.require_life()
        file = MortalFile(self, self._disk.open(path, create=create))
        self._files.add(file)
        return file

    def make_dir(self, path: str) -> None:
        self.require_life()
        self._disk.make_dir(path)

    def rename(self, source: str, target: str) -> None:
        self.require_life()
        self._disk.rename(source, target)

    def remove(self, path: str) -> None:
        self.require_life()
        self._disk.remove(path)

    def remove_tree(self, path: str) -> None:
        self.require_life()
        self._disk.remove_tree(path)

    def sync_dir(self, path: str) -> None:
        self.require_life()
        self._disk.sync_dir(path)

    def sync_all(self) -> bool:
        self.require_life()
        return self._disk.sync_all()

    def usage(self) -> DiskUsage:
        usage = self._disk.usage()
        return usage._replace(usable=0) if self._faults.disk_full else usage

    def lock(self, path: str) -> Lock:
        self.require_life()
        lock = self._disk.lock(path)
        self._locks.append(lock)
        return lock
