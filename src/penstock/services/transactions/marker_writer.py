"""Completes prepared transactions: writes a marker to each of their partitions, then COMPLETE to the coordinator's log.

The marker is appended directly where this broker leads the partition, else sent to the leader (`marker_sender`). A
failed marker is retried without a limit, with the leader of the time; until it succeeds, the transaction stays prepared
and the partition's last stable offset does not advance. No marker is written to a partition that was deleted, or that
has a newer epoch of the producer, since it has the marker then. A partition counts as deleted if this broker's metadata
image does not have it: all brokers apply metadata changes in the same order, so a new coordinator has applied at least
the changes that its predecessor had. If another broker becomes the coordinator, it starts again from the log.
"""

import asyncio
import logging
from collections.abc import Awaitable
from typing import Final, TypeAlias

from penstock.base.errors import ErrorCode, Refusal
from penstock.base.ids import TopicPartition
from penstock.cluster.metadata import NO_LEADER, MetadataImage, PartitionState
from penstock.cluster.peer_requests.markers import RemoteMarker
from penstock.core.transactions.shard import TransactionShard
from penstock.core.transactions.states import TransactionState
from penstock.core.transactions.transaction import ProducerIdAndEpoch, TransactionMetadata
from penstock.records.control import Marker, MarkerType
from penstock.services.coordinators.coordinator import AnswerAfterLoading, Coordinator
from penstock.services.transactions.marker_appender import MarkerAppender
from penstock.services.transactions.marker_sender import MarkerSender
from penstock.world import World
from penstock.world.pacing import Pacer
from penstock.world.tasks import cancel_and_wait

log = logging.getLogger("penstock.transactions")

_WRITE_TIMEOUT_MS: Final = 30_000
_RETRY_S_MIN: Final = 0.05
_RETRY_S_MAX: Final = 0.5

_PARTITIONS_AT_ONCE_MAX: Final = 10

# The result of writing the marker to each partition, or a future for it.
Outcomes: TypeAlias = "list[tuple[TopicPartition, ErrorCode | asyncio.Future[ErrorCode]]]"

# The partition has this marker, or a later one.
_WRITTEN: Final = (ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH)

# Another broker leads the partition, or it was deleted.
_NOT_LED_HERE: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


class MarkerWriter:
    """Completes every prepared transaction that is passed to `begin`; repeated calls for one have no effect."""

    def __init__(
        self,
        world: World,
        image: MetadataImage,
        coordinator: Coordinator[TransactionShard],
        markers: MarkerAppender,
        marker_sender: MarkerSender,
        *,
        node_id: int,
        slice_ms: float,
    ) -> None:
        self._world = world
        self._image = image
        self._coordinator = coordinator
        self._markers = markers
        self._marker_sender = marker_sender
        self._node_id = node_id
        self._slice_ms = slice_ms
        self._under_way: dict[tuple[str, ProducerIdAndEpoch], asyncio.Future[None]] = {}
        self._tasks: dict[asyncio.Task[None], tuple[TransactionMetadata, Marker]] = {}
        self._stopped = False

    def begin(self, prepared: TransactionMetadata) -> None:
        """Start to complete a transaction: its PREPARE record is committed."""
        key = prepared.transactional_id, prepared.identity
        if key in self._under_way or self._stopped:
            return
        self._under_way[key] = self._world.loop.create_future()
        # In the next turn of the loop: the coordinator is still carrying out the decision, and maybe others after it.
        self._world.loop.call_soon(self._end, prepared)

    def _end(self, prepared: TransactionMetadata) -> None:
        marker = None if self._stopped else self._marker(prepared)
        outcomes: Outcomes = []
        try:
            if marker is None or self._ends_at_once(prepared, marker, outcomes):
                self._over(prepared)
                return
        except Exception:
            log.exception(
                "transactional id %s: writing the transaction markers failed", prepared.transactional_id
            )
            self._over(prepared)
            return
        name = f"end the transaction of {prepared.transactional_id}"
        task = self._world.loop.create_task(self._finish(prepared, marker, outcomes), name=name)
        self._tasks[task] = prepared, marker
        task.add_done_callback(lambda done: self._done(prepared, done))

    def _ends_at_once(self, prepared: TransactionMetadata, marker: Marker, outcomes: Outcomes) -> bool:
        """Try to complete without a task, which most transactions can: they have few partitions, all led here."""
        if len(prepared.partitions) > _PARTITIONS_AT_ONCE_MAX:
            return False
        for where in sorted(prepared.partitions):
            outcomes.append((where, self._append(marker, where, prepared.client_version)))
        if any(outcome not in _WRITTEN for _, outcome in outcomes):
            return False
        return not isinstance(self._complete(prepared), AnswerAfterLoading)

    def _done(self, prepared: TransactionMetadata, task: "asyncio.Task[None]") -> None:
        del self._tasks[task]
        self._over(prepared)
        if not task.cancelled() and task.exception() is not None:
            log.error(
                "transactional id %s: writing the transaction markers failed",
                prepared.transactional_id,
                exc_info=task.exception(),
            )

    def _over(self, prepared: TransactionMetadata) -> None:
        self._under_way.pop((prepared.transactional_id, prepared.identity)).set_result(None)

    async def ended(self, transactional_id: str, *, timeout_s: float) -> None:
        """Return when the last transaction of the transactional id is complete, or at the timeout."""
        under_way = self._under_way.items()
        over = next((future for (name, _), future in under_way if name == transactional_id), None)
        if over is not None:
            timeout: asyncio.Future[None] = self._world.loop.create_future()
            timer = self._world.loop.call_later(timeout_s, timeout.cancel)
            try:
                await asyncio.wait([over, timeout], return_when=asyncio.FIRST_COMPLETED)
            finally:
                timer.cancel()
                timeout.cancel()

    def coordinator_moved(self) -> None:
        """Cancel the transactions whose coordinator moved to another broker, or has a later leader epoch here."""
        for task, (prepared, marker) in self._tasks.items():
            if self._coordinator.leader_epoch_for(prepared.transactional_id) != marker.coordinator_epoch:
                task.cancel()

    async def stop(self) -> None:
        """Complete no more transactions: prepared ones stay prepared, and are completed after the next start."""
        self._stopped = True
        await cancel_and_wait(*self._tasks)

    async def _finish(self, prepared: TransactionMetadata, marker: Marker, outcomes: Outcomes) -> None:
        if await self._write_everywhere(prepared, marker, outcomes):
            completed = self._complete(prepared)
            if isinstance(completed, Awaitable):
                await completed

    def _complete(self, prepared: TransactionMetadata) -> "Refusal | Awaitable[Refusal | None] | None":
        return self._coordinator.ask_at_once(
            prepared.transactional_id,
            lambda shard, now_ms: shard.complete(prepared.transactional_id, prepared.identity, now_ms),
        )

    def _marker(self, prepared: TransactionMetadata) -> Marker | None:
        """The transaction's marker; None if this broker is no longer its coordinator."""
        coordinator_epoch = self._coordinator.leader_epoch_for(prepared.transactional_id)
        if coordinator_epoch is None:
            return None
        commits = prepared.state is TransactionState.PREPARE_COMMIT
        return Marker(
            MarkerType.COMMIT if commits else MarkerType.ABORT, *prepared.identity, coordinator_epoch
        )

    async def _write_everywhere(
        self, prepared: TransactionMetadata, marker: Marker, outcomes: Outcomes
    ) -> bool:
        """Write the marker to all partitions, with retries; `outcomes` are those of a first attempt.

        False if a partition's leader has fenced this coordinator.
        """
        pacer = Pacer(self._world.loop, slice_ms=self._slice_ms)
        missing = sorted(prepared.partitions)
        delay_s = _RETRY_S_MIN
        while missing:
            if not outcomes:
                for where in missing:
                    outcomes.append((where, self._append(marker, where, prepared.client_version)))
                    await pacer.pause()
            failed = []
            for where, outcome in outcomes:
                code = outcome if isinstance(outcome, ErrorCode) else await outcome
                if code is ErrorCode.TRANSACTION_COORDINATOR_FENCED:
                    return False
                if code not in _WRITTEN:
                    failed.append(where)
            missing, outcomes = failed, []
            if missing:
                if delay_s == _RETRY_S_MIN:
                    log.warning(
                        "transactional id %s: waiting to write markers to %s",
                        prepared.transactional_id,
                        _names(missing),
                    )
                await self._world.loop.sleep(delay_s)
                pacer.begin()
                delay_s = min(2 * delay_s, _RETRY_S_MAX)
        return True

    def _append(
        self, marker: Marker, where: TopicPartition, version: int
    ) -> "ErrorCode | asyncio.Future[ErrorCode]":
        outcome = self._markers.append(marker, where, version=version, timeout_ms=_WRITE_TIMEOUT_MS)
        return self._append_elsewhere(marker, where, version) if outcome in _NOT_LED_HERE else outcome

    def _append_elsewhere(
        self, marker: Marker, where: TopicPartition, version: int
    ) -> "ErrorCode | asyncio.Future[ErrorCode]":
        state = self._state(where)
        if state is None:
            return ErrorCode.NONE
        # If the metadata names this broker, its replica is just becoming the leader, or has just ceased to be.
        if state.leader in (NO_LEADER, self._node_id):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return self._marker_sender.write(state.leader, RemoteMarker(marker, where, version))

    def _state(self, where: TopicPartition) -> PartitionState | None:
        """The partition's state in the metadata image; None if it was deleted."""
        topic = self._image.topic(where.topic)
        if topic is None or where.partition >= len(topic.partitions):
            return None
        return topic.partitions[where.partition]


def _names(partitions: list[TopicPartition]) -> str:
    return ", ".join(map(str, partitions))
