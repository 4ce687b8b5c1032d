"""The record batch: its header, its CRC, and all checks that do not read the records.

Layout (big-endian; offset: field):

     0: int64 base offset             43: int64 producer id
     8: int32 length of what follows  51: int16 producer epoch
    12: int32 leader epoch            53: int32 base sequence
    16: int8  magic, always 2         57: int32 record count
    17: uint32 CRC-32C of 21..end     61: the records, as one block under the codec
    21: int16 attributes
    23: int32 last offset delta
    27: int64 base timestamp
    35: int64 max timestamp

Base offset and leader epoch lie before the checksummed part, so a broker places a batch in its log by writing
sixteen bytes in front of what the producer sent (`place`). Only LogAppendTime needs a new CRC (`restamp`).

What Kafka 4.3.1 answers to a bad batch is the table in `tests/records/test_produced_batches.py`;
`check_produced` gives the same answers in the same order of precedence, except for the few with a reason beside them.
Records are read in `records.record`.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from crc32c import crc32c

from penstock.base.buffers import Buffer
from penstock.base.errors import ErrorCode
from penstock.records.compression import Codec
from penstock.records.errors import CorruptBatchError

HEADER_SIZE = 61
MAGIC = 2
NO_PRODUCER = -1
NO_SEQUENCE = -1
NO_TIMESTAMP = -1

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40

_SIZE_BEFORE_LENGTH_COUNTS = 12
_LENGTH_MIN = HEADER_SIZE - _SIZE_BEFORE_LENGTH_COUNTS
_CRC_STARTS = 21
_PLACED_SIZE = 16
_SEQUENCE_MAX = 2**31 - 1

_HEADER = struct.Struct(">qiibIhiqqqhii")
_BEFORE_CRC_COUNTS = struct.Struct(">qiibI")
_CHECKSUMMED = struct.Struct(">hiqqqhii")
_PLACED = struct.Struct(">qii")
_LENGTH = struct.Struct(">8xi")
_LENGTH_AND_MAGIC = struct.Struct(">8xi4xb")

_CODECS = tuple(Codec)


class BatchHeader(NamedTuple):
    """The fields of a batch's header, in the order of its bytes."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch, header included."""
        return self.batch_length + _SIZE_BEFORE_LENGTH_COUNTS

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record; numbers start again at 0 after 2**31 - 1."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & _SEQUENCE_MAX

    @property
    def next_sequence(self) -> int:
        """The sequence number that the producer's next batch begins with."""
        return following_sequence(self.last_sequence)

    @property
    def codec(self) -> Codec:
        number = self.attributes & CODEC_MASK
        if number >= len(_CODECS):
            raise CorruptBatchError(f"compression codec {number} does not exist")
        return _CODECS[number]

    @property
    def log_append_time(self) -> bool:
        """Whether every record's timestamp is the batch's `max_timestamp`, set by the broker."""
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Whether this is a control batch, such as a transaction marker, rather than data."""
        return bool(self.attributes & CONTROL)

    @property
    def delete_horizon_ms(self) -> int | None:
        """The time from which on compaction may remove the batch's tombstones and markers; stored in the base
        timestamp."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None

    @property
    def has_producer(self) -> bool:
        """Whether an idempotent producer sent this, so that its sequence numbers count."""
        return self.producer_id > NO_PRODUCER


def following_sequence(sequence: int) -> int:
    return (sequence + 1) & _SEQUENCE_MAX


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`, exactly as written: nothing but the buffer's size is checked."""
    try:
        # Past BatchHeader's own __new__, which takes its thirteen arguments one by one: half the time.
        return tuple.__new__(BatchHeader, _HEADER.unpack_from(buffer, position))
    except struct.error as error:
        raise CorruptBatchError(
            f"a batch header takes {HEADER_SIZE} bytes; there are {len(buffer) - position}"
        ) from error


def headers(buffer: Buffer, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of every complete batch from `position` on; ends before a partial one."""
    end = len(buffer)
    while position + HEADER_SIZE <= end:
        header = read_header(buffer, position)
        require_sane(header)
        next_position = position + header.size
        if next_position > end:
            return
        yield position, header
        position = next_position


def require_sane(header: BatchHeader) -> None:
    """Raise CorruptBatchError for another magic, or a length shorter than a header."""
    if header.magic != MAGIC:
        raise CorruptBatchError(f"magic {header.magic} where a batch should begin; only {MAGIC} is known")
    if header.batch_length < _LENGTH_MIN:
        raise CorruptBatchError(
            f"a batch cannot have length {header.batch_length}; its header takes {_LENGTH_MIN}"
        )


def crc_holds(buffer: Buffer, position: int, header: BatchHeader) -> bool:
    """Whether the batch at `position` is complete and its checksum right."""
    end = position + header.size
    if header.batch_length < _LENGTH_MIN or end > len(buffer):
        return False
    return bool(crc32c(memoryview(buffer)[position + _CRC_STARTS : end]) == header.crc)


class PlacedBatch(NamedTuple):
    """A batch with its final offsets and leader epoch, as the buffers to be written one after the other."""

    header: BatchHeader
    buffers: tuple[Buffer, ...]


def place(batch: memoryview, header: BatchHeader, *, base_offset: int, leader_epoch: int) -> PlacedBatch:
    """The batch with the offset and leader epoch that the log gives it, in two buffers; nothing is copied.

    Bytes after the batch, which a produce request may carry, are left out.
    """
    length = header.batch_length
    # Built without the classes' own __new__, which take their arguments one by one: a third of the time.
    return tuple.__new__(
        PlacedBatch,
        (
            tuple.__new__(BatchHeader, (base_offset, length, leader_epoch, *header[3:])),
            (
                _PLACED.pack(base_offset, length, leader_epoch),
                batch[_PLACED_SIZE : length + _SIZE_BEFORE_LENGTH_COUNTS],
            ),
        ),
    )


def restamp(batch: Buffer, *, max_timestamp: int) -> bytes:
    """A copy of the batch with LogAppendTime: all its records have the broker's `max_timestamp`."""
    header = read_header(batch)
    changed = header._replace(attributes=header.attributes | LOG_APPEND_TIME, max_timestamp=max_timestamp)
    return seal(changed, memoryview(batch)[HEADER_SIZE : header.size])


def seal(header: BatchHeader, payload: Buffer) -> bytes:
    """The whole batch: `header`, with its length and CRC computed, and `payload`."""
    checksummed = _CHECKSUMMED.pack(*header[5:])
    crc = crc32c(payload, crc32c(checksummed))
    start = _BEFORE_CRC_COUNTS.pack(
        header.base_offset, _LENGTH_MIN + len(payload), header.leader_epoch, MAGIC, crc
    )
    return b"".join((start, checksummed, payload))


# -- what a client may produce -------------------------------------------------------------------------------

_ONLY_THE_BROKER_SETS = LOG_APPEND_TIME | DELETE_HORIZON | CONTROL
_LEGACY_LENGTH_MIN = 14  # of the smallest batch of any format; what is shorter is noise, not an old client
_LEGACY_MAGICS = (0, 1)


def check_produced(records: Buffer | None, *, size_max: int) -> BatchHeader | ErrorCode:
    """The header of the one batch in a produce request's `records`, or the error that Kafka answers.

    This is the "header" mode of validation: framing, magic, size, CRC, then the checks of `problem`. Bytes that follow
    the batch and are no complete batch themselves are ignored here and left out by `place`.
    """
    if records is not None and len(records) >= HEADER_SIZE:
        header = read_header(records)
        # One expression for a batch with nothing wrong; which error another one gets is found out step by step.
        if (
            header.batch_length + _SIZE_BEFORE_LENGTH_COUNTS == len(records) <= size_max
            and header.magic == MAGIC
            and header.base_offset == 0
            and header.last_offset_delta == header.record_count - 1 >= 0
            and not header.attributes & _ONLY_THE_BROKER_SETS
            and header.attributes & CODEC_MASK < len(_CODECS)
            and (header.producer_id <= NO_PRODUCER or header.base_sequence >= 0)
            and crc32c(memoryview(records)[_CRC_STARTS:]) == header.crc
        ):
            return header
    return _check_step_by_step(records, size_max)


def _check_step_by_step(records: Buffer | None, size_max: int) -> BatchHeader | ErrorCode:
    if records is None:
        return ErrorCode.INVALID_RECORD
    framing = _framing_problem(records, 0)
    if framing is not None:
        return framing
    if len(records) < HEADER_SIZE:
        return ErrorCode.INVALID_RECORD if records[16] in _LEGACY_MAGICS else ErrorCode.CORRUPT_MESSAGE
    header = read_header(records)
    if header.size < len(records):
        second = _framing_problem(records, header.size)
        if second is None:
            return ErrorCode.INVALID_RECORD
        if second is ErrorCode.CORRUPT_MESSAGE:
            return second
    return problem(records, 0, header, size_max=size_max) or header


def problem(buffer: Buffer, position: int, header: BatchHeader, *, size_max: int) -> ErrorCode | None:
    """The error for a complete batch that a client produces, or None if it is valid."""
    if header.magic in _LEGACY_MAGICS or header.base_offset != 0:
        return ErrorCode.INVALID_RECORD
    if header.size > size_max:
        return ErrorCode.MESSAGE_TOO_LARGE
    if header.magic != MAGIC or not crc_holds(buffer, position, header):
        return ErrorCode.CORRUPT_MESSAGE
    if header.record_count <= 0 or header.last_offset_delta != header.record_count - 1:
        return ErrorCode.INVALID_RECORD
    if header.attributes & _ONLY_THE_BROKER_SETS:
        return ErrorCode.INVALID_RECORD
    if header.producer_id > NO_PRODUCER and header.base_sequence < 0:
        return ErrorCode.INVALID_RECORD
    if header.attributes & CODEC_MASK >= len(_CODECS):
        return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    return None


def is_one_batch(records: Buffer | None) -> bool:
    """Whether there is exactly one complete batch of magic 2, valid or not."""
    if records is None or _framing_problem(records, 0) is not None or len(records) < HEADER_SIZE:
        return False
    header = read_header(records)
    return header.magic == MAGIC and _framing_problem(records, header.size) is not None


def _framing_problem(records: Buffer, position: int) -> ErrorCode | None:
    """None if a complete batch of some format begins at `position`; INVALID_RECORD if it is cut short or
    nothing is there; CORRUPT_MESSAGE if what is there cannot be one."""
    available = len(records) - position
    if available < _LENGTH.size:
        return ErrorCode.INVALID_RECORD
    (length,) = _LENGTH.unpack_from(records, position)
    if length < _LEGACY_LENGTH_MIN:
        return ErrorCode.CORRUPT_MESSAGE
    if available < _LENGTH_AND_MAGIC.size:
        return ErrorCode.INVALID_RECORD
    _, magic = _LENGTH_AND_MAGIC.unpack_from(records, position)
    if not 0 <= magic <= MAGIC:
        return ErrorCode.CORRUPT_MESSAGE
    if length + _SIZE_BEFORE_LENGTH_COUNTS > available:
        return ErrorCode.INVALID_RECORD
    return None
