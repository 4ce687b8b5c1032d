import pytest

from penstock.client.partitioner import Partitioner
from penstock.records.murmur2 import murmur2, partition_of_key


@pytest.mark.parametrize(
    ("key", "signed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_keys_hash_as_in_the_java_client(key: bytes, signed: int) -> None:
    assert murmur2(key) == signed % 2**32


def test_the_same_key_always_goes_to_the_same_partition() -> None:
    partitioner = Partitioner(7)
    first = partitioner.choose(b"key")
    partitioner.turn()
    assert partitioner.choose(b"key") == first == partition_of_key(b"key", 7)


def test_records_without_a_key_stay_until_the_turn_and_then_visit_every_partition() -> None:
    partitioner = Partitioner(3, first=5)
    visited = []
    for _ in range(4):
        assert partitioner.choose(None) == partitioner.choose(None)
        visited.append(partitioner.choose(None))
        partitioner.turn()
    assert visited == [2, 0, 1, 2]
