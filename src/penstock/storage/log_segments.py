"""The segments of a log at one moment."""

from bisect import bisect_right

from penstock.records.producer import AbortedTransaction
from penstock.storage.segment import Segment


class LogSegments:
    """All segments of a log, oldest first; the last one is the active one.

    Replaced as a whole when a segment is added or removed, so that a reader in another thread sees a consistent list.
    """

    __slots__ = ("_with_aborted", "active", "base_offsets", "segments")

    def __init__(self, segments: list[Segment]) -> None:
        self.segments = segments
        self.base_offsets = [segment.base_offset for segment in segments]
        self.active = segments[-1]
        self._with_aborted = [segment for segment in segments if len(segment.transaction_index)]

    def index_of(self, offset: int) -> int:
        """The number of the segment that has `offset`; -1 if the first segment begins behind it."""
        return bisect_right(self.base_offsets, offset) - 1

    def holding(self, offset: int) -> Segment:
        """The segment that has `offset`, or the first one."""
        return self.segments[max(self.index_of(offset), 0)]

    def starting_at(self, offset: int) -> list[Segment]:
        """The segment that has `offset`, or the first one, and all that follow."""
        return self.segments[max(self.index_of(offset), 0) :]

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self.segments)

    # ---- aborted transactions

    def note_aborted(self) -> None:
        """An abort marker may have been added to the active segment."""
        active, known = self.active, self._with_aborted
        if len(active.transaction_index) and (not known or known[-1] is not active):
            known.append(active)

    def has_aborted_from(self, offset: int) -> bool:
        """Whether there is an abort marker at or behind `offset`."""
        return bool(self._with_aborted) and self._with_aborted[-1].transaction_index.last_offset >= offset

    def aborted_transactions(self, *, from_offset: int, upto_offset: int) -> list[AbortedTransaction]:
        """The aborted transactions that overlap a range of offsets, in the order of their markers."""
        found: list[AbortedTransaction] = []
        # An entry lies in the segment of its marker, so every later segment may have entries for an earlier range.
        first = bisect_right(self._with_aborted, from_offset, key=_base_offset)
        for segment in self._with_aborted[max(first - 1, 0) :]:
            if segment.transaction_index.collect(found, from_offset=from_offset, upto_offset=upto_offset):
                break
        return found


def _base_offset(segment: Segment) -> int:
    return segment.base_offset
