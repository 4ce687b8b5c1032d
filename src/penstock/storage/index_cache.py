"""A bound on the memory that index entries loaded from files take, over all segments of the process."""

from collections import OrderedDict
from typing import Protocol

_LOADED_BYTES_MAX = 64 << 20


class LoadedIndex(Protocol):
    """An index whose loaded entries can be forgotten."""

    def unload(self) -> None: ...


class IndexCache:
    """Unloads the least recently used indexes when the loaded entries take more than `bytes_max`."""

    def __init__(self, bytes_max: int = _LOADED_BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        self._loaded: OrderedDict[LoadedIndex, int] = OrderedDict()

    @property
    def bytes_loaded(self) -> int:
        # Summed each time: a running total would lose updates made by several threads at once.
        return sum(self._loaded.values())

    def note_use(self, index: LoadedIndex) -> None:
        if index in self._loaded:
            try:
                self._loaded.move_to_end(index)
            except KeyError:  # another thread has unloaded it in between
                return

    def note_load(self, index: LoadedIndex, size: int) -> None:
        self.note_unload(index)
        self._loaded[index] = size
        surplus = self.bytes_loaded - self.bytes_max
        while surplus > 0 and len(self._loaded) > 1:
            oldest = next(iter(self._loaded))
            surplus -= self._loaded.get(oldest, 0)
            oldest.unload()

    def note_unload(self, index: LoadedIndex) -> None:
        self._loaded.pop(index, None)


SHARED_CACHE = IndexCache()
