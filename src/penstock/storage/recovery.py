"""Opening a log: what is trusted, what is checked, what is rebuilt and what is cut.

After a clean stop nothing is scanned: the indexes lead to the last few batches, and those give the end.

After a crash:
- What lies below the recovery point was synced and is trusted, together with the indexes of segments that
  end before it. Their sizes are looked at, and an index that cannot be right is rebuilt.
- From the recovery point on every batch is checked, CRC included, and all indexes are made anew.
- A torn tail is cut: invalid bytes (a partial batch, zeros, anything) at or behind the recovery point with
  no valid batch behind them, in this segment or a later one. Nobody was promised these: with
  `flush.messages=1` an answer means that the recovery point, as the running broker knew it, had passed.
- But the recovery point on disk is older than that. Invalid bytes with valid batches behind them may have
  been answered for, and so may what follows. Neither is cut or jumped over: the range stays in the log as
  damage, reads in it raise CorruptionError (CORRUPT_MESSAGE to clients), reads elsewhere work. A follower
  can fetch it again; on a sole replica a person decides (DeleteRecords moves the start past it).
  But a log that is of use as a whole only, as a coordinator's is (`ends_at_damage`), is cut there, and so is one
  whose other replicas have what follows; if it is the beginning that is missing, nothing stays. The same as for
  bytes in the middle holds for those missing below the recovery point: their offsets are damage, and are never
  given out a second time.
- If records were deleted up to an offset that the log does not reach any more, it goes on, empty, from there.
- A gap between two segments of a log that was never compacted is damage without bytes.
- Producer state is the newest whole snapshot at or below the recovery point and every header behind it, and so
  are the indexes of aborted transactions: one that makes no sense is made again from the batches. Leader epochs
  are the checkpoint up to the recovery point and the headers behind it.
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
    """What opening a log found wrong, and did about it."""

    path: str
    cut_bytes: int = 0
    removed_segments: int = 0
    rebuilt_indexes: int = 0
    rebuilt_epochs: bool = False
    rebuilt_aborted: bool = False
    distrusted: str | None = None  # why a log that was closed cleanly was checked all the same
    checked_batches: int = 0
    damage: list[Damage] = field(default_factory=list)

    def problems(self) -> list[str]:
        """One sentence each, for the broker's log."""
        said = []
        if self.distrusted is not None:
            said.append(f"{self.path} was closed cleanly, and is checked as after a crash: {self.distrusted}")
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
            said.append(f"{self.path}: rebuilt a damaged index of aborted transactions from the batches")
        return said


@dataclass(slots=True)
class OpenedLog:
    """The state a log begins with."""

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
    """Open what lies at `path`. OSError where the disk fails; everything else is said above."""
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
        # Whatever there was is gone; offsets that were synced are not given out again.
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
        # Whoever created the log may have died before its first sync; without its id a log is nobody's.
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
        # The mark outlives the policy; a log that somebody else compacted has none.
        self.was_compacted = config.compact or disk.exists(f"{path}/{file_names.COMPACTED}")
        self.clean = False

    # ---- after a clean stop

    def trust_everything(self, indexed: Collection[int]) -> bool:
        """Take the files at their word; False if they contradict themselves, or damage is known."""
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
        """Make the last segment grow again, and find its end from what its indexes know."""
        active.created_ms = self.now_ms
        if not active.size:
            active.index = SegmentIndex(self.disk, self.path, active.base_offset)
            active.resume(max_time=TimeEntry(NO_TIMESTAMP, active.base_offset), bytes_since_index=0)
            return active.base_offset
        next_offset = active.base_offset
        if active.size <= _SMALL_SEGMENT_BYTES:
            # Read as a whole, and indexed again: cheaper than to open two index files, and to wonder about them.
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
        """Find the end of the log, taking at its word only what lies below `trusted_upto`."""
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
            # Nothing is put behind damage in the same file: it might have no bytes there to tell it apart.
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
        """Whether a power cut has taken the names of the first segments, in a log that ends at such a hole.

        Where a log starts is written down before anything below is deleted, so it did not lose them otherwise.
        """
        opened = self.opened
        never_synced = opened.recovery_point <= start_offset
        return self.config.ends_at_damage and never_synced and opened.segments[0].base_offset > start_offset

    def start_over(self, start_offset: int) -> None:
        """Records were deleted up to beyond what the crash left: the log goes on empty, where they ended.

        The offsets below were given out, and read; a consumer that has seen them looks further on.
        """
        opened = self.opened
        for segment in opened.segments:
            segment.close()
            for kind in file_names.SEGMENT_SUFFIXES:
                self.disk.remove(segment.path(kind))
        opened.segments = [Segment.create(self.disk, self.path, start_offset, now_ms=self.now_ms)]
        opened.start_offset = opened.end_offset = start_offset
        self.report.damage = []

    # ---- what is known besides the batches

    def restore_state(self, producers: ProducerMemory, *, known_upto: int) -> int | None:
        """Leader epochs and producers as the files had them below `known_upto`, and batches from there on.

        If that meets batches that were trusted and make no sense, the base of their segment comes back.
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
        # The device may have kept what its index says of markers, and not the markers.
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
            opened.epochs.unsafe_from = None  # the next start, too, finds that the file says nothing
        for segment in opened.segments[:-1]:
            opened.unsynced_files += segment.write_transaction_index()
        return None

    def _read_epochs(self, known_upto: int) -> int:
        """Take the checkpoint as far as it is to be trusted; the offset from which batches have to tell."""
        opened = self.opened
        opened.epochs = LeaderEpochs()
        try:
            epochs = decode_epochs(read_file(self.disk, f"{self.path}/{file_names.LEADER_EPOCHS}"))
        except FileNotFoundError:
            # A log that was closed cleanly has none only if no batch ever bore an epoch.
            return known_upto if self.clean else 0
        if epochs is None:
            self.report.rebuilt_epochs = True
            return 0
        epochs.truncate_from(known_upto)
        epochs.truncate_before(opened.start_offset)
        opened.epochs = epochs
        return known_upto
