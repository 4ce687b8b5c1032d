"""How `penstock consume` prints a record: chosen parts in a line, or JSON."""

from collections.abc import Callable, Sequence

from penstock.base.ids import TopicPartition
from penstock.cli.output import format_time, json_bytes, json_line, readable
from penstock.records.record import Record

Format = Callable[[TopicPartition, Record], str]


def record_as_json(record: Record) -> dict[str, object]:
    """A record's own fields, as `produce --json-lines` reads them."""
    return {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": json_bytes(record.key),
        "value": json_bytes(record.value),
        "headers": [[name, json_bytes(value)] for name, value in record.headers],
    }


def json_format(partition: TopicPartition, record: Record) -> str:
    """A line of JSON."""
    return json_line({"topic": partition.topic, "partition": partition.partition, **record_as_json(record)})


def text_format(parts: Sequence[str], separator: str) -> Format:
    """The parts of a record, in the order they were asked for."""
    if list(parts) == ["value"]:
        return lambda _partition, record: readable(record.value)
    renderers = [PARTS[part] for part in parts]
    return lambda partition, record: separator.join(render(partition, record) for render in renderers)


def _headers(_partition: TopicPartition, record: Record) -> str:
    return ",".join(f"{name}={readable(value)}" for name, value in record.headers)


PARTS: dict[str, Format] = {
    "topic": lambda partition, _record: partition.topic,
    "partition": lambda partition, _record: str(partition.partition),
    "offset": lambda _partition, record: str(record.offset),
    "timestamp": lambda _partition, record: format_time(record.timestamp),
    "key": lambda _partition, record: readable(record.key),
    "value": lambda _partition, record: readable(record.value),
    "headers": _headers,
}
