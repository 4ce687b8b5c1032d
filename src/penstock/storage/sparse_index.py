"""The common base of the offset index and the time index of a segment: two columns of numbers in a file.

New entries stay in memory and are appended to the file some hundreds at a time; after a crash indexes are rebuilt
anyway. Entries in the file are loaded when a lookup needs them, and unloaded again when the loaded entries of all
segments take more than `IndexCache` allows. A reader in another thread works on one `IndexTail`, which is only ever
appended to, values before keys, or replaced as a whole.

The files have no checksum. Loaded entries have to be in order, and the segment compares each entry that it uses with
the batch it points to (DamagedIndexError). A damaged index is rebuilt from the batches.
"""

from array import array
from itertools import islice
from operator import lt
from typing import ClassVar, NamedTuple

from penstock.storage import file_names
from penstock.storage.errors import DamagedIndexError
from penstock.storage.index_cache import IndexCache
from penstock.world.disk import Disk, File

_CHECKED_ON_THE_LOOP_MAX = 4096  # entries; to check more of them would hold the event loop up for too long


class IndexColumns(NamedTuple):
    """Entries as two columns: lookups search `keys` and answer from `values`."""

    values: "array[int]"
    keys: "array[int]"

    def first(self, count: int) -> "IndexColumns":
        return IndexColumns(self.values[:count], self.keys[:count])


class IndexTail(NamedTuple):
    """The entries that are not in the file yet, and how many are in the file."""

    columns: IndexColumns
    written: int


class SparseIndex:
    """One index file of a segment, with its unwritten tail. Subclasses define the entries and the lookups."""

    __slots__ = ("_base_offset", "_cache", "_directory", "_disk", "_loaded", "_suffix", "_tail")

    KIND: ClassVar[str]
    ENTRY_SIZE: ClassVar[int]
    # Closed segments have no unwritten entries: all share this one, and it is never appended to.
    NO_ENTRIES: ClassVar[IndexColumns]

    def __init__(
        self, disk: Disk, directory: str, base_offset: int, *, in_file: bool, suffix: str, cache: IndexCache
    ) -> None:
        """With `in_file` the index has the entries of its file; else it is empty, whatever the file holds."""
        self._disk = disk
        self._directory = directory
        self._base_offset = base_offset
        self._suffix = suffix
        self._cache = cache
        self._loaded: IndexColumns | None = None
        # None: all entries are in the file, and they have not been counted yet.
        self._tail: IndexTail | None = None if in_file else IndexTail(self.NO_ENTRIES, 0)

    @property
    def path(self) -> str:
        return f"{self._directory}/{file_names.file_name(self._base_offset, self.KIND)}{self._suffix}"

    def moved_to(self, suffix: str) -> None:
        """Note that the file was renamed to another suffix."""
        self._suffix = suffix

    def damaged(self, why: str) -> DamagedIndexError:
        return DamagedIndexError(self.path, why, base_offset=self._base_offset)

    # ---- entries that are not in the file yet

    @property
    def tail(self) -> IndexTail:
        tail = self._tail
        if tail is None:
            written, rest = divmod(self._disk.size(self.path), self.ENTRY_SIZE)
            if rest:
                raise self.damaged("it does not hold whole entries")
            tail = self._tail = IndexTail(self.NO_ENTRIES, written)
        return tail

    @property
    def entry_count(self) -> int:
        tail = self.tail
        return tail.written + len(tail.columns.keys)

    @property
    def unwritten_count(self) -> int:
        return 0 if self._tail is None else len(self._tail.columns.keys)

    def append_entry(self, value: int, key: int) -> None:
        tail = self.tail
        if tail.columns is self.NO_ENTRIES:
            tail = self._tail = tail._replace(columns=self.NO_ENTRIES.first(0))
        tail.columns.values.append(value)
        tail.columns.keys.append(key)

    def take_over(self, rebuilt: "SparseIndex") -> None:
        """Replace all entries by those of another index of the same segment; the file follows with the next write."""
        self.unload()
        self._tail = rebuilt.tail

    # ---- the file

    def write_tail(self) -> File:
        """Append the unwritten entries to the file, which stays open. They count as written after `tail_written`."""
        tail = self.tail
        file = self._disk.open(self.path, create=True)
        try:
            size = tail.written * self.ENTRY_SIZE
            if file.size > size:  # left over from before a crash, or from a write that found the disk full
                file.truncate(size)
            data = self.pack(tail.columns)
            if data:
                file.append([data])
        except OSError:
            file.close()
            raise
        return file

    def tail_written(self) -> None:
        self.unload()
        self._tail = IndexTail(self.NO_ENTRIES, self.entry_count)

    def remove(self) -> None:
        """Remove the file of an index that is not used any more."""
        self.unload()
        self._disk.remove(self.path)

    def truncate_entries(self, *, written: int, unwritten: int) -> None:
        """Keep the first `written` entries of the file, and the first `unwritten` entries of the tail."""
        tail = self.tail
        if written < tail.written:
            file = self._disk.open(self.path)
            file.truncate(written * self.ENTRY_SIZE)
            file.close()
        self.unload()
        self._tail = IndexTail(tail.columns.first(unwritten), written)

    def read_last(self, written: int) -> bytes:
        """The last of `written` entries in the file. May block."""
        file = self._disk.open(self.path)
        try:
            data = file.read((written - 1) * self.ENTRY_SIZE, self.ENTRY_SIZE)
        finally:
            file.close()
        if len(data) != self.ENTRY_SIZE:
            raise self.damaged("it is shorter than it was")
        return data

    def load(self, tail: IndexTail, *, cached_only: bool = False) -> IndexColumns | None:
        """The entries in the file that `tail` counts as written.

        None if `cached_only` and they would have to be read from the device.
        """
        loaded = self._loaded
        if loaded is not None and len(loaded.keys) == tail.written:
            self._cache.note_use(self)
            return loaded
        if cached_only and tail.written > _CHECKED_ON_THE_LOOP_MAX:
            return None
        data = self._read_all(tail.written * self.ENTRY_SIZE, cached_only=cached_only)
        if data is None:
            return None
        loaded = self.unpack(data)
        self.require_order(loaded)
        self._loaded = loaded
        self._cache.note_load(self, len(data))
        return loaded

    def _read_all(self, size: int, *, cached_only: bool) -> bytes | None:
        if not size:
            return b""
        file = self._disk.open(self.path)
        try:
            data = file.read_cached(0, size) if cached_only else file.read(0, size)
        finally:
            file.close()
        if data is not None and len(data) != size:
            raise self.damaged("it is shorter than it was")
        return data if data is None else bytes(data)

    @property
    def is_loaded(self) -> bool:
        return self._loaded is not None

    def unload(self) -> None:
        """Forget the entries that were loaded from the file."""
        self._loaded = None
        self._cache.note_unload(self)

    # ---- what an entry is

    def pack(self, columns: IndexColumns) -> bytes:
        raise NotImplementedError

    def unpack(self, data: bytes) -> IndexColumns:
        raise NotImplementedError

    def require_order(self, loaded: IndexColumns) -> None:
        """Raise DamagedIndexError unless the entries are in order: most damage to a file breaks that."""
        raise NotImplementedError


def is_increasing(column: "array[int]") -> bool:
    return all(map(lt, column, islice(column, 1, None)))
