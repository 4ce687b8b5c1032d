"""The log of one partition: segments in a row, appended to at the end, read anywhere, cut at both ends.

Everything here runs on the loop, except what says that it may block: that goes through `Work`. Readers in
other threads see a log through `_view`, which is replaced as a whole when a segment comes or goes.

The order that keeps promises after a crash:
- `unsynced` names all files and directories that have to be synced before everything below its target
  offset is safe; `synced` then moves the recovery point. A failed sync or append is final (`failed`): the
  log takes nothing more. A full disk is not: NoRoomError means that the log is as it was.
- The recovery point that a start may rely on is `checkpoint_offset`. It must be written down *before*
  `truncate_to` or `truncate_fully` cut below it (`data_directory.truncate` does), or synced offsets could be
  taken for lost ones.
- So must the start that `expire` moves, before `delete_segments_below` takes the files: the device may
  forget any of these removals, and the newest segment with them, and the log would end where it ended long ago.

Leaves out: which batches may be appended (core), when to sync (the broker), what to delete (`retention`),
how a log is opened (`recovery`), records and timestamps (`timestamp_lookup`).
"""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple, TypeVar

from penstock.base.buffers import Buffer
from penstock.base.errors import StorageError
from penstock.base.ids import TopicId, format_id
from penstock.records.batch import CONTROL, BatchHeader
from penstock.records.producer import AbortedTransaction, ProducerEntry
from penstock.storage import file_names, retention, timestamp_lookup
from penstock.storage.damage_scan import find_damage, rebuild_index
from penstock.storage.errors import DamagedBatchError, DamagedIndexError, LogFailedError, NoRoomError
from penstock.storage.findings import BatchesDamaged, Finding, IndexRebuilt
from penstock.storage.leader_epoch_checkpoint import LeaderEpochs
from penstock.storage.log_config import LogConfig
from penstock.storage.log_reader import read_batches
from penstock.storage.producer_replay import replay_control, replay_segment
from penstock.storage.producer_snapshots import ProducerMemory, ProducerSnapshots
from penstock.storage.recovery import OpenedLog, RecoveryReport, open_log
from penstock.storage.segment import Damage, PlacedBatch, Segment
from penstock.storage.sync_plan import NOT_COVERED, SyncPlan, UnsyncedFiles
from penstock.storage.timestamp_lookup import FoundRecord
from penstock.world.disk import Disk, found_no_room

__all__ = ["Log", "LogConfig", "PlacedBatch", "ProducerMemory", "RecoveryReport", "Removal", "SyncPlan"]

_READ_ATTEMPTS = 3
_REPAIRS_MAX = 100  # of what one look meets, one after the other

T = TypeVar("T")


class Removal(NamedTuple):
    """Files that are out of the log and may go when `due_ms` has come. `run` may block."""

    due_ms: int
    segment: Segment

    def run(self, disk: Disk) -> None:
        self.segment.close()
        for kind in file_names.SEGMENT_SUFFIXES:
            disk.remove(self.segment.path(kind))


class Log:
    """One partition's log."""

    __slots__ = (
        "_active",
        "_disk",
        "_findings",
        "_is_being_cut",
        "_producers",
        "_removals",
        "_snapshots",
        "_unsynced",
        "_view",
        "_with_aborted",
        "config",
        "end_offset",
        "epochs",
        "failed",
        "may_have_gaps",
        "on_finding",
        "path",
        "recovery_point",
        "size",
        "start_offset",
        "topic_id",
    )

    def __init__(
        self, disk: Disk, path: str, opened: OpenedLog, *, config: LogConfig, producers: ProducerMemory
    ) -> None:
        self._disk = disk
        self._producers = producers
        self._snapshots = opened.snapshots
        self._removals: list[Removal] = []
        self._is_being_cut = False  # whoever reads in another thread meanwhile may see anything
        self._findings: deque[Finding] = deque()  # filled by whoever reads, in any thread
        self.on_finding: Callable[[], None] = _nobody_listens  # told in that thread
        self.path = path
        self.topic_id: TopicId = opened.topic_id
        self.config = config
        self.epochs: LeaderEpochs = opened.epochs
        self.failed: str | None = None
        self.may_have_gaps = False  # whether the mark was left in this life; a start finds it by itself
        self.start_offset: int = opened.start_offset
        self.end_offset: int = opened.end_offset
        self.recovery_point: int = opened.recovery_point
        self.size = sum(segment.size for segment in opened.segments)
        self._set_view(opened.segments)
        self._unsynced = UnsyncedFiles(
            path,
            segments=[
                segment
                for segment, following in pairwise(opened.segments)
                if following.base_offset > opened.recovery_point
            ],
            files=opened.unsynced_files,
            directories=opened.unsynced_directories,
        )

    @classmethod
    def create(
        cls,
        disk: Disk,
        path: str,
        *,
        topic_id: TopicId,
        config: LogConfig,
        producers: ProducerMemory,
        now_ms: int,
        start_offset: int = 0,
    ) -> "Log":
        """A new, empty log. Nothing of it is synced before its first batch is."""
        producers.restore(())  # an empty log has none
        try:
            disk.make_dir(path)
            metadata = disk.open(f"{path}/{file_names.PARTITION_METADATA}", create=True)
            metadata.append([f"version: 0\ntopic_id: {format_id(topic_id)}\n".encode("ascii")])
            segment = Segment.create(disk, path, start_offset, now_ms=now_ms)
        except OSError as error:
            raise StorageError(f"cannot create {path}: {error}") from error
        opened = OpenedLog(
            topic_id=topic_id,
            segments=[segment],
            start_offset=start_offset,
            end_offset=start_offset,
            recovery_point=start_offset,
            epochs=LeaderEpochs(),
            snapshots=ProducerSnapshots(disk, path),
            unsynced_files=[metadata],
            unsynced_directories=(path, path.rpartition("/")[0]),
            report=RecoveryReport(path),
        )
        return cls(disk, path, opened, config=config, producers=producers)

    @classmethod
    def open(
        cls,
        disk: Disk,
        path: str,
        *,
        config: LogConfig,
        producers: ProducerMemory,
        recovery_point: int,
        log_start_offset: int,
        clean: bool,
        now_ms: int,
    ) -> "tuple[Log, RecoveryReport]":
        """The log that lies at `path`, recovered unless it was closed cleanly. May block; see `recovery`."""
        try:
            opened = open_log(
                disk,
                path,
                config=config,
                producers=producers,
                recovery_point=recovery_point,
                log_start_offset=log_start_offset,
                clean=clean,
                now_ms=now_ms,
            )
        except OSError as error:
            raise StorageError(f"cannot open {path}: {error}") from error
        return cls(disk, path, opened, config=config, producers=producers), opened.report

    # ---- the segments

    @property
    def segments(self) -> list[Segment]:
        """Oldest first; the last one is the active one. Not to be changed."""
        return self._view[1]

    def _set_view(self, segments: list[Segment]) -> None:
        self._view = ([segment.base_offset for segment in segments], segments)
        self._active = segments[-1]
        self._with_aborted = [segment for segment in segments if len(segment.aborted)]

    def _note_aborted(self, active: Segment) -> None:
        if len(active.aborted) and (not self._with_aborted or self._with_aborted[-1] is not active):
            self._with_aborted.append(active)

    @property
    def cuts(self) -> int:
        """How often the log was truncated: whoever works on it for long sees whether it is still the same."""
        return self._unsynced.generation

    def producer_entries(self) -> list[ProducerEntry]:
        return self._producers.entries()

    def fail(self, reason: str) -> None:
        """The disk failed under the log: it takes nothing more. The first reason stays."""
        if self.failed is None:
            self.failed = reason

    def _require_usable(self) -> None:
        if self.failed is not None:
            raise LogFailedError(f"{self.path} is offline: {self.failed}")

    def _failure(self, doing: str, error: OSError) -> StorageError:
        self.fail(f"{doing}: {error}")
        return StorageError(f"{self.path}: {self.failed}")

    def _failure_unless_full(self, doing: str, error: OSError) -> StorageError:
        """The same, of something that is undone: if it was for lack of room, it may be tried again."""
        if found_no_room(error):
            return NoRoomError(f"{self.path}: {doing}: there is no room: {error}")
        return self._failure(doing, error)

    # ---- growing

    def append(self, batches: Sequence[PlacedBatch], *, now_ms: int) -> None:
        """Put batches, with their final offsets, behind the end.

        NoRoomError: there is no room for all of them; those before the new `end_offset` are in the log. Any other
        StorageError: the log has failed.
        """
        self._require_usable()
        start = 0
        size = self._active.size
        for index, (header, _) in enumerate(batches):
            batch_size = header.batch_length + 12
            if size and self._must_roll(header, size + batch_size, now_ms):
                self._write(batches[start:index])
                self.roll(now_ms=now_ms, base_offset=header.base_offset)
                start, size = index, 0
            elif not size and not self._active.has_room_for(header.last_offset):
                self.roll(now_ms=now_ms, base_offset=header.base_offset)
            size += batch_size
        self._write(batches[start:] if start else batches)

    def _must_roll(self, header: BatchHeader, size: int, now_ms: int) -> bool:
        active, config = self._active, self.config
        last_offset = header.base_offset + header.last_offset_delta
        if size > config.segment_bytes or active.index_is_full or not active.has_room_for(last_offset):
            return True
        # As in Kafka, time passes with the timestamps of records, and by the clock only where they have none.
        if active.first_timestamp >= 0:
            waited_ms = header.max_timestamp - active.first_timestamp
        else:
            waited_ms = now_ms - active.created_ms
        limit_ms = config.roll_ms if config.compact else config.segment_ms
        if config.segment_jitter_ms:
            limit_ms -= self._jitter_ms(min(config.segment_jitter_ms, limit_ms))
        return waited_ms > limit_ms

    def _jitter_ms(self, limit_ms: int) -> int:
        """How much earlier than others this segment is rolled; path and base offset are chance enough."""
        return (sum(self.path.encode()) * 2_654_435_761 + self._active.base_offset * 40_503) % limit_ms

    def _write(self, batches: Sequence[PlacedBatch]) -> None:
        if not batches:
            return
        active = self._active
        try:
            new_size = active.write(batches, self.config)
        except OSError as error:
            raise self._failure("append failed", error) from error
        epochs = self.epochs
        for header, buffers in batches:
            assert header.base_offset >= self.end_offset, "offsets only grow"
            if header.leader_epoch > epochs.latest_epoch:
                epochs.assign(header.leader_epoch, header.base_offset)
            if header.producer_id >= 0:
                if header.attributes & CONTROL:
                    replay_control(active, b"".join(buffers), header, self._producers)
                    self._note_aborted(active)
                else:
                    self._producers.replay(header)
            self.end_offset = header.base_offset + header.last_offset_delta + 1
        self.size += new_size - active.size
        active.size = new_size

    def roll(self, *, now_ms: int, base_offset: int | None = None) -> None:
        """Begin a new segment, at the end of the log unless told otherwise."""
        self._require_usable()
        base_offset = self.end_offset if base_offset is None else base_offset
        retired = self._active
        if retired.base_offset == base_offset:
            return
        try:
            self._begin_segment(base_offset, retired, now_ms=now_ms)
        except OSError as error:
            raise self._failure_unless_full("cannot begin a new segment", error) from error
        self._unsynced.note_names_changed()

    def _begin_segment(self, base_offset: int, retired: Segment, *, now_ms: int) -> None:
        """What can find no room comes first, and is undone then; the old segment stays the active one."""
        begun = Segment.create(self._disk, self.path, base_offset, now_ms=now_ms)
        if not retired.size:
            self._set_view([*self._view[1][:-1], begun])
            self._retire_files(retired, now_ms=now_ms)
            return
        try:
            files = self._snapshots.take(base_offset, self._producers.entries())
            try:
                files += retired.retire()
            except OSError:
                for file in files:
                    file.close()
                self._snapshots.drop_behind(base_offset - 1)
                raise
        except OSError:
            begun.remove()
            raise
        self._unsynced.add_files(files)
        self._unsynced.add_segment(retired)
        self._set_view([*self._view[1], begun])

    def mark_compacted(self) -> None:
        """Leave the mark that offsets may be missing between batches from now on; the device has it then. May block."""
        self._disk.open(f"{self.path}/{file_names.COMPACTED}", create=True).close()
        self._disk.sync_dir(self.path)
        self.may_have_gaps = True

    # ---- reading

    def read(
        self,
        offset: int,
        *,
        max_bytes: int,
        upto_offset: int,
        whole_first_batch: bool = True,
        cached_only: bool = False,
    ) -> Buffer | None:
        """Batches as they lie in one segment, from the one that holds `offset` on, all below `upto_offset`.

        The last one may be cut by `max_bytes`; the first one never is: if it does not fit it comes whole,
        or, without `whole_first_batch`, nothing comes. None where `cached_only` and the answer would have
        to wait for the device. Without `cached_only` it may block, and may run in another thread. Raises
        CorruptionError where the log is damaged.
        """
        attempts = repairs = 0
        cuts = self.cuts
        while attempts < _READ_ATTEMPTS:
            bases, segments = self._view
            index = bisect_right(bases, offset) - 1
            if index < 0:
                return b""
            try:
                return read_batches(
                    self,
                    segments[index:],
                    offset,
                    max_bytes=max_bytes,
                    upto_offset=upto_offset,
                    whole_first_batch=whole_first_batch,
                    cached_only=cached_only,
                )
            except (DamagedIndexError, DamagedBatchError) as error:
                if cached_only:
                    return None
                if self._was_cut_since(cuts):
                    return b""  # it says nothing; whoever asks again finds what there is now
                repairs += 1
                self._repair(error, repairs)
            except FileNotFoundError:
                attempts += 1  # deleted, or renamed by compaction, just now: the next view knows better
            except OSError as error:
                attempts += 1
                if not segments[index].deleted:
                    raise StorageError(f"cannot read {self.path} at offset {offset}: {error}") from error
        if self._view[1] is segments and not self._was_cut_since(cuts):
            raise StorageError(f"cannot read {self.path} at offset {offset}: a file is missing")
        return b""

    def headers(self, from_offset: int) -> Iterator[BatchHeader]:
        """The header of every batch from the one that holds `from_offset` on. May block."""
        bases, segments = self._view
        for segment in segments[max(bisect_right(bases, from_offset) - 1, 0) :]:
            position = self.repairing(partial(segment.position_of, from_offset))
            assert position is not None
            for _, header in segment.headers(position):
                yield header

    def has_aborted_from(self, offset: int) -> bool:
        """Whether a transaction was aborted that ended at or behind `offset`."""
        return bool(self._with_aborted) and self._with_aborted[-1].aborted.last_offset >= offset

    def aborted_transactions(self, *, from_offset: int, upto_offset: int) -> list[AbortedTransaction]:
        """Those that overlap with a range of offsets, in the order of their markers."""
        found: list[AbortedTransaction] = []
        # Only the marker tells in which segment an entry is: every later one may hold some of an earlier range.
        first = bisect_right(self._with_aborted, from_offset, key=_base_offset)
        for segment in self._with_aborted[max(first - 1, 0) :]:
            if segment.aborted.collect(found, from_offset=from_offset, upto_offset=upto_offset):
                break
        return found

    def offset_for_timestamp(self, timestamp: int) -> FoundRecord | None:
        """The first record at or behind the start with at least this timestamp. May block."""
        return self.repairing(lambda: timestamp_lookup.first_at_or_after(self, timestamp))

    def offset_of_max_timestamp(self) -> FoundRecord | None:
        """The first record that has the largest timestamp. May block."""
        return self.repairing(lambda: timestamp_lookup.newest(self))

    # ---- indexes that are damaged

    def repairing(self, look: Callable[[], T]) -> T:
        """What `look` finds; an index that leads it astray is made again, and it looks again. May block."""
        repairs = 0
        cuts = self.cuts
        while True:
            try:
                return look()
            except (DamagedIndexError, DamagedBatchError) as error:
                if self._was_cut_since(cuts):
                    raise StorageError(f"{self.path} was cut while it was read") from error
                repairs += 1
                self._repair(error, repairs)

    def _was_cut_since(self, cuts: int) -> bool:
        return self._is_being_cut or self.cuts != cuts

    def _repair(self, error: DamagedIndexError | DamagedBatchError, repairs: int) -> None:
        """Have whoever looks again find something else than this error, or raise it."""
        if repairs > _REPAIRS_MAX + len(self._view[1]):
            raise error
        if isinstance(error, DamagedIndexError):
            self._rebuild_index(error)
        else:
            self.note_damage(error)

    def _rebuild_index(self, damage: DamagedIndexError) -> None:
        bases, segments = self._view
        segment = segments[max(bisect_right(bases, damage.base_offset) - 1, 0)]
        if segment.base_offset != damage.base_offset or segment.index.is_rebuilt:
            raise damage  # it was not the index
        try:
            rebuild_index(segment, interval_bytes=self.config.index_interval_bytes)
        except DamagedBatchError as error:
            self.note_damage(error)  # whoever looks for something looks again, and may come here again
            return
        self._note(IndexRebuilt(str(damage)))

    def note_damage(self, error: DamagedBatchError) -> None:
        """Batches that were synced have decayed: refuse them from now on, and nothing else. May block."""
        bases, segments = self._view
        index = next((i for i, segment in enumerate(segments) if segment.file.path == error.path), None)
        if index is None:
            raise error  # replaced just now
        segment, cuts = segments[index], self.cuts
        limit_offset = bases[index + 1] if index + 1 < len(bases) else self.end_offset
        new = find_damage(segment, error.position, limit_offset=limit_offset)
        if self._was_cut_since(cuts):
            return
        if new is not None:
            segment.damage = new.of_segment  # refused from now on
            self._note(BatchesDamaged(error.path, new.found))
        elif not segment.damage_at(error.position):
            # All is well there, but for the way that led there.
            self._rebuild_index(
                DamagedIndexError(segment.path(file_names.INDEX), str(error), base_offset=segment.base_offset)
            )

    def _note(self, finding: Finding) -> None:
        self._findings.append(finding)
        self.on_finding()

    def damage_at(self, offset: int) -> Damage | None:
        """The damage in which an offset lies."""
        bases, segments = self._view
        segment = segments[max(bisect_right(bases, offset) - 1, 0)]
        return next((each for each in segment.damage if each.first_offset <= offset < each.next_offset), None)

    def take_findings(self) -> list[Finding]:
        """What was found wrong with the log since the last call."""
        return [self._findings.popleft() for _ in range(len(self._findings))]

    def write_rebuilt_indexes(self) -> None:
        """Write down the indexes of closed segments that were made again. May block."""
        for segment in self._view[1][:-1]:
            if segment.index.is_rebuilt and segment.index.has_unwritten:
                segment.index.write()

    # ---- cutting

    def advance_start_offset(self, offset: int) -> None:
        """Records below `offset` are gone for readers; `delete_segments_below` frees what lies wholly below."""
        assert offset <= self.end_offset
        if offset > self.start_offset:
            self.start_offset = offset
            self.epochs.truncate_before(offset)

    def end_after_cut(self, offset: int) -> int:
        """Where `truncate_to` would end the log: before the batch that reaches up to `offset`. May block."""
        if offset >= self.end_offset:
            return self.end_offset
        damage = self.damage_at(offset)
        if damage is not None:
            return damage.first_offset
        header = next(self.headers(offset), None)
        return offset if header is None else min(offset, header.base_offset)

    def truncate_to(self, offset: int) -> None:
        """Drop every batch that reaches up to `offset` or beyond. May block. See above for the checkpoint."""
        self._require_usable()
        if offset >= self.end_offset:
            return
        assert offset >= self._view[0][0], "a cut below the first segment is `truncate_fully`"
        try:
            self._cut(self.repairing(lambda: self.end_after_cut(offset)))
        except OSError as error:
            raise self._failure("truncation failed", error) from error
        finally:
            self._is_being_cut = False

    def _cut(self, end_offset: int) -> None:
        bases, segments = self._view
        # A segment that would be empty goes too, unless it is the first.
        kept = max(bisect_left(bases, end_offset), 1)
        last = segments[kept - 1]
        position = next((each.position for each in last.damage if each.first_offset == end_offset), None)
        if position is None:
            position = self.repairing(lambda: last.position_of(end_offset))
            assert position is not None
        self._is_being_cut = True
        self._set_view(segments[:kept])
        for segment in segments[kept:]:
            self._drop_now(segment)
        last.truncate_to(position, end_offset, self.config)
        self._unsynced.drop_segment(last)
        self._finish_cut(end_offset)
        self._restore_producers()

    def truncate_fully(self, start_offset: int, *, now_ms: int) -> None:
        """Drop everything and go on at `start_offset`. May block. See above for the checkpoint."""
        self._require_usable()
        self._is_being_cut = True
        try:
            for segment in self._view[1]:
                self._drop_now(segment)
            # On a full disk, too, there is room for an empty file where others have just gone.
            self._set_view([Segment.create(self._disk, self.path, start_offset, now_ms=now_ms)])
            self.start_offset = start_offset
            self._finish_cut(start_offset)
            self.epochs.truncate_before(start_offset)
            self._snapshots.drop_before(start_offset)
            self._producers.restore(())
        except OSError as error:
            raise self._failure("truncation failed", error) from error
        finally:
            self._is_being_cut = False

    def _finish_cut(self, end_offset: int) -> None:
        self._unsynced.generation += 1  # a sync under way says nothing about what is written from now on
        for segment in self._view[1]:
            segment.damage = tuple(each for each in segment.damage if each.first_offset < end_offset)
        self.size = sum(segment.size for segment in self._view[1])
        self.end_offset = end_offset
        self.start_offset = min(self.start_offset, end_offset)
        self.recovery_point = min(self.recovery_point, end_offset)
        self.epochs.truncate_from(end_offset)
        self._snapshots.drop_behind(end_offset)
        self._unsynced.note_names_changed()

    def _drop_now(self, segment: Segment) -> None:
        segment.deleted = True
        self._unsynced.drop_segment(segment)
        segment.remove()

    def _restore_producers(self) -> None:
        snapshot_offset = self._snapshots.restore(self._producers, upto_offset=self.end_offset)
        bases, segments = self._view
        first = max(bisect_right(bases, snapshot_offset) - 1, 0)
        for segment in segments[first:]:
            replay_segment(segment, self._producers, from_offset=snapshot_offset)
        self._set_view(segments)  # other segments may have aborted transactions now

    # ---- deleting

    def expired(self, now_ms: int, *, high_watermark: int | None = None) -> int:
        """How many segments retention wants gone, the active one included. May block the first time."""
        high_watermark = self.end_offset if high_watermark is None else high_watermark
        return self.repairing(
            lambda: retention.expired_count(self, now_ms=now_ms, high_watermark=high_watermark)
        )

    def expire(self, now_ms: int, *, high_watermark: int | None = None) -> int | None:
        """Move the start past what retention wants gone; the offset to delete below, None if nothing is to go.

        The start is to be written down before that. It moves first for readers too: who finds nothing also
        finds that it is behind the start.
        """
        self._require_usable()
        count = self.expired(now_ms, high_watermark=high_watermark)
        if not count:
            return None
        if count == len(self._view[1]):
            try:
                self.roll(now_ms=now_ms)
            except NoRoomError:
                count -= 1  # the active one has to wait until there is room for another; the others make some
                if not count:
                    return None
        new_start = self._view[0][count]
        self.advance_start_offset(new_start)
        return new_start

    def remove_indexes_below(self, offset: int) -> None:
        """Take the indexes of segments that `delete_segments_below` is going to delete. May block.

        A start that finds these segments again makes their indexes again.
        """
        bases, segments = self._view
        for segment in segments[: max(bisect_right(bases, min(offset, self.start_offset)) - 1, 0)]:
            segment.index.remove()

    def delete_segments_below(self, offset: int, *, now_ms: int) -> int:
        """Take the segments that end at or before `offset` out of the log; how many that were."""
        self._require_usable()
        bases, segments = self._view
        # A cut since then may have taken the start back.
        count = bisect_right(bases, min(offset, self.start_offset)) - 1
        if count <= 0:
            return 0
        try:
            self.replace_segments(segments[:count], [], now_ms=now_ms)
            self._snapshots.drop_before(self._view[0][0])
        except OSError as error:
            raise self._failure("cannot delete old segments", error) from error
        return count

    def replace_segments(self, old: Sequence[Segment], new: Sequence[Segment], *, now_ms: int) -> None:
        """Put `new` where the neighbouring segments `old` were; the files of the old ones go later."""
        segments = self._view[1]
        first = segments.index(old[0])
        assert segments[first : first + len(old)] == list(old)
        self._set_view([*segments[:first], *new, *segments[first + len(old) :]])
        self.size += sum(segment.size for segment in new) - sum(segment.size for segment in old)
        for segment in old:
            self._unsynced.drop_segment(segment)
            self._retire_files(segment, now_ms=now_ms)

    def _retire_files(self, segment: Segment, *, now_ms: int) -> None:
        segment.deleted = True
        segment.move_to(file_names.DELETED)
        self._removals.append(Removal(now_ms + self.config.file_delete_delay_ms, segment))
        self._unsynced.note_names_changed()

    def due_removals(self, now_ms: int) -> list[Removal]:
        """Files whose time has come; whoever takes them runs them, through `Work`."""
        if not self._removals:
            return []
        due = [removal for removal in self._removals if removal.due_ms <= now_ms]
        self._removals = [removal for removal in self._removals if removal.due_ms > now_ms]
        return due

    # ---- syncing and closing

    @property
    def checkpoint_offset(self) -> int:
        """The recovery point to write down. It stays below damage, so that every start finds that again, and below
        where the file of the leader epochs may be wrong, so that a start after a crash makes them again.
        """
        reached = self.recovery_point if self.epochs.unsafe_from is None else self.epochs.unsafe_from
        damaged = (
            damage.first_offset
            for segment in self._view[1]
            for damage in segment.damage
            if damage.next_offset > self.start_offset and not damage.was_trusted
        )
        return min(self.recovery_point, reached, next(damaged, self.recovery_point))

    @property
    def may_be_cut_at_damage(self) -> bool:
        """Whether the next start finds damage again at the recovery point, and may end the log there."""
        return any(not damage.was_trusted for segment in self._view[1] for damage in segment.damage)

    def unsynced(self) -> SyncPlan:
        """What has to be synced now so that everything appended so far is safe.

        Leader epochs for which there is no room are not part of it: `epochs.changed` stays, and they are tried again.
        """
        self._require_usable()
        if self.epochs.changed:
            self._write_epochs()
        active = (self._active.file,) if self.recovery_point < self.end_offset else ()
        epoch_changes = NOT_COVERED if self.epochs.changed else self.epochs.changes
        return self._unsynced.plan(self.end_offset, active, epoch_changes=epoch_changes)

    def synced(self, plan: SyncPlan) -> None:
        """The plan was carried out: what it covers is safe."""
        if self._unsynced.done(plan):
            self.recovery_point = max(self.recovery_point, plan.target_offset)
            self.epochs.synced(plan.epoch_changes)

    def _write_epochs(self) -> None:
        try:
            path = f"{self.path}/{file_names.LEADER_EPOCHS}"
            self._disk.remove(path + ".tmp")
            file = self._disk.open(path + ".tmp", create=True)
            try:
                file.append([self.epochs.encode()])
                self._disk.rename(path + ".tmp", path)
            except OSError:
                file.close()
                raise
        except OSError as error:
            if found_no_room(error):
                return
            raise self._failure("cannot write the leader epochs", error) from error
        self.epochs.changed = False
        self._unsynced.add_files([file])

    def has_room_for(self, size: int) -> bool:
        """Whether so many bytes find room beside the log's files. It is tried: only that tells of quotas. May block."""
        path = f"{self.path}/{file_names.ROOM_TRIAL}"
        try:
            file = self._disk.open(path, create=True)
            try:
                file.append([bytes(size)])
            finally:
                file.close()
                self._disk.remove(path)
        except OSError:
            return False  # if it is for another reason, whoever writes next hears of it
        return True

    def finish(self) -> None:
        """Write down what the next start needs to skip its scan; `unsynced` then names it. NoRoomError: it cannot skip
        it, and that is all.
        """
        self._require_usable()
        try:
            self.write_rebuilt_indexes()
            if self._active.size:
                self._unsynced.add_files(self._active.write_index(keep_open=True))
                self._unsynced.add_files(self._snapshots.take(self.end_offset, self._producers.entries()))
        except OSError as error:
            raise self._failure_unless_full("cannot close the log", error) from error

    def close(self) -> None:
        """Let go of all files."""
        self._unsynced.close()
        for segment in self._view[1]:
            segment.close()
        for removal in self._removals:
            removal.segment.close()


def _nobody_listens() -> None:
    """Whoever asks takes the findings."""


def _base_offset(segment: Segment) -> int:
    return segment.base_offset
