"""Transactions of one transactional id, written down with what became of them."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from penstock.base.ids import TopicPartition
from penstock.client.errors import ClientError
from penstock.client.group_offsets import GroupOffset, Membership
from penstock.client.transactional_producer import FencedError, TransactionalProducer
from penstock.sim.checkers import Commit, OperationOutcome, SeenTransaction, Send, SentMessage
from penstock.sim.checkers.history import NO_OFFSET
from penstock.sim.workload.journal import Journal
from penstock.sim.workload.recording_client import RecordingClient
from penstock.sim.workload.records import to_record

_VALUE_BYTES = 20


class Part(NamedTuple):
    """Messages of a transaction for one partition."""

    where: TopicPartition
    messages: tuple[SentMessage, ...]


class GroupOffsets(NamedTuple):
    """Offsets that become a group's with the transaction."""

    group: str
    membership: Membership
    offsets: Mapping[TopicPartition, int]


class TransactionRunner:
    """Runs transactions one by one. One that cannot be ended is left to the next producer of the id, or its timeout."""

    def __init__(self, name: str, client: RecordingClient, journal: Journal, *, timeout_ms: int) -> None:
        self._name = name
        self._client = client
        self._journal = journal
        self._timeout_ms = timeout_ms
        self._producer: TransactionalProducer | None = None

    def give_up(self) -> None:
        """Initialize the id again before the next transaction."""
        self._producer = None

    async def run(
        self,
        parts: Sequence[Part],
        *,
        commits: bool,
        pause_s: float = 0.0,
        group_offsets: GroupOffsets | None = None,
    ) -> bool:
        """Whether it is committed for certain; ClientError or FencedError if it could not be ended as asked."""
        history = self._journal.history
        number, ending, outcome = self._journal.number(), None, OperationOutcome.FAILED
        try:
            producer = await self._begin()
            for part in parts:
                await self._send(producer, part, number)
            if group_offsets is not None:
                committed = {where: GroupOffset(offset) for where, offset in group_offsets.offsets.items()}
                await producer.send_offsets(group_offsets.group, committed, group_offsets.membership)
            if pause_s:
                await asyncio.sleep(pause_s)
            if not commits:
                await producer.abort()
                return False
            ending, outcome = history.tick(), OperationOutcome.UNKNOWN
            await producer.commit()
            outcome = OperationOutcome.OK
            return True
        except asyncio.CancelledError:
            self._producer = None
            raise
        except (ClientError, FencedError):
            await self._abort(asked_to_commit=ending is not None)
            raise
        finally:
            history.transactions.append(SeenTransaction(number, self._name, outcome, ending))
            if group_offsets is not None and ending is not None:
                self._note_commits(group_offsets, ending, outcome)

    async def _begin(self) -> TransactionalProducer:
        if self._producer is None:
            producer = TransactionalProducer(self._client, self._name, timeout_ms=self._timeout_ms)
            await producer.start()
            self._producer = producer
        self._producer.begin()
        return self._producer

    async def _abort(self, *, asked_to_commit: bool) -> None:
        producer, self._producer = self._producer, None
        if producer is None or asked_to_commit:
            return  # no abort after a commit request: the commit may have been applied
        try:
            await producer.abort()
        except (ClientError, FencedError):
            return
        self._producer = producer

    async def _send(self, producer: TransactionalProducer, part: Part, transaction: int) -> None:
        history, client = self._journal.history, self._client
        records = [
            to_record(message, partition=part.where.partition, value_bytes=_VALUE_BYTES)
            for message in part.messages
        ]
        client.begin()
        began, timestamp_ms = history.tick(), client.loop.now_ms()
        outcome, base_offset = OperationOutcome.UNKNOWN, NO_OFFSET
        try:
            await producer.send(part.where.topic, records)
            outcome, last_offset = OperationOutcome.OK, producer.tallies[part.where].last_offset
            base_offset = NO_OFFSET if last_offset < 0 else last_offset - len(records) + 1
        finally:
            if client.attempts:
                history.sends.append(
                    Send(
                        self._name,
                        client.logs,
                        part.messages,
                        began,
                        history.tick(),
                        outcome,
                        base_offset=base_offset,
                        timestamp_ms=timestamp_ms,
                        transaction=transaction,
                    )
                )

    def _note_commits(self, group_offsets: GroupOffsets, ending: int, outcome: OperationOutcome) -> None:
        history = self._journal.history
        ended = history.tick()
        history.commits += [
            Commit(group_offsets.group, where, offset, ending, ended, outcome, self._name)
            for where, offset in group_offsets.offsets.items()
        ]
