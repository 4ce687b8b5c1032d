"""Producing: append batches to partitions that this broker leads, and answer when `acks` holds.

Everything that produces comes in here: Kafka's Produce API (`apis.k00_produce`), and what will produce by other
protocols. Values go in and out; no wire message is known here. Batches are in Kafka's record format v2, as one buffer.

A request may name several partitions, and has one answer for all of them:

1. While too many syncs are queued (`Flusher.is_full`), the request waits.
2. The first batch of a transaction in a partition waits until the transaction coordinator has added the partition to
   the transaction, or verified that the client did (`services.transactions.produce_verifier`).
3. Every batch is checked and appended, on the loop. A batch whose records take long to validate is checked in the work
   pool first; the request's other batches do not wait for it, the client's next request does.
4. With acks=all, or where every batch is flushed, the high watermark has to pass each batch.

Coordinators append what they decide to the leader's log directly, under the leader epoch they were loaded in.
"""

import asyncio
from collections.abc import Callable, Coroutine, Generator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

from penstock.base.errors import ErrorCode, Refusal
from penstock.core.transactions.transaction import ProducerIdAndEpoch
from penstock.records.batch import CODEC_MASK, HEADER_SIZE, TRANSACTIONAL, read_header
from penstock.records.compression import Codec
from penstock.services.flusher import Flusher
from penstock.services.replicas.leader import Appended
from penstock.services.replicas.replica import Replica
from penstock.services.replicas.replica_manager import ReplicaManager
from penstock.services.topic_rules import AppendError
from penstock.services.transactions.produce_verifier import (
    FirstBatch,
    ProduceVerifier,
    Verified,
    produce_refusal,
)
from penstock.world import World

ACKS_ALL: Final = -1
ACKS_NONE: Final = 0
ACKS_LEADER: Final = 1
_ACKS: Final = frozenset((ACKS_ALL, ACKS_NONE, ACKS_LEADER))

_ATTRIBUTES_LOW_BYTE: Final = 22

# Kafka makes an exception for clients that call themselves __admin_client; that proves nothing, so there is none here.
_INTERNAL: Final = Refusal(
    ErrorCode.INVALID_TOPIC_EXCEPTION, "only the broker's coordinators write to internal topics"
)


class PartitionRecords(NamedTuple):
    """One batch for one partition."""

    topic: str | bytes  # its name, or its id
    partition: int
    records: memoryview | None  # None where the client sent none, which is an error


class ProduceOptions(NamedTuple):
    """What holds for all batches of a request."""

    acks: int = ACKS_ALL
    timeout_ms: int = 30_000
    transactional_id: str | None = None
    # The client is of transactions version 2: the leader adds its partitions to the transaction.
    adds_partitions: bool = False
    knows_abortable: bool = True  # the client knows TRANSACTION_ABORTABLE
    allows_zstd: bool = True


AppendOutcome: TypeAlias = Appended | AppendError


class PendingAppends:
    """A request whose outcomes are not all known yet; await it, once, for all of them."""

    __slots__ = ("_outcomes", "are_in_log")

    def __init__(
        self, outcomes: Callable[[], Coroutine[Any, Any, list[AppendOutcome]]], *, are_in_log: bool
    ) -> None:
        self._outcomes = outcomes
        # Only replication is awaited: what the same client sends next can be appended behind it.
        self.are_in_log = are_in_log

    def __await__(self) -> Generator[Any, Any, list[AppendOutcome]]:
        return self._outcomes().__await__()


class _Request(NamedTuple):
    """A request, and how far it is."""

    options: ProduceOptions
    verified: Verified
    # In the order of the batches; an entry is replaced when the wait behind it is over.
    outcomes: list[AppendOutcome]
    replicating: "list[tuple[int, asyncio.Future[ErrorCode]]]"  # by position
    unchecked: list[tuple[int, Replica, memoryview]]  # by position; not appended yet


# Stands for the outcome of a batch that is still to be checked.
_UNCHECKED: Final = AppendError(ErrorCode.UNKNOWN_SERVER_ERROR)


class Producing:
    """Appends what producers send to the partitions that this broker leads."""

    def __init__(
        self, world: World, replicas: ReplicaManager, flusher: Flusher, verifier: ProduceVerifier
    ) -> None:
        self._world = world
        self._loop = world.loop
        self._replicas = replicas
        self._flusher = flusher
        self._verifier = verifier

    def append(
        self, batches: Sequence[PartitionRecords], options: ProduceOptions
    ) -> list[AppendOutcome] | PendingAppends:
        """Append batches; the outcome of each, in their order. The caller keeps the order among requests."""
        room = self._flusher.room() if self._flusher.is_full else None
        beginning = (
            None if options.transactional_id is None else self._beginning_transactions(batches, options)
        )
        if room is not None or beginning:
            when_possible = partial(self._append_when_possible, batches, options, room, beginning or {})
            return PendingAppends(when_possible, are_in_log=False)
        request = self._append_all(batches, options, {})
        if request.unchecked:
            return PendingAppends(partial(self._append_unchecked, request), are_in_log=False)
        if request.replicating:
            return PendingAppends(partial(_when_replicated, request), are_in_log=True)
        return request.outcomes

    async def _append_when_possible(
        self,
        batches: Sequence[PartitionRecords],
        options: ProduceOptions,
        room: "asyncio.Future[None] | None",
        beginning: dict[ProducerIdAndEpoch, list[FirstBatch]],
    ) -> list[AppendOutcome]:
        if room is not None:
            await room
        verified: Verified = {}
        for identity, firsts in beginning.items():
            assert options.transactional_id is not None
            verified |= await self._verifier.ask(
                options.transactional_id, identity, firsts, adds=options.adds_partitions
            )
        return await self._append_unchecked(self._append_all(batches, options, verified))

    def _append_all(
        self, batches: Sequence[PartitionRecords], options: ProduceOptions, verified: Verified
    ) -> _Request:
        request = _Request(options, verified, [], [], [])
        now_ms = self._loop.now_ns() // 1_000_000
        for batch in batches:
            request.outcomes.append(self._append(batch, request, now_ms))
        return request

    def _append(self, batch: PartitionRecords, request: _Request, now_ms: int) -> AppendOutcome:
        topic, index, records = batch
        partitions, options = self._replicas, request.options
        partition = (
            partitions.find_replica(topic, index)
            if isinstance(topic, str)
            else partitions.find_replica_by_id(topic, index)
        )
        # Whether this broker leads it or not: a replica remembers whose sequences it rejected.
        if isinstance(partition, ErrorCode):
            return AppendError(partition)
        attributes = 0 if records is None or len(records) < HEADER_SIZE else records[_ATTRIBUTES_LOW_BYTE]
        if (
            partition.is_internal
            or options.acks not in _ACKS
            or (attributes & TRANSACTIONAL and options.transactional_id is None)
            or (attributes & CODEC_MASK == Codec.ZSTD and not options.allows_zstd)
        ):
            return _refuse(options, attributes)
        verification = request.verified.get(partition) if request.verified else None
        if isinstance(verification, ErrorCode):
            refusal = produce_refusal(verification, knows_abortable=options.knows_abortable)
            partition.note_rejection(records, refusal.code, now_ms=now_ms)
            return AppendError(*refusal)
        leader = partition.leader
        if leader is None:
            return _not_leader(partition, records, now_ms)
        outcome = leader.append(
            records, now_ms=now_ms, is_for_all=options.acks == ACKS_ALL, verification=verification
        )
        if outcome is None:
            assert records is not None
            request.unchecked.append((len(request.outcomes), partition, records))
            return _UNCHECKED
        if isinstance(outcome, Appended) and partition.high_watermark >= outcome.next_offset:
            return outcome
        return _wait_for_replicas(request, len(request.outcomes), partition, outcome)

    async def _append_unchecked(self, request: _Request) -> list[AppendOutcome]:
        """Check in the work pool, and append, the batches for which the loop has no time."""
        for position, partition, records in request.unchecked:
            verification = request.verified.get(partition)
            assert not isinstance(verification, ErrorCode)  # else it was refused
            check = partial(partition.topic_rules.check, records, now_ms=self._loop.now_ms(), off_loop=True)
            checked = await self._world.work.run(check)
            leader, now_ms = partition.leader, self._loop.now_ms()
            outcome = (
                _not_leader(partition, records, now_ms)
                if leader is None
                else leader.append(
                    records,
                    now_ms=now_ms,
                    is_for_all=request.options.acks == ACKS_ALL,
                    checked=checked,
                    verification=verification,
                )
            )
            assert outcome is not None
            request.outcomes[position] = _wait_for_replicas(request, position, partition, outcome)
        return await _when_replicated(request)

    def _beginning_transactions(
        self, batches: Sequence[PartitionRecords], options: ProduceOptions
    ) -> dict[ProducerIdAndEpoch, list[FirstBatch]]:
        """By producer, the batches that would be the first of a transaction in their partitions."""
        found: dict[ProducerIdAndEpoch, list[FirstBatch]] = {}
        for topic, index, records in batches:
            if (
                records is None
                or len(records) < HEADER_SIZE
                or not records[_ATTRIBUTES_LOW_BYTE] & TRANSACTIONAL
            ):
                continue
            header = read_header(records)
            partition = (
                self._replicas.find_replica(topic, index)
                if isinstance(topic, str)
                else self._replicas.find_replica_by_id(topic, index)
            )
            if (
                isinstance(partition, ErrorCode)
                or not partition.is_leader
                or partition.is_internal
                or partition.producers.is_in_transaction(header.producer_id, header.producer_epoch)
            ):
                continue
            if options.adds_partitions or partition.topic_rules.verifies_transactions:
                identity = ProducerIdAndEpoch(header.producer_id, header.producer_epoch)
                found.setdefault(identity, []).append(FirstBatch(partition, header.base_sequence))
        return found


def _refuse(options: ProduceOptions, attributes: int) -> AppendError:
    """Why a batch with these attributes is not taken, whatever its partition is like."""
    if attributes & TRANSACTIONAL and options.transactional_id is None:
        return AppendError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if attributes & CODEC_MASK == Codec.ZSTD and not options.allows_zstd:
        return AppendError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Produce version 7 or later")
    if options.acks not in _ACKS:
        return AppendError(ErrorCode.INVALID_REQUIRED_ACKS)
    return AppendError(*_INTERNAL)


def _not_leader(replica: Replica, records: memoryview | None, now_ms: int) -> AppendError:
    code = ErrorCode.KAFKA_STORAGE_ERROR if replica.is_offline else ErrorCode.NOT_LEADER_OR_FOLLOWER
    replica.note_rejection(records, code, now_ms=now_ms)
    return AppendError(code, reached_log=False)


def _wait_for_replicas(
    request: _Request, position: int, partition: Replica, outcome: AppendOutcome
) -> AppendOutcome:
    """Note if an outcome counts only when the high watermark has passed the batch."""
    if isinstance(outcome, AppendError):
        return (
            outcome._replace(log_start_offset=partition.log_start_offset) if outcome.reached_log else outcome
        )
    next_offset = outcome.next_offset
    if partition.high_watermark < next_offset and (
        request.options.acks == ACKS_ALL or partition.flushes_every_batch
    ):
        wait = partition.wait_for(next_offset, timeout_ms=request.options.timeout_ms)
        request.replicating.append((position, wait))
    return outcome


async def _when_replicated(request: _Request) -> list[AppendOutcome]:
    outcomes = request.outcomes
    for position, future in request.replicating:
        code = await future
        if code is not ErrorCode.NONE:
            appended = outcomes[position]
            outcomes[position] = AppendError(
                code,
                log_start_offset=appended.log_start_offset,
                log_append_time_ms=appended.log_append_time_ms,
            )
    return outcomes
