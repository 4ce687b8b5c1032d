"""One segment: a file of record batches and its indexes.

Only the active segment, the last of a log, grows. Readers in other threads may look at a segment at any
time: they see the batches below `size`, which moves when a batch is completely in the file, and the recent
positions as one value that is replaced, never shortened.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from struct import Struct
from typing import NamedTuple

from penstock.base.buffers import Buffer
from penstock.records.batch import HEADER_SIZE, BatchHeader, read_header
from penstock.storage import file_names
from penstock.storage.batch_scan import (
    BATCH_OVERHEAD,
    RELATIVE_OFFSET_MAX,
    SKIM_SIZE,
    find_batch,
    headers,
    skim,
)
from penstock.storage.checksums import Ranges, check_batches, overlap, without
from penstock.storage.errors import CorruptionError, DamagedBatchError, DamagedIndexError, NoRoomError
from penstock.storage.index import NO_TIMESTAMP, SegmentIndex, TimeEntry
from penstock.storage.log_config import LogConfig
from penstock.storage.transaction_index import TransactionIndex
from penstock.world.disk import Disk, File, found_no_room

# Offsets and positions of this many recent batches are kept, so that readers at the tail need no index.
_RECENT_MAX = 32
_RECENT_KEPT = 16

_LENGTH = Struct(">i")
_LENGTH_POSITION = 8
_LENGTH_END = _LENGTH_POSITION + _LENGTH.size


class PlacedBatch(NamedTuple):
    """A batch with its final offsets and leader epoch, as the buffers to be written one after the other."""

    header: BatchHeader
    buffers: tuple[Buffer, ...]


class Damage(NamedTuple):
    """Offsets whose batches are lost, and the bytes of the file that stand where they stood; perhaps none."""

    first_offset: int
    next_offset: int
    position: int
    end: int
    was_trusted: bool = (
        False  # found by reading what was synced: a start trusts that, and reading finds it again
    )


class Segment:
    """The batches from `base_offset` on, up to where the next segment begins."""

    __slots__ = (
        "_bytes_since_index",
        "_directory",
        "_disk",
        "_file",
        "_max_time",
        "_recent",
        "_suffix",
        "_unchecked",
        "aborted",
        "base_offset",
        "created_ms",
        "damage",
        "deleted",
        "first_timestamp",
        "index",
        "index_is_full",
        "size",
    )

    def __init__(
        self,
        disk: Disk,
        directory: str,
        base_offset: int,
        *,
        size: int,
        index: SegmentIndex,
        suffix: str = "",
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._suffix = suffix
        self._file: File | None = None
        self._max_time: TimeEntry | None = None  # None: the time index's last entry has it
        self._recent: tuple[array[int], array[int]] | None = None  # positions, last offsets
        self._bytes_since_index = 0
        self._unchecked: Ranges = ()  # of the file: not read, nor written, in this life
        self.aborted = TransactionIndex()
        self.base_offset = base_offset
        self.size = size
        self.index = index
        self.index_is_full = False
        self.damage: tuple[Damage, ...] = ()
        self.deleted = False
        self.created_ms = 0
        self.first_timestamp = NO_TIMESTAMP  # of the first batch; time-based rolling counts from it

    @classmethod
    def create(
        cls, disk: Disk, directory: str, base_offset: int, *, now_ms: int, suffix: str = ""
    ) -> "Segment":
        """A new, empty segment with its file."""
        index = SegmentIndex(disk, directory, base_offset, suffix=suffix)
        segment = cls(disk, directory, base_offset, size=0, index=index, suffix=suffix)
        segment._file = disk.open(segment.path(file_names.LOG), create=True)
        segment._max_time = TimeEntry(NO_TIMESTAMP, base_offset)
        segment._recent = (array("q"), array("q"))
        segment.created_ms = now_ms
        return segment

    def path(self, kind: str) -> str:
        return f"{self._directory}/{file_names.file_name(self.base_offset, kind)}{self._suffix}"

    @property
    def file(self) -> File:
        file = self._file
        if file is None:
            file = self._file = self._disk.open(self.path(file_names.LOG))
        return file

    # ---- growing

    def write(self, batches: Sequence[PlacedBatch], config: LogConfig) -> int:
        """Write the batches behind the last one. NoRoomError: nothing of them is there. OSError: nobody knows.

        What comes back is the new `size`. It is set by the caller, after the log's end has moved: a reader in
        another thread that sees the bytes must also see that there are offsets it may not be allowed to read.
        """
        buffers = (
            batches[0].buffers
            if len(batches) == 1
            else [buffer for batch in batches for buffer in batch.buffers]
        )
        try:
            self.file.append(buffers)
        except OSError as error:
            if found_no_room(error):  # the file has been cut back to what it was
                raise NoRoomError(
                    f"{self._directory}: no room for {len(batches)} batches: {error}"
                ) from error
            raise
        position = self.size
        for header, _ in batches:
            self.note(header, position, config)
            position += header.batch_length + BATCH_OVERHEAD
        return position

    def note(
        self, header: BatchHeader, position: int, config: LogConfig, *, force_entry: bool = False
    ) -> None:
        """Index a batch that has just been put, or found, behind all others."""
        last_offset = header.base_offset + header.last_offset_delta
        max_time = self._max_time
        assert max_time is not None
        # An empty batch, kept for a producer's sequence, has no record with the timestamp its header bears.
        if header.max_timestamp > max_time.timestamp and header.record_count:
            max_time = self._max_time = TimeEntry(header.max_timestamp, last_offset)
        if not position:
            self.first_timestamp = header.max_timestamp
        if self._bytes_since_index > config.index_interval_bytes or force_entry:
            self._add_index_entry(last_offset, position, max_time, config)
        self._bytes_since_index += header.batch_length + BATCH_OVERHEAD
        recent = self._recent
        assert recent is not None
        if len(recent[1]) >= _RECENT_MAX:
            recent = self._recent = (recent[0][-_RECENT_KEPT:], recent[1][-_RECENT_KEPT:])
        recent[0].append(position)
        recent[1].append(last_offset)

    def _add_index_entry(
        self, last_offset: int, position: int, max_time: TimeEntry, config: LogConfig
    ) -> None:
        index = self.index
        index.add(last_offset=last_offset, position=position)
        index.add_time(max_time.timestamp, offset=max_time.offset)
        self._bytes_since_index = 0
        self.index_is_full = index.is_full(config.segment_index_bytes)
        if index.wants_writing():
            try:
                index.write()
            except OSError as error:
                if not found_no_room(error):
                    raise
                # The batch is in the log; its entry stays in memory, and is written with the next one.

    def has_room_for(self, last_offset: int) -> bool:
        """Whether the offset is near enough to the base for the index."""
        return last_offset - self.base_offset <= RELATIVE_OFFSET_MAX

    def write_index(self, *, keep_open: bool = False) -> list[File]:
        """Put everything known into the index files, the largest timestamp included."""
        largest = self.largest_time()
        self.index.add_time(largest.timestamp, offset=largest.offset)
        files = self.index.write(keep_open=keep_open)
        try:
            return files + self.write_aborted()
        except OSError:
            for file in files:
                file.close()
            raise

    def write_aborted(self) -> list[File]:
        """Put the aborted transactions into their file. What comes back has to be synced, then closed."""
        return self.aborted.write(
            self._disk,
            self.path(file_names.TRANSACTION_INDEX),
            sum_path=self.path(file_names.TRANSACTION_INDEX_SUM),
        )

    def retire(self) -> list[File]:
        """The segment is no longer the active one. What comes back has to be synced, then closed.

        OSError: it is the active one as before.
        """
        files = self.write_index(keep_open=True)
        self._recent = None
        self._max_time = None
        return files

    @property
    def is_growing(self) -> bool:
        """Whether batches can be noted: true of the active segment, and of one that is being indexed anew."""
        return self._recent is not None

    def begin_indexing(self) -> None:
        """Forget the indexes and start them anew; `note` has to be told of every batch."""
        self.index.unload()
        self.index = SegmentIndex(self._disk, self._directory, self.base_offset, suffix=self._suffix)
        self._max_time = TimeEntry(NO_TIMESTAMP, self.base_offset)
        self._recent = (array("q"), array("q"))
        self._bytes_since_index = 0

    def resume(self, *, max_time: TimeEntry, bytes_since_index: int) -> None:
        """Get ready to grow, going on with the index as it is."""
        self._max_time = max_time
        self._recent = (array("q"), array("q"))
        self._bytes_since_index = bytes_since_index

    # ---- reading

    def largest_time(self) -> TimeEntry:
        """The largest timestamp, and the last offset of the batch that has it. May block the first time.

        DamagedIndexError: the time index says what the batches do not bear out.
        """
        if self._max_time is not None:
            return self._max_time
        if not self.index.knows_last_time:
            self._check_last_time(self.index.read_last_time())
        return self.index.last_time()

    def time_floor(self, timestamp: int) -> TimeEntry | None:
        """The last entry of the time index whose timestamp is at most `timestamp`. May block."""
        entry = self.index.time_floor(timestamp)
        if entry is not None:
            self._check_time(entry)
        return entry

    def _check_last_time(self, last: TimeEntry) -> None:
        """Hold the last entry against its batch, and against the last batches: it has to be the largest."""
        if self.damage or not self.size:
            return  # then the index was made again when the log was opened
        self._check_time(last)
        try:
            for _, header in headers(self.file, self.index.last_position(), end=self.size):
                if header.max_timestamp > last.timestamp and header.record_count:
                    raise self.index.damaged(file_names.TIME_INDEX, "its last entry is missing")
        except DamagedBatchError as error:
            raise self._suspect_index(error) from error

    def _check_time(self, entry: TimeEntry) -> None:
        """Hold an entry of the time index against the batch that it names."""
        if entry.timestamp == NO_TIMESTAMP:
            return
        position = self.position_of(entry.offset) if entry.offset >= self.base_offset else self.size
        assert position is not None
        if position < self.size:
            data = self.file.read(position, HEADER_SIZE)
            if len(data) == HEADER_SIZE and read_header(data).max_timestamp == entry.timestamp:
                return
        raise self.index.damaged(file_names.TIME_INDEX, f"no batch at {entry.offset} is of {entry.timestamp}")

    def _suspect_index(self, error: DamagedBatchError) -> CorruptionError:
        """What to raise where no batch is found at a position of the index: whose fault it is shows when that is made
        again, once."""
        return error if self.index.is_rebuilt else self.index.damaged(file_names.INDEX, str(error))

    def position_of(self, offset: int, *, cached_only: bool = False) -> int | None:
        """Where the first batch that reaches up to `offset` begins; `size` if there is none.

        None where `cached_only` and the answer would have to wait for the device. DamagedIndexError where the index
        leads astray.
        """
        size = self.size
        if self.damage:
            self._refuse_damaged(offset)
        recent = self._recent
        if recent is not None:
            positions, last_offsets = recent
            count = len(last_offsets)
            index = bisect_left(last_offsets, offset, 0, count)
            # The first of the recent ones reaches up to any earlier offset too: it says nothing.
            if index:
                return positions[index] if index < count else size
        found = self.index.floor(offset, cached_only=cached_only)
        if found is None:
            return None
        position, following = found
        if position and position >= size:
            position = self._beyond(position)
        if following is not None and following < size:
            begins_at = self._first_offset_at(following, cached_only=cached_only)
            if begins_at is None:
                return None
            if begins_at <= offset:
                position = following
        try:
            found_at = self._walk_to(offset, position, cached_only=cached_only)
        except DamagedBatchError as error:
            if not position:
                raise
            raise self._suspect_index(error) from error
        if found_at == position and self._begins_behind(position, offset, cached_only=cached_only):
            raise self.index.damaged(file_names.INDEX, f"offset {offset} is not behind position {position}")
        return found_at

    def _begins_behind(self, position: int, offset: int, *, cached_only: bool) -> bool:
        """Whether the batch of an index entry at or before `offset` begins only after it: that cannot be."""
        begins_at = self._first_offset_at(position, cached_only=cached_only) if position else None
        return begins_at is not None and begins_at > offset

    def _beyond(self, position: int) -> int:
        """Where to begin if the index points behind the segment's end."""
        if self.is_growing:
            return 0  # it may know more than was here when the size was read
        raise self.index.damaged(file_names.INDEX, f"position {position} is behind the end of its segment")

    def _first_offset_at(self, position: int, *, cached_only: bool) -> int | None:
        """The first offset of the batch at a position that the index names; None if that has to wait."""
        file = self.file
        data = file.read_cached(position, SKIM_SIZE) if cached_only else file.read(position, SKIM_SIZE)
        if data is None:
            return None
        found = skim(data)
        if found is None or position + found.size > self.size:
            raise self._suspect_index(DamagedBatchError(file.path, position, "no batch begins there"))
        return found.base_offset

    def _walk_to(self, offset: int, position: int, *, cached_only: bool) -> int | None:
        """From batch to batch, and over damage that lies wholly before `offset`."""
        file = self.file
        for damage in self.damage:
            if damage.position < position:
                continue
            found = find_batch(file, position, end=damage.position, offset=offset, cached_only=cached_only)
            if found is None or found < damage.position:
                return found
            if offset < damage.next_offset:
                raise CorruptionError(f"{file.path} is damaged at position {found}, where {offset} should be")
            position = damage.end
        return find_batch(file, position, end=self.size, offset=offset, cached_only=cached_only)

    def position_before(self, offset: int, *, cached_only: bool = False) -> int | None:
        """A position at or before the batch of `offset`, as near as the index alone knows."""
        found = self.index.floor(offset, cached_only=cached_only)
        if found is None:
            return None
        position = found[0]
        if position and position >= self.size:
            position = self._beyond(position)
        if not position:
            return 0
        begins_at = self._first_offset_at(position, cached_only=cached_only)
        if begins_at is not None and begins_at > offset:
            raise self.index.damaged(file_names.INDEX, f"offset {offset} is not behind position {position}")
        return None if begins_at is None else position

    def readable_end(self, position: int) -> int:
        """Up to where batches follow one another from `position` on."""
        damage = self.damage_behind(position)
        return self.size if damage is None else damage.position

    def damage_at(self, position: int) -> Damage | None:
        """The damage that has the byte at `position`."""
        return next((damage for damage in self.damage if damage.position <= position < damage.end), None)

    def damage_behind(self, position: int) -> Damage | None:
        """The first damage at or behind `position`."""
        return next((damage for damage in self.damage if damage.position >= position), None)

    def read_at(
        self, position: int, *, end: int, max_bytes: int, whole_first_batch: bool, cached_only: bool
    ) -> Buffer | None:
        """Up to `max_bytes` of what lies between a batch's position and `end`; see `Log.read`.

        What has to be read from the device, or was not read before in this life, is held against its checksums:
        DamagedBatchError. On the loop that would take too long: None.
        """
        file = self.file
        read = file.read_cached if cached_only else file.read
        count = min(max(max_bytes, _LENGTH_END), end - position)
        if self._unchecked and cached_only and overlap(self._unchecked, position, position + count):
            return None
        data = read(position, count)
        if data is None:
            return None
        if len(data) < _LENGTH_END:
            raise DamagedBatchError(file.path, position, "the file ends in the middle of a batch")
        first_size = _LENGTH.unpack_from(data, _LENGTH_POSITION)[0] + BATCH_OVERHEAD
        if first_size > max_bytes:
            if not whole_first_batch:
                return b""
            if first_size < HEADER_SIZE or position + first_size > end:
                raise DamagedBatchError(file.path, position, "no batch begins there")
            if self._unchecked and cached_only and overlap(self._unchecked, position, position + first_size):
                return None
            data = read(position, first_size)
        if data is not None and not cached_only:
            checked_upto = check_batches(data, path=file.path, position=position)
            if self._unchecked:
                self._unchecked = without(self._unchecked, position, checked_upto)
        return data

    def distrust(self) -> None:
        """What is in the file was there before this life of the broker: it is checked when it is first read."""
        self._unchecked = ((0, self.size),)

    def headers(self, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
        """Every batch from `position` on. Ends with CorruptionError at damage."""
        end = self.readable_end(position)
        yield from headers(self.file, position, end=end)
        if end < self.size:
            raise CorruptionError(f"{self.file.path} is damaged at position {end}")

    def undamaged_headers(self) -> Iterator[tuple[int, BatchHeader]]:
        """Every batch that can be read, passing over damage: for state that is built from what is left."""
        position = 0
        for damage in self.damage:
            yield from headers(self.file, position, end=damage.position)
            position = damage.end
        yield from headers(self.file, position, end=self.size)

    def _refuse_damaged(self, offset: int) -> None:
        for damage in self.damage:
            if damage.first_offset <= offset < damage.next_offset:
                raise CorruptionError(
                    f"{self.file.path}: offsets {damage.first_offset} to {damage.next_offset - 1} are damaged"
                )

    # ---- cutting and going

    def truncate_to(self, position: int, offset: int, config: LogConfig) -> None:
        """Cut the file at `position`, where `offset` would be next. The segment can grow again afterwards."""
        self._recent = None
        try:
            self.index.truncate_to(offset)
            self._cut_file(position, offset)
            self._go_on_with_index()
        except DamagedIndexError:
            self._cut_file(position, offset)
            self.begin_indexing()
            for at, header in self.undamaged_headers():
                self.note(header, at, config)

    def _cut_file(self, position: int, offset: int) -> None:
        self.file.truncate(position)
        self.size = position
        self.damage = tuple(damage for damage in self.damage if damage.first_offset < offset)

    def _go_on_with_index(self) -> None:
        known = self.index.last_time()
        self._check_time(known)
        max_time = known
        start = self.position_of(known.offset) if known.timestamp != NO_TIMESTAMP else 0
        assert start is not None
        for _, header in headers(self.file, start, end=self.readable_end(start)):
            if header.max_timestamp > max_time.timestamp and header.record_count:
                max_time = TimeEntry(header.max_timestamp, header.last_offset)
        self.resume(max_time=max_time, bytes_since_index=self.size - self.index.last_position())

    def move_to(self, suffix: str) -> None:
        """Put a suffix behind the files' names; readers that hold the segment go on reading."""
        for kind in file_names.SEGMENT_SUFFIXES:
            source = self.path(kind)
            if kind == file_names.LOG or self._disk.exists(source):
                self._disk.rename(
                    source, f"{self._directory}/{file_names.file_name(self.base_offset, kind)}{suffix}"
                )
        self._suffix = suffix
        self.index.moved_to(suffix)

    def remove(self) -> None:
        """Remove the files of a segment that nobody reads. May block."""
        self.close()
        for kind in file_names.SEGMENT_SUFFIXES:
            self._disk.remove(self.path(kind))

    def close(self) -> None:
        self.index.unload()
        if self._file is not None:
            self._file.close()
