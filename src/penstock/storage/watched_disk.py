"""The disk of a data directory, and whether what belongs to no single log can still be written to it.

A log whose files fail goes offline, and the others go on. But the directory's own files and names are everybody's: the
checkpoints, `meta.properties`, the embedded metadata store, and which logs there are. Without them no log can be
created, cut or deleted soundly. So their first failure is final, as that of a file's sync is: a second try may succeed
and lie. Whatever would change them is refused from then on, and who listens hears of it.

What may pass is no failure: a full disk, too many open files, too little memory. It leaves everything as it was, for
these files grow by whole entries or are replaced as a whole.
"""

import errno
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from penstock.base.buffers import Buffer
from penstock.world.disk import Disk, File, FileReading

_MAY_PASS = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM)
_GONE = (errno.ENOENT, errno.EBADF)  # somebody has removed or closed that file


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
    """A `world.Disk`. `is_of_log` says of a directory whether it is, or was, a log's."""

    def __init__(self, disk: Disk, *, is_of_log: Callable[[str], bool]) -> None:
        self._disk = disk
        self._is_of_log = is_of_log
        self.failed: str | None = None  # why nothing but logs may be written any more
        # Told once it has happened, on whatever thread that was, with the reason.
        self.on_failed: Callable[[str], object] = _nobody_listens
        # What changes nothing; and freeing the room of what is deleted, which the next start does too.
        self.exists = disk.exists
        self.size = disk.size
        self.list = disk.list
        self.usage = disk.usage
        self.lock = disk.lock
        self.remove_tree = disk.remove_tree

    @contextmanager
    def changing(self, path: str, harmless: tuple[int, ...] = ()) -> Iterator[None]:
        """Around a change of what is everybody's; errors that are `harmless` say nothing about the directory."""
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
        """Of whose files it fails, it does not say."""
        with self.changing(""):
            return self._disk.sync_all()


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _nobody_listens(_why: str) -> None:
    """Whoever uses the disk hears of it by exceptions."""
