"""A shard loaded in one leader epoch: appends, replays and answers its decisions, and runs its timers.

`carry_out` runs on the loop without a pause, so no other request comes between a decision and its replay. A response
whose records are below the high watermark is returned at once, else as a future. Replayed records may still have to be
appended, at the end of the loop's turn (`shard_writer`); no response that depends on them is given before.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator, Iterable
from functools import partial
from typing import Any, Final, Generic, TypeAlias, TypeVar, TypeVarTuple, Unpack

from penstock.base.errors import ErrorCode, Refusal
from penstock.core.coordinator_shard import (
    Answer,
    BatchProducer,
    Completion,
    Decision,
    Pending,
    Shard,
    Work,
)
from penstock.records.control import Marker
from penstock.records.internal.record import RecordFormat
from penstock.services.coordinators.shard_writer import ShardWriter
from penstock.services.coordinators.steady_clock import SteadyClock
from penstock.services.replicas.leader import LeaderRole
from penstock.world import World
from penstock.world.loop import Timer
from penstock.world.pacing import Pacer
from penstock.world.tasks import Tasks

log = logging.getLogger("penstock.coordinators")

S = TypeVar("S", bound=Shard)
R = TypeVar("R")
Arguments = TypeVarTuple("Arguments")

# A decision that depends on records above the high watermark, and the future for its response.
_Uncommitted: TypeAlias = "tuple[Decision[Any], asyncio.Future[Any]]"

NOT_COORDINATOR: Final = Refusal(ErrorCode.NOT_COORDINATOR)

# Errors of an append, and the errors that the client gets for them; after any other error the shard is unloaded.
_APPEND_ERRORS: Final = {
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.MESSAGE_TOO_LARGE,
}

_COMPLETED_AT_ONCE: Final = 50  # waiting requests: encoding one response takes 0.1 ms
_TIMER_DELAY_S_MIN: Final = 0.001
_TIMER_RETRY_S: Final = 0.5  # after the records of a timer's decision could not be appended


class LoadedShard(Generic[S]):
    """A shard, the replica it was loaded from, and the requests that wait for its responses.

    It is unloaded when an append fails or the replica's leader epoch changes: all waiting requests are answered with
    NOT_COORDINATOR, and the next request loads the state from the log again.
    """

    def __init__(
        self,
        world: World,
        leader: LeaderRole,
        shard: S,
        record_format: RecordFormat,
        *,
        write_timeout_ms: int,
        linger_ms: int,
        slice_ms: float,
        on_effect: Callable[[Any], None],
        on_unloaded: "Callable[[LoadedShard[S]], None]",
    ) -> None:
        self._loop = world.loop
        self._clock = SteadyClock(world)
        self._writer = ShardWriter(
            world.loop, leader, record_format, linger_ms=linger_ms, on_flushed=self._batch_flushed
        )
        self._write_timeout_ms = write_timeout_ms
        self._slice_ms = slice_ms
        self._on_effect = on_effect
        self._on_unloaded = on_unloaded
        self._unanswered: dict[asyncio.Future[Any], None] = {}  # `unload` answers those that are left
        self._pending: dict[Pending[Any], asyncio.Future[Any]] = {}
        self._uncommitted: list[_Uncommitted] = []  # answered once the current batch is committed
        self._tasks = Tasks(world.loop)
        self._timer: Timer | None = None
        self._timer_due_ms = 0
        self._expiring = False
        self.leader = leader
        self.partition = leader.replica
        self.shard = shard
        self.replayed_offset = 0
        self.is_unloaded = False

    def begin(self, replayed_offset: int) -> None:
        """Take requests and start timers: the log has been replayed up to here."""
        self.replayed_offset = replayed_offset
        self.shard.loaded(self._clock.now_ms())
        self._schedule_expiry()

    @property
    def leader_epoch(self) -> int:
        """The leader epoch in which the shard was loaded."""
        return self.leader.leader_epoch

    # Requests.

    def ask(self, request: Callable[[S, int], Answer[R]]) -> "R | Refusal | asyncio.Future[R | Refusal]":
        """The shard's response, or a future for it."""
        try:
            answer = request(self.shard, self._clock.now_ms())
            if not isinstance(answer, Decision):
                future = self._new_answer()
                self._start_task(self._answer_later, answer, future)
                return future
            outcome = self.carry_out(answer)
            self._schedule_expiry()
        except Exception:
            self.unload()  # the state that is not durable may be inconsistent; the log is not
            raise
        return outcome

    async def _answer_later(
        self, answer: Generator[None, None, Decision[R]], future: "asyncio.Future[R | Refusal]"
    ) -> None:
        decision = await self._run_in_slices(answer)
        if not self.is_unloaded:
            outcome = self.carry_out(decision)
            self._schedule_expiry()
            if isinstance(outcome, asyncio.Future):
                outcome.add_done_callback(lambda done: self._answer(future, done.result()))
            else:
                self._answer(future, outcome)

    # Decisions.

    def carry_out(self, decision: Decision[R]) -> "R | Refusal | asyncio.Future[R | Refusal]":
        """Append and replay the records of a decision; the response, or a future for it."""
        refusal = self._write(decision) if decision.records else None
        if refusal is not None:
            # The shard no longer knows that these requests wait, and their responses do not hold.
            for pending, _ in decision.completes:
                self._complete(Completion(pending, refusal))
            if decision.work is not None:
                self._work_failed()
            return refusal
        if decision.work is not None:
            self._start_task(self._run_work, decision.work)
        response = decision.response
        is_committed = self.partition.high_watermark >= self.replayed_offset
        if is_committed and not isinstance(response, Pending):
            self._committed(decision)
            return response
        answer = self._new_answer()
        if isinstance(response, Pending):
            self._pending[response] = answer
            answer.add_done_callback(partial(self._forget_answer, response))
        if is_committed:
            self._committed(decision)
        else:
            self._answer_when_committed(decision, answer)
        return answer

    def _write(self, decision: Decision[Any]) -> Refusal | None:
        refused = self.leader.isr_refusal()
        if refused is not None:
            return self._refusal_of(refused.code)
        records, producer = decision.records, decision.producer
        offset = self._writer.write(records, producer)
        if isinstance(offset, ErrorCode):
            return self._refusal_of(offset)
        try:
            for record in records:
                self.shard.replay(record, offset=offset, producer=producer)
                offset += 1
        except BaseException:
            self.unload()  # the state has half of a decision, the log all of it
            raise
        self.replayed_offset = offset
        return None

    def flush_batch(self) -> None:
        """Append the current batch, before a transaction marker is appended to the partition."""
        self._writer.flush()

    def _batch_flushed(self, code: ErrorCode) -> None:
        """The current batch was appended; or it was not, and the state is ahead of the log."""
        if code is ErrorCode.NONE:
            self._await_high_watermark()
        else:
            self._append_failed(code)

    def _refusal_of(self, code: ErrorCode) -> Refusal:
        code_for_client = _APPEND_ERRORS.get(code)
        if code_for_client is not None and not self.is_unloaded:
            return Refusal(code_for_client)
        self._append_failed(code)
        return NOT_COORDINATOR

    def _append_failed(self, code: ErrorCode) -> None:
        if not self.is_unloaded:
            log.warning(
                "%s: the coordinator's append failed: %s; reloading its state from the log",
                self.partition,
                code.name,
            )
        self.unload()

    def _answer_when_committed(self, decision: Decision[Any], answer: "asyncio.Future[Any]") -> None:
        self._uncommitted.append((decision, answer))
        if not self._writer.has_batch:
            self._await_high_watermark()

    def _await_high_watermark(self) -> None:
        """Answer the decisions whose records are appended, once the high watermark has passed them."""
        uncommitted, self._uncommitted = self._uncommitted, []
        if self.partition.high_watermark >= self.replayed_offset:
            self._high_watermark_reached(uncommitted, ErrorCode.NONE)
        elif uncommitted:
            waited = self.partition.wait_for(self.replayed_offset, timeout_ms=self._write_timeout_ms)
            waited.add_done_callback(
                lambda waited: self._high_watermark_reached(uncommitted, waited.result())
            )

    def _high_watermark_reached(self, uncommitted: list[_Uncommitted], code: ErrorCode) -> None:
        for decision, answer in uncommitted:
            if self.is_unloaded:
                return
            if code is ErrorCode.NONE:
                self._committed(decision)
                if not isinstance(decision.response, Pending):
                    self._answer(answer, decision.response)
            else:
                refusal = self._refusal_of(code)
                self._answer(answer, refusal)
                for pending, _ in decision.completes:
                    self._complete(Completion(pending, refusal))

    def _committed(self, decision: Decision[Any]) -> None:
        completes = decision.completes
        for completion in completes[:_COMPLETED_AT_ONCE]:
            self._complete(completion)
        if len(completes) > _COMPLETED_AT_ONCE:
            self._start_task(self._complete_later, completes[_COMPLETED_AT_ONCE:])
        for effect in decision.effects:
            self._on_effect(effect)

    async def _complete_later(self, completes: tuple[Completion, ...]) -> None:
        """Each response is encoded in the loop's next turn: some per turn, so that other requests get theirs."""
        for start in range(0, len(completes), _COMPLETED_AT_ONCE):
            await self._loop.sleep(0)
            for completion in completes[start : start + _COMPLETED_AT_ONCE]:
                self._complete(completion)

    def _complete(self, completion: Completion) -> None:
        future = self._pending.get(completion.pending)
        if future is not None:  # else the client has disconnected
            self._answer(future, completion.response)

    def marker_written(self, marker: Marker, *, offset: int) -> None:
        """A transaction marker was appended to the partition by the marker writer."""
        self.replayed_offset = offset + 1
        producer = BatchProducer(marker.producer_id, marker.producer_epoch)
        self.shard.replay_marker(producer, committed=marker.committed, offset=offset)
        self._schedule_expiry()

    # Long work and timers.

    async def _run_work(self, work: Work) -> None:
        decision = await self._run_in_slices(work)
        if decision is None or self.is_unloaded:
            return
        if isinstance(self.carry_out(decision), Refusal):
            self._work_failed()
        self._schedule_expiry()

    def _work_failed(self) -> None:
        """The shard believes that its work is in progress; it asks for it again only after it has been loaded again."""
        log.warning(
            "%s: the coordinator's background append failed; reloading its state from the log", self.partition
        )
        self.unload()

    async def _run_in_slices(self, work: Generator[None, None, R]) -> R:
        pacer = Pacer(self._loop, slice_ms=self._slice_ms)
        while True:
            try:
                next(work)
            except StopIteration as stop:
                result: R = stop.value
                return result
            await pacer.pause()

    def _schedule_expiry(self, *, delay_s_min: float = 0.0) -> None:
        """Call the shard's `expire` at its next deadline."""
        due_ms = None if self.is_unloaded or self._expiring else self.shard.deadline()
        if due_ms is None or (self._timer is not None and self._timer_due_ms <= due_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        delay_s = max(delay_s_min, self._clock.seconds_until(due_ms), _TIMER_DELAY_S_MIN)
        self._timer_due_ms = due_ms
        self._timer = self._loop.call_later(delay_s, self._timer_fired)

    def _timer_fired(self) -> None:
        self._timer = None
        self._expiring = True
        self._start_task(self._expire)

    async def _expire(self) -> None:
        done = await self._carry_out_all(self.shard.expire(self._clock.passed_ms()))
        self._expiring = False
        self._schedule_expiry(delay_s_min=0.0 if done else _TIMER_RETRY_S)

    def carry_out_soon(self, decisions: Iterable[Decision[None]]) -> "asyncio.Task[None]":
        """Carry out each decision before the next is taken from the iterable."""
        return self._start_task(self._carry_out_and_schedule, decisions)

    async def _carry_out_and_schedule(self, decisions: Iterable[Decision[None]]) -> None:
        await self._carry_out_all(decisions)
        self._schedule_expiry()

    async def _carry_out_all(self, decisions: Iterable[Decision[None]]) -> bool:
        """False if an append failed; the decisions after it were not taken."""
        pacer = Pacer(self._loop, slice_ms=self._slice_ms)
        for decision in decisions:
            if isinstance(self.carry_out(decision), Refusal) or self.is_unloaded:
                return False
            await pacer.pause()
        return True

    def _start_task(
        self, work: Callable[[Unpack[Arguments]], Awaitable[None]], *arguments: *Arguments
    ) -> "asyncio.Task[None]":
        return self._tasks.start(f"coordinator {self.partition}", self._unload_on_error(work, *arguments))

    async def _unload_on_error(
        self, work: Callable[[Unpack[Arguments]], Awaitable[None]], *arguments: *Arguments
    ) -> None:
        # At once, not when the task has ended: no other request may see state that is half changed.
        try:
            await work(*arguments)
        except Exception:
            log.exception("%s: the coordinator failed; reloading its state from the log", self.partition)
            self.unload()

    # Unloading.

    def unload(self) -> None:
        """Discard the state and answer all waiting requests with NOT_COORDINATOR."""
        if self.is_unloaded:
            return
        self.is_unloaded = True
        self._writer.discard()
        if self._timer is not None:
            self._timer.cancel()
        self._tasks.cancel()
        for future in list(self._unanswered):
            self._answer(future, NOT_COORDINATOR)
        self._on_unloaded(self)

    def _new_answer(self) -> "asyncio.Future[Any]":
        future: asyncio.Future[Any] = self._loop.create_future()
        self._unanswered[future] = None
        return future

    def _forget_answer(self, pending: Pending[Any], future: "asyncio.Future[Any]") -> None:
        """The request was answered, or its client disconnected."""
        self._pending.pop(pending, None)
        self._unanswered.pop(future, None)

    def _answer(self, future: "asyncio.Future[Any]", outcome: Any) -> None:
        self._unanswered.pop(future, None)
        if not future.done():  # cancelled if the connection was closed
            future.set_result(outcome)
