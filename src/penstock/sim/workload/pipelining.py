"""A producer with several batches under way, which does as librdkafka does when one of them fails.

Up to five batches of a partition are under way. When one fails nothing more is sent until all are answered, then
everything that is not acknowledged goes out again, with the sequence numbers it had. Who is told that a batch is out
of order, and has earlier ones that are not acknowledged, takes those for the reason: it begins a new epoch, and numbers
all it has anew. What lies in the log already lies there twice then, so no broker may say that for a reason of its own.

Leaves out: one identity for all partitions (each has its own here), and so waiting for all of them before a new epoch.
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
from penstock.sim.workload.watching import WatchingClient

IN_FLIGHT_MAX = 5
_PATIENCE_S = 10.0
_SEQUENCES = 2**31


@dataclass
class _Batch:
    entry: SendBatch
    messages: tuple[SentMessage, ...]
    began: int
    timestamp_ms: int
    sequence: int = -1  # as long as it is not under way for the first time
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


class PipeliningWriter:
    """Sends what it is told to, and does not wait for it."""

    def __init__(self, plan: WriterPlan, client: WatchingClient, journal: Journal) -> None:
        self._plan = plan
        self._client = client
        self._journal = journal
        self._lanes: dict[TopicPartition, _Lane] = {}
        client.begin()  # all that it sends is one operation to it; each batch remembers where it went

    async def send(self, entry: SendBatch) -> None:
        messages = self._journal.messages_of(entry)
        began, now_ms = self._journal.history.tick(), self._client.loop.now_ms()
        where = TopicPartition(entry.topic, entry.partition)
        lane = self._lanes.get(where)
        if lane is None:
            lane = self._lanes[where] = _Lane(where, self._plan.name, self._client, self._journal)
        lane.put(_Batch(entry, messages, began, now_ms))

    async def finish(self) -> None:
        """Return when everything is acknowledged or given up."""
        for lane in self._lanes.values():
            await lane.finish()


class _Lane:
    """What goes to one partition."""

    def __init__(self, where: TopicPartition, actor: str, client: WatchingClient, journal: Journal) -> None:
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
                await self._client.pause(tries)
                tries += 1

    async def _round(self) -> ClientError | None:
        """Send until there is nothing left or something fails; nothing is under way afterwards."""
        try:
            if self._identity is None:
                self._identity = await new_identity(self._client)
            await self._client.refresh([self._where.topic])
            (node_id,) = await self._client.leaders([self._where])
            connection = await self._client.node_connection(node_id)
        except ClientError as error:
            return error
        under_way: deque[tuple[_Batch, asyncio.Task[ProduceResult]]] = deque()
        problem: ClientError | None = None
        while True:
            if problem is None:
                self._fill(under_way, connection, self._identity)
            if not under_way:
                return problem
            batch, task = under_way.popleft()
            try:
                appended = await task
            except ClientError as error:
                problem = error
                self._failed(batch, error)
            else:
                self._acknowledged(batch, appended)

    def _fill(
        self,
        under_way: deque[tuple[_Batch, "asyncio.Task[ProduceResult]"]],
        connection: Connection,
        identity: ProducerIdentity,
    ) -> None:
        flying = {id(batch) for batch, _ in under_way}
        for batch in self._queue:
            if len(under_way) == IN_FLIGHT_MAX:
                return
            if id(batch) not in flying:
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
                under_way.append((batch, task))

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
        """Nobody knows what became of them."""
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
