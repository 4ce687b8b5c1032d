"""Timers without a clock: which keys are due at a given time, the earliest first."""

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import TypeAlias

Key: TypeAlias = tuple[str, ...]

# Replaced and cancelled entries stay in the heap until they surface, or until they are the greater part of it.
_STALE_ENTRIES_MAX = 1024


class Deadlines:
    """One deadline per key; setting it again moves it. Keys due at the same time come in the order they were set."""

    def __init__(self) -> None:
        self._current: dict[Key, tuple[int, int, Key]] = {}
        self._heap: list[tuple[int, int, Key]] = []
        self._set = 0

    def __len__(self) -> int:
        return len(self._current)

    def __contains__(self, key: Key) -> bool:
        return key in self._current

    def set(self, key: Key, at_ms: int) -> None:
        self._set += 1
        entry = at_ms, self._set, key
        self._current[key] = entry
        heappush(self._heap, entry)
        if len(self._heap) > 2 * len(self._current) + _STALE_ENTRIES_MAX:
            self._heap = list(self._current.values())
            heapify(self._heap)

    def cancel(self, key: Key) -> None:
        self._current.pop(key, None)

    def at_ms(self, key: Key) -> int | None:
        """When the key is due, or None if it has no deadline."""
        entry = self._current.get(key)
        return None if entry is None else entry[0]

    def next_ms(self) -> int | None:
        """The earliest deadline."""
        heap = self._heap
        while heap and self._current.get(heap[0][2]) is not heap[0]:
            heappop(heap)
        return heap[0][0] if heap else None

    def due(self, now_ms: int) -> Iterator[Key]:
        """Remove and return, one by one, the keys that are due; keys set or cancelled meanwhile are respected."""
        while (next_ms := self.next_ms()) is not None and next_ms <= now_ms:
            key = heappop(self._heap)[2]
            del self._current[key]
            yield key
