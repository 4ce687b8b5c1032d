"""The disk of the machine, below one directory.

How files are appended to, read and synced is in `real_file`.

Leaves out: Windows, and memory-mapped files (reading one that was truncated kills the process).
"""

import errno
import fcntl
import os
import shutil
import stat
from collections.abc import Sequence

from penstock.world.disk import DiskUsage
from penstock.world.real_file import DescriptorCache, Inode, RealFile
from penstock.world.real_sync import sync_directory, sync_file_system

_NEW_FILE = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL


class RealLock:
    """A lock file with an advisory lock on it; the file itself stays."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.release()
            raise

    def release(self) -> None:
        """Release the lock; may be called again."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class RealDisk:
    """The tree below `root`. `make_dir("")` creates the root itself."""

    def __init__(self, root: str, *, open_files_max: int = 512) -> None:
        self._root = os.path.join(root, "")
        self._cache = DescriptorCache(self._root, limit=open_files_max)
        # Directory → name → inode of every open file, so that renames reach them.
        self._inodes: dict[str, dict[str, Inode]] = {}
        self._sync_all_error: OSError | None = None
        self.can_ask_page_cache = hasattr(os, "RWF_NOWAIT")

    @property
    def open_files(self) -> int:
        """How many descriptors are open now."""
        return len(self._cache)

    def open(self, path: str, *, create: bool = False) -> RealFile:
        with self._cache.names:
            inode = self._inode(path) or self._new_inode(path, create=create)
            inode.handles += 1
        return RealFile(self, self._cache, inode)

    def exists(self, path: str) -> bool:
        return os.path.exists(self._root + path)

    def size(self, path: str) -> int:
        return os.stat(self._root + path).st_size

    def list(self, path: str = "") -> list[str]:
        return sorted(os.listdir(self._root + path))

    def make_dir(self, path: str) -> None:
        os.makedirs(self._root + path, exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        with self._cache.names:
            os.rename(self._root + source, self._root + target)
            replaced = self._take_inode(target)
            if replaced is not None:
                self._cache.drop(replaced, answer=errno.ENOENT)
            for inode in self._take_inodes_of(source, is_directory=os.path.isdir(self._root + target)):
                inode.path = target + inode.path[len(source) :]
                self._put_inode(inode)

    def remove(self, path: str) -> None:
        with self._cache.names:
            inode = self._take_inode(path)
            if inode is not None:
                self._cache.drop(inode, answer=errno.ENOENT)
        # Unlinking a large file takes a while: not under the lock, or the event loop might wait for it.
        try:
            os.unlink(self._root + path)
        except FileNotFoundError:
            return

    def remove_tree(self, path: str) -> None:
        with self._cache.names:
            for inode in self._take_inodes_below(path):
                self._cache.drop(inode, answer=errno.ENOENT)
        if os.path.lexists(self._root + path):
            shutil.rmtree(self._root + path)

    def sync_dir(self, path: str) -> None:
        sync_directory(self._root + path)

    def sync_all(self) -> bool:
        if self._sync_all_error is not None:
            raise OSError(self._sync_all_error.errno, self._sync_all_error.strerror, self._root)
        try:
            return sync_file_system(self._root)
        except OSError as error:
            self._sync_all_error = error
            raise

    def usage(self) -> DiskUsage:
        device = os.statvfs(self._root)
        return DiskUsage(total=device.f_blocks * device.f_frsize, usable=device.f_bavail * device.f_frsize)

    def lock(self, path: str) -> RealLock:
        return RealLock(self._root + path)

    def forget(self, inode: Inode) -> Inode:
        """Note that a handle was closed; returns an inode for it that fails every use."""
        with self._cache.names:
            inode.handles -= 1
            # An inode with a failed sync is kept: opened again, the file still reports the failure.
            if not inode.handles and inode.sync_error is None and not inode.gone:
                self._take_inode(inode.path)
                self._cache.drop(inode, answer=errno.EBADF)
        dead = Inode(inode.path, inode.size)
        dead.gone = errno.EBADF
        return dead

    def _new_inode(self, path: str, *, create: bool) -> Inode:
        full_path = self._root + path
        try:
            status = os.stat(full_path)
            if stat.S_ISDIR(status.st_mode):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
            inode = Inode(path, status.st_size)
        except FileNotFoundError:
            if not create:
                raise
            inode = Inode(path, 0)
            self._cache.adopt(inode, os.open(full_path, _NEW_FILE, 0o644))
        self._put_inode(inode)
        return inode

    def _inode(self, path: str) -> Inode | None:
        directory, _, name = path.rpartition("/")
        return self._inodes.get(directory, {}).get(name)

    def _put_inode(self, inode: Inode) -> None:
        directory, _, name = inode.path.rpartition("/")
        self._inodes.setdefault(directory, {})[name] = inode

    def _take_inode(self, path: str) -> Inode | None:
        directory, _, name = path.rpartition("/")
        names = self._inodes.get(directory)
        if names is None:
            return None
        inode = names.pop(name, None)
        if not names:
            del self._inodes[directory]
        return inode

    def _take_inodes_of(self, path: str, *, is_directory: bool) -> Sequence[Inode]:
        if is_directory:
            return self._take_inodes_below(path)
        inode = self._take_inode(path)
        return [inode] if inode else []

    def _take_inodes_below(self, path: str) -> Sequence[Inode]:
        below = path + "/"
        directories = [known for known in self._inodes if known == path or known.startswith(below)]
        return [inode for directory in directories for inode in self._inodes.pop(directory).values()]
