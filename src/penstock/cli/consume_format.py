"""How `penstock consume` prints a record: chosen parts in a line, or JSON.

A line has the record's keys, values and headers as bytes. `consume_print` decodes them for a terminal.
"""

import os
from collections.abc import Callable, Sequence

from penstock.base.ids import TopicPartition
from penstock.cli.output import format_time, json_bytes, json_line
from penstock.records.record import Record

Format = Callable[[TopicPartition, Record], bytes]


def record_as_json(record: Record) -> dict[str, object]:
    """A record's own fields, as `produce --json-lines` reads them."""
    return {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": json_bytes(record.key),
        "value": json_bytes(record.value),
        "headers": [[name, json_bytes(value)] for name, value in record.headers],
    }


def json_format(partition: TopicPartition, record: Record) -> bytes:
    """A line of JSON."""
    fields = {"topic": partition.topic, "partition": partition.partition, **record_as_json(record)}
    return json_line(fields).encode()


def line_format(parts: Sequence[str], separator: str) -> Format:
    """A line with the chosen parts of a record, in the order given."""
    if list(parts) == ["value"]:
        return lambda _partition, record: _whole(record.value)
    renderers = [PARTS[part] for part in parts]
    between = os.fsencode(separator)
    return lambda partition, record: between.join([render(partition, record) for render in renderers])


def _whole(data: bytes | None) -> bytes:
    return b"null" if data is None else bytes(data)


def _headers(_partition: TopicPartition, record: Record) -> bytes:
    return b",".join(b"%b=%b" % (name.encode(), _whole(value)) for name, value in record.headers)


PARTS: dict[str, Format] = {
    "topic": lambda partition, _record: partition.topic.encode(),
    "partition": lambda partition, _record: b"%d" % partition.partition,
    "offset": lambda _partition, record: b"%d" % record.offset,
    "timestamp": lambda _partition, record: format_time(record.timestamp).encode(),
    "key": lambda _partition, record: _whole(record.key),
    "value": lambda _partition, record: _whole(record.value),
    "headers": _headers,
}
