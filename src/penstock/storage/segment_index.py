"""The offset index and the time index of one segment, written, truncated and rebuilt together."""

from penstock.storage.index_cache import SHARED_CACHE, IndexCache
from penstock.storage.offset_index import OFFSET_ENTRY_SIZE, OffsetIndex
from penstock.storage.time_index import TIME_ENTRY_SIZE, TimeIndex
from penstock.world.disk import Disk, File

_UNWRITTEN_ENTRIES_MAX = 512


class SegmentIndex:
    """Both sparse indexes of a segment."""

    __slots__ = ("is_rebuilt", "offsets", "times")

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
        """With `in_files` the indexes have the entries of their files; else they are empty."""
        self.is_rebuilt = False  # since this broker started, because the files were damaged
        self.offsets = OffsetIndex(disk, directory, base_offset, in_file=in_files, suffix=suffix, cache=cache)
        self.times = TimeIndex(disk, directory, base_offset, in_file=in_files, suffix=suffix, cache=cache)

    def moved_to(self, suffix: str) -> None:
        """Note that the files were renamed to another suffix."""
        self.offsets.moved_to(suffix)
        self.times.moved_to(suffix)

    def is_full(self, bytes_max: int) -> bool:
        """Whether the files may have no space for the entries of another batch."""
        # One time entry is kept free for the final one, which is added when the segment is closed.
        return (
            self.offsets.entry_count >= bytes_max // OFFSET_ENTRY_SIZE
            or self.times.entry_count >= bytes_max // TIME_ENTRY_SIZE - 1
        )

    def wants_writing(self) -> bool:
        return self.offsets.unwritten_count >= _UNWRITTEN_ENTRIES_MAX

    @property
    def has_unwritten(self) -> bool:
        """Whether there are entries in memory that the files do not have."""
        return bool(self.offsets.unwritten_count or self.times.unwritten_count)

    def write(self, *, keep_open: bool = False) -> list[File]:
        """Append the unwritten entries to the files; with `keep_open` return the open files, to be synced."""
        files = [self.offsets.write_tail()]
        try:
            files.append(self.times.write_tail())
        except OSError:
            files[0].close()
            raise
        self.offsets.tail_written()
        self.times.tail_written()
        if keep_open:
            return files
        for file in files:
            file.close()
        return []

    def truncate_to(self, offset: int) -> None:
        """Drop every entry for `offset` and what follows it."""
        offsets_written, offsets_unwritten = self.offsets.count_below(offset)
        times_written, times_unwritten = self.times.count_below(offset)
        self.offsets.truncate_entries(written=offsets_written, unwritten=offsets_unwritten)
        self.times.truncate_entries(written=times_written, unwritten=times_unwritten)
        self.times.forget_last()

    def take_over(self, rebuilt: "SegmentIndex") -> None:
        """Replace all entries by those of a rebuilt index; the files follow with the next `write`.

        May run in another thread: an entry that is added meanwhile may be missing, which costs a longer walk.
        """
        self.offsets.take_over(rebuilt.offsets)
        self.times.take_over(rebuilt.times)
        self.times.forget_last()
        self.is_rebuilt = True

    def unload(self) -> None:
        """Forget the entries that were loaded from the files."""
        self.offsets.unload()
        self.times.unload()

    def remove(self) -> None:
        """Remove the files of an index that is not used any more."""
        self.offsets.remove()
        self.times.remove()
