"""The descriptors behind the files of a `RealDisk`: opened when needed, closed again when too many are open.

A descriptor is pinned while a call uses it, so that no thread closes it under another. A pinned one is never
evicted: the limit can be passed by as many as there are calls under way, and no further.
"""

import os
import threading
from collections import OrderedDict
from collections.abc import Iterable
from itertools import islice


class Inode:
    """One file of the disk with everything known about it. All handles of a path share it."""

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
        self.doomed = -1  # a descriptor to close when the last pin goes
        self.gone = 0  # the errno that using it answers, once it is removed or closed
        self.append_error: OSError | None = None  # a failed append that could not be cut back
        self.sync_error: OSError | None = None  # a failed sync; final
        self.own_from = size  # what lies from here on was appended through this inode


class DescriptorCache:
    """At most `limit` open descriptors; the least recently used one is closed first."""

    def __init__(self, root: str, *, limit: int) -> None:
        assert limit > 0
        self._root = root
        self._limit = limit
        self._lock = threading.Lock()  # held for bookkeeping only, never over a system call
        self._open: OrderedDict[Inode, None] = OrderedDict()
        # Held while a path is opened or changes its meaning, and while descriptors are chosen for closing.
        # Taken before `_lock`.
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
        """Take over a descriptor that was just opened for the inode. The caller holds `names`."""
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
        with self.names:  # whoever closes descriptors holds it too: what is open now stays so until pinned
            if inode.gone:
                raise OSError(inode.gone, os.strerror(inode.gone), inode.path)
            if inode.descriptor < 0:  # else another thread was faster
                opened = os.open(self._root + inode.path, os.O_RDWR | os.O_APPEND)
                with self._lock:
                    victims = self._install(inode, opened)
            with self._lock:
                inode.pins += 1
            descriptor = inode.descriptor
        _close_all(victims)
        return descriptor

    def _install(self, inode: Inode, descriptor: int) -> list[int]:
        """Note the descriptor as the inode's; return those to close for it. The caller holds both locks."""
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


def _close_all(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
