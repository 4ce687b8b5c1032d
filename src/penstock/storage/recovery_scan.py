"""The scan of a log's segments after a crash: finds the log's end, its torn tail, and damage within.

`recovery` has the rules and their reasons.
"""

from typing import NamedTuple

from penstock.records.batch import BatchHeader, crc_holds
from penstock.storage import file_names
from penstock.storage.batch_scan import RELATIVE_OFFSET_MAX, Expected, Invalid, headers, scan
from penstock.storage.damage import Damage
from penstock.storage.errors import CorruptionError
from penstock.storage.log_config import LogConfig
from penstock.storage.offset_index import OFFSET_ENTRY_SIZE
from penstock.storage.segment import Segment
from penstock.storage.time_index import TIME_ENTRY_SIZE
from penstock.world.disk import Disk, File

_OFFSET_MAX = (1 << 63) - 1


class _Hole(NamedTuple):
    """Bytes without a valid batch: damage if a valid batch follows, else a torn tail."""

    segment: Segment
    position: int
    end: int


class RecoveryScan:
    """Scans the segments of a log in order and finds where the log ends."""

    def __init__(
        self,
        disk: Disk,
        segments: list[Segment],
        *,
        config: LogConfig,
        was_compacted: bool,
        recovery_point: int,
        trusted_upto: int,
    ) -> None:
        """Everything below `recovery_point` was synced; batches below `trusted_upto` are not checked."""
        self._disk = disk
        self._segments = segments
        self._config = config
        self._was_compacted = was_compacted
        self._recovery_point = recovery_point
        self._trusted_upto = trusted_upto
        self._next_offset = segments[0].base_offset
        self._leader_epoch = -1
        self._last_valid = segments[0]
        self._last_valid_end = 0
        self._holes: list[_Hole] = []
        self.checked_batches = 0
        self.rebuilt_indexes = 0
        self.cut_bytes = 0
        self.removed_segments = 0
        self.unsynced_files: list[File] = []

    @property
    def next_offset(self) -> int:
        return self._next_offset

    def run(self) -> list[Segment]:
        """Scan all segments; returns those that stay, the last of them ready to grow."""
        bases = [segment.base_offset for segment in self._segments]
        for index, segment in enumerate(self._segments):
            if index:
                self._note_gap_before(segment, self._segments[index - 1])
                if self._has_ended:
                    break
            following = bases[index + 1] if index + 1 < len(bases) else None
            if following is None or following >= self._trusted_upto or not self._trust(segment, following):
                self._check(segment, following)
            if self._has_ended:
                break
        kept = self._cut_tail()
        for segment in kept[:-1]:
            if segment.is_growing:
                self.unsynced_files += segment.retire()
        return kept

    # ---- one segment

    def _note_gap_before(self, segment: Segment, previous: Segment) -> None:
        # Compaction leaves gaps; elsewhere every offset was written once.
        if segment.base_offset == self._next_offset or self._was_compacted:
            return
        reaches_up_to_here = bool(self._holes) and self._holes[-1].segment is previous
        if not reaches_up_to_here:
            self._holes.append(_Hole(previous, previous.size, previous.size))

    def _trust(self, segment: Segment, following: int) -> bool:
        """Accept a synced segment without a scan; False if its index is damaged."""
        try:
            self._require_possible_index(segment, following)
            next_offset, leader_epoch = self._next_offset, self._leader_epoch
            for at, header in headers(segment.file, segment.index.offsets.last_position(), end=segment.size):
                next_offset, leader_epoch = header.next_offset, max(leader_epoch, header.leader_epoch)
                self._require_indexed(segment, at, header)
            if next_offset > following:
                raise CorruptionError(f"{segment.file.path} goes on where the next segment begins")
        except (CorruptionError, FileNotFoundError):
            self.rebuilt_indexes += 1
            return False
        if segment.size:
            self._settle_holes(segment, segment.base_offset)
            self._next_offset, self._leader_epoch = next_offset, leader_epoch
            self._last_valid, self._last_valid_end = segment, segment.size
        return True

    def _require_possible_index(self, segment: Segment, following: int) -> None:
        for kind, entry_size in (
            (file_names.INDEX, OFFSET_ENTRY_SIZE),
            (file_names.TIME_INDEX, TIME_ENTRY_SIZE),
        ):
            if self._disk.size(segment.path(kind)) % entry_size:
                raise CorruptionError(f"{segment.path(kind)} does not hold whole entries")
        position = segment.index.offsets.last_position()
        if (segment.index.offsets.entry_count and position <= 0) or position > segment.size:
            raise CorruptionError(f"{segment.path(file_names.INDEX)} points outside of its segment")
        if (
            not segment.base_offset
            <= segment.index.times.last().offset
            < max(following, segment.base_offset + 1)
        ):
            raise CorruptionError(f"{segment.path(file_names.TIME_INDEX)} points outside of its segment")

    def _require_indexed(self, segment: Segment, position: int, header: BatchHeader) -> None:
        """Raise CorruptionError if both indexes should have an entry for this batch, and have none."""
        if not segment.index.offsets.entry_count and position > self._config.index_interval_bytes:
            raise CorruptionError(f"{segment.path(file_names.INDEX)} has lost its entries")
        if header.max_timestamp > segment.index.times.last().timestamp and header.record_count:
            raise CorruptionError(f"{segment.path(file_names.TIME_INDEX)} has lost its last entry")

    def _check(self, segment: Segment, following: int | None) -> None:
        """Check every batch above `trusted_upto`, and rebuild the segment's indexes."""
        segment.begin_indexing()
        segment.damage = ()
        limit_offset = _OFFSET_MAX if following is None else following
        position = self._walk_trusted_part(segment, limit_offset)
        expected = Expected(
            next_offset=max(self._next_offset, segment.base_offset),
            limit_offset=min(limit_offset, segment.base_offset + RELATIVE_OFFSET_MAX + 1),
            leader_epoch=self._leader_epoch,
        )
        findings = scan(segment.file, position, end=segment.size, expected=expected)
        for finding in findings:
            if isinstance(finding, Invalid):
                self._holes.append(_Hole(segment, finding.position, finding.end))
                if self._has_ended:
                    break
            else:
                self.checked_batches += 1
                self._accept(segment, finding.position, finding.header)

    @property
    def _has_ended(self) -> bool:
        """Whether the log ends at a hole that was never synced (`ends_at_damage`): what follows is dropped."""
        never_synced = bool(self._holes) and self._next_offset >= self._recovery_point
        return never_synced and self._config.ends_at_damage

    def _walk_trusted_part(self, segment: Segment, limit_offset: int) -> int:
        """Index the trusted batches by their headers alone; returns where they end."""
        position = 0
        if segment.base_offset >= self._trusted_upto:
            return position
        before: tuple[int, BatchHeader] | None = None
        try:
            for at, header in headers(segment.file, 0, end=segment.size):
                if before is not None:
                    self._accept(segment, *before)
                    position, before = at, None
                below = max(self._next_offset, segment.base_offset)
                if header.next_offset > self._trusted_upto or not below <= header.base_offset < limit_offset:
                    return position
                before = at, header
        except CorruptionError:
            # The length of the batch before may be wrong, and have led to a wrong position.
            if before is None or not _holds(segment, *before):
                return position
        if before is not None:
            self._accept(segment, *before)
            position = before[0] + before[1].size
        return position

    def _accept(self, segment: Segment, position: int, header: BatchHeader) -> None:
        after_hole = bool(self._holes)
        self._settle_holes(segment, header.base_offset)
        # The batch behind damage always gets an index entry: a later start with a log start offset behind the damage
        # does not scan it, and could not walk over it from the batches before.
        segment.note(header, position, self._config, force_entry=after_hole and position > 0)
        self._next_offset = header.next_offset
        self._leader_epoch = max(self._leader_epoch, header.leader_epoch)
        self._last_valid = segment
        self._last_valid_end = position + header.size

    def _settle_holes(self, segment: Segment, valid_offset: int) -> None:
        """Record the holes before a valid batch as damage."""
        for hole in self._holes:
            if hole.segment is segment:
                until = valid_offset
            else:
                until = self._segments[self._segments.index(hole.segment) + 1].base_offset
            if until > max(self._next_offset, hole.segment.base_offset) or hole.segment is segment:
                self._add_damage(hole, until)
            else:
                # No offset is missing: a tail that an earlier start had truncated, and that a crash brought back.
                self._cut(hole.segment, hole.position)
        self._holes = []

    def _add_damage(self, hole: _Hole, until: int) -> None:
        first = max(self._next_offset, hole.segment.base_offset)
        damage = Damage(first, max(until, first), hole.position, hole.end)
        hole.segment.damage = (*hole.segment.damage, damage)

    def _cut(self, segment: Segment, size: int) -> None:
        if size < segment.size:
            self.cut_bytes += segment.size - size
            segment.file.truncate(size)
            segment.size = size

    # ---- the end

    def _cut_tail(self) -> list[Segment]:
        """Truncate the torn tail, or keep it as damage if it had been synced."""
        last = self._last_valid
        kept = self._segments[: self._segments.index(last) + 1]
        behind = self._segments[len(kept) :]
        if self._next_offset < self._recovery_point:
            self._add_damage(_Hole(last, self._last_valid_end, last.size), self._recovery_point)
            self._next_offset = self._recovery_point
        elif not self._holes and len(behind) == 1:
            # The log had just been rolled: its last segment is empty.
            self._next_offset = behind[0].base_offset
            return self._segments
        else:
            self._cut(last, self._last_valid_end)
        for segment in behind:
            self.cut_bytes += segment.size
            self.removed_segments += 1
            segment.close()
            for kind in file_names.SEGMENT_SUFFIXES:
                self._disk.remove(segment.path(kind))
        return kept


def _holds(segment: Segment, position: int, header: BatchHeader) -> bool:
    return crc_holds(segment.file.read(position, header.size), 0, header)
