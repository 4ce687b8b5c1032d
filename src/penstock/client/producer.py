"""Sends records to topics: chooses partitions, fills batches, sends them in order, and counts what was appended.

Idempotent if acks and the broker allow it: a batch that is retried after a lost response is appended once. One batch
per partition is in flight at a time. `transactional_producer` is built on this.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from penstock.base.errors import ErrorCode, Refusal
from penstock.base.ids import TopicPartition
from penstock.client.client import Client
from penstock.client.errors import AnsweredError
from penstock.client.partitioner import Partitioner
from penstock.client.produce import ACKS_ALL, ProduceResult, produce
from penstock.client.transaction_steps import NO_IDENTITY, new_identity
from penstock.records.batch import NO_PRODUCER, NO_SEQUENCE
from penstock.records.builder import build_batch
from penstock.records.compression import Codec
from penstock.records.record import Headers, Record

_SEQUENCES = 2**31
_RECORD_OVERHEAD = 24  # bytes, about: the overhead of a record besides key, value and headers


class NewRecord(NamedTuple):
    """A record to send; the default timestamp is now, the default partition the one of its key."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp: int | None = None
    partition: int | None = None


class RecordTooLargeError(AnsweredError):
    """A record that is too large even alone in a batch; `size` is the batch's, in bytes."""

    def __init__(self, refusal: Refusal, partition: TopicPartition, record: NewRecord, size: int) -> None:
        super().__init__(refusal, f"produce to {partition}")
        self.partition = partition
        self.record = record
        self.size = size


class _Batch(NamedTuple):
    records: Sequence[NewRecord]
    bytes_count: int


@dataclass
class Tally:
    """Counts what was appended to one partition; offsets are -1 if the broker did not answer (acks=0)."""

    record_count: int = 0
    bytes_count: int = 0
    first_offset: int = -1
    last_offset: int = -1

    def add(self, batch: _Batch, base_offset: int) -> None:
        self.record_count += len(batch.records)
        self.bytes_count += batch.bytes_count
        if base_offset >= 0:
            if self.first_offset < 0:
                self.first_offset = base_offset
            self.last_offset = base_offset + len(batch.records) - 1


class TransactionContext(NamedTuple):
    """The transaction that records are part of; `announce` is called with partitions before they are written to."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    announce: Callable[[Collection[TopicPartition]], Awaitable[None]]
    version_max: int | None = None  # of Produce


class Producer:
    """Sends records to any topic of a cluster."""

    def __init__(
        self,
        client: Client,
        *,
        codec: Codec = Codec.NONE,
        level: int | None = None,
        acks: int = ACKS_ALL,
        batch_bytes_max: int = 512 << 10,
        idempotent: bool = True,
    ) -> None:
        self.tallies: dict[TopicPartition, Tally] = {}
        self._client = client
        self._codec = codec
        self._level = level
        self._acks = acks
        self._batch_bytes_max = batch_bytes_max
        self._idempotent = idempotent and acks == ACKS_ALL
        self._producer: tuple[int, int] | None = None  # id and epoch
        self._sequences: dict[TopicPartition, int] = {}
        self._partitioners: dict[str, Partitioner] = {}
        self._transaction: TransactionContext | None = None

    def begin(self, transaction: TransactionContext) -> None:
        """Send from now on as part of a transaction; sequence numbers restart at 0 when the id or epoch changes."""
        identity = (transaction.producer_id, transaction.producer_epoch)
        if identity != self._producer:
            self._producer = identity
            self._sequences.clear()
        self._transaction = transaction

    async def send(self, topic: str, records: Iterable[NewRecord]) -> None:
        """Send all records and return when they are appended; AnsweredError for the first one rejected."""
        await self._identity()
        waiting = self._fill(topic, records, await self._partitioner(topic))
        transaction = self._transaction
        if transaction is not None:
            await transaction.announce(waiting.keys())
        now_ms = self._client.loop.now_ms()
        while waiting:
            round_ = {partition: batches.popleft() for partition, batches in waiting.items()}
            encoded = {
                partition: self._encode(partition, batch, now_ms) for partition, batch in round_.items()
            }
            try:
                results = await produce(
                    self._client,
                    encoded,
                    acks=self._acks,
                    transactional_id=None if transaction is None else transaction.transactional_id,
                    version_max=None if transaction is None else transaction.version_max,
                )
            except BaseException:
                self._start_over()
                raise
            # Count all first: the tallies are right even if a batch is rejected.
            refused = [
                _error(refusal, partition, round_[partition], len(encoded[partition]))
                for partition, result in results.items()
                if (refusal := self._take(partition, round_[partition], result, waiting[partition]))
            ]
            if refused:
                self._start_over()
                raise refused[0]
            waiting = {partition: batches for partition, batches in waiting.items() if batches}

    async def encode(self, topic: str, records: Iterable[NewRecord]) -> list[tuple[TopicPartition, bytes]]:
        """The batches that `send` would send, for a caller that stores them until they are appended.

        They have sequence numbers: retried in this order, each is appended once.
        """
        await self._identity()
        encoded = []
        now_ms = self._client.loop.now_ms()
        for partition, batches in self._fill(topic, records, await self._partitioner(topic)).items():
            for batch in batches:
                encoded.append((partition, self._encode(partition, batch, now_ms)))
                self._count(partition, len(batch.records))
        return encoded

    def _encode(self, partition: TopicPartition, batch: _Batch, now_ms: int) -> bytes:
        assert self._producer is not None, "encoded before the producer had its id"
        producer_id, producer_epoch = self._producer
        return build_batch(
            [
                Record(offset, now_ms if each.timestamp is None else each.timestamp, *each[:3])
                for offset, each in enumerate(batch.records)
            ],
            codec=self._codec,
            level=self._level,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=NO_SEQUENCE if producer_id == NO_PRODUCER else self._sequences.get(partition, 0),
            transactional=self._transaction is not None,
        )

    def _start_over(self) -> None:
        """Get a new producer id: the failed batch may have been appended, so reusing its sequence numbers for other
        records would make the broker drop those as duplicates.
        """
        if self._transaction is None:
            self._producer = None
            self._sequences.clear()
        # In a transaction: it has to be aborted, and the next one begins with another epoch.

    def _count(self, partition: TopicPartition, record_count: int) -> None:
        self._sequences[partition] = (self._sequences.get(partition, 0) + record_count) % _SEQUENCES

    def _take(
        self,
        partition: TopicPartition,
        batch: _Batch,
        result: ProduceResult | Refusal,
        waiting: deque[_Batch],
    ) -> Refusal | None:
        """Count an appended batch, or split one that is too large; else return the refusal."""
        count = len(batch.records)
        if isinstance(result, ProduceResult):
            self._count(partition, count)
            self.tallies.setdefault(partition, Tally()).add(batch, result.base_offset)
            return None
        if result.code == ErrorCode.MESSAGE_TOO_LARGE and count > 1:
            half = count // 2
            waiting.appendleft(_batch(batch.records[half:]))
            waiting.appendleft(_batch(batch.records[:half]))
            return None
        return result

    def _fill(
        self, topic: str, records: Iterable[NewRecord], partitioner: Partitioner
    ) -> dict[TopicPartition, deque[_Batch]]:
        """The records by partition, in batches of at most the allowed size (a single record may exceed it)."""
        filling: dict[int, list[NewRecord]] = {}
        sizes: dict[int, int] = {}
        full: dict[TopicPartition, deque[_Batch]] = {}
        for record in records:
            partition = record.partition
            if partition is None:
                partition = partitioner.choose(record.key)
            size = _size(record)
            if partition in filling and sizes[partition] + size > self._batch_bytes_max:
                batch = _Batch(filling.pop(partition), sizes[partition])
                full.setdefault(TopicPartition(topic, partition), deque()).append(batch)
                partitioner.turn()
            if partition not in filling:
                filling[partition] = []
                sizes[partition] = 0
            filling[partition].append(record)
            sizes[partition] += size
        for partition, rest in filling.items():
            batch = _Batch(rest, sizes[partition])
            full.setdefault(TopicPartition(topic, partition), deque()).append(batch)
        partitioner.turn()
        return full

    async def _partitioner(self, topic: str) -> Partitioner:
        known = self._partitioners.get(topic)
        if known is None:
            count = len((await self._client.topic(topic)).partitions)
            known = Partitioner(count, first=self._client.entropy.random_below(count))
            self._partitioners[topic] = known
        return known

    async def _identity(self) -> None:
        if self._producer is None:
            self._producer = await new_identity(self._client) if self._idempotent else NO_IDENTITY


def _error(refusal: Refusal, partition: TopicPartition, batch: _Batch, size: int) -> AnsweredError:
    if refusal.code == ErrorCode.MESSAGE_TOO_LARGE:
        (record,) = batch.records  # a batch of several would have been split
        return RecordTooLargeError(refusal, partition, record, size)
    return AnsweredError(refusal, f"produce to {partition}")


def _size(record: NewRecord) -> int:
    size = _RECORD_OVERHEAD + len(record.key or b"") + len(record.value or b"")
    for name, value in record.headers:
        size += 4 + len(name) + len(value or b"")
    return size


def _batch(records: Sequence[NewRecord]) -> _Batch:
    return _Batch(records, sum(map(_size, records)))
