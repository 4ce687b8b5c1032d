"""Syncing to the device: a file's content, a directory's entries, a whole file system."""

import ctypes
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

if sys.platform == "darwin":
    import fcntl

    def sync_content(descriptor: int) -> None:
        """Return when the file's content is on the device. macOS's fsync stops at the drive's own cache."""
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)

else:

    def sync_content(descriptor: int) -> None:
        """Return when the file's content, and its size, are on the device."""
        os.fdatasync(descriptor)


def sync_directory(path: str) -> None:
    """Return when the names in a directory are on the device."""
    with _opened(path) as descriptor:
        os.fsync(descriptor)


def sync_file_system(path: str) -> bool:
    """Sync the file system that holds `path` (syncfs); False if the system has no such call."""
    if _syncfs is None:
        return False
    with _opened(path) as descriptor:
        if _syncfs(descriptor) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), path)
    return True


def _find_syncfs() -> Callable[[int], int] | None:
    """Linux only, and Python does not wrap it. A call through CDLL releases the interpreter's lock."""
    release = re.match(r"(\d+)\.(\d+)", os.uname().release)
    if release is None or (int(release[1]), int(release[2])) < (5, 8):
        return None  # before Linux 5.8 it does not report failed writes
    found: Callable[[int], int] | None = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    return found


_syncfs = _find_syncfs()


@contextmanager
def _opened(path: str) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
