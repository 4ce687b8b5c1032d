"""How this process keeps the memory it has."""

import ctypes
from typing import Final

# What glibc calls these settings, and what they are set to. Above 32 MiB it does not take the second.
_TRIM_THRESHOLD: Final = -1, 64 << 20
_MMAP_THRESHOLD: Final = -3, 32 << 20


def keep_freed_memory() -> bool:
    """Keep what large buffers leave behind for the next ones; False where the C library knows no such thing.

    Left to itself glibc may give back to the system what a large buffer had, with each of them, and every page of the
    next one is mapped again. For requests of half a megabyte that was ten times the work of putting them together.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and all(
        mallopt(name, value) for name, value in (_TRIM_THRESHOLD, _MMAP_THRESHOLD)
    )
