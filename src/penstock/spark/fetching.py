"""Reads one task's ranges, from the broker to Arrow. In tasks.

Batches are fetched raw, their CRCs checked, decompressed and decoded into columns, without a Python object per record.
While a response is processed, the next fetches are in flight: for the rest of the range, and for the beginnings of the
ranges after it. Records of aborted transactions and control records are skipped.
"""

import asyncio
import gc
import logging
from collections import deque
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Final, NamedTuple

import pyarrow as pa
from pyspark.sql.types import StructType

from penstock.base.errors import ErrorCode, UserError
from penstock.base.ids import TopicPartition
from penstock.client.blocking import BlockingClient
from penstock.client.client import Client
from penstock.client.errors import AnsweredError, ClientError, NoAnswerError
from penstock.client.fetch import Fetched, FetchLimits, fetch, read_batches
from penstock.client.offsets import EARLIEST, LATEST, find_offsets
from penstock.records.batch import headers
from penstock.spark.columns import Gathering
from penstock.spark.connecting import ClusterAddress, connected
from penstock.spark.planning import Lost, OffsetRange, answer_bytes_min
from penstock.world.tasks import cancel_and_wait

log = logging.getLogger("penstock.spark")

_WAIT_MS: Final = 500
_UNDER_WAY_MAX: Final = 4  # requests in flight of a task, which bounds the memory of unprocessed responses
_FULL_WAIT_MS: Final = (
    50  # the wait for a response that should be there at once, unless the size was guessed wrong
)
_GONE: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
_GONE_TRIES: Final = 5


class DataLossError(UserError):
    """Offsets to read do not exist any more, and the option failOnDataLoss is true."""


class ReadRules(NamedTuple):
    """The options that tasks need."""

    committed_only: bool
    fail_on_data_loss: bool
    fetch_bytes: int
    decompressed_bytes_max: int


def report_loss(lost: Lost, *, fail: bool) -> None:
    """Raise DataLossError, or warn, as failOnDataLoss says."""
    if fail:
        raise DataLossError(
            f"data is lost: {lost}. With .option('failOnDataLoss', 'false') the query goes on without it"
        )
    log.warning("data loss; the query continues without these records (failOnDataLoss=false): %s", lost)


def read_ranges(
    cluster: ClusterAddress, wanted: Iterable[OffsetRange], rules: ReadRules, schema: StructType
) -> Iterator[pa.RecordBatch]:
    """The records of ranges, in order, as Arrow batches with the columns of a schema."""
    with connected(cluster) as blocking:
        prefetch = _Prefetch(blocking, wanted, rules)
        try:
            for each in prefetch.ranges:
                yield from _batches(prefetch.answers(each), each, rules, schema)
        finally:
            prefetch.close()
    _freeze_loaded_objects()


@cache
def _freeze_loaded_objects() -> None:
    """Exclude the objects that exist after the first task from garbage collection.

    Spark's workers collect garbage after every task, which takes 25 ms with pyspark and Arrow loaded, four times as
    long as a small task."""
    gc.freeze()


def _batches(
    answers: Iterable[Fetched], wanted: OffsetRange, rules: ReadRules, schema: StructType
) -> Iterator[pa.RecordBatch]:
    gathering = Gathering(
        schema,
        wanted.partition,
        start=wanted.start,
        end=wanted.end,
        decompressed_bytes_max=rules.decompressed_bytes_max,
    )
    for fetched in answers:
        for header, batch in read_batches(fetched):
            if not header.is_control and len(batch) and header.base_offset < wanted.end:
                yield from gathering.add(batch, header)
    yield from gathering.rest()


class _Prefetch:
    """Fetches ranges in order, with the next requests in flight while a response is processed."""

    def __init__(self, blocking: BlockingClient, wanted: Iterable[OffsetRange], rules: ReadRules) -> None:
        self.ranges = [each for each in wanted if each.size > 0]
        self._blocking = blocking
        self._rules = rules
        self._coming = deque(self.ranges)  # ranges that are not requested yet
        self._under_way: deque[asyncio.Task[Fetched]] = (
            deque()
        )  # in the order in which responses are processed

    def answers(self, wanted: OffsetRange) -> Iterator[Fetched]:
        """The responses of one range. The caller has to read the ranges in order, each to its end."""
        position = wanted.start
        while position < wanted.end:
            fetched, position = self._blocking.run(self._answer(wanted, position))
            yield fetched

    def close(self) -> None:
        """Cancel the requests in flight."""
        if self._under_way:
            self._blocking.run(self._call_off())

    async def _call_off(self) -> None:
        await cancel_and_wait(*self._under_way)
        self._under_way.clear()

    async def _answer(self, wanted: OffsetRange, position: int) -> tuple[Fetched, int]:
        """The response at a position, and the next position. Both in one call, since entering the loop is slow."""
        self._ask_for_beginnings()
        fetched = await self._under_way.popleft()
        following, size = _progress(fetched, position)
        if following < wanted.end:
            min_bytes = answer_bytes_min(
                bytes_read=size,
                offsets_read=following - position,
                offsets_left=wanted.end - following,
                bytes_max=self._rules.fetch_bytes,
            )
            self._under_way.appendleft(self._ask(wanted, following, min_bytes=min_bytes))
        self._ask_for_beginnings()
        # The next requests are sent before this response is decoded.
        await self._blocking.client.loop.sleep(0)
        return fetched, following

    def _ask_for_beginnings(self) -> None:
        while self._coming and len(self._under_way) < _UNDER_WAY_MAX:
            wanted = self._coming.popleft()
            self._under_way.append(self._ask(wanted, wanted.start, min_bytes=1))

    def _ask(self, wanted: OffsetRange, position: int, *, min_bytes: int) -> "asyncio.Task[Fetched]":
        client, fetch_bytes = self._blocking.client, self._rules.fetch_bytes
        limits = FetchLimits(
            max_wait_ms=_WAIT_MS if min_bytes == 1 else _FULL_WAIT_MS,
            min_bytes=min_bytes,
            max_bytes=fetch_bytes,
            partition_max_bytes=fetch_bytes,
        )
        return client.loop.create_task(_fetch(client, wanted, position, self._rules, limits))


def _progress(fetched: Fetched, position: int) -> tuple[int, int]:
    """The next offset behind a response, and the bytes of its batches."""
    size = 0
    for start, header in headers(fetched.records):
        position = max(position, header.next_offset)
        size = start + header.size
    if not len(fetched.records):
        position = max(position, fetched.log_start_offset)
    return position, size


async def _fetch(
    client: Client, wanted: OffsetRange, position: int, rules: ReadRules, limits: FetchLimits
) -> Fetched:
    """Fetch at a position: a response with records, or an empty one with the offset to skip to."""
    partition = wanted.partition
    deadline = client.loop.time() + client.settings.patience_ms / 1000
    tries = 0
    while True:
        try:
            fetched = await _fetch_once(client, partition, position, rules, limits)
            if len(fetched.records):
                return fetched
            await _check_end(client, wanted, position)
            problem: ClientError = NoAnswerError(f"no records came from {partition}, offset {position}")
        except AnsweredError as error:
            if error.refusal.code is ErrorCode.OFFSET_OUT_OF_RANGE:
                return await _skip_lost(client, wanted, position, rules)
            if error.refusal.code in _GONE and tries >= _GONE_TRIES:
                lost = Lost(partition, position, wanted.end, "the topic was deleted")
                report_loss(lost, fail=rules.fail_on_data_loss)
                return _nothing(partition, wanted.end)
            problem = error
        except ClientError as error:
            problem = error
        if not problem.retriable or client.loop.time() >= deadline:
            raise problem
        await client.recover(problem, tries)
        tries += 1


async def _fetch_once(
    client: Client, partition: TopicPartition, position: int, rules: ReadRules, limits: FetchLimits
) -> Fetched:
    (node_id,) = await client.leaders([partition])
    (fetched,) = await fetch(
        client, node_id, {partition: position}, limits, committed_only=rules.committed_only
    )
    if fetched.refusal is not None:
        raise AnsweredError(fetched.refusal, f"fetch from {partition}")
    return fetched


async def _check_end(client: Client, wanted: OffsetRange, position: int) -> None:
    """Report data loss if the log now ends before a position that existed when the range was planned."""
    partition = wanted.partition
    end = (await find_offsets(client, {partition: LATEST}))[partition]
    if end < wanted.end:
        lost = Lost(partition, max(position, end), wanted.end, f"the log ends at offset {end} now")
        report_loss(
            lost, fail=True
        )  # truncated offsets may be reused by other records: they cannot be skipped


async def _skip_lost(client: Client, wanted: OffsetRange, position: int, rules: ReadRules) -> Fetched:
    partition = wanted.partition
    start = (await find_offsets(client, {partition: EARLIEST}))[partition]
    if start <= position:
        await _check_end(client, wanted, position)
        return _nothing(partition, position)
    lost = Lost(partition, position, min(start, wanted.end), "deleted (retention, or by hand)")
    report_loss(lost, fail=rules.fail_on_data_loss)
    return _nothing(partition, start)


def _nothing(partition: TopicPartition, next_offset: int) -> Fetched:
    """A response without records, after which reading continues at an offset."""
    return Fetched(partition, memoryview(b""), high_watermark=-1, log_start_offset=next_offset)
