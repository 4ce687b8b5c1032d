"""One segment: a file of record batches (.log), its offset index, time index and transaction index.

Only the active segment, the last of a log, grows. Readers in other threads may look at a segment at any time: they
see the batches below `size`, which moves when a batch is completely in the file, and the recent positions as one value
that is replaced, never shortened.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from struct import Struct

from penstock.base.buffers import Buffer
from penstock.records.batch import HEADER_SIZE, BatchHeader, PlacedBatch, read_header
from penstock.storage import file_names, segment_lookup
from penstock.storage.batch_scan import BATCH_OVERHEAD, headers
from penstock.storage.checksums import Ranges, check_batches, overlap, without
from penstock.storage.damage import Damage
from penstock.storage.errors import CorruptionError, DamagedBatchError, DamagedIndexError, NoRoomError
from penstock.storage.log_config import LogConfig
from penstock.storage.segment_index import SegmentIndex
from penstock.storage.time_index import NO_TIMESTAMP, TimeEntry
from penstock.storage.transaction_index import TransactionIndex
from penstock.world.disk import Disk, File, found_no_room

# Offsets and positions of this many recent batches are kept, so that reads at the log's end need no index.
_RECENT_MAX = 32
_RECENT_KEPT = 16

_LENGTH = Struct(">i")
_LENGTH_POSITION = 8
_LENGTH_END = _LENGTH_POSITION + _LENGTH.size


class Segment:
    """The batches from `base_offset` on, up to where the next segment begins."""

    __slots__ = (
        "_bytes_since_index",
        "_directory",
        "_disk",
        "_file",
        "_max_timestamp",
        "_max_timestamp_offset",
        "_recent",
        "_suffix",
        "_unchecked",
        "base_offset",
        "created_ms",
        "damage",
        "deleted",
        "first_timestamp",
        "index",
        "index_is_full",
        "size",
        "transaction_index",
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
        # The largest timestamp, and the last offset of its batch, while the segment grows; then the time index has it.
        self._max_timestamp = NO_TIMESTAMP
        self._max_timestamp_offset = base_offset
        # Positions and last offsets of the newest batches; None: the segment does not grow.
        self._recent: tuple[array[int], array[int]] | None = None
        self._bytes_since_index = 0
        self._unchecked: Ranges = ()  # bytes of the file that this broker has neither written nor checked yet
        self.transaction_index = TransactionIndex()
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
        """Create an empty segment with its file, ready to grow."""
        index = SegmentIndex(disk, directory, base_offset, suffix=suffix)
        segment = cls(disk, directory, base_offset, size=0, index=index, suffix=suffix)
        segment._file = disk.open(segment.path(file_names.LOG), create=True)
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

    # ---- appending

    def append(self, batches: Sequence[PlacedBatch], config: LogConfig) -> int:
        """Write batches behind the last one and index them. Returns the new `size`.

        NoRoomError: none of them is in the file. OSError: how much of them is in the file is unknown.

        The caller sets `size`, after the log end offset has moved: a reader in another thread that sees the bytes must
        also see that there are offsets it may not be allowed to read.
        """
        file = self._file
        if file is None:
            file = self.file
        try:
            file.append(
                batches[0].buffers
                if len(batches) == 1
                else [buffer for batch in batches for buffer in batch.buffers]
            )
        except OSError as error:
            if found_no_room(error):  # the file has been truncated to its old size
                raise NoRoomError(
                    f"{self._directory}: no room for {len(batches)} batches: {error}"
                ) from error
            raise
        position = self.size
        recent = self._recent
        assert recent is not None
        for header, _ in batches:
            # `note` inlined: a call here is paid by every batch.
            last_offset = header.base_offset + header.last_offset_delta
            if header.max_timestamp > self._max_timestamp and header.record_count:
                self._max_timestamp, self._max_timestamp_offset = header.max_timestamp, last_offset
            if not position:
                self.first_timestamp = header.max_timestamp
            if self._bytes_since_index > config.index_interval_bytes:
                self._add_index_entry(last_offset, position, config)
            size = header.batch_length + BATCH_OVERHEAD
            self._bytes_since_index += size
            if len(recent[1]) >= _RECENT_MAX:
                recent = self._recent = (recent[0][-_RECENT_KEPT:], recent[1][-_RECENT_KEPT:])
            recent[0].append(position)
            recent[1].append(last_offset)
            position += size
        return position

    def note(
        self, header: BatchHeader, position: int, config: LogConfig, *, force_entry: bool = False
    ) -> None:
        """Index a batch that was found in the file, behind all others that were noted."""
        last_offset = header.base_offset + header.last_offset_delta
        # An empty batch, kept for a producer's sequence, has no record with the timestamp in its header.
        if header.max_timestamp > self._max_timestamp and header.record_count:
            self._max_timestamp, self._max_timestamp_offset = header.max_timestamp, last_offset
        if not position:
            self.first_timestamp = header.max_timestamp
        if self._bytes_since_index > config.index_interval_bytes or force_entry:
            self._add_index_entry(last_offset, position, config)
        self._bytes_since_index += header.batch_length + BATCH_OVERHEAD

    def _add_index_entry(self, last_offset: int, position: int, config: LogConfig) -> None:
        index = self.index
        index.offsets.add(last_offset=last_offset, position=position)
        index.times.add(self._max_timestamp, offset=self._max_timestamp_offset)
        self._bytes_since_index = 0
        self.index_is_full = index.is_full(config.segment_index_bytes)
        if index.wants_writing():
            try:
                index.write()
            except OSError as error:
                if not found_no_room(error):
                    raise
                # The batch is in the log; its entry stays in memory, and is written with the next one.

    # ---- closing and indexing

    def write_index(self, *, keep_open: bool = False) -> list[File]:
        """Write all entries to the index files, the largest timestamp included."""
        largest = self.largest_time()
        self.index.times.add(largest.timestamp, offset=largest.offset)
        files = self.index.write(keep_open=keep_open)
        try:
            return files + self.write_transaction_index()
        except OSError:
            for file in files:
                file.close()
            raise

    def write_transaction_index(self) -> list[File]:
        """Write the transaction index to its file. Returns open files to be synced, then closed."""
        return self.transaction_index.write(
            self._disk,
            self.path(file_names.TRANSACTION_INDEX),
            sum_path=self.path(file_names.TRANSACTION_INDEX_SUM),
        )

    def retire(self) -> list[File]:
        """Stop growing: write the indexes. Returns open files to be synced, then closed.

        OSError: the segment can grow as before.
        """
        files = self.write_index(keep_open=True)
        self._recent = None
        return files

    @property
    def is_growing(self) -> bool:
        """Whether batches can be added: true of the active segment, and of one that is being indexed again."""
        return self._recent is not None

    def empty_index(self) -> SegmentIndex:
        """An empty index for the same files."""
        return SegmentIndex(self._disk, self._directory, self.base_offset, suffix=self._suffix)

    def begin_indexing(self) -> None:
        """Discard the indexes; the caller passes every batch to `note`."""
        self.index.unload()
        self.index = self.empty_index()
        self.resume(max_time=TimeEntry(NO_TIMESTAMP, self.base_offset), bytes_since_index=0)

    def resume(self, *, max_time: TimeEntry, bytes_since_index: int) -> None:
        """Get ready to grow, continuing the index as it is."""
        self._max_timestamp, self._max_timestamp_offset = max_time
        self._recent = (array("q"), array("q"))
        self._bytes_since_index = bytes_since_index

    # ---- timestamps

    def largest_time(self) -> TimeEntry:
        """The largest timestamp, and the last offset of the batch that has it. May block the first time.

        DamagedIndexError: the time index contradicts the batches.
        """
        if self._recent is not None:
            return TimeEntry(self._max_timestamp, self._max_timestamp_offset)
        times = self.index.times
        if not times.knows_last:
            self._check_last_time(times.read_last_entry())
        return times.last()

    def time_floor(self, timestamp: int) -> TimeEntry | None:
        """The last entry of the time index whose timestamp is at most `timestamp`. May block."""
        entry = self.index.times.floor(timestamp)
        if entry is not None:
            self._check_time(entry)
        return entry

    def _check_last_time(self, last: TimeEntry) -> None:
        """Compare the last entry with its batch and with the last batches: it has to be the largest."""
        if self.damage or not self.size:
            return  # then the index was rebuilt when the log was opened
        self._check_time(last)
        try:
            for _, header in headers(self.file, self.index.offsets.last_position(), end=self.size):
                if header.max_timestamp > last.timestamp and header.record_count:
                    raise self.index.times.damaged("its last entry is missing")
        except DamagedBatchError as error:
            raise segment_lookup.suspect_index(self, error) from error

    def _check_time(self, entry: TimeEntry) -> None:
        """Compare an entry of the time index with the batch that it names."""
        if entry.timestamp == NO_TIMESTAMP:
            return
        position = self.position_of(entry.offset) if entry.offset >= self.base_offset else self.size
        assert position is not None
        if position < self.size:
            data = self.file.read(position, HEADER_SIZE)
            if len(data) == HEADER_SIZE and read_header(data).max_timestamp == entry.timestamp:
                return
        raise self.index.times.damaged(f"no batch at {entry.offset} is of {entry.timestamp}")

    # ---- reading

    def position_of(self, offset: int, *, cached_only: bool = False) -> int | None:
        """Where the first batch begins whose last offset is not below `offset`; `size` if there is none.

        None if `cached_only` and something would have to be read from the device. DamagedIndexError if the index
        contradicts the batches.
        """
        size = self.size
        if self.damage:
            self._refuse_damaged(offset)
        recent = self._recent
        if recent is not None:
            positions, last_offsets = recent
            count = len(last_offsets)
            index = bisect_left(last_offsets, offset, 0, count)
            # An offset at or below the first recent batch may be in an earlier batch that is not in the list.
            if index:
                return positions[index] if index < count else size
        return segment_lookup.find_position(self, offset, cached_only=cached_only)

    def position_before(self, offset: int, *, cached_only: bool = False) -> int | None:
        """A position at or before the batch of `offset`, as near as the index alone knows."""
        return segment_lookup.position_before(self, offset, cached_only=cached_only)

    def readable_end(self, position: int) -> int:
        """The end of the undamaged batches that begin at `position`."""
        damage = self.damage_behind(position)
        return self.size if damage is None else damage.position

    def damage_at(self, position: int) -> Damage | None:
        """The damaged range that includes the byte at `position`."""
        return next((damage for damage in self.damage if damage.position <= position < damage.end), None)

    def damage_behind(self, position: int) -> Damage | None:
        """The first damaged range at or behind `position`."""
        return next((damage for damage in self.damage if damage.position >= position), None)

    def read_at(
        self, position: int, *, end: int, max_bytes: int, whole_first_batch: bool, cached_only: bool
    ) -> Buffer | None:
        """Up to `max_bytes` of what lies between a batch's position and `end`; see `Log.read`.

        Checksums are verified for what has to be read from the device, and for what is read for the first time since
        the broker started (DamagedBatchError). On the event loop that would take too long: None.
        """
        file = self._file
        if file is None:
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
        """Have all bytes of the file checked when they are first read: an earlier process wrote them."""
        self._unchecked = ((0, self.size),)

    def headers(self, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
        """Every batch from `position` on. Ends with CorruptionError at damage."""
        end = self.readable_end(position)
        yield from headers(self.file, position, end=end)
        if end < self.size:
            raise CorruptionError(f"{self.file.path} is damaged at position {end}")

    def undamaged_headers(self) -> Iterator[tuple[int, BatchHeader]]:
        """Every batch outside of damaged ranges: for state that is rebuilt from what is left."""
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

    # ---- truncating, renaming, removing

    def truncate_to(self, position: int, offset: int, config: LogConfig) -> None:
        """Truncate the file at `position`, where `offset` would be next. The segment can grow again afterwards."""
        self._recent = None
        try:
            self.index.truncate_to(offset)
            self._truncate_file(position, offset)
            self._resume_with_index()
        except DamagedIndexError:
            self._truncate_file(position, offset)
            self.begin_indexing()
            for at, header in self.undamaged_headers():
                self.note(header, at, config)

    def _truncate_file(self, position: int, offset: int) -> None:
        self.file.truncate(position)
        self.size = position
        self.damage = tuple(damage for damage in self.damage if damage.first_offset < offset)

    def _resume_with_index(self) -> None:
        known = self.index.times.last()
        self._check_time(known)
        max_time = known
        start = self.position_of(known.offset) if known.timestamp != NO_TIMESTAMP else 0
        assert start is not None
        for _, header in headers(self.file, start, end=self.readable_end(start)):
            if header.max_timestamp > max_time.timestamp and header.record_count:
                max_time = TimeEntry(header.max_timestamp, header.last_offset)
        self.resume(max_time=max_time, bytes_since_index=self.size - self.index.offsets.last_position())

    def move_to(self, suffix: str) -> None:
        """Rename the files to another suffix; readers that hold the segment continue to read."""
        for kind in file_names.SEGMENT_SUFFIXES:
            source = self.path(kind)
            if kind == file_names.LOG or self._disk.exists(source):
                self._disk.rename(
                    source, f"{self._directory}/{file_names.file_name(self.base_offset, kind)}{suffix}"
                )
        self._suffix = suffix
        self.index.moved_to(suffix)

    def remove(self) -> None:
        """Remove the files of a segment that has no readers. May block."""
        self.close()
        for kind in file_names.SEGMENT_SUFFIXES:
            self._disk.remove(self.path(kind))

    def close(self) -> None:
        self.index.unload()
        if self._file is not None:
            self._file.close()
