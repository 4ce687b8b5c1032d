"""Sends one task's rows, from Arrow to the broker. In tasks.

Rows are encoded into batches per partition without a Python object each. Full batches are sent in rounds, one batch per
partition and request, one round after the other, so that order and sequence numbers hold through retries. While a round
is in flight the next rows are encoded. The bytes queued and in flight are bounded.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, NamedTuple

import pyarrow as pa

from penstock.base.errors import ErrorCode, Refusal, UserError
from penstock.base.ids import TopicPartition
from penstock.client.blocking import BlockingClient
from penstock.client.client import Client
from penstock.client.errors import AnsweredError, describe
from penstock.client.produce import ProduceResult, produce
from penstock.client.transaction_steps import ProducerIdentity
from penstock.records.batch import NO_PRODUCER, NO_SEQUENCE, read_header
from penstock.records.builder import build_batch
from penstock.records.columns import BatchWriter, NewRows, Writing
from penstock.records.compression import Codec
from penstock.records.record import Record, read_records
from penstock.spark.sink.rows import Share, Spread
from penstock.world.tasks import cancel_and_wait

_SEQUENCES: Final = 2**31
_ROUND_BYTES: Final = (
    2 << 20
)  # full batches are sent once they have this many bytes, before the end of the task's rows
_MISSING_TRIES: Final = 5
_UNPACKED_BYTES_MAX: Final = 256 << 20


class SendRules(NamedTuple):
    """The options that tasks need."""

    codec: Codec
    acks: int
    batch_bytes: int
    record_bytes_max: int
    buffer_bytes: int


class InName(NamedTuple):
    """The producer identity and transaction that batches are sent with."""

    identity: ProducerIdentity
    transactional_id: str | None = None
    produce_version_max: int | None = None
    announce: Callable[[Iterable[TopicPartition]], Awaitable[None]] | None = (
        None  # called before the first batch of each partition
    )


class Count(NamedTuple):
    """Counts what was acknowledged."""

    rows: int
    bytes: int


class _Sealed(NamedTuple):
    batch: bytes
    rows: int


class Sender:
    """Sends the rows of one task; `finish` returns when all are acknowledged."""

    def __init__(
        self, blocking: BlockingClient, spread: Spread, rules: SendRules, begin: Callable[[], InName]
    ) -> None:
        self._blocking = blocking
        self._spread = spread
        self._rules = rules
        self._begin = begin
        self._batch_bytes = min(rules.batch_bytes, rules.record_bytes_max)
        self._writers: dict[TopicPartition, BatchWriter] = {}
        self._sequences: dict[TopicPartition, int] = {}
        self._ready: dict[TopicPartition, deque[_Sealed]] = {}
        self._ready_bytes = 0
        self._name: InName | None = None
        self._route = _Route(blocking.client, rules)

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows, and send the batches that are full."""
        if not batch.num_rows:
            return
        if self._name is None:
            self._name = self._begin()
        now_ms = self._blocking.client.loop.now_ms()
        rows, shares = self._spread.take(batch)
        for share in shares:
            self._lay(rows, share, now_ms)
        if sum(writer.bytes_count for writer in self._writers.values()) > self._rules.buffer_bytes // 2:
            self._seal_all()
        if self._ready_bytes >= _ROUND_BYTES:
            self._send()

    def finish(self) -> Count:
        self._seal_all()
        self._send()
        return self._blocking.run(self._route.finish())

    def close(self) -> None:
        """Cancel the requests in flight."""
        self._blocking.run(self._route.close())

    def _lay(self, rows: NewRows, share: Share, now_ms: int) -> None:
        partition, which = share
        position = 0
        while True:
            writer = self._writers.get(partition)
            if writer is None:
                writer = self._writers[partition] = BatchWriter(bytes_max=self._batch_bytes)
            position = writer.add(rows, which, position, now_ms=now_ms)
            if position >= len(which):
                break
            self._seal(partition)
            self._spread.turn(partition)
            if self._ready_bytes >= self._rules.buffer_bytes // 2:
                self._send()

    def _seal(self, partition: TopicPartition) -> None:
        writer = self._writers.pop(partition)
        count, size = writer.count, writer.bytes_count
        if count == 1 and size > self._rules.record_bytes_max:
            raise UserError(
                f"a row for {partition} makes a record of {size} bytes, and records may have "
                f"{self._rules.record_bytes_max}: the option kafka.max.request.size sets this limit, and the "
                "topic's max.message.bytes another"
            )
        assert self._name is not None, "sealed before the transaction began"
        identity = self._name.identity
        sequence = self._sequences.get(partition, 0)
        sealed = writer.take(
            Writing(
                self._rules.codec, None, *identity, transactional=self._name.transactional_id is not None
            ),
            base_sequence=NO_SEQUENCE if identity.producer_id == NO_PRODUCER else sequence,
        )
        self._sequences[partition] = (sequence + count) % _SEQUENCES
        self._ready.setdefault(partition, deque()).append(_Sealed(sealed, count))
        self._ready_bytes += len(sealed)

    def _seal_all(self) -> None:
        for partition in list(self._writers):
            self._seal(partition)

    def _send(self) -> None:
        """Queue the full batches; waits only if too much is in flight."""
        ready, self._ready, self._ready_bytes = self._ready, {}, 0
        if not ready:
            return
        assert self._name is not None
        self._blocking.run(self._route.take(ready, self._name))
        self._batch_bytes = min(self._batch_bytes, self._route.batch_bytes_max)


class _Route:
    """Sends rounds of batches in order, one in flight at a time."""

    def __init__(self, client: Client, rules: SendRules) -> None:
        self.batch_bytes_max = rules.batch_bytes
        self._client = client
        self._rules = rules
        self._rounds: deque[tuple[dict[TopicPartition, _Sealed], InName]] = deque()
        self._bytes = 0  # queued and in flight
        self._worker: asyncio.Task[None] | None = None
        self._announced: set[TopicPartition] = set()
        self._rows_arrived = 0
        self._bytes_arrived = 0
        self._progress = asyncio.Event()

    async def take(self, ready: dict[TopicPartition, deque[_Sealed]], name: InName) -> None:
        while ready:
            round_ = {partition: sealed.popleft() for partition, sealed in ready.items()}
            self._rounds.append((round_, name))
            self._bytes += _size(round_)
            ready = {partition: sealed for partition, sealed in ready.items() if sealed}
        if self._worker is None or (self._worker.done() and not self._failed()):
            self._worker = self._client.loop.create_task(self._work())
        await self._client.loop.sleep(0)  # lets the request be sent before the next rows are encoded
        while self._bytes > self._rules.buffer_bytes // 2 and not self._worker.done():
            self._progress.clear()
            waiting = self._client.loop.create_task(self._progress.wait())
            await asyncio.wait([self._worker, waiting], return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
        if self._worker.done():
            self._worker.result()

    async def finish(self) -> Count:
        if self._worker is not None:
            await self._worker
        return Count(self._rows_arrived, self._bytes_arrived)

    async def close(self) -> None:
        self._rounds.clear()
        if self._worker is not None and not self._worker.done():
            await cancel_and_wait(self._worker)

    def _failed(self) -> bool:
        assert self._worker is not None
        return self._worker.cancelled() or self._worker.exception() is not None

    async def _work(self) -> None:
        while self._rounds:
            round_, name = self._rounds.popleft()
            await self._announce(round_, name)
            await self._send(round_, name)
            self._bytes -= _size(round_)
            self._progress.set()

    async def _announce(self, round_: Iterable[TopicPartition], name: InName) -> None:
        new = [partition for partition in round_ if partition not in self._announced]
        if new and name.announce is not None:
            await name.announce(new)
        self._announced.update(new)

    async def _send(self, round_: dict[TopicPartition, _Sealed], name: InName) -> None:
        results = await produce(
            self._client,
            {partition: sealed.batch for partition, sealed in round_.items()},
            acks=self._rules.acks,
            transactional_id=name.transactional_id,
            version_max=name.produce_version_max,
        )
        for partition, sealed in round_.items():
            result = results[partition]
            if isinstance(result, ProduceResult) or result.code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
                self._rows_arrived += sealed.rows
                self._bytes_arrived += len(sealed.batch)
            elif result.code is ErrorCode.MESSAGE_TOO_LARGE and sealed.rows > 1:
                self.batch_bytes_max = max(1, min(self.batch_bytes_max, len(sealed.batch)) // 2)
                for half in _halves(sealed, name):
                    await self._send({partition: half}, name)
            else:
                raise _refused(partition, sealed, result)


def _refused(partition: TopicPartition, sealed: _Sealed, refusal: Refusal) -> Exception:
    if refusal.code is ErrorCode.MESSAGE_TOO_LARGE:
        return UserError(
            f"a row for {partition} makes a batch of {len(sealed.batch)} bytes, which is more than the topic takes: "
            f"its config max.message.bytes (or the broker's message.max.bytes) is the limit ({describe(refusal)})"
        )
    return AnsweredError(refusal, f"write to {partition}")


def _halves(sealed: _Sealed, name: InName) -> list[_Sealed]:
    """Split a batch that the topic rejected as too large; rare, so done record by record."""
    header = read_header(sealed.batch)
    records = list(read_records(sealed.batch, limit=_UNPACKED_BYTES_MAX))
    middle = len(records) // 2
    halves = []
    for start, part in ((0, records[:middle]), (middle, records[middle:])):
        batch = build_batch(
            [Record(offset, *each[1:]) for offset, each in enumerate(part)],
            codec=Codec(header.codec),
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence
            if header.base_sequence == NO_SEQUENCE
            else (header.base_sequence + start) % _SEQUENCES,
            transactional=name.transactional_id is not None,
        )
        halves.append(_Sealed(batch, len(part)))
    return halves


def _size(round_: dict[TopicPartition, _Sealed]) -> int:
    return sum(len(sealed.batch) for sealed in round_.values())


async def partition_count(client: Client, topic: str) -> int:
    """The number of a topic's partitions; the broker may create the topic. UserError if there is none."""
    tries = 0

    async def attempt() -> int:
        nonlocal tries
        tries += 1
        (found,) = await client.refresh([topic], create=True)
        if found.partitions:
            return len(found.partitions)
        refusal = found.refusal or Refusal(ErrorCode.LEADER_NOT_AVAILABLE)
        is_missing = refusal.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if (is_missing and tries >= _MISSING_TRIES) or not refusal.code.retriable:
            raise UserError(
                f"there is no topic {topic} to write to, and the broker makes none by itself "
                f"({describe(refusal)}): create it first"
                if is_missing
                else f"topic {topic} cannot be written to: {describe(refusal)}"
            )
        raise AnsweredError(refusal, f"topic {topic}")

    return await client.retry(attempt)
