"""One task's ranges, from the broker to Arrow. In tasks.

Batches come raw over the client, are held against their checksums, decompressed and laid out as columns; no Python
object is made per record. While an answer is worked on, the request for what follows is already under way. Records of
aborted transactions and control records are passed over.
"""

import asyncio
import logging
from collections.abc import Iterable, Iterator
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
from penstock.spark.connecting import Cluster, connected
from penstock.spark.planning import Lost, OffsetRange

log = logging.getLogger("penstock.spark")

_WAIT_MS: Final = 500
_GONE: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
_GONE_TRIES: Final = 5


class DataLossError(UserError):
    """Offsets that should have been read do not exist any more, and the option failOnDataLoss is on."""


class ReadRules(NamedTuple):
    """What tasks have to know of the options."""

    committed_only: bool
    fail_on_data_loss: bool
    fetch_bytes: int
    decompressed_bytes_max: int


def report_loss(lost: Lost, *, fail: bool) -> None:
    """Fail, or warn and go on, as the option says."""
    if fail:
        raise DataLossError(
            f"data is lost: {lost}. With .option('failOnDataLoss', 'false') the query goes on without it"
        )
    log.warning("data is lost, and the query goes on without it (failOnDataLoss=false): %s", lost)


def read_ranges(
    cluster: Cluster, wanted: Iterable[OffsetRange], rules: ReadRules, schema: StructType
) -> Iterator[pa.RecordBatch]:
    """The records of ranges, one after the other, as Arrow batches with the columns of a schema."""
    with connected(cluster) as blocking:
        for each in wanted:
            prefetch = _Prefetch(blocking, each, rules)
            try:
                yield from _batches(prefetch, each, rules, schema)
            finally:
                prefetch.close()


def _batches(
    answers: "_Prefetch", wanted: OffsetRange, rules: ReadRules, schema: StructType
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
    """The answers to fetches of a range, one after the other; one is always under way while the last is worked on."""

    def __init__(self, blocking: BlockingClient, wanted: OffsetRange, rules: ReadRules) -> None:
        self._blocking = blocking
        self._wanted = wanted
        self._rules = rules
        self._limits = FetchLimits(
            max_wait_ms=_WAIT_MS, max_bytes=rules.fetch_bytes, partition_max_bytes=rules.fetch_bytes
        )
        self._under_way: asyncio.Task[Fetched] | None = None

    def __iter__(self) -> Iterator[Fetched]:
        position = self._wanted.start
        while position < self._wanted.end:
            fetched, position = self._blocking.run(self._answer(position))
            yield fetched

    def close(self) -> None:
        """Nobody wants the answer that is under way."""
        if self._under_way is not None and not self._under_way.done():
            self._blocking.run(self._call_off(self._under_way))

    async def _call_off(self, task: "asyncio.Task[Fetched]") -> None:
        task.cancel()
        await asyncio.wait([task])

    async def _answer(self, position: int) -> tuple[Fetched, int]:
        """What lies at a position, and where it goes on. Both in one call: entering the loop has its price."""
        task, self._under_way = self._under_way or self._ask(position), None
        fetched = await task
        following = self._next_position(fetched, position)
        if following < self._wanted.end:
            # The request is on its way before the answer is opened.
            self._under_way = self._ask(following)
            await self._blocking.client.loop.sleep(0)
        return fetched, following

    def _ask(self, position: int) -> "asyncio.Task[Fetched]":
        client = self._blocking.client
        return client.loop.create_task(_fetch(client, self._wanted, position, self._rules, self._limits))

    def _next_position(self, fetched: Fetched, position: int) -> int:
        for _, header in headers(fetched.records):
            position = max(position, header.next_offset)
        if not len(fetched.records):
            position = max(position, fetched.log_start_offset)
        return position


async def _fetch(
    client: Client, wanted: OffsetRange, position: int, rules: ReadRules, limits: FetchLimits
) -> Fetched:
    """What lies at a position: an answer with records, or an empty one that says how far to skip."""
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
    """There is nothing at a position that was there when the range was planned: is the log shorter now?"""
    partition = wanted.partition
    end = (await find_offsets(client, {partition: LATEST}))[partition]
    if end < wanted.end:
        lost = Lost(partition, max(position, end), wanted.end, f"the log ends at offset {end} now")
        report_loss(lost, fail=True)  # what a crash has cut off may be written anew: nobody can skip that


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
    """An answer without records, behind which reading goes on at an offset."""
    return Fetched(partition, memoryview(b""), high_watermark=-1, log_start_offset=next_offset)
