"""Seeded chance: the same bytes and numbers in every run of a seed."""

import random


class SimEntropy:
    """A process's randomness."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def random_bytes(self, count: int) -> bytes:
        return self._chance.randbytes(count)

    def random_below(self, limit: int) -> int:
        return self._chance.randrange(limit)
