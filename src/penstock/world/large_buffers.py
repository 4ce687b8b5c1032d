"""Memory for large requests: mapped from the system, and unmapped in slices.

Mapping is cheap, and pages are allocated when they are written. Unmapping 80 MiB at once would occupy the event loop
for 2 to 4 ms, so a buffer that is no longer referenced is freed in slices, one per iteration of the loop.
"""

import contextlib
import mmap
from collections import deque
from typing import Final

from penstock.world.loop import Loop

LARGE_BYTES_MIN: Final = 4 << 20
FREED_PER_TURN_BYTES: Final = 2 << 20

_DISCARD: Final = getattr(mmap, "MADV_DONTNEED", None)  # not on every system


class LargeBuffers:
    """Allocates buffers for one broker, and frees those that are large on its loop."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._dropped: deque[_Mapping] = deque()
        self._freed_bytes = 0  # of the first one that was dropped
        self._is_freeing = False

    def allocate(self, size: int) -> bytearray | memoryview:
        """A buffer of `size` zero bytes."""
        if size < LARGE_BYTES_MIN:
            return bytearray(size)
        mapping = _Mapping(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        mapping.owner = self
        return memoryview(mapping)

    @property
    def dropped_count(self) -> int:
        """How many unreferenced buffers are not completely freed yet."""
        return len(self._dropped)

    def drop(self, mapping: "_Mapping") -> None:
        """Free a mapping that is no longer referenced. May be called from any thread."""
        if _DISCARD is None:
            return
        with contextlib.suppress(RuntimeError):  # the loop is closed: it is freed at once
            self._loop.call_from_thread(self._free_later, mapping)

    def _free_later(self, mapping: "_Mapping") -> None:
        self._dropped.append(mapping)
        if not self._is_freeing:
            self._is_freeing = True
            self._free_slice()

    def _free_slice(self) -> None:
        assert _DISCARD is not None
        mapping = self._dropped[0]
        count = min(FREED_PER_TURN_BYTES, len(mapping) - self._freed_bytes)
        mapping.madvise(_DISCARD, self._freed_bytes, count)
        self._freed_bytes += count
        if self._freed_bytes == len(mapping):
            self._freed_bytes = 0
            self._dropped.popleft()
        self._is_freeing = bool(self._dropped)
        if self._is_freeing:
            self._loop.call_soon(self._free_slice)


class _Mapping(mmap.mmap):
    """Mapped memory that its owner frees in slices when the last reference is gone."""

    owner: LargeBuffers

    def __del__(self) -> None:
        self.owner.drop(self)
