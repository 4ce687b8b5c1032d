"""Control batches: the markers that end a transaction in each of its partitions, and the first record of a leader.

A marker is a batch of one record with the transaction's producer id and epoch and without a sequence number. The
record's key is a version and a type (0 abort, 1 commit), its value a version and the epoch of the coordinator that
wrote it. Other types (Kafka's KRaft has some) are not read here; one is written, LeaderChange, for topics with
`penstock.ack.quorum=majority`. It has no producer, and no information beside its batch's leader epoch: clients skip it
as any control record.
"""

from collections.abc import Sequence
from enum import IntEnum
from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple

from penstock.base.buffers import Buffer
from penstock.records.batch import CONTROL, HEADER_SIZE, TRANSACTIONAL, BatchHeader, read_header
from penstock.records.builder import build_plain_batch
from penstock.records.errors import CorruptBatchError
from penstock.records.record import read_records

_VERSION: Final = 0
_KEY: Final = Struct(">hh")
_VALUE: Final = Struct(">hi")
_SIZE_MAX: Final = 1024  # of a marker's only record, which takes less than 100 bytes


# The record as brokers write it: its size, attributes, deltas and key size are always the same.
_PLAIN: Final = Struct(">5shhBhiB")
_PLAIN_MARKS: Final = (b"\x20\x00\x00\x00\x08", 0x0C, 0)


class MarkerType(IntEnum):
    """How a transaction ended."""

    ABORT = 0
    COMMIT = 1


_LEADER_CHANGE: Final = 2
_VOTER: Final = Struct(">iB")
_NO_TAGS: Final = 0

_TYPES: Final = {int(type_): type_ for type_ in MarkerType}


class Marker(NamedTuple):
    """The end of a producer's transaction in one partition."""

    type: MarkerType
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int

    @property
    def committed(self) -> bool:
        return self.type is MarkerType.COMMIT


def build_marker(marker: Marker, *, timestamp: int) -> bytes:
    """The control batch for a marker, to be placed in a log like any other."""
    key = _KEY.pack(_VERSION, marker.type)
    value = _VALUE.pack(_VERSION, marker.coordinator_epoch)
    return build_plain_batch(
        [(key, value)],
        timestamp=timestamp,
        attributes=TRANSACTIONAL | CONTROL,
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
    )


def build_leader_change(leader: int, voters: Sequence[int], *, timestamp: int) -> bytes:
    """The control batch that a new leader appends, as in KRaft (LeaderChangeMessage, version 0)."""
    members = b"".join(_VOTER.pack(voter, _NO_TAGS) for voter in voters)
    value = _VALUE.pack(_VERSION, leader) + bytes((len(voters) + 1,)) + members + bytes((1, _NO_TAGS))
    key = _KEY.pack(_VERSION, _LEADER_CHANGE)
    return build_plain_batch([(key, value)], timestamp=timestamp, attributes=CONTROL)


def read_marker(batch: Buffer, header: BatchHeader | None = None) -> Marker | None:
    """The marker in a control batch; None for a control batch of another type, or one that compaction has emptied."""
    header = header or read_header(batch)
    assert header.is_control, "only control batches hold markers"
    if header.size == HEADER_SIZE + _PLAIN.size == len(batch):
        start, _, type_, value_size, _, coordinator_epoch, header_count = _PLAIN.unpack_from(
            batch, HEADER_SIZE
        )
        if (start, value_size, header_count) == _PLAIN_MARKS and type_ in _TYPES:
            return Marker(_TYPES[type_], header.producer_id, header.producer_epoch, coordinator_epoch)
    record = next(read_records(batch, limit=_SIZE_MAX), None)
    if record is None:
        return None
    try:
        _, type_ = _KEY.unpack_from(record.key or b"")
        if type_ not in (MarkerType.ABORT, MarkerType.COMMIT):
            return None
        _, coordinator_epoch = _VALUE.unpack_from(record.value or b"")
    except StructError:
        raise CorruptBatchError("a transaction marker is cut short") from None
    return Marker(MarkerType(type_), header.producer_id, header.producer_epoch, coordinator_epoch)
