"""Random bytes and numbers: from the operating system in production, from a seed in the simulation."""

from typing import Protocol


class Entropy(Protocol):
    """A source of random values."""

    def random_bytes(self, count: int) -> bytes:
        """`count` random bytes; a random id is sixteen of them."""
        ...

    def random_below(self, limit: int) -> int:
        """A uniform integer in [0, limit)."""
        ...
