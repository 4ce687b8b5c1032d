"""The consumer protocol of classic groups: subscriptions and assignments, v0-v3.

Both begin with their version in 16 bits. A newer version begins with the fields of v3, and is read as v3. Written in
version 3 (subscription) and 0 (assignments have no new fields since).
"""

from struct import Struct as Packed
from typing import Final

from penstock.base.buffers import Buffer
from penstock.base.errors import PeerError
from penstock.base.ids import TopicPartition
from penstock.schema import words
from penstock.schema.codec import decode, encode
from penstock.schema.words import Struct, Versioned

_NUMBER: Final = Packed(">h")
_NEWEST: Final = 3


class OwnedTopic(Struct):
    topic: str = words.string("1+")
    partitions: list[int] = words.array(words.int32, "1+")


class Subscription(Versioned):
    """The topics a member subscribes to, and the partitions it owns."""

    VERSIONS = (0, 3)
    FLEXIBLE_SINCE = None

    topics: list[str] = words.array(words.string, "0+")
    user_data: bytes | None = words.blob("0+", nullable="0+", default=None)
    owned_partitions: list[OwnedTopic] = words.array(OwnedTopic, "1+", ignorable=True)
    generation_id: int = words.int32("2+", default=-1, ignorable=True)
    rack_id: str | None = words.string("3+", nullable="3+", default=None, ignorable=True)


class AssignedTopic(Struct):
    topic: str = words.string("0+")
    partitions: list[int] = words.array(words.int32, "0+")


class Assignment(Versioned):
    """The partitions assigned to a member."""

    VERSIONS = (0, 3)
    FLEXIBLE_SINCE = None

    assigned_partitions: list[AssignedTopic] = words.array(AssignedTopic, "0+")
    user_data: bytes | None = words.blob("0+", nullable="0+", default=None)


def read_subscription(data: Buffer) -> Subscription:
    """Decode a subscription; PeerError if it is invalid."""
    return decode(Subscription, _version(data), data, _NUMBER.size)


def read_assignment(data: Buffer) -> tuple[TopicPartition, ...]:
    """The assigned partitions; empty bytes mean none. PeerError if it is invalid."""
    if not len(data):
        return ()
    assignment = decode(Assignment, _version(data), data, _NUMBER.size)
    return tuple(
        TopicPartition(each.topic, partition)
        for each in assignment.assigned_partitions
        for partition in each.partitions
    )


def write_subscription(subscription: Subscription, *, version: int = _NEWEST) -> bytes:
    return b"".join((_NUMBER.pack(version), *encode(subscription, version)))


def write_assignment(assignment: Assignment, *, version: int = 0) -> bytes:
    return b"".join((_NUMBER.pack(version), *encode(assignment, version)))


def _version(data: Buffer) -> int:
    if len(data) < _NUMBER.size:
        raise PeerError("a subscription or assignment of less than two bytes")
    (version,) = _NUMBER.unpack_from(data)
    if version < 0:
        raise PeerError(f"a subscription or assignment of version {version}")
    return min(int(version), _NEWEST)
