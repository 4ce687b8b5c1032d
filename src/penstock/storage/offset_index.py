"""The offset index of a segment (.index): from an offset to a position near its batch.

8 bytes an entry, big-endian: the last offset of a batch minus the segment's base offset, and the position in the file
at which that batch begins. Both strictly increase.
"""

import sys
from array import array
from bisect import bisect_left, bisect_right
from struct import Struct

from penstock.storage import file_names
from penstock.storage.sparse_index import IndexColumns, SparseIndex, is_increasing

OFFSET_ENTRY_SIZE = 8

_ENTRY = Struct(">ii")
_SWAPS = sys.byteorder == "little"


class OffsetIndex(SparseIndex):
    """Keys are last offsets minus the base offset, values are positions."""

    __slots__ = ()

    KIND = file_names.INDEX
    ENTRY_SIZE = OFFSET_ENTRY_SIZE
    NO_ENTRIES = IndexColumns(array("i"), array("i"))

    def add(self, *, last_offset: int, position: int) -> None:
        self.append_entry(position, last_offset - self._base_offset)

    def floor(self, offset: int, *, cached_only: bool = False) -> tuple[int, int | None] | None:
        """Where to look for `offset`: a position at or before its batch, and the next indexed position behind that.

        None if `cached_only` and entries would have to be read from the device.
        """
        tail = self.tail
        relative = offset - self._base_offset
        unwritten = tail.columns
        if not tail.written or (unwritten.keys and unwritten.keys[0] <= relative):
            return _floor_in(unwritten, relative)
        loaded = self.load(tail, cached_only=cached_only)
        if loaded is None:
            return None
        position, following = _floor_in(loaded, relative)
        if following is None and unwritten.keys:
            following = unwritten.values[0]
        return position, following

    def last_position(self) -> int:
        """Where the last indexed batch begins; 0 if none is indexed. May block if the entry is in the file."""
        tail = self.tail
        if tail.columns.values:
            return tail.columns.values[-1]
        if not tail.written:
            return 0
        _, position = _ENTRY.unpack(self.read_last(tail.written))
        return int(position)

    def count_below(self, offset: int) -> tuple[int, int]:
        """How many entries, in the file and not yet there, point to batches that end below `offset`. May block."""
        relative = offset - self._base_offset
        tail = self.tail
        loaded = self.load(tail)
        assert loaded is not None
        return bisect_left(loaded.keys, relative), bisect_left(tail.columns.keys, relative)

    def pack(self, columns: IndexColumns) -> bytes:
        count = len(columns.keys)
        interleaved = array("i", bytes(OFFSET_ENTRY_SIZE * count))
        interleaved[0::2] = columns.keys
        interleaved[1::2] = columns.values[:count]
        if _SWAPS:
            interleaved.byteswap()
        return interleaved.tobytes()

    def unpack(self, data: bytes) -> IndexColumns:
        interleaved = array("i", data)
        if _SWAPS:
            interleaved.byteswap()
        return IndexColumns(interleaved[1::2], interleaved[0::2])

    def require_order(self, loaded: IndexColumns) -> None:
        positions, offsets = loaded
        in_order = is_increasing(positions) and is_increasing(offsets)
        if not (in_order and (not offsets or positions[0] > 0 <= offsets[0])):
            raise self.damaged("its entries are not in order")


def _floor_in(columns: IndexColumns, relative: int) -> tuple[int, int | None]:
    count = len(columns.keys)
    index = bisect_right(columns.keys, relative, 0, count)
    following = columns.values[index] if index < count else None
    if not index:
        return 0, following
    return columns.values[index - 1], following
