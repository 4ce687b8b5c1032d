"""The open transactions of one partition, and the last stable offset that follows from them (read_committed).

A transaction is open from its first batch to its marker. Until the marker is below the high watermark it may
still be lost: the transaction is *unsettled* that long. The last stable offset is the first offset of the oldest open
or unsettled transaction, or the high watermark if there is none.
"""


class OpenTransactions:
    """The producers with an open transaction in this partition, and its first offset."""

    __slots__ = ("_first_offsets", "unsettled")

    def __init__(self) -> None:
        # By producer, in the order in which they began: the first one is the oldest.
        self._first_offsets: dict[int, int] = {}
        # First and last offset of those whose marker may be above the high watermark, in the order of the markers.
        self.unsettled: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return len(self._first_offsets)

    def begin(self, producer_id: int, first_offset: int) -> None:
        assert producer_id not in self._first_offsets
        self._first_offsets[producer_id] = first_offset

    def end(self, producer_id: int, *, marker_offset: int) -> None:
        """The marker is in the log."""
        self.unsettled.append((self._first_offsets.pop(producer_id), marker_offset))

    def restore(self, first_offsets: dict[int, int]) -> None:
        """Replace the state by a snapshot's."""
        self._first_offsets = dict(sorted(first_offsets.items(), key=lambda item: item[1]))
        self.unsettled = []

    def stable_after(self, marker_offset: int) -> int:
        """The last stable offset once the high watermark has passed the marker."""
        return next(iter(self._first_offsets.values()), marker_offset + 1)

    def settle(self, high_watermark: int) -> bool:
        """The high watermark advanced; True if that settles a transaction."""
        if not self.unsettled:
            return False
        unsettled = [ended for ended in self.unsettled if ended[1] >= high_watermark]
        settled = len(unsettled) < len(self.unsettled)
        self.unsettled = unsettled
        return settled

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of the oldest transaction that is open or unsettled."""
        oldest = next(iter(self._first_offsets.values()), None)
        if self.unsettled:
            oldest_unsettled = min(first_offset for first_offset, _ in self.unsettled)
            return oldest_unsettled if oldest is None else min(oldest, oldest_unsettled)
        return oldest
