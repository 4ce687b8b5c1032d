"""What compaction keeps: the newest offset of each key, and which records of a batch survive.

A record stays if no newer record has its key. A tombstone (no value) stays for `delete.retention.ms`: when its batch
is first rewritten, the batch gets a delete horizon, the time from which on it may be removed. Records without a key
are removed. A batch that loses all its records stays as an empty one if it has its producer's newest sequence number.
Transactions are handled with `cleaned_transactions`.

Records keep their offset, timestamp and codec; a batch that loses nothing is copied byte for byte.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from penstock.records.batch import BatchHeader
from penstock.records.builder import build_batch
from penstock.records.producer import ProducerEntry
from penstock.records.record import Record

# Memory of an entry beside its key's bytes: two object headers, a number, and its share of the table.
_ENTRY_OVERHEAD_BYTES = 49 + 32 + 104

_NO_BATCH = -1  # the last offset of a producer without a batch in its epoch


class OffsetMap:
    """The newest offset of each key in the dirty part of a log, in bounded memory."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_left = bytes_max
        self._offsets: dict[bytes, int] = {}
        self.end_offset = 0  # everything below, in the dirty part, is in the map

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def is_full(self) -> bool:
        return self._bytes_left <= 0

    def put(self, key: bytes, offset: int) -> None:
        if key not in self._offsets:
            self._bytes_left -= len(key) + _ENTRY_OVERHEAD_BYTES
        self._offsets[key] = offset

    def supersedes(self, key: bytes, offset: int) -> bool:
        """Whether a newer record has this key."""
        return self._offsets.get(key, -1) > offset


class Survivors(NamedTuple):
    """The records of a batch that stay, and whether there are tombstones among them."""

    records: list[Record]
    has_tombstones: bool


class CleaningRules:
    """The decisions of one compaction run."""

    def __init__(
        self,
        offsets: OffsetMap,
        producers: Iterable[ProducerEntry],
        *,
        now_ms: int,
        delete_retention_ms: int,
    ) -> None:
        self._offsets = offsets
        self._last_batches: Mapping[int, tuple[int, int]] = {
            entry.producer_id: (entry.producer_epoch, entry.last_offset) for entry in producers
        }
        self._now_ms = now_ms
        self._new_horizon_ms = now_ms + delete_retention_ms

    def keeps_unopened(self, header: BatchHeader) -> bool:
        """Whether a batch is kept without reading its records."""
        return header.base_offset >= self._offsets.end_offset

    def keeps_tombstones(self, header: BatchHeader) -> bool:
        horizon_ms = header.delete_horizon_ms
        return horizon_ms is None or self._now_ms < horizon_ms

    def keeps(self, record: Record, *, tombstones: bool) -> bool:
        """Whether a record stays; `tombstones` says whether those of its batch do."""
        if record.key is None or (record.value is None and not tombstones):
            return False
        return not self._offsets.supersedes(record.key, record.offset)

    def rewrite(self, header: BatchHeader, survivors: Survivors) -> bytes | None:
        """The bytes to write for the batch: none (empty), a new batch, or None for the batch as it is."""
        needs_horizon = survivors.has_tombstones and header.delete_horizon_ms is None
        if not survivors.records:
            if self._is_last_of_its_producer(header):
                return None if not header.record_count else _rebuilt(header, (), horizon_ms=None)
            return b""
        if len(survivors.records) == header.record_count and not needs_horizon:
            return None
        horizon_ms = self._new_horizon_ms if needs_horizon else header.delete_horizon_ms
        return _rebuilt(header, survivors.records, horizon_ms=horizon_ms)

    def rewrite_marker(self, header: BatchHeader, record: Record, *, is_empty: bool) -> bytes | None:
        """The same for a marker; `is_empty`: no batch of its transaction is left."""
        if not is_empty:
            return None
        if header.delete_horizon_ms is None:
            return _rebuilt(header, (record,), horizon_ms=self._new_horizon_ms)
        # The marker may be the only batch with the producer's epoch.
        known = self._last_batches.get(header.producer_id)
        if self._now_ms < header.delete_horizon_ms or known == (header.producer_epoch, _NO_BATCH):
            return None
        return b""

    def _is_last_of_its_producer(self, header: BatchHeader) -> bool:
        known = self._last_batches.get(header.producer_id) if header.has_producer else None
        return known == (header.producer_epoch, header.last_offset)


def _rebuilt(header: BatchHeader, records: Iterable[Record], *, horizon_ms: int | None) -> bytes:
    records = tuple(records)
    # The largest timestamp follows from the records that stay, unless it is not theirs.
    keeps_timestamp = header.log_append_time or not records
    return build_batch(
        records,
        base_offset=header.base_offset,
        last_offset_delta=header.last_offset_delta,
        leader_epoch=header.leader_epoch,
        codec=header.codec,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        transactional=header.is_transactional,
        control=header.is_control,
        log_append_time=header.log_append_time,
        max_timestamp=header.max_timestamp if keeps_timestamp else None,
        delete_horizon_ms=horizon_ms,
    )
