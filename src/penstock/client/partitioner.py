"""Which partition a record goes to: by its key's hash as the Java client has it, else in turns.

The hash is murmur2 (32 bits, Kafka's seed): clients that agree on it send a key's records to one partition.
It costs about a microsecond per four bytes of key in Python, so `Partitioner` remembers recent keys.
"""

from functools import lru_cache

_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995
_MASK = 0xFFFFFFFF
_POSITIVE = 0x7FFFFFFF
_KEYS_REMEMBERED = 65536


def murmur2(data: bytes) -> int:
    """The unsigned 32-bit hash of `data`."""
    value = _SEED ^ len(data)
    whole = len(data) & ~3
    for position in range(0, whole, 4):
        word = int.from_bytes(data[position : position + 4], "little")
        word = word * _MULTIPLIER & _MASK
        word = (word ^ word >> 24) * _MULTIPLIER & _MASK
        value = value * _MULTIPLIER & _MASK ^ word
    if whole != len(data):
        value = (value ^ int.from_bytes(data[whole:], "little")) * _MULTIPLIER & _MASK
    value = (value ^ value >> 13) * _MULTIPLIER & _MASK
    return value ^ value >> 15


def partition_of_key(key: bytes, partition_count: int) -> int:
    return (murmur2(key) & _POSITIVE) % partition_count


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
