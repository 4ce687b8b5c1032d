"""`penstock consume`: prints the records of a topic between two positions, or without end."""

import sys
import time
from argparse import ArgumentTypeError, Namespace
from collections.abc import Mapping

from penstock.base.errors import ErrorCode, UserError
from penstock.base.ids import TopicPartition
from penstock.cli.consume_format import PARTS, json_format, line_format
from penstock.cli.consume_group import LIMITS, GroupReading
from penstock.cli.consume_print import Printer
from penstock.cli.output import format_time
from penstock.cli.parsing import (
    Parser,
    UsageError,
    add_connection,
    add_json,
    partition_list,
    positive,
    unescaped,
)
from penstock.cli.positions import End, Position, parse_position, resolve
from penstock.cli.session import connected, find_partitions, find_topics, report_outages
from penstock.cli.signals import run_until_ended
from penstock.client.client import Client
from penstock.client.fetch import Fetched, read_batches
from penstock.client.fetcher import Fetcher
from penstock.client.offsets import EARLIEST, LATEST, NO_OFFSET, AtOffset, AtTime, find_offsets
from penstock.client.outages import Outages

_EMPTY_ANSWERS_MAX = 2


def add_arguments(parser: Parser) -> None:
    parser.usage = f"{parser.prog} TOPIC [options]"
    parser.description = "Print a topic's records, one per line, up to its present end."
    parser.add_argument("topic", metavar="TOPIC", help="the topic to read")
    positions = "beginning (default), end, an offset, -10 (from the end), -1h (ago), 2026-11-16T08:30, 1763281800000ms"
    parser.add_signed_argument("--from", dest="start", metavar="POSITION", help=positions)
    parser.add_signed_argument(
        "--to", dest="stop", metavar="POSITION", help="stop before this position (default end)"
    )
    parser.add_argument("-n", "--max-messages", type=positive, metavar="N", help="stop after N records")
    parser.add_argument("-f", "--follow", action="store_true", help="wait for new records at the end")
    parser.add_argument(
        "-p", "--partition", type=partition_list, metavar="LIST", help="only these, as in 0,2,5-7"
    )
    parser.add_argument(
        "--print",
        dest="parts",
        type=_parts,
        metavar="PARTS",
        default=["value"],
        help="some of " + ",".join(PARTS),
    )
    parser.add_argument(
        "--separator", type=unescaped, metavar="TEXT", default="\t", help="between the parts (default: a tab)"
    )
    parser.add_argument("-g", "--group", metavar="GROUP", help="read as a member of this group, and commit")
    parser.add_argument("--committed", action="store_true", help="only committed records (read_committed)")
    add_connection(parser)
    add_json(parser, "an object per line; non-UTF-8 bytes as base64")


def run(arguments: Namespace) -> int:
    as_line = json_format if arguments.json else line_format(arguments.parts, arguments.separator)
    printer = Printer(as_line, is_text=arguments.json, count_max=arguments.max_messages)
    if arguments.group is not None:
        return _run_in_group(arguments, printer)
    now_ms = time.time_ns() // 1_000_000
    start = parse_position(arguments.start or End.BEGINNING.value, now_ms=now_ms)
    stop = None if arguments.stop is None else parse_position(arguments.stop, now_ms=now_ms)
    if stop is not None and arguments.follow:
        raise UsageError("--follow and --to exclude each other")
    with connected(arguments) as blocking:
        client = blocking.client
        partitions = blocking.run(find_partitions(client, arguments.topic, arguments.partition))
        starts = blocking.run(resolve(client, partitions, start))
        stops: dict[TopicPartition, int] = {}
        if not arguments.follow:
            stops = blocking.run(
                resolve(client, partitions, stop or End.END, committed_only=arguments.committed)
            )
        blocking.run(_warn_if_beyond_the_end(client, start, starts))
        reading = _Reading(
            client,
            starts,
            stops,
            printer=printer,
            outages=report_outages(client),
            committed_only=arguments.committed,
        )
        if arguments.follow:
            client.retry_without_limit()
        run_until_ended(blocking, reading.run())
    return 0


def _run_in_group(arguments: Namespace, printer: Printer) -> int:
    for name, value in (("--to", arguments.stop), ("--partition", arguments.partition)):
        if value is not None:
            raise UsageError(f"the group's assignment decides what is read: leave out {name}")
    if arguments.start not in (None, End.BEGINNING.value, End.END.value):
        raise UsageError(
            "reading begins at the group's committed offsets; --from may be beginning or end, "
            "for partitions without a committed offset"
        )
    with connected(arguments) as blocking:
        blocking.run(find_topics(blocking.client, [arguments.topic]))
        reading = GroupReading(
            blocking.client,
            arguments.group,
            arguments.topic,
            printer=printer,
            outages=report_outages(blocking.client),
            follow=arguments.follow,
            begin_at=LATEST if arguments.start == End.END.value else EARLIEST,
            committed_only=arguments.committed,
        )
        if arguments.follow:
            blocking.client.retry_without_limit()
        run_until_ended(blocking, reading.run())
    return 0


def _parts(text: str) -> list[str]:
    parts = text.split(",")
    for part in parts:
        if part not in PARTS:
            raise ArgumentTypeError(f"{part!r} is none of {', '.join(PARTS)}")
    return parts


async def _warn_if_beyond_the_end(
    client: Client, place: Position, starts: Mapping[TopicPartition, int]
) -> None:
    """Warn on stderr that the start offset lies beyond the end, which explains an empty output."""
    if isinstance(place, AtOffset):
        beyond = [f"{each} ({end})" for each, end in starts.items() if end < place.offset]
        if beyond:
            more = f" and {len(beyond) - 3} more" if len(beyond) > 3 else ""
            ends = "its end" if len(beyond) == 1 else "their ends"
            sys.stderr.write(
                f"penstock: offset {place.offset} is beyond the end of {', '.join(beyond[:3])}{more}; "
                f"reading begins at {ends}\n"
            )
    elif isinstance(place, AtTime):
        found = await find_offsets(client, dict.fromkeys(starts, place.timestamp_ms))
        if found and all(offset == NO_OFFSET for offset in found.values()):
            (topic,) = {each.topic for each in found}
            time_ = format_time(place.timestamp_ms)
            sys.stderr.write(f"penstock: {topic} has no record from {time_} on; reading begins at its end\n")


class _Reading:
    """Reads partitions until each has reached its stop offset; without one, forever."""

    def __init__(
        self,
        client: Client,
        starts: Mapping[TopicPartition, int],
        stops: Mapping[TopicPartition, int],
        *,
        printer: Printer,
        outages: Outages,
        committed_only: bool,
    ) -> None:
        self._client = client
        self._stops = stops
        self._printer = printer
        self._outages = outages
        unread = {
            each: offset for each, offset in starts.items() if each not in stops or offset < stops[each]
        }
        self._fetcher = Fetcher(client, unread, limits=LIMITS, committed_only=committed_only)
        self._empty_answers = 0

    async def run(self) -> None:
        try:
            while self._fetcher.positions and not self._printer.is_full:
                answers = await self._fetcher.poll()
                if answers:
                    self._outages.answered()
                for fetched in answers:
                    await self._take(fetched)
                self._leave_empty_partitions(answers)
                self._printer.show()
        finally:
            self._printer.close()
            await self._fetcher.close()

    async def _take(self, fetched: Fetched) -> None:
        partition = fetched.partition
        if fetched.refusal is not None:
            assert fetched.refusal.code == ErrorCode.OFFSET_OUT_OF_RANGE
            await self._go_on_at_the_start(partition)
            return
        for header, batch in read_batches(fetched):
            if self._printer.is_full or partition not in self._fetcher.positions:
                return
            position = self._fetcher.positions[partition]
            self._advance(
                partition,
                self._printer.print_batch(
                    partition, header, batch, from_offset=position, stop=self._stops.get(partition)
                ),
            )

    def _advance(self, partition: TopicPartition, offset: int) -> None:
        stop = self._stops.get(partition)
        if stop is not None and offset >= stop:
            self._fetcher.leave(partition)
        else:
            self._fetcher.advance(partition, offset)

    async def _go_on_at_the_start(self, partition: TopicPartition) -> None:
        """Records were deleted before we read them: say so, and go on at the log start offset."""
        offset = self._fetcher.positions[partition]
        start = (await resolve(self._client, [partition], End.BEGINNING))[partition]
        if start <= offset:
            raise UserError(f"{partition} was truncated: its end offset is below {offset} now")
        sys.stderr.write(
            f"penstock: {partition}: offsets {offset} to {start - 1} have been deleted meanwhile\n"
        )
        self._advance(partition, start)

    def _leave_empty_partitions(self, answers: list[Fetched]) -> None:
        """Stop reading partitions where compaction left no records below the stop offset."""
        if any(len(fetched.records) for fetched in answers):
            self._empty_answers = 0
            return
        self._empty_answers += bool(answers)
        if self._empty_answers < _EMPTY_ANSWERS_MAX:
            return
        for fetched in answers:
            stop = self._stops.get(fetched.partition)
            if stop is not None and fetched.high_watermark >= stop:
                self._fetcher.leave(fetched.partition)
