"""The files of a `RealDisk`, and the descriptors behind them: opened when needed, closed when too many are open.

Appends are one `writev` into the page cache. `read_cached` asks the kernel to answer from the page cache alone
(`RWF_NOWAIT`). If the system or the file system cannot do that, it answers from the last MiB that this process
appended itself, which is in the page cache unless memory is very short, and None for everything else.

A descriptor is pinned while a call uses it, so that no other thread closes it meanwhile. A pinned descriptor is never
evicted: the limit can be exceeded by as many descriptors as there are calls in progress.
"""

import ctypes
import errno
import os
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from penstock.base.buffers import Buffer
from penstock.world.real_sync import sync_content

if TYPE_CHECKING:
    from penstock.world.real_disk import RealDisk

OWN_TAIL_BYTES_MAX = 1 << 20
_BUFFERS_PER_WRITE_MAX = os.sysconf("SC_IOV_MAX")
_LARGE_BUFFER_BYTES = 32_768  # from here on it pays not to zero a buffer first
_UNANSWERABLE = (errno.EOPNOTSUPP, errno.ENOSYS)


class Inode:
    """The state of one file. All handles of a path share it."""

    __slots__ = (
        "append_error",
        "descriptor",
        "doomed",
        "gone",
        "handles",
        "own_from",
        "path",
        "pins",
        "size",
        "sync_error",
    )

    def __init__(self, path: str, size: int) -> None:
        self.path = path
        self.size = size
        self.handles = 0
        self.descriptor = -1  # -1: not open at the moment
        self.pins = 0
        self.doomed = -1  # a descriptor to close when it is no longer pinned
        self.gone = 0  # the errno of every use, once the file is removed or closed
        self.append_error: OSError | None = None  # a failed append that could not be undone
        self.sync_error: OSError | None = None  # a failed sync; final
        self.own_from = size  # bytes from here on were appended by this process


class DescriptorCache:
    """At most `limit` open descriptors; the least recently used one is closed first."""

    def __init__(self, root: str, *, limit: int) -> None:
        assert limit > 0
        self._root = root
        self._limit = limit
        self._lock = threading.Lock()  # held for bookkeeping only, never over a system call
        self._open: OrderedDict[Inode, None] = OrderedDict()
        # Held while a path is opened, renamed or removed, and while descriptors are chosen for eviction.
        # Acquired before `_lock`.
        self.names = threading.Lock()

    def __len__(self) -> int:
        return len(self._open)

    def pin(self, inode: Inode) -> int:
        """The inode's descriptor, which stays open until `unpin`."""
        with self._lock:
            descriptor = inode.descriptor
            if descriptor >= 0:
                inode.pins += 1
                self._open.move_to_end(inode)
                return descriptor
        return self._open_and_pin(inode)

    def unpin(self, inode: Inode) -> None:
        with self._lock:
            inode.pins -= 1
            if inode.doomed < 0 or inode.pins:
                return
            doomed, inode.doomed = inode.doomed, -1
        os.close(doomed)

    def adopt(self, inode: Inode, descriptor: int) -> None:
        """Register a descriptor that was just opened for the inode. The caller holds `names`."""
        with self._lock:
            victims = self._install(inode, descriptor)
        _close_all(victims)

    def drop(self, inode: Inode, *, answer: int) -> None:
        """Close what is open; every later use raises the errno `answer`. The caller holds `names`."""
        with self._lock:
            inode.gone = answer
            descriptor, inode.descriptor = inode.descriptor, -1
            if descriptor < 0:
                return
            del self._open[inode]
            if inode.pins:
                inode.doomed = descriptor
                return
        os.close(descriptor)

    def _open_and_pin(self, inode: Inode) -> int:
        victims: list[int] = []
        with self.names:  # eviction needs it too: a descriptor that is open now stays open until it is pinned
            if inode.gone:
                raise OSError(inode.gone, os.strerror(inode.gone), inode.path)
            if inode.descriptor < 0:  # else another thread has opened it
                opened = os.open(self._root + inode.path, os.O_RDWR | os.O_APPEND)
                with self._lock:
                    victims = self._install(inode, opened)
            with self._lock:
                inode.pins += 1
            descriptor = inode.descriptor
        _close_all(victims)
        return descriptor

    def _install(self, inode: Inode, descriptor: int) -> list[int]:
        """Store the descriptor in the inode; returns descriptors to evict for it. The caller holds both locks."""
        closing = []
        surplus = len(self._open) + 1 - self._limit
        if surplus > 0:
            unpinned = (other for other in self._open if not other.pins)
            closing = list(islice(unpinned, surplus))
        victims = []
        for other in closing:
            del self._open[other]
            victims.append(other.descriptor)
            other.descriptor = -1
        inode.descriptor = descriptor
        self._open[inode] = None
        return victims


class RealFile:
    """A handle; the descriptor behind it is opened and closed as needed."""

    __slots__ = ("_cache", "_disk", "_inode")

    def __init__(self, disk: "RealDisk", cache: DescriptorCache, inode: Inode) -> None:
        self._disk = disk
        self._cache = cache
        self._inode = inode

    @property
    def path(self) -> str:
        return self._inode.path

    @property
    def size(self) -> int:
        return self._inode.size

    def append(self, data: Sequence[Buffer]) -> None:
        inode = self._inode
        expected = sum(map(len, data))
        descriptor = self._cache.pin(inode)
        try:
            if inode.append_error is not None:
                raise _again(inode.append_error, inode)
            try:
                written = os.writev(descriptor, data) if len(data) <= _BUFFERS_PER_WRITE_MAX else 0
                if written != expected:
                    _write_rest(descriptor, data, written)
            except OSError as error:
                _cut_back(descriptor, inode, error)
                raise
            inode.size += expected
        finally:
            self._cache.unpin(inode)

    def read_cached(self, position: int, count: int) -> Buffer | None:
        inode = self._inode
        count = min(count, inode.size - position)  # allocate no more than the file has
        if count <= 0:
            return b""
        if not self._disk.can_ask_page_cache:
            own = position >= max(inode.own_from, inode.size - OWN_TAIL_BYTES_MAX)
            return self.read(position, count) if own else None
        buffer = bytearray(count) if count < _LARGE_BUFFER_BYTES else _uninitialised_buffer(count)
        descriptor = self._cache.pin(inode)
        try:
            found = os.preadv(descriptor, [buffer], position, os.RWF_NOWAIT)
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno not in _UNANSWERABLE:
                raise
            self._disk.can_ask_page_cache = False
            return None
        finally:
            self._cache.unpin(inode)
        return buffer if found == count else None

    def read(self, position: int, count: int) -> bytes:
        inode = self._inode
        count = min(count, inode.size - position)
        descriptor = self._cache.pin(inode)
        try:
            data = os.pread(descriptor, max(count, 0), position)
            if 0 < len(data) < count:
                data = _read_rest(descriptor, data, position, count)
            return data
        finally:
            self._cache.unpin(inode)

    def truncate(self, size: int) -> None:
        inode = self._inode
        assert 0 <= size <= inode.size, f"{inode.path} has {inode.size} bytes; cannot be cut to {size}"
        descriptor = self._cache.pin(inode)
        try:
            os.ftruncate(descriptor, size)
            inode.size = size
            inode.own_from = min(inode.own_from, size)
        finally:
            self._cache.unpin(inode)

    def sync(self) -> None:
        inode = self._inode
        if inode.sync_error is not None:
            raise _again(inode.sync_error, inode)
        descriptor = self._cache.pin(inode)
        try:
            sync_content(descriptor)
        except OSError as error:
            # The kernel may have dropped the pages it could not write: a second fsync would report success.
            inode.sync_error = error
            raise
        finally:
            self._cache.unpin(inode)

    def close(self) -> None:
        self._inode = self._disk.forget(self._inode)


def _close_all(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _again(error: OSError, inode: Inode) -> OSError:
    return OSError(error.errno, error.strerror, inode.path)


def _write_rest(descriptor: int, data: Sequence[Buffer], written: int) -> None:
    """Write what is left of `data` after its first `written` bytes."""
    left = [memoryview(buffer) for buffer in data if len(buffer)]
    while True:
        while left and written >= len(left[0]):
            written -= len(left.pop(0))
        if not left:
            return
        left[0] = left[0][written:]
        written = os.writev(descriptor, left[:_BUFFERS_PER_WRITE_MAX])


def _cut_back(descriptor: int, inode: Inode, error: OSError) -> None:
    """Truncate the file to its size before a failed append."""
    try:
        os.ftruncate(descriptor, inode.size)
    except OSError:
        inode.append_error = error  # the file may end with a part of the data: nothing may be appended to it


def _read_rest(descriptor: int, data: bytes, position: int, count: int) -> bytes:
    parts = [data]
    found = len(data)
    while found < count:
        part = os.pread(descriptor, count - found, position + found)
        if not part:
            break
        parts.append(part)
        found += len(part)
    return b"".join(parts)


def _uninitialised_buffer_maker() -> Callable[[int], bytearray]:
    """A function that allocates without zeroing, which takes a quarter of a large read's time."""
    if sys.implementation.name != "cpython":
        return bytearray
    make = ctypes.pythonapi.PyByteArray_FromStringAndSize
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t]
    return lambda count: make(None, count)


_uninitialised_buffer = _uninitialised_buffer_maker()
