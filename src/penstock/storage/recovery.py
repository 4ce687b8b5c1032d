"""Opening a log: what is trusted, checked, rebuilt and truncated.

After a clean shutdown nothing is scanned: the indexes lead to the last few batches, and those give the log end offset.

After a crash:
- What lies below the recovery point was synced and is trusted, together with the indexes of segments that
  end before it. Their sizes are checked, and an index that cannot be right is rebuilt.
- From the recovery point on every batch is checked, CRC included, and all indexes are rebuilt.
- A torn tail is truncated: invalid bytes (a partial batch, zeros, anything) at or behind the recovery point with
  no valid batch behind them, in this segment or a later one. They were never acknowledged as durable: with
  `flush.messages=1` a produce request is answered after the recovery point of the running broker has passed.
- But the recovery point on disk is older than that. Invalid bytes with valid batches behind them may have
  been acknowledged, and so may the batches that follow. Neither is truncated or skipped: the range stays in the log as
  damage, reads in it raise CorruptionError (CORRUPT_MESSAGE to clients), reads elsewhere work. A follower
  can fetch it again; on a sole replica an administrator decides (DeleteRecords moves the log start offset past it).
  A log that is useful only without gaps, such as a coordinator's (`ends_at_damage`), is truncated there, and so is one
  whose other replicas have what follows; if its beginning is missing, it becomes empty. Bytes that are missing below
  the recovery point are treated in the same way: their offsets are damage, and are never assigned again.
- If records were deleted up to an offset that the log does not reach any more, it continues, empty, from there.
- A gap between two segments of a log that was never compacted is damage without bytes.
- Producer state is the newest undamaged snapshot at or below the recovery point and every batch behind it. A damaged
  transaction index is rebuilt from the batches. Leader epochs are those of the checkpoint up to the recovery point,
  and those of the batches behind it.
"""

from collections.abc import Collection
from dataclasses import dataclass, field

from penstock.base.ids import TopicId
from penstock.storage import file_names, temporary_files
from penstock.storage.batch_scan import headers
from penstock.storage.damage import Damage
from penstock.storage.errors import CorruptionError
from penstock.storage.leader_epoch_checkpoint import LeaderEpochs, decode_epochs
from penstock.storage.log_config import LogConfig
from penstock.storage.partition_directories import read_topic_id
from penstock.storage.producer_replay import replay_found
from penstock.storage.producer_snapshots import ProducerMemory, ProducerSnapshots
from penstock.storage.recovery_scan import RecoveryScan
from penstock.storage.segment import Segment
from penstock.storage.segment_index import SegmentIndex
from penstock.storage.time_index import NO_TIMESTAMP, TimeEntry
from penstock.storage.transaction_index import TransactionIndex
from penstock.world.disk import Disk, File, read_file

_SMALL_SEGMENT_BYTES = 16 << 10


@dataclass(slots=True)
class RecoveryReport:
    """The problems found when a log was opened, and what was done about them."""

    path: str
    cut_bytes: int = 0
    removed_segments: int = 0
    rebuilt_indexes: int = 0
    rebuilt_epochs: bool = False
    rebuilt_aborted: bool = False
    distrusted: str | None = None  # why a log that was closed cleanly was recovered
    checked_batches: int = 0
    damage: list[Damage] = field(default_factory=list)

    def problems(self) -> list[str]:
        """One sentence each, for the broker's log."""
        said = []
        if self.distrusted is not None:
            said.append(
                f"{self.path} was closed cleanly, but is recovered as after a crash: {self.distrusted}"
            )
        if self.cut_bytes or self.removed_segments:
            said.append(
                f"{self.path}: cut a torn tail of {self.cut_bytes} bytes"
                f" and removed {self.removed_segments} segments behind it"
            )
        for damage in self.damage:
            said.append(
                f"{self.path}: offsets {damage.first_offset} to {damage.next_offset - 1} are damaged and stay"
                f" unreadable; deleting the records up to {damage.next_offset} gives them up"
            )
        if self.rebuilt_indexes:
            said.append(f"{self.path}: rebuilt the indexes of {self.rebuilt_indexes} segments")
        if self.rebuilt_epochs:
            said.append(f"{self.path}: rebuilt the leader epochs from the batches")
        if self.rebuilt_aborted:
            said.append(f"{self.path}: rebuilt a damaged transaction index from the batches")
        return said


@dataclass(slots=True)
class OpenedLog:
    """The initial state of a log."""

    topic_id: TopicId
    segments: list[Segment]
    start_offset: int
    end_offset: int
    recovery_point: int
    epochs: LeaderEpochs
    snapshots: ProducerSnapshots
    unsynced_files: list[File]
    unsynced_directories: tuple[str, ...]
    report: RecoveryReport


def load_log(
    disk: Disk,
    path: str,
    *,
    config: LogConfig,
    producers: ProducerMemory,
    recovery_point: int,
    log_start_offset: int,
    clean: bool,
    now_ms: int,
) -> OpenedLog:
    """Load the log at `path`, by the rules above. OSError if the disk fails."""
    found = temporary_files.tidy(disk, path, start_offset=log_start_offset)
    report = RecoveryReport(path)
    opened = OpenedLog(
        topic_id=read_topic_id(disk, path),
        segments=[_closed_segment(disk, path, base, found) for base in found.bases],
        start_offset=log_start_offset,
        end_offset=0,
        recovery_point=recovery_point,
        epochs=LeaderEpochs(),
        snapshots=ProducerSnapshots(disk, path, found.snapshots),
        unsynced_files=[],
        unsynced_directories=(),
        report=report,
    )
    if not opened.segments:
        # All segments are gone; offsets that were synced are not assigned again.
        base_offset = max(log_start_offset, recovery_point)
        opened.segments = [Segment.create(disk, path, base_offset, now_ms=now_ms)]
    opened.start_offset = max(log_start_offset, opened.segments[0].base_offset)
    opening = _Opening(disk, path, config=config, opened=opened, now_ms=now_ms)
    opening.clean = clean and opening.trust_everything(found.indexed)
    if not opening.clean and opening.has_lost_its_beginning(log_start_offset):
        report.removed_segments += len(opened.segments)
        opening.start_over(log_start_offset)
    elif not opening.clean:
        opening.check_from(recovery_point, recovery_point=recovery_point)
    if opened.end_offset < log_start_offset:
        opening.start_over(log_start_offset)
    known_upto = opened.end_offset if opening.clean else recovery_point
    while (distrusted := opening.restore_state(producers, known_upto=known_upto)) is not None:
        opening.check_from(distrusted, recovery_point=recovery_point)
    opened.recovery_point = max(min(recovery_point, opened.end_offset), opened.segments[0].base_offset)
    if found.changed or report.problems() or not opening.clean:
        opened.unsynced_directories = (path, path.rpartition("/")[0])
    metadata = f"{path}/{file_names.PARTITION_METADATA}"
    if not opening.clean and disk.exists(metadata):
        # The broker may have crashed before the log's first sync; without its topic id the log would be a stray one.
        opened.unsynced_files.append(disk.open(metadata))
    return opened


def _closed_segment(disk: Disk, path: str, base_offset: int, found: temporary_files.FoundFiles) -> Segment:
    size = disk.size(f"{path}/{file_names.file_name(base_offset, file_names.LOG)}")
    index = SegmentIndex(disk, path, base_offset, in_files=True)
    segment = Segment(disk, path, base_offset, size=size, index=index)
    segment.distrust()
    has_sum = base_offset in found.aborted_sums
    if base_offset in found.aborted or has_sum:
        sum_path = segment.path(file_names.TRANSACTION_INDEX_SUM) if has_sum else None
        segment.transaction_index = TransactionIndex.load(
            disk, segment.path(file_names.TRANSACTION_INDEX), sum_path=sum_path
        )
    return segment


class _Opening:
    """One log while it is being opened."""

    def __init__(self, disk: Disk, path: str, *, config: LogConfig, opened: OpenedLog, now_ms: int) -> None:
        self.disk = disk
        self.path = path
        self.config = config
        self.opened = opened
        self.report = opened.report
        self.now_ms = now_ms
        # The mark stays when the policy changes; a log that Kafka compacted has none.
        self.was_compacted = config.compact or disk.exists(f"{path}/{file_names.COMPACTED}")
        self.clean = False

    # ---- after a clean shutdown

    def trust_everything(self, indexed: Collection[int]) -> bool:
        """Find the log end offset by the indexes; False if files contradict each other, or damage is known."""
        segments = self.opened.segments
        unindexed = [segment for segment in segments if segment.size and segment.base_offset not in indexed]
        if unindexed:
            self.report.distrusted = f"{unindexed[0].path(file_names.INDEX)} or its time index is missing"
            return False
        try:
            next_offset = self._wake(segments[-1])
        except (CorruptionError, FileNotFoundError) as error:
            self.report.distrusted = str(error)
            return False
        self.opened.end_offset = next_offset
        return next_offset <= self.opened.recovery_point

    def _wake(self, active: Segment) -> int:
        """Make the last segment ready to grow, and find its end by its indexes."""
        active.created_ms = self.now_ms
        if not active.size:
            active.index = SegmentIndex(self.disk, self.path, active.base_offset)
            active.resume(max_time=TimeEntry(NO_TIMESTAMP, active.base_offset), bytes_since_index=0)
            return active.base_offset
        next_offset = active.base_offset
        if active.size <= _SMALL_SEGMENT_BYTES:
            # Read as a whole and indexed again: cheaper than to open and check two index files.
            active.begin_indexing()
            for at, header in headers(active.file, 0, end=active.size):
                active.note(header, at, self.config)
                next_offset = header.next_offset
            return next_offset
        position = active.index.offsets.last_position()
        max_time = active.largest_time()
        if not 0 <= position < active.size:
            raise CorruptionError(f"{active.path(file_names.INDEX)} points behind the end of its segment")
        for at, header in headers(active.file, position, end=active.size):
            next_offset = header.next_offset
            if header.max_timestamp > max_time.timestamp and header.record_count:
                max_time = TimeEntry(header.max_timestamp, header.last_offset)
            if at == 0:
                active.first_timestamp = header.max_timestamp
        if position:
            active.first_timestamp = next(headers(active.file, 0, end=active.size))[1].max_timestamp
        active.resume(max_time=max_time, bytes_since_index=active.size - position)
        return next_offset

    # ---- after a crash

    def check_from(self, trusted_upto: int, *, recovery_point: int) -> None:
        """Scan for the end of the log, and check everything above `trusted_upto`."""
        opened, report = self.opened, self.report
        check = RecoveryScan(
            self.disk,
            opened.segments,
            config=self.config,
            was_compacted=self.was_compacted,
            recovery_point=recovery_point,
            trusted_upto=trusted_upto,
        )
        opened.segments = check.run()
        opened.end_offset = check.next_offset
        opened.unsynced_files += check.unsynced_files
        active = opened.segments[-1]
        if active.damage and active.damage[-1].end == active.size:
            # Nothing is appended behind damage in the same file: damage without bytes could not be told apart.
            if active.is_growing:
                opened.unsynced_files += active.retire()
            opened.segments.append(
                Segment.create(self.disk, self.path, opened.end_offset, now_ms=self.now_ms)
            )
        elif not active.is_growing:
            self._wake(active)
        opened.segments[-1].created_ms = self.now_ms
        report.checked_batches += check.checked_batches
        report.cut_bytes += check.cut_bytes
        report.removed_segments += check.removed_segments
        report.rebuilt_indexes += check.rebuilt_indexes
        report.damage = [
            damage
            for segment in opened.segments
            for damage in segment.damage
            if damage.next_offset > opened.start_offset
        ]

    def has_lost_its_beginning(self, start_offset: int) -> bool:
        """Whether a power cut has lost the names of the first segments, in a log with `ends_at_damage`.

        The log start offset is written before segments below it are deleted, so nothing else can have removed them.
        """
        opened = self.opened
        never_synced = opened.recovery_point <= start_offset
        return self.config.ends_at_damage and never_synced and opened.segments[0].base_offset > start_offset

    def start_over(self, start_offset: int) -> None:
        """Continue with an empty log at `start_offset`, up to which records were deleted before the crash.

        The offsets below were assigned, and consumers may have read them.
        """
        opened = self.opened
        for segment in opened.segments:
            segment.close()
            for kind in file_names.SEGMENT_SUFFIXES:
                self.disk.remove(segment.path(kind))
        opened.segments = [Segment.create(self.disk, self.path, start_offset, now_ms=self.now_ms)]
        opened.start_offset = opened.end_offset = start_offset
        self.report.damage = []

    # ---- leader epochs and producer state

    def restore_state(self, producers: ProducerMemory, *, known_upto: int) -> int | None:
        """Restore leader epochs and producer state: from the files below `known_upto`, from the batches behind it.

        Returns the base offset of a segment if its batches, which were trusted, are damaged.
        """
        opened = self.opened
        known_upto = min(known_upto, opened.end_offset)
        epochs_from = self._read_epochs(known_upto)
        opened.snapshots.drop_behind(known_upto)
        opened.snapshots.drop_strays({segment.base_offset for segment in opened.segments})
        broken = [segment.base_offset for segment in opened.segments if segment.transaction_index.is_broken]
        self.report.rebuilt_aborted |= bool(broken)
        producers_from = opened.snapshots.restore(producers, upto_offset=min(broken, default=known_upto))
        start = min(epochs_from, producers_from)
        ends = [segment.base_offset for segment in opened.segments[1:]] + [opened.end_offset]
        # After a power cut the index may have entries of markers that were lost.
        opened.segments[-1].transaction_index.truncate_to(opened.end_offset)
        for segment, end_offset in zip(opened.segments, ends, strict=True):
            if end_offset <= start:
                continue
            if segment is not opened.segments[0] and segment.base_offset > producers_from:
                opened.unsynced_files += opened.snapshots.take(segment.base_offset, producers.entries())
            segment.transaction_index.truncate_to(producers_from)
            try:
                for position, header in segment.undamaged_headers():
                    if header.base_offset >= epochs_from:
                        opened.epochs.assign(header.leader_epoch, header.base_offset)
                    if header.base_offset >= producers_from and header.has_producer:
                        replay_found(segment, position, header, producers)
            except CorruptionError:
                return segment.base_offset
        if not epochs_from:
            opened.epochs.unsafe_from = None  # the next start, too, finds the file unusable
        for segment in opened.segments[:-1]:
            opened.unsynced_files += segment.write_transaction_index()
        return None

    def _read_epochs(self, known_upto: int) -> int:
        """Load the checkpoint below `known_upto`; returns the offset from which epochs are read from the batches."""
        opened = self.opened
        opened.epochs = LeaderEpochs()
        try:
            epochs = decode_epochs(read_file(self.disk, f"{self.path}/{file_names.LEADER_EPOCHS}"))
        except FileNotFoundError:
            # A log that was closed cleanly has none only if no batch ever had an epoch.
            return known_upto if self.clean else 0
        if epochs is None:
            self.report.rebuilt_epochs = True
            return 0
        epochs.truncate_from(known_upto)
        epochs.truncate_before(opened.start_offset)
        opened.epochs = epochs
        return known_upto
