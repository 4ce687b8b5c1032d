"""One direction between two hosts: its latency, its rate, and whether it is cut."""

import random
from collections.abc import Callable

# A local network: some tenths of a millisecond.
DELAY_S = (0.0001, 0.001)


class Link:
    """The link from one host to another, shared by all connections between them."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._delay_s = DELAY_S
        self._bytes_per_s: float | None = None
        self._when_healed: list[Callable[[], None]] = []
        self.is_cut = False

    def transit_s(self) -> float:
        """A latency, drawn for one piece of data."""
        low, high = self._delay_s
        return low + (high - low) * self._chance.random()

    def passage_s(self, size: int) -> float:
        """How long data of this size occupies the link, at its rate."""
        return size / self._bytes_per_s if self._bytes_per_s else 0.0

    def delay(self, low_s: float, high_s: float) -> None:
        assert 0 <= low_s <= high_s
        self._delay_s = (low_s, high_s)

    def slow(self, bytes_per_s: float | None) -> None:
        self._bytes_per_s = bytes_per_s

    def cut(self) -> None:
        """Cut the link: senders retransmit until it is restored."""
        self.is_cut = True

    def heal(self) -> None:
        self.is_cut = False
        waiting, self._when_healed = self._when_healed, []
        for callback in waiting:
            callback()

    def when_healed(self, callback: Callable[[], None]) -> None:
        self._when_healed.append(callback)

    def restore(self) -> None:
        """Remove all faults."""
        self._delay_s = DELAY_S
        self._bytes_per_s = None
        self.heal()
