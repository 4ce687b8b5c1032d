"""The transaction index of a segment: its aborted transactions, which read_committed consumers skip.

`<offset>.txnindex` is Kafka's: one entry per abort marker in the segment, in their order: version 0, producer id,
first offset, offset of the marker, and the last stable offset once the marker was in. A segment without aborted
transactions has no file. Entries are kept in memory; the file is written when the segment is closed.

The file has no checksum, and read_committed consumers rely on it, so `<offset>.txnsum` beside it has its CRC-32C. An
index that Kafka wrote has none; then only its entries are checked.
"""

from bisect import bisect_left
from struct import Struct

from crc32c import crc32c

from penstock.base.buffers import Buffer
from penstock.records.producer import AbortedTransaction
from penstock.world.disk import Disk, File, read_file

_ENTRY = Struct(">hqqqq")
ENTRY_SIZE = _ENTRY.size
_VERSION = 0
_LAST_OFFSET = Struct(">q")
_LAST_OFFSET_POSITION = 18


class TransactionIndex:
    """The entries of one segment, as packed bytes: many aborted transactions must not fill the memory."""

    __slots__ = ("_entries", "changed", "is_broken")

    def __init__(self, entries: Buffer = b"") -> None:
        self._entries = bytearray(entries)
        self.changed = False  # since it was last written
        self.is_broken = False  # the file was damaged: the entries have to be rebuilt from the batches

    @classmethod
    def load(cls, disk: Disk, path: str, *, sum_path: str | None = None) -> "TransactionIndex":
        """The index in a file; an empty one that `is_broken` if the file is damaged. May block."""
        try:
            content = read_file(disk, path)
        except FileNotFoundError:
            content = b""
        holds = sum_path is None or read_file(disk, sum_path) == _sum(content)
        if holds and _makes_sense(content):
            return cls(content)
        broken = cls()
        broken.is_broken = broken.changed = True
        return broken

    @classmethod
    def copy_of(cls, other: "TransactionIndex") -> "TransactionIndex":
        """The same entries, to be written to another file."""
        copied = cls(other._entries)
        copied.changed = bool(len(copied))
        return copied

    def __len__(self) -> int:
        return len(self._entries) // ENTRY_SIZE

    def __getitem__(self, index: int) -> AbortedTransaction:
        _, *fields = _ENTRY.unpack_from(self._entries, index * ENTRY_SIZE)
        return AbortedTransaction(*fields)

    @property
    def last_offset(self) -> int:
        """The offset of the last marker; the index must not be empty."""
        return self._last_offset(len(self) - 1)

    def add(self, aborted: AbortedTransaction) -> None:
        assert not len(self) or self._last_offset(len(self) - 1) < aborted.last_offset
        self._entries += _ENTRY.pack(_VERSION, *aborted)
        self.changed = True

    def collect(self, found: list[AbortedTransaction], *, from_offset: int, upto_offset: int) -> bool:
        """Add the entries that overlap a range of offsets; True if later segments have no more of them."""
        for index in range(self._first_at_or_after(from_offset), len(self)):
            aborted = self[index]
            if aborted.first_offset < upto_offset:
                found.append(aborted)
            if aborted.last_stable_offset >= upto_offset:
                return True
        return False

    def truncate_to(self, offset: int) -> None:
        """Drop the entries whose marker is at or behind `offset`."""
        size = self._first_at_or_after(offset) * ENTRY_SIZE
        if size < len(self._entries):
            del self._entries[size:]
            self.changed = True

    def write(self, disk: Disk, path: str, *, sum_path: str) -> list[File]:
        """Write the file if the entries have changed. Returns open files to be synced, then closed."""
        if not self.changed:
            return []
        entries = bytes(self._entries)
        files: list[File] = []
        try:
            for each, content in ((path, entries), (sum_path, _sum(entries))):
                disk.remove(each)
                if entries:
                    files.append(disk.open(each, create=True))
                    files[-1].append([content])
        except OSError:
            for file in files:
                file.close()
            raise
        self.changed = self.is_broken = False
        return files

    def _first_at_or_after(self, offset: int) -> int:
        """The first entry whose marker is not before `offset`."""
        return bisect_left(range(len(self)), offset, key=self._last_offset)

    def _last_offset(self, index: int) -> int:
        position = index * ENTRY_SIZE + _LAST_OFFSET_POSITION
        last_offset: int = _LAST_OFFSET.unpack_from(self._entries, position)[0]
        return last_offset


def _sum(entries: bytes) -> bytes:
    return crc32c(entries).to_bytes(4, "big")


def _makes_sense(content: bytes) -> bool:
    """Whether these are entries: at least one, complete, of a known version, in order."""
    if not content or len(content) % ENTRY_SIZE:
        return False
    before = -1
    for version, _, first_offset, last_offset, _ in _ENTRY.iter_unpack(content):
        if version != _VERSION or not (first_offset <= last_offset and before < last_offset):
            return False
        before = last_offset
    return True
