"""A simulated disk as one process sees it: `world.Disk`, until a crash revokes it with all its handles."""

import errno
from collections.abc import Sequence
from random import Random

from penstock.base.buffers import Buffer
from penstock.sim.disk_device import Device, DirectoryNode, FileNode, error, path_of
from penstock.sim.disk_faults import DiskFaults, Revoked
from penstock.sim.disk_operations import DiskOperation, Watcher
from penstock.world.disk import DiskUsage

_UNLIMITED_BYTES = 1 << 40


_NAME_BYTES_MAX = 255


class MountedFile:
    """An open file; it may be renamed while it is open."""

    __slots__ = ("_disk", "_last_path", "_node")

    def __init__(self, disk: "MountedDisk", node: FileNode) -> None:
        self._disk = disk
        self._node: FileNode | None = node
        self._last_path = path_of(node)

    @property
    def path(self) -> str:
        if self._node is not None and self._node.parent is not None:
            self._last_path = path_of(self._node)
        return self._last_path

    @property
    def size(self) -> int:
        return self._node.content.size if self._node is not None else 0

    def append(self, data: Sequence[Buffer]) -> None:
        node = self._live()
        self._disk.append(node, b"".join(data))

    def read_cached(self, position: int, count: int) -> Buffer | None:
        node = self._live()
        self._disk.note(DiskOperation.READ_CACHED, self.path, count)
        if self._disk.faults.nothing_is_cached or position < node.content.cold_upto:
            return None
        return node.content.read(position, count)

    def read(self, position: int, count: int) -> bytes:
        node = self._live()
        self._disk.note(DiskOperation.READ, self.path, count)
        node.content.cold_upto = 0  # the system reads ahead
        return node.content.read(position, count)

    def truncate(self, size: int) -> None:
        node = self._live()
        assert 0 <= size <= self.size, f"{self.path} has {self.size} bytes; cannot be cut to {size}"
        self._disk.step(DiskOperation.TRUNCATE, self.path, size)
        node.content.truncate(size)

    def sync(self) -> None:
        node = self._live()
        self._disk.sync(node)

    def close(self) -> None:
        self._node = None

    def _live(self) -> FileNode:
        self._disk.require_mounted()
        node = self._node
        if node is None:
            raise error(errno.EBADF, self._last_path)
        if node.parent is None:
            raise error(errno.ENOENT, self._last_path)
        return node


class MountedLock:
    """A name that is taken, for as long as the disk stays mounted."""

    def __init__(self, locked: set[str], path: str) -> None:
        self._locked = locked
        self._path = path

    def release(self) -> None:
        self._locked.discard(self._path)


class MountedDisk:
    """The disk, for one process of a node. Satisfies `world.Disk`."""

    def __init__(
        self,
        device: Device,
        faults: DiskFaults,
        random: Random,
        watcher: Watcher,
        *,
        size_max: int | None,
        can_sync_all: bool,
    ) -> None:
        self.faults = faults
        self._device = device
        self._random = random
        self._watcher = watcher
        self._size_max = size_max
        self._can_sync_all = can_sync_all
        self._locked: set[str] = set()
        self._failed_syncs: set[FileNode | DirectoryNode] = set()  # final: these fail again
        self._revoked = False
        self._delay_s = 0.0

    def revoke(self) -> None:
        """The node is dead: its further operations raise Revoked and change nothing."""
        self._revoked = True
        self._locked.clear()

    def take_delay_s(self) -> float:
        """How long the operations since the last call would have taken: for callers that ran them off the loop."""
        delay_s, self._delay_s = self._delay_s, 0.0
        return delay_s

    # ---- names

    def open(self, path: str, *, create: bool = False) -> MountedFile:
        self.note(DiskOperation.OPEN, path)
        directory, name = self._device.place(path)
        node = directory.entries.get(name)
        if node is None and create:
            _require_short(name, path)
            self.step(DiskOperation.CREATE, path)
            node = FileNode(name, directory)
            directory.add(node)
        if node is None:
            raise error(errno.ENOENT, path)
        if isinstance(node, DirectoryNode):
            raise error(errno.EISDIR, path)
        return MountedFile(self, node)

    def exists(self, path: str) -> bool:
        self.require_mounted()
        return self._device.find(path) is not None

    def size(self, path: str) -> int:
        self.require_mounted()
        node = self._device.find(path)
        if node is None:
            raise error(errno.ENOENT, path)
        return node.content.size if isinstance(node, FileNode) else 0

    def list(self, path: str = "") -> list[str]:
        self.note(DiskOperation.LIST, path)
        return sorted(self._device.directory(path).entries)

    def make_dir(self, path: str) -> None:
        self.require_mounted()
        directory = self._device.root
        for name in path.split("/") if path else ():
            node = directory.entries.get(name)
            if node is None:
                _require_short(name, path)
                self.step(DiskOperation.MAKE_DIR, path)
                node = DirectoryNode(name, directory)
                directory.add(node)
            if isinstance(node, FileNode):
                raise error(errno.EEXIST, path)
            directory = node

    def rename(self, source: str, target: str) -> None:
        directory, name = self._device.place(source)
        target_directory, target_name = self._device.place(target)
        assert directory is target_directory, "nothing is moved between directories"
        if name not in directory.entries:
            raise error(errno.ENOENT, source)
        _require_short(target_name, target)
        replaced = directory.entries.get(target_name)
        if isinstance(replaced, DirectoryNode) and replaced.entries and name != target_name:
            raise error(errno.ENOTEMPTY, target)
        self.step(DiskOperation.RENAME, target)
        if name != target_name:
            directory.rename(name, target_name)

    def remove(self, path: str) -> None:
        self.require_mounted()
        node = self._device.find(path)
        if isinstance(node, DirectoryNode):
            raise error(errno.EISDIR, path)
        if node is not None:
            self._take_out(DiskOperation.REMOVE, path)

    def remove_tree(self, path: str) -> None:
        self.require_mounted()
        if self._device.find(path) is not None:
            self._take_out(DiskOperation.REMOVE_TREE, path)

    def _take_out(self, operation: DiskOperation, path: str) -> None:
        self.step(operation, path)
        directory, name = self._device.place(path)
        directory.remove(name)

    def lock(self, path: str) -> MountedLock:
        self.note(DiskOperation.LOCK, path)
        if path in self._locked:
            raise error(errno.EWOULDBLOCK, path)
        self.open(path, create=True).close()
        self._locked.add(path)
        return MountedLock(self._locked, path)

    # ---- bytes

    def append(self, node: FileNode, data: bytes) -> None:
        path = path_of(node)
        self.note(DiskOperation.APPEND, path, len(data))
        if self.faults.strikes_now(DiskOperation.APPEND):
            node.content.append(data[: self._random.randint(0, len(data))])
            self.faults.strike()
        has_room = self._size_max is None or self._device.used_bytes + len(data) <= self._size_max
        self.faults.refuse_append(path, has_room=has_room)
        if data:
            node.content.append(data)

    def usage(self) -> DiskUsage:
        self.require_mounted()
        total = _UNLIMITED_BYTES if self._size_max is None else self._size_max
        return DiskUsage(total=total, usable=0 if self.faults.full else total - self._device.used_bytes)

    # ---- syncing

    def sync(self, node: FileNode) -> None:
        path = path_of(node)
        self.step(DiskOperation.SYNC, path)
        self._delay_s += self.faults.sync_delay_s
        self._fail_if_due(node, path)
        node.content.sync()

    def sync_dir(self, path: str) -> None:
        directory = self._device.directory(path)
        self.step(DiskOperation.SYNC_DIR, path)
        self._delay_s += self.faults.sync_delay_s
        self._fail_if_due(directory, path)
        directory.sync()

    def sync_all(self) -> bool:
        self.require_mounted()
        if not self._can_sync_all:
            return False
        self.step(DiskOperation.SYNC_ALL, "")
        self._delay_s += self.faults.sync_delay_s
        if self._failed_syncs:
            raise error(errno.EIO, "")
        self._fail_if_due(self._device.root, "")
        self._device.sync()
        return True

    def _fail_if_due(self, node: FileNode | DirectoryNode, path: str) -> None:
        if node in self._failed_syncs or self.faults.sync_fails():
            self._failed_syncs.add(node)
            raise error(errno.EIO, path)

    # ---- what every operation begins with

    def require_mounted(self) -> None:
        if self._revoked:
            raise Revoked

    def note(self, operation: DiskOperation, path: str, count: int = 0) -> None:
        self.require_mounted()
        self._watcher(operation, path, count)

    def step(self, operation: DiskOperation, path: str, count: int = 0) -> None:
        """A change is about to happen, unless a crash comes before it."""
        self.note(operation, path, count)
        if self.faults.strikes_now(operation):
            self.faults.strike()


def _require_short(name: str, path: str) -> None:
    if len(name.encode()) > _NAME_BYTES_MAX:
        raise error(errno.ENAMETOOLONG, path)
