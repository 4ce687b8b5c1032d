"""Chance: random bytes and numbers. Seeded in the simulation, the machine's own in production."""

from typing import Protocol


class Entropy(Protocol):
    """Where randomness comes from."""

    def random_bytes(self, count: int) -> bytes:
        """`count` random bytes; a random id is sixteen of them."""
        ...

    def random_below(self, limit: int) -> int:
        """A uniform integer in [0, limit)."""
        ...
