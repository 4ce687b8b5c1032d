"""The disk of a data directory; notices when the directory itself fails, not only one log (Kafka: log dir failure).

A log whose files fail goes offline, and the others continue. But all logs depend on the directory's own files and
names: the checkpoints, `meta.properties`, the embedded metadata store, and the partitions' directories. Without them no
log can be created, truncated or deleted safely. So their first failure is final, as a failed fsync is: a retry may
report success without effect. All later changes fail, and `on_failed` is called.

A full disk, too many open files or too little memory do not count as a failure: they may pass, and leave everything as
it was, since these files grow by whole entries or are replaced as a whole.
"""

import errno
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from penstock.base.buffers import Buffer
from penstock.world.disk import Disk, File, FileReading

_MAY_PASS = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM)
_GONE = (errno.ENOENT, errno.EBADF)  # the file was removed or closed meanwhile


class WatchedFile(FileReading):
    """One of the directory's own files."""

    __slots__ = ("_disk",)

    def __init__(self, disk: "WatchedDisk", file: File) -> None:
        super().__init__(file)
        self._disk = disk

    def append(self, data: Sequence[Buffer]) -> None:
        with self._disk.changing(self.path, _GONE):
            self._file.append(data)

    def truncate(self, size: int) -> None:
        with self._disk.changing(self.path, _GONE):
            self._file.truncate(size)

    def sync(self) -> None:
        with self._disk.changing(self.path, _GONE):
            self._file.sync()


class WatchedDisk:
    """A `world.Disk`. `is_of_log` tells whether a directory is, or was, that of a log."""

    def __init__(self, disk: Disk, *, is_of_log: Callable[[str], bool]) -> None:
        self._disk = disk
        self._is_of_log = is_of_log
        self.failed: str | None = None  # why only logs can be written any more
        # Called once, with the reason, in the thread that met the failure.
        self.on_failed: Callable[[str], object] = _ignore_failure
        # Operations without changes; and removing deleted partitions, which the next start does, too.
        self.exists = disk.exists
        self.size = disk.size
        self.list = disk.list
        self.usage = disk.usage
        self.lock = disk.lock
        self.remove_tree = disk.remove_tree

    @contextmanager
    def changing(self, path: str, harmless: tuple[int, ...] = ()) -> Iterator[None]:
        """Wraps a change of the directory's own files; `harmless` errors are no failure of the directory."""
        if self.failed is not None:
            raise OSError(errno.EIO, f"the data directory has failed before ({self.failed})", path)
        try:
            yield
        except OSError as error:
            if error.errno not in _MAY_PASS and error.errno not in harmless and self.failed is None:
                self.failed = str(error)
                self.on_failed(self.failed)
            raise

    def open(self, path: str, *, create: bool = False) -> File:
        if self._is_of_log(_parent(path)):
            return self._disk.open(path, create=create)
        if not create:
            return WatchedFile(self, self._disk.open(path))
        with self.changing(path):
            return WatchedFile(self, self._disk.open(path, create=True))

    def make_dir(self, path: str) -> None:
        with self.changing(path):
            self._disk.make_dir(path)

    def rename(self, source: str, target: str) -> None:
        if self._is_of_log(_parent(source)):
            self._disk.rename(source, target)
        else:
            with self.changing(source, _GONE):
                self._disk.rename(source, target)

    def remove(self, path: str) -> None:
        if self._is_of_log(_parent(path)):
            self._disk.remove(path)
        else:
            with self.changing(path):
                self._disk.remove(path)

    def sync_dir(self, path: str) -> None:
        if self._is_of_log(path):
            self._disk.sync_dir(path)
        else:
            with self.changing(path):
                self._disk.sync_dir(path)

    def sync_all(self) -> bool:
        """Counts as a failure of the directory: the error does not tell which file it was."""
        with self.changing(""):
            return self._disk.sync_all()


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _ignore_failure(_why: str) -> None:
    """Nothing: the caller gets an exception anyway."""
