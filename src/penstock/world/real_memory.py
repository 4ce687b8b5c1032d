"""Settings of the C library's memory allocator."""

import ctypes
from typing import Final

# glibc's parameters (mallopt), and their values. It rejects more than 32 MiB for the second.
_TRIM_THRESHOLD: Final = -1, 64 << 20
_MMAP_THRESHOLD: Final = -3, 32 << 20


def keep_freed_memory() -> bool:
    """Have the allocator reuse the memory of large buffers; False if the C library has no mallopt.

    By default glibc returns the memory of each large buffer to the system, and every page of the next one is mapped
    again. For requests of 0.5 MB that took ten times as long as assembling them.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and all(
        mallopt(name, value) for name, value in (_TRIM_THRESHOLD, _MMAP_THRESHOLD)
    )
