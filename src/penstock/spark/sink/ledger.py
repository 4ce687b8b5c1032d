"""The `Ledger` of `deciding` on a broker: decisions in a compacted topic, and transactions. On the driver; tasks only
look up whether their batch was decided, and their run given up.

A decision is one record in its own small transaction, so that a fenced driver cannot write one. The key is the query,
so compaction keeps the newest decision of each. The committed offset of a group with the query's name tells which
decisions have been carried out, so that a look-up reads from there on and not the whole topic. If the group's offset
has expired, more is read, and transactions are ended again, which changes nothing.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Final

from penstock.base.errors import ErrorCode, Refusal, UserError
from penstock.base.ids import TopicPartition
from penstock.client.client import Client
from penstock.client.errors import AnsweredError, NoAnswerError, describe
from penstock.client.fetch import Fetched, FetchLimits, fetch, read_batches
from penstock.client.group_offsets import GroupOffset, commit_offsets, committed_offsets
from penstock.client.offsets import EARLIEST, LATEST, find_offsets
from penstock.client.produce import produce
from penstock.client.topics import NewTopic, create_topics
from penstock.client.transaction_steps import (
    OLD_PRODUCE,
    ProducerIdentity,
    add_partitions,
    end,
    has_own_epochs,
    take_over,
)
from penstock.client.transactions import (
    TransactionDescription,
    describe_transactions,
    fence_producer,
    list_transactions,
)
from penstock.records.builder import build_batch
from penstock.records.murmur2 import partition_of_key
from penstock.records.record import Record, read_records
from penstock.spark.sink.deciding import ShutOutError
from penstock.spark.sink.protocol import (
    MAY_WRITE,
    ONGOING,
    FoundDecision,
    Ids,
    Offered,
    SinkDecision,
    read_decision,
    write_decision,
)

_PARTITIONS: Final = (
    16  # partitions of a topic that is created here; queries that share one wait for each other's decisions
)
_CONFIGS: Final = {"cleanup.policy": "compact"}
_TIMEOUT_MS: Final = 15_000  # of the transaction around a decision; looking up may have to wait for it
_ENDS_AT_ONCE: Final = 16  # and the most transactional ids that are fenced at once
_DECISION_BYTES_MAX: Final = 64 << 20
_LIMITS: Final = FetchLimits(max_wait_ms=200)
_SHUT_OUT: Final = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
    }
)


class BrokerLedger:
    """The decisions of one query, on a broker."""

    def __init__(self, client: Client, ids: Ids, *, topic: str, keeps: bool = True) -> None:
        """`keeps`: whether decisions are kept for a restart; those of a batch write are not, since it has none."""
        self._client = client
        self.ids = ids
        self._topic = topic
        self._keeps = keeps
        self._offset = -1  # of the decision that was found or written
        self._token: ProducerIdentity | None = None
        self._sequence = 0

    async def take_over(self) -> ProducerIdentity:
        self._token = await take_over(self._client, self.ids.decisions, timeout_ms=_TIMEOUT_MS)
        self._sequence = 0
        return self._token

    async def look_up(self) -> FoundDecision | None:
        partition = await self._partition(create=False)
        if partition is None:
            return None
        known = await committed_offsets(self._client, self.ids.decisions, [partition])
        bounds = await find_offsets(self._client, {partition: EARLIEST})
        done = known[partition].offset if partition in known else 0
        # From one offset earlier: the last decision that was carried out is needed too.
        start = max(done - 1, bounds[partition])
        end_offset = (await find_offsets(self._client, {partition: LATEST}))[partition]
        found: tuple[int, SinkDecision] | None = None
        async for offset, decision in _Reader(self._client, self.ids.query, partition, start, end_offset):
            found = None if decision is None else (offset, decision)
        if found is None:
            return None
        self._offset = found[0]
        return FoundDecision(found[1], carried_out=found[0] < done)

    async def open_transactions(self, offered: Sequence[Offered]) -> list[Offered]:
        listed = await list_transactions(self._client, states=[ONGOING])
        names = {each.transactional_id for each in listed if self.ids.is_task(each.transactional_id)}
        names.update(each.transactional_id for each in offered)
        if not names:
            return []
        described = await describe_transactions(self._client, sorted(names))
        return [
            Offered(each.transactional_id, each.producer_id, each.producer_epoch)
            for each in described.values()
            if isinstance(each, TransactionDescription) and each.state == ONGOING
        ]

    async def write(self, token: ProducerIdentity, decision: SinkDecision) -> None:
        self._offset = await self._write(token, write_decision(decision))

    async def end(self, offered: Sequence[Offered], *, committed: bool) -> dict[Offered, Refusal]:
        own_epochs = await has_own_epochs(self._client)
        turns = asyncio.Semaphore(_ENDS_AT_ONCE)

        async def end_one(each: Offered) -> Refusal | None:
            async with turns:
                try:
                    await end(
                        self._client,
                        each.transactional_id,
                        ProducerIdentity(each.producer_id, each.producer_epoch),
                        committed=committed,
                        own_epochs=own_epochs,
                    )
                except AnsweredError as error:
                    if error.retriable:
                        raise  # the retries have timed out: the outcome is unknown
                    return error.refusal
            return None

        results = await asyncio.gather(*map(end_one, offered))
        return {each: refusal for each, refusal in zip(offered, results, strict=True) if refusal is not None}

    async def mark_carried_out(self, decision: SinkDecision) -> None:
        if not self._keeps:
            assert self._token is not None
            await self._write(self._token, None)  # it is not needed any more
            return
        partition = await self._partition(create=True)
        assert partition is not None
        assert self._offset >= 0, "marked before it was found or written"
        mark = GroupOffset(self._offset + 1, metadata=f"batch {decision.batch}")
        refused = await commit_offsets(self._client, self.ids.decisions, {partition: mark})
        if refusal := refused.get(partition):
            raise AnsweredError(refusal, f"remember that batch {decision.batch} was carried out")

    async def give_up(self, run: str) -> None:
        await fence_producer(self._client, self.ids.given_up(run))

    async def is_given_up(self, run: str) -> bool:
        mark = self.ids.given_up(run)
        described = (await describe_transactions(self._client, [mark]))[mark]
        if isinstance(described, TransactionDescription):
            return True
        if described.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            return False
        raise AnsweredError(described, f"look whether run {run} was given up")

    async def shut_out_tasks(self, run: str) -> None:
        listed = await list_transactions(self._client, states=MAY_WRITE)
        turns = asyncio.Semaphore(_ENDS_AT_ONCE)

        async def shut_out(transactional_id: str) -> None:
            async with turns:
                await fence_producer(self._client, transactional_id)

        names = (each.transactional_id for each in listed)
        await asyncio.gather(*(shut_out(name) for name in names if self.ids.is_of_run(name, run)))

    async def _write(self, token: ProducerIdentity, value: bytes | None) -> int:
        """Write one record in its own transaction; returns its offset."""
        partition = await self._partition(create=True)
        assert partition is not None
        own_epochs = await has_own_epochs(self._client)
        record = Record(0, self._client.loop.now_ms(), self.ids.query.encode(), value)
        batch = build_batch(
            [record],
            producer_id=token.producer_id,
            producer_epoch=token.producer_epoch,
            base_sequence=self._sequence,
            transactional=True,
        )
        try:
            if not own_epochs:
                await add_partitions(self._client, self.ids.decisions, token, [partition])
            results = await produce(
                self._client,
                {partition: batch},
                transactional_id=self.ids.decisions,
                version_max=None if own_epochs else OLD_PRODUCE,
            )
            result = results[partition]
            if isinstance(result, Refusal):
                raise AnsweredError(result, f"write a decision to {partition}")
            self._token = await end(
                self._client, self.ids.decisions, token, committed=True, own_epochs=own_epochs
            )
        except AnsweredError as error:
            if error.refusal.code in _SHUT_OUT:
                raise ShutOutError(str(error)) from error
            raise
        self._sequence = self._sequence + 1 if self._token == token else 0
        return result.base_offset

    async def _partition(self, *, create: bool) -> TopicPartition | None:
        """The partition of this query's decisions; None if the topic does not exist yet."""
        (topic,) = await self._client.refresh([self._topic])
        if not topic.partitions and create:
            await self._create()
            (topic,) = await self._client.refresh([self._topic])
        if not topic.partitions:
            if topic.refusal is None or topic.refusal.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return None
            raise AnsweredError(topic.refusal, f"topic {self._topic}")
        index = partition_of_key(self.ids.query.encode(), len(topic.partitions))
        return TopicPartition(self._topic, index)

    async def _create(self) -> None:
        results = await create_topics(
            self._client, [NewTopic(self._topic, partitions=_PARTITIONS, configs=_CONFIGS)]
        )
        result = results[self._topic]
        if isinstance(result, Refusal) and result.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise UserError(
                f"the topic {self._topic}, where exactly-once writes keep their decisions, is missing and cannot be "
                f"made ({describe(result)}): make it with cleanup.policy=compact, or name another one with "
                "penstock.decisions.topic"
            )


class _Reader:
    """Reads the decisions of one query between two offsets, oldest first; None for a tombstone."""

    def __init__(
        self, client: Client, query: str, partition: TopicPartition, start: int, end_offset: int
    ) -> None:
        self._client = client
        self._query = query
        self._partition = partition
        self._position = start
        self._end = end_offset

    async def __aiter__(self) -> AsyncIterator[tuple[int, SinkDecision | None]]:
        deadline = self._client.loop.time() + self._client.settings.patience_ms / 1000
        while self._position < self._end:
            fetched = await self._client.retry(self._fetch)
            before = self._position
            for each in self._decisions(fetched):
                yield each
            if self._position == before and self._client.loop.time() > deadline:
                raise NoAnswerError(
                    f"{self._partition} could not be read to its end, offset {self._end}: at offset {before} a "
                    "transaction of another producer stays open"
                )

    async def _fetch(self) -> Fetched:
        (node_id,) = await self._client.leaders([self._partition])
        (fetched,) = await fetch(
            self._client, node_id, {self._partition: self._position}, _LIMITS, committed_only=True
        )
        if fetched.refusal is not None:
            raise AnsweredError(fetched.refusal, f"read decisions from {self._partition}")
        return fetched

    def _decisions(self, fetched: Fetched) -> Iterator[tuple[int, SinkDecision | None]]:
        key = self._query.encode()
        for header, batch in read_batches(fetched):
            self._position = max(self._position, header.next_offset)
            if header.is_control or not len(batch):
                continue
            for record in read_records(batch, limit=_DECISION_BYTES_MAX):
                if record.key == key:
                    decision = None if record.value is None else read_decision(self._query, record.value)
                    yield record.offset, decision
