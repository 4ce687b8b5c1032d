"""`penstock produce`: lines of text, JSON lines or whole files become records."""

import os
import select
import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from penstock.base.errors import UserError
from penstock.base.ids import TopicPartition
from penstock.cli.output import count_of, print_json, print_lines
from penstock.cli.parsing import (
    Parser,
    UsageError,
    add_connection,
    add_json,
    name_and_value,
    not_negative,
    unescaped,
)
from penstock.cli.produce_input import JsonLines, LineCutter, LineError, LineFormat, TextLines
from penstock.cli.produce_spooled import SpooledSending, opened, report
from penstock.cli.progress import Progress
from penstock.cli.session import connected, find_topics
from penstock.cli.spool import Spool
from penstock.client.batch_limits import MESSAGE_MAX, Limit, find_limit
from penstock.client.blocking import BlockingClient
from penstock.client.cluster import KnownTopic
from penstock.client.errors import AnsweredError
from penstock.client.produce import ACKS_ALL, ACKS_LEADER, ACKS_NONE
from penstock.client.producer import NewRecord, Producer, RecordTooLargeError, Tally
from penstock.records.compression import Codec
from penstock.records.record import Headers

_ACKS = {"all": ACKS_ALL, "1": ACKS_LEADER, "0": ACKS_NONE}
_READ_BYTES = 1 << 20
_STDIN = "-"


def add_arguments(parser: Parser) -> None:
    parser.usage = f"{parser.prog} TOPIC [FILE ...] [options]"
    parser.description = "Send each line of the files, or of stdin, as a record."
    parser.add_argument("topic", metavar="TOPIC", help="the topic to write to")
    parser.add_argument("files", metavar="FILE", nargs="*", default=[], help="read these; - is stdin")
    parser.add_argument(
        "-k",
        "--key-separator",
        type=unescaped,
        metavar="TEXT",
        help="lines are key, TEXT, value; \\t is a tab",
    )
    parser.add_argument(
        "--null-value", metavar="TEXT", help="a value of just TEXT is sent as null, a tombstone"
    )
    parser.add_argument(
        "-H",
        "--header",
        type=name_and_value,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a header for every record; may be repeated",
    )
    parser.add_argument(
        "-p",
        "--partition",
        type=not_negative,
        metavar="N",
        help="to this one (default: by key, else in turns)",
    )
    parser.add_argument(
        "-z",
        "--compression",
        choices=[codec.name.lower() for codec in Codec],
        default="none",
        help="none, gzip, snappy, lz4 or zstd",
        metavar="CODEC",
    )
    parser.add_argument(
        "--acks", choices=_ACKS, default="all", metavar="ACKS", help="acknowledgements: all (default), 1 or 0"
    )
    parser.add_argument("--spool", type=Path, metavar="DIR", help="keep records here until acknowledged")
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument(
        "--json-lines", action="store_true", help="lines are JSON, as `consume --json` prints them"
    )
    kinds.add_argument("--whole", action="store_true", help="each file is one record")
    add_connection(parser)
    add_json(parser, "print the result as JSON")


def run(arguments: Namespace) -> int:
    if arguments.spool is not None:
        return _run_with_spool(arguments)
    with connected(arguments) as blocking:
        (topic,) = blocking.run(find_topics(blocking.client, [arguments.topic], could_be_made=True))
        _require_partition(topic, arguments.partition)
        producer = Producer(
            blocking.client, codec=Codec[arguments.compression.upper()], acks=_ACKS[arguments.acks]
        )
        progress = Progress()
        try:
            for given in _inputs(arguments):
                _send(blocking, producer, topic, given)
                total = _total(producer)
                progress.show_counts(record_count=total.record_count, bytes_count=total.bytes_count)
        except (LineError, AnsweredError) as error:
            sent = count_of(_total(producer).record_count, "record")
            raise UserError(f"{error}; {sent} had been sent before") from error
        finally:
            progress.clear()
    _report(arguments, producer)
    return 0


def _run_with_spool(arguments: Namespace) -> int:
    if arguments.acks != "all":
        raise UsageError(
            "--spool needs acks=all, so that no record is dropped before it is safe: leave out --acks"
        )
    with opened(Spool(arguments.spool)) as spool, connected(arguments) as blocking:
        producer = Producer(blocking.client, codec=Codec[arguments.compression.upper()])
        sending = SpooledSending(blocking, producer, spool)
        sending.send_all(arguments.topic, (given.records for given in _inputs(arguments)))
        report(arguments.topic, sending, spool, as_json=arguments.json)
    return 0


class _Given(NamedTuple):
    """Records of one input; `first_line` is the first one's, None where a whole file is one record."""

    records: list[NewRecord]
    name: str
    first_line: int | None

    def place(self, record: NewRecord) -> str:
        """The file and line of a record."""
        if self.first_line is None:
            return self.name
        number = next(number for number, each in enumerate(self.records) if each is record)
        return f"line {self.first_line + number} of {self.name}"


def _send(blocking: BlockingClient, producer: Producer, topic: KnownTopic, given: _Given) -> None:
    for record in given.records:
        _require_partition(topic, record.partition)
    try:
        blocking.run(producer.send(topic.name, given.records))
    except RecordTooLargeError as error:
        limit = blocking.run(find_limit(blocking.client, error.partition, error.size))
        raise LineError(f"{given.place(error.record)} cannot be sent: {_too_large(error, limit)}") from error


def _too_large(error: RecordTooLargeError, limit: Limit | None) -> str:
    made = f"it makes a batch of {error.size:,} bytes"
    topic = error.partition.topic
    if limit is None:
        return f"{made}, and {error}"
    if limit.setting != MESSAGE_MAX:
        return f"{made}, and the broker takes requests of {limit.value:,} ({limit.setting}); compress it (-z zstd)"
    return (
        f"{made}, and topic {topic} takes {limit.value:,} ({limit.setting}); compress it (-z zstd), or raise that "
        f"with `penstock topic alter {topic} --config {limit.setting}={error.size}`"
    )


def _require_partition(topic: KnownTopic, partition: int | None) -> None:
    if partition is not None and partition >= len(topic.partitions):
        raise LineError(
            f"topic {topic.name} has no partition {partition}; the last one is {len(topic.partitions) - 1}"
        )


def _inputs(arguments: Namespace) -> Iterator[_Given]:
    """The records of all inputs, as many at a time as can be read without waiting."""
    headers: Headers = tuple((name, value.encode()) for name, value in arguments.header)
    for name in arguments.files or [_STDIN]:
        with _open(name) as file:
            if arguments.whole:
                record = NewRecord(None, file.read(), headers, None, arguments.partition)
                yield _Given([record], _shown(name), None)
            else:
                yield from _line_records(name, _chunks(file.fileno()), _line_format(arguments, headers))


def _line_format(arguments: Namespace, headers: Headers) -> LineFormat:
    if arguments.json_lines:
        return JsonLines(headers, arguments.partition)
    separator, null_value = arguments.key_separator, arguments.null_value
    return TextLines(
        None if separator is None else separator.encode(),
        None if null_value is None else null_value.encode(),
        headers,
        arguments.partition,
    )


def _line_records(name: str, chunks: Iterable[bytes], line_format: LineFormat) -> Iterator[_Given]:
    cutter = LineCutter()
    line_count = 0

    def records(lines: list[bytes]) -> _Given:
        nonlocal line_count
        made = _Given([], _shown(name), line_count + 1)
        for line in lines:
            line_count += 1
            try:
                made.records.append(line_format.record(line))
            except LineError as error:
                raise LineError(f"line {line_count} of {made.name} cannot be sent: {error}") from error
        return made

    for chunk in chunks:
        if lines := cutter.feed(chunk):
            yield records(lines)
    if lines := cutter.finish():
        yield records(lines)


def _shown(name: str) -> str:
    return "stdin" if name == _STDIN else name


def _open(name: str) -> BinaryIO:
    if name != _STDIN:
        return open(name, "rb")
    if sys.stdin.isatty():
        sys.stderr.write("one record per line; Ctrl-D ends\n")
    return open(sys.stdin.fileno(), "rb", closefd=False)


def _chunks(descriptor: int) -> Iterator[bytes]:
    """Chunks of a file or pipe, each as large as can be read without waiting: lines of a slow writer are sent one
    by one, those of a fast one together.
    """
    while data := os.read(descriptor, _READ_BYTES):
        parts, size = [data], len(data)
        while size < _READ_BYTES and _has_more(descriptor):
            data = os.read(descriptor, _READ_BYTES - size)
            if not data:
                break
            parts.append(data)
            size += len(data)
        yield b"".join(parts)


def _has_more(descriptor: int) -> bool:
    return bool(select.select([descriptor], [], [], 0)[0])


def _total(producer: Producer) -> Tally:
    tallies = producer.tallies.values()
    return Tally(sum(each.record_count for each in tallies), sum(each.bytes_count for each in tallies))


def _report(arguments: Namespace, producer: Producer) -> None:
    tallies = sorted(producer.tallies.items())
    if arguments.json:
        print_json({"topic": arguments.topic, "partitions": [_as_json(*item) for item in tallies]})
        return
    count = _total(producer).record_count
    places = ", ".join(_place(*item) for item in tallies)
    print_lines(
        [f"sent {count_of(count, 'record')} to {arguments.topic}" + (f" ({places})" if places else "")]
    )


def _place(partition: TopicPartition, tally: Tally) -> str:
    if tally.first_offset < 0:
        return f"partition {partition.partition}"
    offsets = f"offsets {tally.first_offset}-{tally.last_offset}"
    if tally.first_offset == tally.last_offset:
        offsets = f"offset {tally.first_offset}"
    return f"partition {partition.partition}: {offsets}"


def _as_json(partition: TopicPartition, tally: Tally) -> dict[str, object]:
    return {
        "partition": partition.partition,
        "records": tally.record_count,
        "first_offset": tally.first_offset if tally.first_offset >= 0 else None,
        "last_offset": tally.last_offset if tally.last_offset >= 0 else None,
    }
