"""Chooses a record's partition: by the murmur2 hash of its key as the Java client does, else round robin.

The hash is slow in Python, so `Partitioner` caches recent keys.
"""

from functools import lru_cache

from penstock.records.murmur2 import partition_of_key

_KEYS_REMEMBERED = 65536


class Partitioner:
    """Chooses partitions for the records of one topic.

    Records without a key go to one partition until `turn`, which the producer calls per batch, so that batches
    are full.
    """

    def __init__(self, partition_count: int, *, first: int = 0) -> None:
        self._count = partition_count
        self._keyless = first % partition_count
        self._of_key = lru_cache(maxsize=_KEYS_REMEMBERED)(lambda key: partition_of_key(key, partition_count))

    def choose(self, key: bytes | None) -> int:
        return self._keyless if key is None else self._of_key(key)

    def turn(self) -> None:
        """Send records without a key to the next partition from now on."""
        self._keyless = (self._keyless + 1) % self._count
