"""Producer snapshots: the state of idempotent and transactional producers at the beginning of a segment.

`<offset>.snapshot` is Kafka's: version 1, a CRC-32C of what follows, the number of entries, the entries.
One is taken at the beginning of every segment but the first, and one at the end of the log when it is
closed, so that a log that was closed cleanly has nothing to replay.

Kafka's entries have only the newest batch of a producer, but a producer with several in-flight requests may retry any
of them: after OUT_OF_ORDER_SEQUENCE_NUMBER librdkafka gives up, and Java's producer sends the batch as a new one. So
the earlier batches are stored behind the entries, where Kafka does not read: their number, and each with its producer
id.
"""

from bisect import insort
from collections import defaultdict
from collections.abc import Collection, Sequence
from struct import Struct
from typing import Protocol

from crc32c import crc32c

from penstock.records.batch import BatchHeader
from penstock.records.control import Marker
from penstock.records.producer import AbortedTransaction, EarlierBatch, ProducerEntry
from penstock.storage import file_names
from penstock.world.disk import Disk, File, read_file

_VERSION = 1
_HEAD = Struct(">hIi")
_CRC_END = 6  # the CRC covers everything behind itself
_ENTRY = Struct(">qhiqiqiq")
_ENTRY_FIELDS = 8
_EARLIER_COUNT = Struct(">i")
_EARLIER = Struct(">qiiqqq")


class ProducerMemory(Protocol):
    """The producer state of a log."""

    def restore(self, entries: Sequence[ProducerEntry]) -> None:
        """Replace the state by `entries`."""
        ...

    def replay(self, header: BatchHeader) -> None:
        """Apply a producer's batch that is in the log."""
        ...

    def replay_marker(self, header: BatchHeader, marker: Marker) -> AbortedTransaction | None:
        """Apply a marker that is in the log; returns the aborted transaction, if it had batches in this log."""
        ...

    def entries(self) -> list[ProducerEntry]: ...


def encode_snapshot(entries: Sequence[ProducerEntry]) -> bytes:
    body = b"".join(_ENTRY.pack(*entry[:_ENTRY_FIELDS]) for entry in entries)
    earlier = [_EARLIER.pack(entry.producer_id, *batch) for entry in entries for batch in entry.earlier]
    if earlier:
        body += _EARLIER_COUNT.pack(len(earlier)) + b"".join(earlier)
    count = len(entries).to_bytes(4, "big")
    return _HEAD.pack(_VERSION, crc32c(count + body), len(entries)) + body


def decode_snapshot(content: bytes) -> list[ProducerEntry] | None:
    """The entries of a snapshot, or None if it is damaged."""
    if len(content) < _HEAD.size:
        return None
    version, crc, count = _HEAD.unpack_from(content)
    if version != _VERSION or crc != crc32c(content[_CRC_END:]):
        return None
    entries_end = _HEAD.size + count * _ENTRY.size
    earlier = _decode_earlier(content[entries_end:])
    if count < 0 or len(content) < entries_end or earlier is None:
        return None
    found = (ProducerEntry(*fields) for fields in _ENTRY.iter_unpack(content[_HEAD.size : entries_end]))
    return [entry._replace(earlier=tuple(earlier.get(entry.producer_id, ()))) for entry in found]


def _decode_earlier(content: bytes) -> dict[int, list[EarlierBatch]] | None:
    """Earlier batches by producer; None if damaged. Snapshots of Kafka and of earlier versions have none."""
    found: defaultdict[int, list[EarlierBatch]] = defaultdict(list)
    if not content:
        return found
    if len(content) < _EARLIER_COUNT.size:
        return None
    (count,) = _EARLIER_COUNT.unpack_from(content)
    if len(content) != _EARLIER_COUNT.size + count * _EARLIER.size:
        return None
    for producer_id, *batch in _EARLIER.iter_unpack(content[_EARLIER_COUNT.size :]):
        found[producer_id].append(EarlierBatch(*batch))
    return found


class ProducerSnapshots:
    """The snapshot files of one log."""

    __slots__ = ("_disk", "_offsets", "_path")

    def __init__(self, disk: Disk, path: str, offsets: Sequence[int] = ()) -> None:
        self._disk = disk
        self._path = path
        self._offsets = sorted(offsets)

    @property
    def offsets(self) -> list[int]:
        return list(self._offsets)

    def take(self, offset: int, entries: Sequence[ProducerEntry]) -> list[File]:
        """Write a snapshot of the state at `offset`. Returns open files to be synced, then closed."""
        path = self._file_path(offset)
        self._disk.remove(path)
        file = self._disk.open(path, create=True)
        try:
            file.append([encode_snapshot(entries)])
        except OSError:
            file.close()
            self._drop([offset])
            raise
        if offset not in self._offsets:
            insort(self._offsets, offset)
        return [file]

    def restore(self, producers: ProducerMemory, *, upto_offset: int) -> int:
        """Load the newest undamaged snapshot not above `upto_offset`; returns the offset to replay from."""
        for offset in reversed(self._offsets):
            if offset > upto_offset:
                continue
            entries = decode_snapshot(read_file(self._disk, self._file_path(offset)))
            if entries is not None:
                producers.restore(entries)
                return offset
            self._drop([offset])
        producers.restore(())
        return 0

    def drop_behind(self, offset: int) -> None:
        self._drop([known for known in self._offsets if known > offset])

    def drop_before(self, offset: int) -> None:
        self._drop([known for known in self._offsets if known < offset])

    def drop_strays(self, bases: Collection[int]) -> None:
        """Drop all but those at the beginning of a segment and the newest."""
        self._drop([known for known in self._offsets[:-1] if known not in bases])

    def _drop(self, offsets: Sequence[int]) -> None:
        if not offsets:
            return
        for offset in offsets:
            self._disk.remove(self._file_path(offset))
        self._offsets = [known for known in self._offsets if known not in offsets]

    def _file_path(self, offset: int) -> str:
        return f"{self._path}/{file_names.file_name(offset, file_names.SNAPSHOT)}"
