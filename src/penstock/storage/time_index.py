"""The time index of a segment (.timeindex): from a timestamp to the offset of a batch.

12 bytes an entry, big-endian: the largest timestamp so far, and the last offset of the batch that has it minus the
segment's base offset. Timestamps strictly increase.
"""

import sys
from array import array
from bisect import bisect_left, bisect_right
from itertools import islice
from operator import gt
from struct import Struct
from typing import NamedTuple

from penstock.storage import file_names
from penstock.storage.index_cache import IndexCache
from penstock.storage.sparse_index import IndexColumns, SparseIndex, is_increasing
from penstock.world.disk import Disk

TIME_ENTRY_SIZE = 12
NO_TIMESTAMP = -1

_ENTRY = Struct(">qi")
_SWAPS = sys.byteorder == "little"


class TimeEntry(NamedTuple):
    """A timestamp, and the last offset of the batch that has it."""

    timestamp: int
    offset: int


class TimeIndex(SparseIndex):
    """Keys are timestamps, values are offsets minus the base offset."""

    __slots__ = ("_last",)

    KIND = file_names.TIME_INDEX
    ENTRY_SIZE = TIME_ENTRY_SIZE
    NO_ENTRIES = IndexColumns(array("i"), array("q"))

    def __init__(
        self, disk: Disk, directory: str, base_offset: int, *, in_file: bool, suffix: str, cache: IndexCache
    ) -> None:
        super().__init__(disk, directory, base_offset, in_file=in_file, suffix=suffix, cache=cache)
        self._last: TimeEntry | None = None  # None: not read yet

    def add(self, timestamp: int, *, offset: int) -> None:
        """Add the largest timestamp so far, unless the last entry has it already."""
        if timestamp <= self.last().timestamp:
            return
        self.append_entry(offset - self._base_offset, timestamp)
        self._last = TimeEntry(timestamp, offset)

    def floor(self, timestamp: int) -> TimeEntry | None:
        """The last entry whose timestamp is at most `timestamp`. May block."""
        tail = self.tail
        for columns in (tail.columns, self.load(tail)):
            assert columns is not None
            index = bisect_right(columns.keys, timestamp) - 1
            if index >= 0:
                return TimeEntry(columns.keys[index], columns.values[index] + self._base_offset)
        return None

    @property
    def knows_last(self) -> bool:
        """Whether `last` answers without reading the file."""
        return self._last is not None

    def last(self) -> TimeEntry:
        """The last entry. May block the first time, if it is in the file."""
        last = self._last
        if last is None:
            last = self._last = self.read_last_entry()
        return last

    def read_last_entry(self) -> TimeEntry:
        """The last entry, read now. May block."""
        tail = self.tail
        timestamps = tail.columns.keys
        if timestamps:
            return TimeEntry(timestamps[-1], tail.columns.values[-1] + self._base_offset)
        if not tail.written:
            return TimeEntry(NO_TIMESTAMP, self._base_offset)
        timestamp, relative = _ENTRY.unpack(self.read_last(tail.written))
        return TimeEntry(timestamp, self._base_offset + relative)

    def forget_last(self) -> None:
        """Have `last` look again, after entries were replaced or removed."""
        self._last = None

    def count_below(self, offset: int) -> tuple[int, int]:
        """How many entries, in the file and not yet there, name batches that end below `offset`. May block."""
        relative = offset - self._base_offset
        tail = self.tail
        loaded = self.load(tail)
        assert loaded is not None
        return bisect_left(loaded.values, relative), bisect_left(tail.columns.values, relative)

    def pack(self, columns: IndexColumns) -> bytes:
        # A timestamp is two 4-byte words, the higher first once everything is big-endian.
        words = array("i", columns.keys.tobytes())
        first, second = (words[1::2], words[0::2]) if _SWAPS else (words[0::2], words[1::2])
        interleaved = array("i", bytes(TIME_ENTRY_SIZE * len(columns.keys)))
        interleaved[0::3] = first
        interleaved[1::3] = second
        interleaved[2::3] = columns.values
        if _SWAPS:
            interleaved.byteswap()
        return interleaved.tobytes()

    def unpack(self, data: bytes) -> IndexColumns:
        interleaved = array("i", data)
        if _SWAPS:
            interleaved.byteswap()
        words = array("i", bytes(len(data) // 3 * 2))
        words[0::2] = interleaved[1::3] if _SWAPS else interleaved[0::3]
        words[1::2] = interleaved[0::3] if _SWAPS else interleaved[1::3]
        return IndexColumns(interleaved[2::3], array("q", words.tobytes()))

    def require_order(self, loaded: IndexColumns) -> None:
        offsets, timestamps = loaded
        if not is_increasing(timestamps) or any(map(gt, offsets, islice(offsets, 1, None))):
            raise self.damaged("its entries are not in order")
