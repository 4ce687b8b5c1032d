"""The two sparse indexes of a segment: offset to position, and timestamp to offset.

Offset index (.index): 8 bytes an entry, the last offset of a batch less the segment's base offset, and
where that batch begins. Time index (.timeindex): 12 bytes an entry, the largest timestamp so far and the
last offset, less the base, of the batch that has it. Both big-endian, both growing strictly.

New entries wait in memory and are appended to the files some hundreds at a time: after a crash the indexes
are rebuilt anyway. What is in the files is loaded when somebody asks and forgotten again when the loaded
entries of all segments take more than `IndexCache` allows. A reader in another thread works on one `_Tail`,
which is only ever appended to, positions before offsets, or replaced as a whole.

The files have no checksum. What is loaded has to make sense as a whole, and the segment holds each entry that it uses
against the batches (DamagedIndexError); then the index is made again from these.
"""

import sys
from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from itertools import islice
from operator import gt, lt
from struct import Struct
from typing import NamedTuple

from penstock.storage import file_names
from penstock.storage.errors import DamagedIndexError
from penstock.world.disk import Disk, File

OFFSET_ENTRY_SIZE = 8
TIME_ENTRY_SIZE = 12
NO_TIMESTAMP = -1

_OFFSET_ENTRY = Struct(">ii")
_TIME_ENTRY = Struct(">qi")
_TAIL_ENTRIES_MAX = 512
_LOADED_BYTES_MAX = 64 << 20
_SWAPS = sys.byteorder == "little"
_CHECKED_ON_THE_LOOP_MAX = 4096  # entries; looking at more takes too long there


class IndexCache:
    """Bounds the memory of loaded index files; the least recently used ones are forgotten first."""

    def __init__(self, bytes_max: int = _LOADED_BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        self._loaded: OrderedDict[SegmentIndex, int] = OrderedDict()

    @property
    def bytes_loaded(self) -> int:
        return sum(self._loaded.values())  # counted anew: threads would lose each other's additions

    def note_use(self, index: "SegmentIndex") -> None:
        if index in self._loaded:
            try:
                self._loaded.move_to_end(index)
            except KeyError:  # another thread was faster in forgetting it
                return

    def note_load(self, index: "SegmentIndex", size: int) -> None:
        self.note_unload(index)
        self._loaded[index] = size
        surplus = self.bytes_loaded - self.bytes_max
        while surplus > 0 and len(self._loaded) > 1:
            oldest = next(iter(self._loaded))
            surplus -= self._loaded.get(oldest, 0)
            oldest.unload()

    def note_unload(self, index: "SegmentIndex") -> None:
        self._loaded.pop(index, None)


SHARED_CACHE = IndexCache()


class _Entries(NamedTuple):
    """A run of entries of both indexes, as columns."""

    positions: "array[int]"
    offsets: "array[int]"
    time_offsets: "array[int]"
    timestamps: "array[int]"

    def size_in_memory(self) -> int:
        return OFFSET_ENTRY_SIZE * len(self.offsets) + TIME_ENTRY_SIZE * len(self.timestamps)


class _Tail(NamedTuple):
    """The entries that are not in the files yet, and how many are."""

    entries: _Entries
    offsets_written: int
    times_written: int


def _no_entries() -> _Entries:
    return _Entries(array("i"), array("i"), array("i"), array("q"))


# Closed segments have no tail: they share this one, and it is never appended to.
_NOTHING = _no_entries()


class TimeEntry(NamedTuple):
    """A timestamp, and the last offset of the batch that has it."""

    timestamp: int
    offset: int


class SegmentIndex:
    """Both indexes of one segment."""

    __slots__ = (
        "_base_offset",
        "_cache",
        "_directory",
        "_disk",
        "_last_time",
        "_loaded",
        "_suffix",
        "_unmeasured_tail",
        "is_rebuilt",
    )

    def __init__(
        self,
        disk: Disk,
        directory: str,
        base_offset: int,
        *,
        in_files: bool = False,
        suffix: str = "",
        cache: IndexCache = SHARED_CACHE,
    ) -> None:
        """With `in_files` the entries there count; else the index is empty, whatever the files may hold."""
        self._disk = disk
        self._directory = directory
        self._base_offset = base_offset
        self._suffix = suffix
        self._cache = cache
        self._loaded: _Entries | None = None
        self._last_time: TimeEntry | None = None
        self.is_rebuilt = False  # in this life, since what the files held was damaged
        # None: everything is in the files, and nobody has asked yet how much that is.
        self._unmeasured_tail: _Tail | None = None if in_files else _Tail(_NOTHING, 0, 0)

    @property
    def _tail(self) -> _Tail:
        tail = self._unmeasured_tail
        if tail is None:
            tail = self._unmeasured_tail = _Tail(
                _NOTHING,
                self._entries_in_file(file_names.INDEX, OFFSET_ENTRY_SIZE),
                self._entries_in_file(file_names.TIME_INDEX, TIME_ENTRY_SIZE),
            )
        return tail

    def _entries_in_file(self, kind: str, entry_size: int) -> int:
        entries, rest = divmod(self._disk.size(self.path(kind)), entry_size)
        if rest:
            raise self.damaged(kind, "it does not hold whole entries")
        return entries

    # ---- the files

    def path(self, kind: str) -> str:
        return f"{self._directory}/{file_names.file_name(self._base_offset, kind)}{self._suffix}"

    def moved_to(self, suffix: str) -> None:
        """The files now carry another suffix behind their names."""
        self._suffix = suffix

    # ---- growing

    @property
    def offset_entries(self) -> int:
        return self._tail.offsets_written + len(self._tail.entries.offsets)

    @property
    def time_entries(self) -> int:
        return self._tail.times_written + len(self._tail.entries.timestamps)

    def is_full(self, bytes_max: int) -> bool:
        """Whether another batch could need an entry that the files have no room for."""
        # One time entry is kept free for the final one, which is added when the segment is closed.
        return (
            self.offset_entries >= bytes_max // OFFSET_ENTRY_SIZE
            or self.time_entries >= bytes_max // TIME_ENTRY_SIZE - 1
        )

    def add(self, *, last_offset: int, position: int) -> None:
        entries = self._growing_entries()
        entries.positions.append(position)
        entries.offsets.append(last_offset - self._base_offset)

    def add_time(self, timestamp: int, *, offset: int) -> None:
        """Note the largest timestamp so far, unless the last entry has it already."""
        if timestamp <= self.last_time().timestamp:
            return
        entries = self._growing_entries()
        entries.time_offsets.append(offset - self._base_offset)
        entries.timestamps.append(timestamp)
        self._last_time = TimeEntry(timestamp, offset)

    def wants_writing(self) -> bool:
        return len(self._tail.entries.offsets) >= _TAIL_ENTRIES_MAX

    @property
    def has_unwritten(self) -> bool:
        """Whether entries wait in memory."""
        tail = self._unmeasured_tail
        return tail is not None and bool(len(tail.entries.offsets) or len(tail.entries.timestamps))

    def empty_copy(self) -> "SegmentIndex":
        """An index of the same segment that knows nothing yet."""
        return SegmentIndex(self._disk, self._directory, self._base_offset, suffix=self._suffix)

    def take_over(self, made_again: "SegmentIndex") -> None:
        """Know what another index of the same segment knows instead; the files follow with the next `write`.

        May run in another thread: an entry that is added meanwhile may be missing, which costs a longer walk.
        """
        self.unload()
        self._unmeasured_tail = made_again._tail
        self._last_time = None
        self.is_rebuilt = True

    def damaged(self, kind: str, why: str) -> DamagedIndexError:
        return DamagedIndexError(self.path(kind), why, base_offset=self._base_offset)

    def write(self, *, keep_open: bool = False) -> list[File]:
        """Append what waits in memory to the files; with `keep_open` hand over the handles, to be synced."""
        tail = self._tail
        entries = tail.entries
        files: list[File] = []
        try:
            for kind, written, data in (
                (file_names.INDEX, tail.offsets_written * OFFSET_ENTRY_SIZE, _pack_offsets(entries)),
                (file_names.TIME_INDEX, tail.times_written * TIME_ENTRY_SIZE, _pack_times(entries)),
            ):
                file = self._disk.open(self.path(kind), create=True)
                files.append(file)
                if file.size > written:  # left over from before a crash, or from a try that found no room
                    file.truncate(written)
                if data:
                    file.append([data])
        except OSError:
            keep_open = False
            raise
        finally:
            if not keep_open:
                for file in files:
                    file.close()
        self.unload()
        self._unmeasured_tail = _Tail(
            _NOTHING,
            tail.offsets_written + len(entries.offsets),
            tail.times_written + len(entries.timestamps),
        )
        return files if keep_open else []

    def remove(self) -> None:
        """Remove the files; nobody is going to look anything up."""
        self.unload()
        for kind in (file_names.INDEX, file_names.TIME_INDEX):
            self._disk.remove(self.path(kind))

    def _growing_entries(self) -> _Entries:
        tail = self._tail
        if tail.entries is _NOTHING:
            tail = self._unmeasured_tail = tail._replace(entries=_no_entries())
        return tail.entries

    # ---- looking up

    def floor(self, offset: int, *, cached_only: bool = False) -> tuple[int, int | None] | None:
        """Where to look for `offset`: a position at or before its batch, and the next indexed one behind it.

        None where `cached_only` and the answer would have to wait for the device.
        """
        tail = self._tail
        relative = offset - self._base_offset
        entries = tail.entries
        if not tail.offsets_written or (entries.offsets and entries.offsets[0] <= relative):
            return _floor_in(entries, relative)
        loaded = self._load(tail, cached_only=cached_only)
        if loaded is None:
            return None
        position, following = _floor_in(loaded, relative)
        if following is None and entries.offsets:
            following = entries.positions[0]
        return position, following

    def time_floor(self, timestamp: int) -> TimeEntry | None:
        """The last entry whose timestamp is at most `timestamp`. May block."""
        tail = self._tail
        for entries in (tail.entries, self._load(tail)):
            assert entries is not None
            index = bisect_right(entries.timestamps, timestamp) - 1
            if index >= 0:
                return TimeEntry(entries.timestamps[index], entries.time_offsets[index] + self._base_offset)
        return None

    @property
    def knows_last_time(self) -> bool:
        """Whether `last_time` has nothing to read."""
        return self._last_time is not None

    def last_time(self) -> TimeEntry:
        """The last entry of the time index. May block the first time, if it is in the file."""
        last = self._last_time
        if last is None:
            last = self._last_time = self.read_last_time()
        return last

    def read_last_time(self) -> TimeEntry:
        """The same, read now. May block."""
        tail = self._tail
        timestamps = tail.entries.timestamps
        if timestamps:
            return TimeEntry(timestamps[-1], tail.entries.time_offsets[-1] + self._base_offset)
        if not tail.times_written:
            return TimeEntry(NO_TIMESTAMP, self._base_offset)
        data = self._read_tail(file_names.TIME_INDEX, TIME_ENTRY_SIZE, tail.times_written)
        timestamp, relative = _TIME_ENTRY.unpack(data)
        return TimeEntry(timestamp, self._base_offset + relative)

    def last_position(self) -> int:
        """Where the last indexed batch begins; 0 if none is. May block if it is in the file."""
        tail = self._tail
        if tail.entries.positions:
            return tail.entries.positions[-1]
        if not tail.offsets_written:
            return 0
        data = self._read_tail(file_names.INDEX, OFFSET_ENTRY_SIZE, tail.offsets_written)
        _, position = _OFFSET_ENTRY.unpack(data)
        return int(position)

    def _read_tail(self, kind: str, entry_size: int, entry_count: int) -> bytes:
        file = self._disk.open(self.path(kind))
        try:
            data = file.read((entry_count - 1) * entry_size, entry_size)
        finally:
            file.close()
        if len(data) != entry_size:
            raise self.damaged(kind, "it is shorter than it was")
        return data

    def _load(self, tail: _Tail, *, cached_only: bool = False) -> _Entries | None:
        """The entries in the files, as far as `tail` knows of them."""
        loaded = self._loaded
        if loaded is not None and len(loaded.offsets) == tail.offsets_written:
            self._cache.note_use(self)
            return loaded
        if cached_only and tail.offsets_written > _CHECKED_ON_THE_LOOP_MAX:
            return None
        columns: list[array[int]] = []
        for kind, entries, entry_size in (
            (file_names.INDEX, tail.offsets_written, OFFSET_ENTRY_SIZE),
            (file_names.TIME_INDEX, tail.times_written, TIME_ENTRY_SIZE),
        ):
            data = self._read_all(kind, entries * entry_size, cached_only=cached_only)
            if data is None:
                return None
            columns += _unpack_offsets(data) if kind == file_names.INDEX else _unpack_times(data)
        loaded = _Entries(*columns)
        self._require_sense(loaded)
        self._loaded = loaded
        self._cache.note_load(self, loaded.size_in_memory())
        return loaded

    def _read_all(self, kind: str, size: int, *, cached_only: bool) -> bytes | None:
        if not size:
            return b""
        file = self._disk.open(self.path(kind))
        try:
            data = file.read_cached(0, size) if cached_only else file.read(0, size)
        finally:
            file.close()
        if data is not None and len(data) != size:
            raise self.damaged(kind, "it is shorter than it was")
        return data if data is None else bytes(data)

    def _require_sense(self, loaded: _Entries) -> None:
        """Entries grow, and lie in the segment: most of what damages a file damages that."""
        positions, offsets, time_offsets, timestamps = loaded
        if not (_grows(positions) and _grows(offsets) and (not offsets or (positions[0] > 0 <= offsets[0]))):
            raise self.damaged(file_names.INDEX, "its entries are not in order")
        if not _grows(timestamps) or any(map(gt, time_offsets, islice(time_offsets, 1, None))):
            raise self.damaged(file_names.TIME_INDEX, "its entries are not in order")

    @property
    def is_loaded(self) -> bool:
        return self._loaded is not None

    def unload(self) -> None:
        """Forget what was loaded from the files."""
        self._loaded = None
        self._cache.note_unload(self)

    # ---- cutting

    def truncate_to(self, offset: int) -> None:
        """Drop every entry that speaks of `offset` or of what follows it."""
        relative = offset - self._base_offset
        tail = self._tail
        written = self._load(tail)
        assert written is not None
        entries = tail.entries
        offsets_kept = bisect_left(written.offsets, relative)
        times_kept = bisect_left(written.time_offsets, relative)
        for kind, kept, known, entry_size in (
            (file_names.INDEX, offsets_kept, tail.offsets_written, OFFSET_ENTRY_SIZE),
            (file_names.TIME_INDEX, times_kept, tail.times_written, TIME_ENTRY_SIZE),
        ):
            if kept < known:
                file = self._disk.open(self.path(kind))
                file.truncate(kept * entry_size)
                file.close()
        self.unload()
        offsets = bisect_left(entries.offsets, relative)
        times = bisect_left(entries.time_offsets, relative)
        remaining = _Entries(
            entries.positions[:offsets],
            entries.offsets[:offsets],
            entries.time_offsets[:times],
            entries.timestamps[:times],
        )
        self._last_time = None
        self._unmeasured_tail = _Tail(remaining, offsets_kept, times_kept)


def _grows(column: "array[int]") -> bool:
    return all(map(lt, column, islice(column, 1, None)))


def _floor_in(entries: _Entries, relative: int) -> tuple[int, int | None]:
    count = len(entries.offsets)
    index = bisect_right(entries.offsets, relative, 0, count)
    following = entries.positions[index] if index < count else None
    if not index:
        return 0, following
    return entries.positions[index - 1], following


def _pack_offsets(entries: _Entries) -> bytes:
    count = len(entries.offsets)
    interleaved = array("i", bytes(OFFSET_ENTRY_SIZE * count))
    interleaved[0::2] = entries.offsets
    interleaved[1::2] = entries.positions[:count]
    if _SWAPS:
        interleaved.byteswap()
    return interleaved.tobytes()


def _unpack_offsets(data: bytes) -> "list[array[int]]":
    interleaved = array("i", data)
    if _SWAPS:
        interleaved.byteswap()
    return [interleaved[1::2], interleaved[0::2]]


def _pack_times(entries: _Entries) -> bytes:
    # A timestamp is two 4-byte words, the higher first once everything is big-endian.
    words = array("i", entries.timestamps.tobytes())
    first, second = (words[1::2], words[0::2]) if _SWAPS else (words[0::2], words[1::2])
    interleaved = array("i", bytes(TIME_ENTRY_SIZE * len(entries.timestamps)))
    interleaved[0::3] = first
    interleaved[1::3] = second
    interleaved[2::3] = entries.time_offsets
    if _SWAPS:
        interleaved.byteswap()
    return interleaved.tobytes()


def _unpack_times(data: bytes) -> "list[array[int]]":
    interleaved = array("i", data)
    if _SWAPS:
        interleaved.byteswap()
    words = array("i", bytes(len(data) // 3 * 2))
    words[0::2] = interleaved[1::3] if _SWAPS else interleaved[0::3]
    words[1::2] = interleaved[0::3] if _SWAPS else interleaved[1::3]
    return [interleaved[2::3], array("q", words.tobytes())]
