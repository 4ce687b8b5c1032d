"""Compaction, Kafka's log cleaner: rewrites closed segments so that only the newest record of each key stays.

`cleanable` tells whether a log needs it, `compact` does it: it collects the newest offset of each key in the dirty
part (what was appended since the last run), then copies all segments below the end of that part, in groups of adjacent
segments that fit into one, without superseded records. Work on the event loop is done in slices; reads, syncs and
large writes run through `Work`.

A group is swapped in (`segment_swap`) so that a crash at any moment finds the old segments or the new one. Before the
first swap the file `compacted` is created and synced: gaps between offsets are no damage from then on.

Leaves out: which log is next, and the cleaner checkpoint (`DataDirectory.write_cleaner_offset`). During compaction a
log may be appended to, rolled, and lose old segments to retention. Truncation has to wait for the run to end: a run
that finds the log truncated stops, but after a crash in between, the next start would still finish its swap.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from penstock.base.buffers import Buffer
from penstock.base.errors import StorageError
from penstock.records.batch import HEADER_SIZE, BatchHeader, PlacedBatch, crc_holds, read_header
from penstock.records.control import read_marker
from penstock.records.errors import CorruptBatchError
from penstock.records.producer import AbortedTransaction
from penstock.records.record import Record, read_records
from penstock.storage import file_names
from penstock.storage.batch_scan import RELATIVE_OFFSET_MAX
from penstock.storage.cleaned_transactions import CleanedTransactions
from penstock.storage.compaction_rules import CleaningRules, OffsetMap, Survivors
from penstock.storage.damage_handling import with_repair
from penstock.storage.errors import CorruptionError, DamagedBatchError, NoRoomError
from penstock.storage.log import Log
from penstock.storage.offset_index import OFFSET_ENTRY_SIZE
from penstock.storage.segment import Segment
from penstock.storage.segment_swap import discard, swap_in
from penstock.world.disk import Disk, found_no_room
from penstock.world.pacing import Pacer
from penstock.world.work import Work

_READ_BYTES = 1 << 20
_RECORDS_PER_STEP = 200  # processed before checking whether the slice is used up


class DirtyRange(NamedTuple):
    """The dirty part of a log, and why it needs compaction."""

    first_offset: int
    end_offset: int
    dirty_ratio: float
    is_overdue: bool  # `max.compaction.lag.ms` has passed for the oldest dirty record


@dataclass(slots=True)
class CompactionResult:
    """The result of a run. The next one begins at `end_offset`."""

    end_offset: int
    bytes_before: int = 0
    bytes_after: int = 0
    records_removed: int = 0
    segments_before: int = 0
    segments_after: int = 0


def cleanable(log: Log, *, cleaner_offset: int, upto_offset: int, now_ms: int) -> DirtyRange | None:
    """The dirty part of a log, if the log needs compaction by its settings. May block.

    `cleaner_offset` is where the last run ended. Nothing at or above `upto_offset` (the last stable offset) is
    compacted.
    """
    config, segments = log.config, log.segments
    if not config.compact or log.failed is not None:
        return None
    first_offset = cleaner_offset
    if not log.start_offset <= first_offset <= segments[-1].base_offset:
        first_offset = log.start_offset
    clean_bytes = dirty_bytes = 0
    end_offset = first_offset
    oldest_ms = None
    for segment, following in pairwise(segments):
        if following.base_offset <= first_offset:
            clean_bytes += segment.size
            continue
        is_settled = with_repair(log, segment.largest_time).timestamp <= now_ms - config.min_compaction_lag_ms
        if following.base_offset > upto_offset or segment.damage or not is_settled:
            break
        dirty_bytes += segment.size
        end_offset = following.base_offset
        if oldest_ms is None and segment.size:
            oldest_ms = next(segment.headers())[1].max_timestamp
    if not dirty_bytes:
        return None
    is_overdue = oldest_ms is not None and 0 <= oldest_ms < now_ms - config.max_compaction_lag_ms
    ratio = dirty_bytes / (clean_bytes + dirty_bytes)
    if not is_overdue and ratio < config.min_cleanable_dirty_ratio:
        return None
    return DirtyRange(first_offset, end_offset, ratio, is_overdue)


async def compact(
    log: Log, disk: Disk, dirty: DirtyRange, *, work: Work, pacer: Pacer, now_ms: int, map_bytes_max: int
) -> CompactionResult | None:
    """Compact a log up to the end of the dirty range, or as far as the memory for keys allows.

    Records below the log start offset are removed, too: that offset must be in its checkpoint, or after a crash the
    log would start where records are missing.

    None if the log was truncated, closed or failed meanwhile. CorruptionError if a batch cannot be read, NoRoomError
    if the disk is full; the log is as before.
    """
    run = _Run(log, disk, work, pacer, now_ms)
    try:
        return await run.clean(dirty, map_bytes_max)
    except OSError as error:
        if log.failed is not None:
            return None  # closed or deleted meanwhile
        if found_no_room(error):
            raise NoRoomError(f"{log.path}: compaction found no room: {error}") from error
        raise StorageError(f"{log.path}: compaction failed: {error}") from error


class _Run:
    """One run over one log."""

    def __init__(self, log: Log, disk: Disk, work: Work, pacer: Pacer, now_ms: int) -> None:
        self._log = log
        self._disk = disk
        self._work = work
        self._pacer = pacer
        self._now_ms = now_ms
        self._truncations = log.truncations
        self._transactions = CleanedTransactions(())
        self._start_offset = log.start_offset
        self._is_marked = False

    async def clean(self, dirty: DirtyRange, map_bytes_max: int) -> CompactionResult | None:
        log = self._log
        offsets = await self._newest_offsets(dirty, map_bytes_max)
        self._transactions = self._transactions_from(log.start_offset, dirty.end_offset)
        rules = CleaningRules(
            offsets,
            log.producers.entries(),
            now_ms=self._now_ms,
            delete_retention_ms=log.config.delete_retention_ms,
        )
        # Rewritten segments count as synced, so their batches have to be synced first.
        if log.recovery_point < offsets.end_offset:
            plan = log.unsynced()
            await self._work.run(lambda: plan.run(self._disk))
            log.synced(plan)
        result = CompactionResult(offsets.end_offset)
        for group in self._groups(offsets.end_offset):
            if not self._is_current(group):
                return None
            await self._clean_group(group, rules, result)
        return result if self._log.failed is None and log.truncations == self._truncations else None

    def _transactions_from(self, first_offset: int, end_offset: int) -> CleanedTransactions:
        aborted = self._log.aborted_transactions(from_offset=first_offset, upto_offset=end_offset)
        sees_all = not any(segment.damage for segment in self._log.segments)
        return CleanedTransactions(aborted, sees_all=sees_all)

    def _is_current(self, group: Sequence[Segment]) -> bool:
        """Whether the segments are still in the log as they were."""
        log = self._log
        return (
            log.failed is None
            and log.truncations == self._truncations
            and all(not old.deleted for old in group)
        )

    # ---- the newest offset of each key

    async def _newest_offsets(self, dirty: DirtyRange, map_bytes_max: int) -> OffsetMap:
        offsets = OffsetMap(map_bytes_max)
        offsets.end_offset = dirty.first_offset
        transactions = self._transactions_from(dirty.first_offset, dirty.end_offset)
        for segment in self._log.segments:
            if segment.base_offset >= dirty.end_offset:
                break
            start = await self._position_of(segment, dirty.first_offset)
            async for header, batch in self._batches(segment, start):
                if offsets.is_full or header.base_offset >= dirty.end_offset:
                    return offsets
                if header.is_control:
                    self._end_transaction(header, batch, transactions)
                elif not transactions.is_aborted(header):
                    async for record in self._records(batch):
                        if record.key is not None:
                            offsets.put(record.key, record.offset)
                offsets.end_offset = header.next_offset
        if not offsets.is_full:
            offsets.end_offset = dirty.end_offset
        return offsets

    def _end_transaction(
        self, header: BatchHeader, batch: Buffer, transactions: CleanedTransactions
    ) -> tuple[bool, AbortedTransaction | None]:
        try:
            marker = read_marker(batch, header)
        except CorruptBatchError as error:
            raise CorruptionError(f"{self._log.path}: transaction marker cannot be read: {error}") from error
        # A control record that is no transaction marker stays.
        return (False, None) if marker is None else transactions.end(header, marker)

    async def _batches(self, segment: Segment, position: int) -> AsyncIterator[tuple[BatchHeader, Buffer]]:
        """Every batch from `position` on, its CRC checked."""
        start, chunk = position, b""
        while position < segment.size:
            view = memoryview(chunk)[position - start :]
            header = read_header(view) if len(view) >= HEADER_SIZE else None
            if header is None or header.size > len(view):
                wanted = max(_READ_BYTES, 0 if header is None else header.size)
                start, count = position, min(wanted, segment.size - position)
                if not count > len(view):
                    raise DamagedBatchError(segment.file.path, position, "no batch begins there")
                chunk = await self._work.run(lambda: segment.file.read(start, count))  # noqa: B023
                self._pacer.begin()
                continue
            if header.batch_length < 0 or not crc_holds(view, 0, header):
                raise DamagedBatchError(segment.file.path, position, "its checksum is wrong")
            yield header, view[: header.size]
            position += header.size
            await self._pacer.pause()

    async def _records(self, batch: Buffer) -> AsyncIterator[Record]:
        try:
            for number, record in enumerate(
                read_records(batch, limit=self._log.config.decompressed_size_max), start=1
            ):
                yield record
                if not number % _RECORDS_PER_STEP:
                    await self._pacer.pause()
        except CorruptBatchError as error:
            raise CorruptionError(f"{self._log.path}: batch cannot be read: {error}") from error

    # ---- rewriting

    def _groups(self, end_offset: int) -> list[list[Segment]]:
        """Adjacent segments below `end_offset` that fit into one together. Damaged ones are left out."""
        config = self._log.config
        groups: list[list[Segment]] = []
        group: list[Segment] = []
        size = index_bytes = 0
        segments = self._log.segments
        for segment, following in pairwise(segments):
            if segment.base_offset >= end_offset:
                break
            segment_index_bytes = segment.index.offsets.entry_count * OFFSET_ENTRY_SIZE
            fits = (
                size + segment.size <= config.segment_bytes
                and index_bytes + segment_index_bytes <= config.segment_index_bytes
                and bool(group)
                and following.base_offset - group[0].base_offset <= RELATIVE_OFFSET_MAX
            )
            if segment.damage or not fits:
                groups.append(group)
                group, size, index_bytes = [], 0, 0
            if not segment.damage:
                group.append(segment)
                size += segment.size
                index_bytes += segment_index_bytes
        groups.append(group)
        return [group for group in groups if group]

    async def _clean_group(
        self, group: list[Segment], rules: CleaningRules, result: CompactionResult
    ) -> None:
        cleaned = Segment.create(
            self._disk, self._log.path, group[0].base_offset, now_ms=self._now_ms, suffix=file_names.CLEANED
        )
        changed = len(group) > 1
        try:
            for segment in group:
                start = await self._start_of(segment)
                changed |= start > 0
                async for header, batch in self._batches(segment, start):
                    kept, removed = await self._kept(header, batch, rules, cleaned)
                    changed |= kept is not None
                    result.records_removed += removed
                    self._write(cleaned, batch if kept is None else kept)
            result.bytes_before += sum(segment.size for segment in group)
            result.segments_before += len(group)
            result.segments_after += 1
            if changed and self._is_current(group):
                result.bytes_after += cleaned.size
                await self._swap_in(cleaned, group)
                return
            result.bytes_after += sum(segment.size for segment in group)
        except BaseException:
            if cleaned not in self._log.segments:  # once swapped in, it has the only copy of its records
                discard(cleaned, self._disk)
            raise
        discard(cleaned, self._disk)

    async def _start_of(self, segment: Segment) -> int:
        """The position of the first batch that is not below the log start offset of the checkpoint."""
        if segment.base_offset >= self._start_offset:
            return 0
        return await self._position_of(segment, self._start_offset)

    async def _position_of(self, segment: Segment, offset: int) -> int:
        look = partial(segment.position_of, offset)
        position = await self._work.run(lambda: with_repair(self._log, look))
        assert position is not None
        return position

    async def _kept(
        self, header: BatchHeader, batch: Buffer, rules: CleaningRules, cleaned: Segment
    ) -> tuple[bytes | None, int]:
        """The bytes to write for a batch (None: itself), and how many records are removed."""
        if header.is_control:
            return self._kept_marker(header, batch, rules, cleaned), 0
        if self._transactions.is_aborted(header):
            return rules.rewrite(header, Survivors([], has_tombstones=False)), header.record_count
        if rules.keeps_unopened(header):
            return None, 0
        records = []
        has_tombstones = False
        tombstones = rules.keeps_tombstones(header)
        async for record in self._records(batch):
            if rules.keeps(record, tombstones=tombstones):
                records.append(record)
                has_tombstones |= record.value is None
        kept = rules.rewrite(header, Survivors(records, has_tombstones))
        return kept, header.record_count - len(records)

    def _kept_marker(
        self, header: BatchHeader, batch: Buffer, rules: CleaningRules, cleaned: Segment
    ) -> bytes | None:
        is_empty, aborted = self._end_transaction(header, batch, self._transactions)
        if aborted is not None:
            cleaned.transaction_index.add(aborted)
        record = next(read_records(batch, limit=self._log.config.decompressed_size_max), None)
        return None if record is None else rules.rewrite_marker(header, record, is_empty=is_empty)

    def _write(self, cleaned: Segment, batch: Buffer) -> None:
        if not batch:
            return
        placed = PlacedBatch(read_header(batch), (batch,))
        cleaned.size = cleaned.append([placed], self._log.config)

    # ---- the swap

    def _mark_compacted(self) -> None:
        """Mark the log as compacted, once per run: an existing mark may not be synced."""
        if not self._is_marked:
            self._log.mark_compacted()
            self._is_marked = True

    async def _swap_in(self, cleaned: Segment, group: list[Segment]) -> None:
        await swap_in(
            self._log,
            self._disk,
            cleaned,
            group,
            work=self._work,
            now_ms=self._now_ms,
            is_current=lambda: self._is_current(group),
            before_swap=self._mark_compacted,
        )
        self._pacer.begin()
