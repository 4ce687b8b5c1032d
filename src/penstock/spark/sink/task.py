"""One attempt of a task: writes its rows, in its own transaction or in none. In tasks.

An attempt first looks up whether its batch was decided already, and then writes nothing. That only saves work, since
the driver checks it too, so it is looked up once per worker and run: later batches of a run are new. Whether the run
was given up has to be looked up for every attempt, with one small request.
"""

import logging
from collections.abc import Iterable
from typing import Final, NamedTuple

import pyarrow as pa
from pyspark import TaskContext

from penstock.base.errors import ErrorCode, PenstockError, UserError
from penstock.base.ids import TopicPartition
from penstock.base.settings import Settings
from penstock.client.blocking import BlockingClient
from penstock.client.client import Client
from penstock.client.errors import AnsweredError
from penstock.client.produce import ACKS_ALL
from penstock.client.transaction_steps import (
    NO_IDENTITY,
    OLD_PRODUCE,
    ProducerIdentity,
    add_partitions,
    end,
    has_own_epochs,
    new_identity,
    offers_two_phase,
    take_over,
)
from penstock.records.compression import Codec
from penstock.spark.connecting import cluster_of, connected
from penstock.spark.options import (
    ACKS,
    BATCH_BYTES,
    BUFFER_BYTES,
    COMPRESSION,
    DECISIONS_TOPIC,
    EXACTLY_ONCE,
    FOREACH_BATCH,
    FOREACH_BATCH_ID,
    FOREACH_QUERY_ID,
    GUARANTEE,
    RECORD_BYTES_MAX,
    TOPIC,
    TRANSACTION_PREFIX,
    TRANSACTION_TIMEOUT_MS,
)
from penstock.spark.sink.deciding import begin_attempt
from penstock.spark.sink.ledger import BrokerLedger
from penstock.spark.sink.protocol import Ids, Offered, is_decided
from penstock.spark.sink.rows import Spread
from penstock.spark.sink.sending import Count, InName, Sender, SendRules, partition_count

log = logging.getLogger("penstock.spark")

_QUERY_ID: Final = "sql.streaming.queryId"
_BATCH_ID: Final = "streaming.sql.batchId"
_RUN_ID: Final = "spark.jobGroup.id"  # of a stream's jobs the group is the run's id
_RUNS_KEPT: Final = 64
BATCH_RUN: Final = "batch"  # the run of a batch write, which has only one


class Attempt(NamedTuple):
    """The query, batch, task and attempt that this process runs."""

    query: str
    run: str
    batch: int
    partition: int
    attempt: int
    is_stream: bool

    def transactional_id(self, prefix: str) -> str:
        return Ids(prefix, self.query).task(
            run=self.run, partition=self.partition, attempt=self.attempt, batch=self.batch
        )


class Written(NamedTuple):
    """The result of an attempt: its transaction, if it has one, and its counts."""

    query: str
    run: str
    batch: int
    offered: Offered | None
    arrived: Count
    was_decided: bool = False


def stream_attempt(otherwise_run: str) -> Attempt:
    """The attempt of a stream's task; `otherwise_run` is the run if Spark does not name it."""
    context = _context()
    query, batch = context.getLocalProperty(_QUERY_ID), context.getLocalProperty(_BATCH_ID)
    assert query is not None, "a stream's task knows its query"
    assert batch is not None, "a stream's task knows its batch"
    run = context.getLocalProperty(_RUN_ID) or otherwise_run
    return Attempt(query, run, int(batch), context.partitionId(), context.attemptNumber(), is_stream=True)


def foreach_batch_attempt(settings: Settings, otherwise_run: str) -> Attempt:
    """The attempt of a task of a batch write inside foreachBatch, which belongs to the stream's batch. A function may
    write several times, and each write is decided by itself, so the name is part of the query's."""
    context, name = _context(), settings[FOREACH_BATCH]
    query = settings[FOREACH_QUERY_ID] or context.getLocalProperty(_QUERY_ID)
    batch = settings[FOREACH_BATCH_ID]
    if batch < 0:
        batch = int(context.getLocalProperty(_BATCH_ID) or -1)
    if query is None or batch < 0:
        raise UserError(
            f"{FOREACH_BATCH.name} is {name!r}, and Spark does not say whose batch this is. Inside foreachBatch, give "
            f"{FOREACH_QUERY_ID.name} and {FOREACH_BATCH_ID.name} too; elsewhere leave the option out"
        )
    run = context.getLocalProperty(_RUN_ID) or otherwise_run
    return Attempt(
        f"{query}.{name}", run, batch, context.partitionId(), context.attemptNumber(), is_stream=True
    )


def batch_attempt(write_id: str) -> Attempt:
    """The attempt of a batch write's task. Its transactional id is used once, so it has Spark's unique attempt id."""
    context = _context()
    return Attempt(write_id, BATCH_RUN, 0, context.partitionId(), context.taskAttemptId(), is_stream=False)


def _context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None, "called outside of a task"
    return context


def write_rows(attempt: Attempt, settings: Settings, batches: Iterable[pa.RecordBatch]) -> Written:
    """Write the rows of a task with the chosen guarantee; returns when all are acknowledged."""
    with connected(cluster_of(settings)) as blocking:
        exactly_once = settings[GUARANTEE] == EXACTLY_ONCE
        if exactly_once and attempt.is_stream and _was_decided(blocking, attempt, settings):
            for _ in batches:
                pass
            return Written(attempt.query, attempt.run, attempt.batch, None, Count(0, 0), was_decided=True)
        transaction = _Transaction(blocking, attempt, settings) if exactly_once else None
        begin = transaction.begin if transaction is not None else lambda: _plain(blocking, settings)
        sender = Sender(blocking, _spread(blocking, settings), rules_of(settings), begin)
        try:
            for batch in batches:
                sender.add(batch)
            count = sender.finish()
        except BaseException:
            sender.close()
            if transaction is not None:
                transaction.abort()
            raise
        offered = None if transaction is None else transaction.offered
        return Written(attempt.query, attempt.run, attempt.batch, offered, count)


def rules_of(settings: Settings) -> SendRules:
    return SendRules(
        codec=Codec[settings[COMPRESSION].upper()],
        acks=ACKS_ALL if settings[ACKS] == "all" else int(settings[ACKS]),
        batch_bytes=settings[BATCH_BYTES],
        record_bytes_max=settings[RECORD_BYTES_MAX],
        buffer_bytes=settings[BUFFER_BYTES],
    )


def _spread(blocking: BlockingClient, settings: Settings) -> Spread:
    counts: dict[str, int] = {}

    def count_of(topic: str) -> int:
        if topic not in counts:
            counts[topic] = blocking.run(partition_count(blocking.client, topic))
        return counts[topic]

    return Spread(count_of, topic=settings[TOPIC], first=blocking.client.entropy.random_below)


def _plain(blocking: BlockingClient, settings: Settings) -> InName:
    is_idempotent = rules_of(settings).acks == ACKS_ALL
    return InName(blocking.run(new_identity(blocking.client)) if is_idempotent else NO_IDENTITY)


_undecided: dict[tuple[str, str], int] = {}  # by query and run, the first batch that was looked up


def _was_decided(blocking: BlockingClient, attempt: Attempt, settings: Settings) -> bool:
    key = attempt.query, attempt.run
    first = _undecided.get(key)
    if first is not None and first < attempt.batch:
        return False
    found = blocking.run(_ledger(blocking.client, attempt, settings).look_up())
    if is_decided(found, attempt.batch):
        return True
    while len(_undecided) >= _RUNS_KEPT:
        _undecided.pop(next(iter(_undecided)))
    _undecided[key] = attempt.batch
    return False


def _ledger(client: Client, attempt: Attempt, settings: Settings) -> BrokerLedger:
    ids = Ids(settings[TRANSACTION_PREFIX], attempt.query)
    return BrokerLedger(client, ids, topic=settings[DECISIONS_TOPIC])


class _Transaction:
    """The transaction of an attempt; begun with its first row."""

    def __init__(self, blocking: BlockingClient, attempt: Attempt, settings: Settings) -> None:
        self.offered: Offered | None = None
        self._blocking = blocking
        self._id = attempt.transactional_id(settings[TRANSACTION_PREFIX])
        self._run = attempt.run
        self._ledger = _ledger(blocking.client, attempt, settings)
        self._timeout_ms = settings[TRANSACTION_TIMEOUT_MS]
        # A batch write is not repeated, so no later batch would clean up after it.
        self._may_be_prepared = attempt.is_stream
        self._own_epochs = False

    def begin(self) -> InName:
        return self._blocking.run(self._begin(self._blocking.client))

    async def _begin(self, client: Client) -> InName:
        self._own_epochs = await client.retry(lambda: has_own_epochs(client))
        identity = await begin_attempt(self._ledger, lambda: self._take_over(client), run=self._run)
        self.offered = Offered(self._id, *identity)

        async def announce(partitions: Iterable[TopicPartition]) -> None:
            await add_partitions(client, self._id, identity, list(partitions))

        return InName(
            identity,
            self._id,
            None if self._own_epochs else OLD_PRODUCE,
            None if self._own_epochs else announce,
        )

    async def _take_over(self, client: Client) -> ProducerIdentity:
        if self._may_be_prepared and await offers_two_phase(client):
            try:
                return await take_over(client, self._id, timeout_ms=self._timeout_ms, two_phase=True)
            except AnsweredError as error:
                if error.refusal.code is not ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
                    raise
                # The broker has prepared transactions and does not allow them, or not to this client.
        return await take_over(client, self._id, timeout_ms=self._timeout_ms)

    def abort(self) -> None:
        """Abort after an error, so that consumers need not wait for the driver's clean-up or a timeout."""
        if self.offered is None:
            return
        identity = ProducerIdentity(self.offered.producer_id, self.offered.producer_epoch)
        client = self._blocking.client
        try:
            self._blocking.run(end(client, self._id, identity, committed=False, own_epochs=self._own_epochs))
        except PenstockError as error:
            log.info("transactional id %s: aborting the transaction failed: %s", self._id, error)
