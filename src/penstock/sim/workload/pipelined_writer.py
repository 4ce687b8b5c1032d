"""A producer with several batches in flight that behaves as librdkafka does when one of them fails.

Up to five batches of a partition are in flight. When one fails, nothing more is sent until all are answered; then every
batch that is not acknowledged is sent again with the same sequence numbers. A producer that gets
OUT_OF_ORDER_SEQUENCE_NUMBER while earlier batches are not acknowledged takes those for the reason: it bumps its epoch
and renumbers all of its batches. Records that are in the log already are then appended twice, so a broker must return
that error only for a real gap.

Left out: one producer id for all partitions (each has its own here), and so waiting for all of them before a new epoch.
"""

import asyncio
from collections import deque
from dataclasses import dataclass, field

from penstock.base.errors import ErrorCode, Refusal
from penstock.base.ids import TopicPartition
from penstock.client.client import Client
from penstock.client.connection import Connection
from penstock.client.errors import AnsweredError, ClientError
from penstock.client.produce import ACKS_ALL, ProduceResult, produce_on
from penstock.client.producer import NewRecord
from penstock.client.transaction_steps import ProducerIdentity, new_identity
from penstock.records.builder import build_batch
from penstock.records.compression import Codec
from penstock.records.record import Record
from penstock.sim.checkers import LogName, OperationOutcome, Send, SentMessage
from penstock.sim.checkers.history import NO_OFFSET
from penstock.sim.entries import SendBatch
from penstock.sim.plan import WriterPlan
from penstock.sim.workload.journal import Journal
from penstock.sim.workload.records import size_bytes_max, to_record
from penstock.sim.workload.tracking_client import TrackingClient

IN_FLIGHT_MAX = 5
_PATIENCE_S = 10.0
_SEQUENCES = 2**31


@dataclass
class _Batch:
    entry: SendBatch
    messages: tuple[SentMessage, ...]
    began: int
    timestamp_ms: int
    sequence: int = -1  # before it is first sent
    tried: dict[LogName, None] = field(default_factory=dict)
    attempts: int = 0

    @property
    def records(self) -> list[NewRecord]:
        entry = self.entry
        return [
            to_record(message, partition=entry.partition, value_bytes=entry.value_bytes)
            for message in self.messages
        ]

    def encode(self, identity: ProducerIdentity) -> bytes:
        return build_batch(
            [Record(offset, self.timestamp_ms, *each[:3]) for offset, each in enumerate(self.records)],
            codec=Codec[self.entry.codec],
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            base_sequence=self.sequence,
        )


class PipelinedWriter:
    """Sends batches without waiting for their acknowledgements."""

    def __init__(self, plan: WriterPlan, client: TrackingClient, journal: Journal) -> None:
        self._plan = plan
        self._client = client
        self._journal = journal
        self._partition_queues: dict[TopicPartition, _PartitionQueue] = {}
        client.begin()  # one operation for the client; each batch records the logs it was sent to

    async def send(self, entry: SendBatch) -> None:
        messages = self._journal.messages_of(entry)
        began, now_ms = self._journal.history.tick(), self._client.loop.now_ms()
        where = TopicPartition(entry.topic, entry.partition)
        partition_queue = self._partition_queues.get(where)
        if partition_queue is None:
            partition_queue = self._partition_queues[where] = _PartitionQueue(
                where, self._plan.name, self._client, self._journal
            )
        partition_queue.put(_Batch(entry, messages, began, now_ms))

    async def finish(self) -> None:
        """Return when every batch is acknowledged or given up."""
        for partition_queue in self._partition_queues.values():
            await partition_queue.finish()


class _PartitionQueue:
    """The batches to one partition."""

    def __init__(self, where: TopicPartition, actor: str, client: TrackingClient, journal: Journal) -> None:
        self._where = where
        self._actor = actor
        self._client = client
        self._journal = journal
        self._queue: deque[_Batch] = deque()  # not acknowledged, in order
        self._identity: ProducerIdentity | None = None
        self._next_sequence = 0
        self._next_acknowledged = 0
        self._begins_epoch = False
        self._is_fatal = False  # librdkafka would give up
        self._task: asyncio.Task[None] | None = None

    def put(self, batch: _Batch) -> None:
        self._queue.append(batch)
        if self._task is None or self._task.done():
            self._task = self._client.loop.create_task(self._work())

    async def finish(self) -> None:
        if self._task is not None:
            await self._task

    async def _work(self) -> None:
        tries, since = 0, self._client.loop.time()
        while self._queue:
            before = len(self._queue)
            problem = await self._round()
            if len(self._queue) < before:
                tries, since = 0, self._client.loop.time()
            if self._is_fatal or self._client.loop.time() - since > _PATIENCE_S:
                self._give_up()
            elif self._begins_epoch:
                self._begin_epoch()
            if problem is not None:
                await self._client.back_off(tries)
                tries += 1

    async def _round(self) -> ClientError | None:
        """Send until the queue is empty or a batch fails; nothing is in flight afterwards."""
        try:
            if self._identity is None:
                self._identity = await new_identity(self._client)
            await self._client.refresh([self._where.topic])
            (node_id,) = await self._client.leaders([self._where])
            connection = await self._client.node_connection(node_id)
        except ClientError as error:
            return error
        in_flight: deque[tuple[_Batch, asyncio.Task[ProduceResult]]] = deque()
        problem: ClientError | None = None
        while True:
            if problem is None:
                self._fill(in_flight, connection, self._identity)
            if not in_flight:
                return problem
            batch, task = in_flight.popleft()
            try:
                appended = await task
            except ClientError as error:
                problem = error
                self._failed(batch, error)
            else:
                self._acknowledged(batch, appended)

    def _fill(
        self,
        in_flight: deque[tuple[_Batch, "asyncio.Task[ProduceResult]"]],
        connection: Connection,
        identity: ProducerIdentity,
    ) -> None:
        sent = {id(batch) for batch, _ in in_flight}
        for batch in self._queue:
            if len(in_flight) == IN_FLIGHT_MAX:
                return
            if id(batch) not in sent:
                if batch.sequence < 0:
                    batch.sequence = self._next_sequence
                    self._next_sequence = (batch.sequence + len(batch.messages)) % _SEQUENCES
                batch.attempts += 1
                log = self._client.log(self._where)
                batch.tried.pop(log, None)
                batch.tried[log] = None
                encoded = batch.encode(identity)
                task = self._client.loop.create_task(
                    _produce_one(self._client, connection, self._where, encoded)
                )
                in_flight.append((batch, task))

    def _acknowledged(self, batch: _Batch, appended: ProduceResult) -> None:
        self._queue.remove(batch)
        self._next_acknowledged = (batch.sequence + len(batch.messages)) % _SEQUENCES
        self._note(batch, OperationOutcome.OK, appended.base_offset)

    def _failed(self, batch: _Batch, error: ClientError) -> None:
        if not isinstance(error, AnsweredError) or error.retriable:
            return
        self._journal.count("pipeline", error.refusal.code.name)
        if error.refusal.code is not ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            self._is_fatal = True
            return
        if batch.sequence == self._next_acknowledged:
            self._is_fatal = True
        else:
            self._begins_epoch = True
        if len(batch.tried) == 1:  # else the topic was made again, and knows nothing
            which = f"from sequence {batch.sequence} on, with {self._next_acknowledged} awaited"
            self._journal.out_of_order[self._client.log(self._where)] = f"{self._actor}'s batch {which}"

    def _begin_epoch(self) -> None:
        assert self._identity is not None
        self._identity = self._identity._replace(producer_epoch=self._identity.producer_epoch + 1)
        self._start_numbers()

    def _give_up(self) -> None:
        """Give up all batches: their outcomes are unknown."""
        for batch in self._queue:
            if batch.tried:
                self._note(batch, OperationOutcome.UNKNOWN, NO_OFFSET)
        self._queue.clear()
        self._identity = None
        self._start_numbers()

    def _start_numbers(self) -> None:
        self._next_sequence = self._next_acknowledged = 0
        self._begins_epoch = self._is_fatal = False
        for batch in self._queue:
            batch.sequence = -1

    def _note(self, batch: _Batch, outcome: OperationOutcome, base_offset: int) -> None:
        self._journal.count("send", outcome)
        self._journal.history.sends.append(
            Send(
                self._actor,
                tuple(batch.tried),
                batch.messages,
                batch.began,
                self._journal.history.tick(),
                outcome,
                acks=ACKS_ALL,
                base_offset=base_offset,
                attempts=batch.attempts,
                size_bytes=size_bytes_max(batch.messages, batch.entry.value_bytes),
                timestamp_ms=batch.timestamp_ms,
            )
        )


async def _produce_one(
    client: Client, connection: Connection, where: TopicPartition, batch: bytes
) -> ProduceResult:
    result = (await produce_on(client, connection, {where: batch}))[where]
    if isinstance(result, Refusal):
        raise AnsweredError(result, f"produce to {where}")
    return result
