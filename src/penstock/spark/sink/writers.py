"""The writers that Spark calls: `BatchSink` for `.write`, `StreamSink` for `.writeStream`.

Spark creates a writer on the driver, sends a copy to every task, and calls `commit` or `abort` on the driver: for a
batch on a copy of the first one, for a stream on a new one, in another process, for every micro-batch.
"""

import logging
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from penstock.base.errors import PenstockError
from penstock.base.settings import Settings
from penstock.client.blocking import BlockingClient
from penstock.spark.connecting import cluster_of, connected
from penstock.spark.options import (
    DECISIONS_TOPIC,
    EXACTLY_ONCE,
    FOREACH_BATCH,
    GUARANTEE,
    SKIP_LOST_BATCH,
    TOPIC,
    TRANSACTION_PREFIX,
)
from penstock.spark.sink.deciding import abort_batch, commit_batch
from penstock.spark.sink.ledger import BrokerLedger
from penstock.spark.sink.protocol import Ids
from penstock.spark.sink.rows import check_columns
from penstock.spark.sink.task import (
    BATCH_RUN,
    Written,
    batch_attempt,
    foreach_batch_attempt,
    stream_attempt,
    write_rows,
)

log = logging.getLogger("penstock.spark")


@dataclass
class TaskDone(WriterCommitMessage):
    """A task's message to the driver."""

    written: Written


class Whose(NamedTuple):
    """The query and run that a batch belongs to."""

    query: str
    run: str


class BatchSink(DataSourceArrowWriter):
    """One write of a DataFrame, all or nothing; see `protocol`. With `penstock.foreach.batch`, inside foreachBatch, it
    is part of the stream's batch: the only way to write the rows of outputMode('update') with a Python sink."""

    def __init__(self, schema: StructType, settings: Settings) -> None:
        check_columns(schema, topic=settings[TOPIC])
        self._settings = settings
        self._write_id = str(uuid.uuid4())

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskDone:
        attempt = (
            batch_attempt(self._write_id)
            if self._settings[FOREACH_BATCH] is None
            else foreach_batch_attempt(self._settings, self._write_id)
        )
        return TaskDone(write_rows(attempt, self._settings, iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        whose, batch, keeps = self._place(messages)
        _commit(self._settings, whose, messages, batch=batch, keeps=keeps)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        whose, batch, keeps = self._place(messages)
        _abort(self._settings, whose, batch=batch, keeps=keeps)

    def _place(self, messages: Sequence[WriterCommitMessage | None]) -> tuple[Whose | None, int, bool]:
        if self._settings[FOREACH_BATCH] is None:
            return Whose(self._write_id, BATCH_RUN), 0, False
        return _told_by(messages), next((each.batch for each in _done(messages)), 0), True


class StreamSink(DataSourceStreamArrowWriter):
    """One micro-batch of a stream."""

    def __init__(self, schema: StructType, settings: Settings) -> None:
        check_columns(schema, topic=settings[TOPIC])
        self._settings = settings
        self._otherwise_run = str(uuid.uuid4())

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskDone:
        return TaskDone(write_rows(stream_attempt(self._otherwise_run), self._settings, iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        _commit(self._settings, _told_by(messages), messages, batch=batchId, keeps=True)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        _abort(self._settings, _told_by(messages), batch=batchId, keeps=True)


def _told_by(messages: Sequence[WriterCommitMessage | None]) -> Whose | None:
    """The query of a stream's writer, which only its tasks know; None if all of them failed."""
    found = {Whose(each.query, each.run) for each in _done(messages)}
    assert len(found) <= 1, "messages of several queries"
    return next(iter(found), None)


def _commit(
    settings: Settings,
    whose: Whose | None,
    messages: Sequence[WriterCommitMessage | None],
    *,
    batch: int,
    keeps: bool,
) -> None:
    done = _done(messages)
    is_needed = any(each.offered is not None or each.was_decided for each in done)
    if settings[GUARANTEE] != EXACTLY_ONCE or whose is None or not is_needed:
        return
    with _ledger(settings, whose, keeps=keeps) as (blocking, ledger):
        blocking.run(
            commit_batch(
                ledger,
                ledger.ids,
                run=whose.run,
                batch=batch,
                offered=[each.offered for each in done if each.offered is not None],
                skip_lost_batch=settings[SKIP_LOST_BATCH],
                is_last=not keeps,
            )
        )


def _abort(settings: Settings, whose: Whose | None, *, batch: int, keeps: bool) -> None:
    if settings[GUARANTEE] != EXACTLY_ONCE or whose is None:
        return
    try:
        with _ledger(settings, whose, keeps=keeps) as (blocking, ledger):
            blocking.run(
                abort_batch(ledger, run=whose.run, batch=batch, skip_lost_batch=settings[SKIP_LOST_BATCH])
            )
    except PenstockError as error:
        # Spark's own error is the important one; open transactions are found by the next run, or time out.
        log.warning("batch %s: aborting its transactions failed: %s", batch, error)


def _done(messages: Sequence[WriterCommitMessage | None]) -> list[Written]:
    return [message.written for message in messages if isinstance(message, TaskDone)]


@contextmanager
def _ledger(
    settings: Settings, whose: Whose, *, keeps: bool
) -> Iterator[tuple[BlockingClient, BrokerLedger]]:
    ids = Ids(settings[TRANSACTION_PREFIX], whose.query)
    with connected(cluster_of(settings)) as blocking:
        yield blocking, BrokerLedger(blocking.client, ids, topic=settings[DECISIONS_TOPIC], keeps=keeps)
