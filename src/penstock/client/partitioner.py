"""Which partition a record goes to: by its key's hash as the Java client has it, else in turns.

The hash takes its time in Python, so `Partitioner` remembers recent keys.
"""

from functools import lru_cache

from penstock.records.murmur2 import partition_of_key

_KEYS_REMEMBERED = 65536


class Partitioner:
    """Chooses partitions for the records of one topic.

    Records without a key stay with one partition until `turn`, which the producer calls per batch: full
    batches are worth more than an even spread of single records.
    """

    def __init__(self, partition_count: int, *, first: int = 0) -> None:
        self._count = partition_count
        self._keyless = first % partition_count
        self._of_key = lru_cache(maxsize=_KEYS_REMEMBERED)(lambda key: partition_of_key(key, partition_count))

    def choose(self, key: bytes | None) -> int:
        return self._keyless if key is None else self._of_key(key)

    def turn(self) -> None:
        """The records without a key go to the next partition from now on."""
        self._keyless = (self._keyless + 1) % self._count
