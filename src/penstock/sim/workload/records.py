"""Messages as records and back. The number travels in a header, so that a tombstone has one too."""

from penstock.client.producer import NewRecord
from penstock.records.record import Record
from penstock.sim.checkers import SentMessage

_HEADER = "number"
_UNREADABLE = -1

# What a batch and a record take at most, beside key and value, however they are compressed.
_BATCH_OVERHEAD_BYTES = 100
_RECORD_OVERHEAD_BYTES = 50


def to_record(message: SentMessage, *, partition: int, value_bytes: int) -> NewRecord:
    key = None if message.key is None else message.key.encode()
    value = None if message.tombstone else _value(message.number, value_bytes)
    return NewRecord(key, value, ((_HEADER, b"%d" % message.number),), partition=partition)


def to_message(record: Record) -> SentMessage:
    """What was read; a record that no actor can have sent has the number -1."""
    number = _number(record)
    key = None if record.key is None else bytes(record.key).decode("utf-8", "replace")
    if record.value is not None and bytes(record.value) != _value(number, len(record.value)):
        number = _UNREADABLE
    return SentMessage(number, key, record.value is None)


def size_bytes_max(messages: tuple[SentMessage, ...], value_bytes: int) -> int:
    """What a batch of them takes in a log, at most."""
    keys = sum(len(message.key or "") for message in messages)
    return _BATCH_OVERHEAD_BYTES + keys + len(messages) * (_RECORD_OVERHEAD_BYTES + value_bytes)


def _value(number: int, count: int) -> bytes:
    pattern = b"%d." % number
    return (pattern * (count // len(pattern) + 1))[:count]


def _number(record: Record) -> int:
    for name, value in record.headers:
        if name == _HEADER and value is not None and bytes(value).isdigit():
            return int(bytes(value))
    return _UNREADABLE
