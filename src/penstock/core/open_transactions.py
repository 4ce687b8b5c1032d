"""The open transactions of one partition, and what they hide from readers that read committed.

A transaction is open from its first batch to its marker. Until the marker lies below the high watermark it may
still be lost, so the transaction stays *unsettled* that long. The last stable offset is where the oldest open or
unsettled transaction begins, or the high watermark where there is none.
"""


class OpenTransactions:
    """Which producers have a transaction open here, and since which offset."""

    __slots__ = ("_first_offsets", "_unsettled")

    def __init__(self) -> None:
        # By producer, in the order in which they began: the first one is the oldest.
        self._first_offsets: dict[int, int] = {}
        # First and last offset of those whose marker may be above the high watermark, in the order of the markers.
        self._unsettled: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return len(self._first_offsets)

    def begin(self, producer_id: int, first_offset: int) -> None:
        assert producer_id not in self._first_offsets
        self._first_offsets[producer_id] = first_offset

    def end(self, producer_id: int, *, marker_offset: int) -> None:
        """The marker is in the log."""
        self._unsettled.append((self._first_offsets.pop(producer_id), marker_offset))

    def restore(self, first_offsets: dict[int, int]) -> None:
        """Begin with what a snapshot knew."""
        self._first_offsets = dict(sorted(first_offsets.items(), key=lambda item: item[1]))
        self._unsettled = []

    def stable_after(self, marker_offset: int) -> int:
        """Up to where all is decided once everything up to the marker is safe."""
        return next(iter(self._first_offsets.values()), marker_offset + 1)

    def settle(self, high_watermark: int) -> bool:
        """Everything below the high watermark is safe; True if that settles a transaction."""
        if not self._unsettled:
            return False
        unsettled = [ended for ended in self._unsettled if ended[1] >= high_watermark]
        settled = len(unsettled) < len(self._unsettled)
        self._unsettled = unsettled
        return settled

    @property
    def first_unstable_offset(self) -> int | None:
        """Where the oldest transaction begins that is open or unsettled."""
        oldest = next(iter(self._first_offsets.values()), None)
        if self._unsettled:
            oldest_unsettled = min(first_offset for first_offset, _ in self._unsettled)
            return oldest_unsettled if oldest is None else min(oldest, oldest_unsettled)
        return oldest
