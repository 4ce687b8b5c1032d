"""One direction between two hosts: how long it takes, how much goes through, and whether anything does."""

import random
from collections.abc import Callable

# A local network: some tenths of a millisecond.
DELAY_S = (0.0001, 0.001)


class Link:
    """The way from one host to another, the same for all connections between them."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._delay_s = DELAY_S
        self._bytes_per_s: float | None = None
        self._when_healed: list[Callable[[], None]] = []
        self.is_cut = False

    def transit_s(self) -> float:
        """How long something is on its way, this time."""
        low, high = self._delay_s
        return low + (high - low) * self._chance.random()

    def passage_s(self, size: int) -> float:
        """For how long something of this size keeps what follows it from arriving."""
        return size / self._bytes_per_s if self._bytes_per_s else 0.0

    def delay(self, low_s: float, high_s: float) -> None:
        assert 0 <= low_s <= high_s
        self._delay_s = (low_s, high_s)

    def slow(self, bytes_per_s: float | None) -> None:
        self._bytes_per_s = bytes_per_s

    def cut(self) -> None:
        """Nothing arrives any more; what is sent is sent again and again, until the link is whole."""
        self.is_cut = True

    def heal(self) -> None:
        self.is_cut = False
        waiting, self._when_healed = self._when_healed, []
        for callback in waiting:
            callback()

    def when_healed(self, callback: Callable[[], None]) -> None:
        self._when_healed.append(callback)

    def restore(self) -> None:
        """As good as new."""
        self._delay_s = DELAY_S
        self._bytes_per_s = None
        self.heal()
