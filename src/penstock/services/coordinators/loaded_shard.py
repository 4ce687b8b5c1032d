"""One loaded shard under one leader epoch: decisions are written, replayed and answered here, and timers run.

From a decision to its replay no other request comes between: all of `carry_out` runs on the loop, to the end. An
answer that is safe at once is returned as it is, else a future for it. What has been replayed may still have to be
written, at the end of the turn (`writing`); nothing that depends on it is answered before.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Generator, Iterable
from functools import partial
from typing import Any, Final, Generic, TypeAlias, TypeVar

from penstock.base.errors import ErrorCode, Refusal
from penstock.core.coordination import (
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
from penstock.services.coordinators.writing import ShardWriter
from penstock.services.replicas.replica import Replica
from penstock.world import World
from penstock.world.loop import Timer
from penstock.world.pacing import Pacer

log = logging.getLogger("penstock.coordinators")

S = TypeVar("S", bound=Shard)
R = TypeVar("R")

# A decision whose records, or what it was decided upon, may still be lost; and the answer it owes.
_Unsafe: TypeAlias = "tuple[Decision[Any], asyncio.Future[Any]]"

NOT_COORDINATOR: Final = Refusal(ErrorCode.NOT_COORDINATOR)

# What became of a write, as a client of a coordinator is told; anything else means that the instance is of no use.
_WRITE_ERRORS: Final = {
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.MESSAGE_TOO_LARGE,
}

_COMPLETED_AT_ONCE: Final = 50  # requests that have waited: writing an answer takes a tenth of a millisecond
_TIMER_DELAY_S_MIN: Final = 0.001
_TIMER_RETRY_S: Final = 0.5  # after a timer's decision could not be written


class SteadyClock:
    """Wall-clock milliseconds that never jump: the wall's at the start, and from then on the monotonic clock's.

    What begins now begins when this millisecond is over, and what is due is due when all of its last millisecond is:
    so no deadline passes a fraction of a millisecond early.
    """

    def __init__(self, world: World) -> None:
        self._loop = world.loop
        self._wall_ms = world.loop.now_ms()
        self._since_s = world.loop.time()

    def now_ms(self) -> int:
        """For what begins now; deadlines are counted from here."""
        return self._wall_ms + math.ceil((self._loop.time() - self._since_s) * 1000)

    def passed_ms(self) -> int:
        """For what is due: every deadline up to here has passed."""
        return self._wall_ms + int((self._loop.time() - self._since_s) * 1000)

    def seconds_until(self, due_ms: int) -> float:
        return (due_ms - self._wall_ms) / 1000 - (self._loop.time() - self._since_s)


class LoadedShard(Generic[S]):
    """A shard, the partition it was loaded from, and whoever waits for an answer of it."""

    def __init__(
        self,
        world: World,
        partition: Replica,
        shard: S,
        record_format: RecordFormat,
        *,
        write_timeout_ms: int,
        linger_ms: int,
        slice_ms: float,
        on_effect: Callable[[Any], None],
        on_dropped: "Callable[[LoadedShard[S]], None]",
    ) -> None:
        self._loop = world.loop
        self._clock = SteadyClock(world)
        self._writer = ShardWriter(
            world.loop, partition, record_format, linger_ms=linger_ms, on_flushed=self._flushed
        )
        self._write_timeout_ms = write_timeout_ms
        self._slice_ms = slice_ms
        self._on_effect = on_effect
        self._on_dropped = on_dropped
        self._owed: dict[asyncio.Future[Any], None] = {}  # to be answered, whatever happens
        self._pending: dict[Pending[Any], asyncio.Future[Any]] = {}
        self._unsafe: list[_Unsafe] = []  # to be answered when what is gathered has been written
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._timer: Timer | None = None
        self._timer_due_ms = 0
        self._expiring = False
        self.partition = partition
        self.shard = shard
        self.replayed_offset = 0
        self.dropped = False

    def begin(self, replayed_offset: int) -> None:
        """The log has been replayed up to here: requests may come."""
        self.replayed_offset = replayed_offset
        self.shard.loaded(self._clock.now_ms())
        self._arm()

    @property
    def leader_epoch(self) -> int:
        """The one it was loaded in."""
        return self._writer.leader_epoch

    # Requests.

    def ask(self, request: Callable[[S, int], Answer[R]]) -> "R | Refusal | asyncio.Future[R | Refusal]":
        """What the shard answers, or a future for it."""
        try:
            answer = request(self.shard, self._clock.now_ms())
            if not isinstance(answer, Decision):
                future = self._promise()
                self._start(self._answer_later(answer, future))
                return future
            outcome = self.carry_out(answer)
            self._arm()
        except Exception:
            self.drop()  # what is not durable may be half changed; what is, is in the log
            raise
        return outcome

    async def _answer_later(
        self, answer: Generator[None, None, Decision[R]], future: "asyncio.Future[R | Refusal]"
    ) -> None:
        decision = await self._drive(answer)
        if not self.dropped:
            outcome = self.carry_out(decision)
            self._arm()
            if isinstance(outcome, asyncio.Future):
                outcome.add_done_callback(lambda done: self._settle(future, done.result()))
            else:
                self._settle(future, outcome)

    # Decisions.

    def carry_out(self, decision: Decision[R]) -> "R | Refusal | asyncio.Future[R | Refusal]":
        """Write and replay what was decided; the answer, or a future for it."""
        refusal = self._write(decision) if decision.records else None
        if refusal is not None:
            # What the shard meant to tell them is not so; it does not know any more that they wait.
            for pending, _ in decision.completes:
                self._complete(Completion(pending, refusal))
            if decision.work is not None:
                self._lost_work()
            return refusal
        if decision.work is not None:
            self._start(self._carry_out_later(decision.work))
        response = decision.response
        is_safe = self.partition.high_watermark >= self.replayed_offset
        if is_safe and not isinstance(response, Pending):
            self._became_safe(decision)
            return response
        answer = self._promise()
        if isinstance(response, Pending):
            self._pending[response] = answer
            answer.add_done_callback(partial(self._forget, response))
        if is_safe:
            self._became_safe(decision)
        else:
            self._when_safe(decision, answer)
        return answer

    def _write(self, decision: Decision[Any]) -> Refusal | None:
        refused = self.partition.isr_refusal()
        if refused is not None:
            return self._refusal(refused.code)
        records, producer = decision.records, decision.producer
        offset = self._writer.write(records, producer)
        if isinstance(offset, ErrorCode):
            return self._refusal(offset)
        try:
            for record in records:
                self.shard.replay(record, offset=offset, producer=producer)
                offset += 1
        except BaseException:
            self.drop()  # half of a decision is in the state; what is in the log is whole
            raise
        self.replayed_offset = offset
        return None

    def write_gathered(self) -> None:
        """Somebody else is about to write to the partition."""
        self._writer.flush()

    def _flushed(self, code: ErrorCode) -> None:
        """What was gathered is in the log; or it is not, and the state is ahead of it."""
        if code is ErrorCode.NONE:
            self._await_safety()
        else:
            self._could_not_write(code)

    def _refusal(self, code: ErrorCode) -> Refusal:
        told = _WRITE_ERRORS.get(code)
        if told is not None and not self.dropped:
            return Refusal(told)
        self._could_not_write(code)
        return NOT_COORDINATOR

    def _could_not_write(self, code: ErrorCode) -> None:
        if not self.dropped:
            log.warning(
                "%s: the coordinator's append failed: %s; reloading its state from the log",
                self.partition,
                code.name,
            )
        self.drop()

    def _when_safe(self, decision: Decision[Any], answer: "asyncio.Future[Any]") -> None:
        self._unsafe.append((decision, answer))
        if not self._writer.has_gathered:
            self._await_safety()

    def _await_safety(self) -> None:
        """Answer, now or as soon as the high watermark gets there, what depends on nothing but what is written."""
        unsafe, self._unsafe = self._unsafe, []
        if self.partition.high_watermark >= self.replayed_offset:
            self._reached(unsafe, ErrorCode.NONE)
        elif unsafe:
            waited = self.partition.wait_for(self.replayed_offset, timeout_ms=self._write_timeout_ms)
            waited.add_done_callback(lambda waited: self._reached(unsafe, waited.result()))

    def _reached(self, unsafe: list[_Unsafe], code: ErrorCode) -> None:
        for decision, answer in unsafe:
            if self.dropped:
                return
            if code is ErrorCode.NONE:
                self._became_safe(decision)
                if not isinstance(decision.response, Pending):
                    self._settle(answer, decision.response)
            else:
                refusal = self._refusal(code)
                self._settle(answer, refusal)
                for pending, _ in decision.completes:
                    self._complete(Completion(pending, refusal))

    def _became_safe(self, decision: Decision[Any]) -> None:
        completes = decision.completes
        for completion in completes[:_COMPLETED_AT_ONCE]:
            self._complete(completion)
        if len(completes) > _COMPLETED_AT_ONCE:
            self._start(self._complete_later(completes[_COMPLETED_AT_ONCE:]))
        for effect in decision.effects:
            self._on_effect(effect)

    async def _complete_later(self, completes: tuple[Completion, ...]) -> None:
        """Whoever is answered is busy with it in the loop's next turn: some in each, so that others get theirs."""
        for start in range(0, len(completes), _COMPLETED_AT_ONCE):
            await self._loop.sleep(0)
            for completion in completes[start : start + _COMPLETED_AT_ONCE]:
                self._complete(completion)

    def _complete(self, completion: Completion) -> None:
        future = self._pending.get(completion.pending)
        if future is not None:  # else whoever waited has gone
            self._settle(future, completion.response)

    def marker_written(self, marker: Marker, *, offset: int) -> None:
        """The end of a transaction was appended to the partition, past this instance."""
        self.replayed_offset = offset + 1
        producer = BatchProducer(marker.producer_id, marker.producer_epoch)
        self.shard.replay_marker(producer, committed=marker.committed, offset=offset)
        self._arm()

    # Long work and timers.

    async def _carry_out_later(self, work: Work) -> None:
        decision = await self._drive(work)
        if decision is None or self.dropped:
            return
        if isinstance(self.carry_out(decision), Refusal):
            self._lost_work()
        self._arm()

    def _lost_work(self) -> None:
        """The shard believes that something is being worked out; only one that is loaded anew asks for it again."""
        log.warning(
            "%s: the coordinator's background append failed; reloading its state from the log", self.partition
        )
        self.drop()

    async def _drive(self, work: Generator[None, None, R]) -> R:
        pacer = Pacer(self._loop, slice_ms=self._slice_ms)
        while True:
            try:
                next(work)
            except StopIteration as stop:
                result: R = stop.value
                return result
            await pacer.pause()

    def _arm(self, *, delay_s_min: float = 0.0) -> None:
        """Have `expire` called when the shard has something due."""
        due_ms = None if self.dropped or self._expiring else self.shard.deadline()
        if due_ms is None or (self._timer is not None and self._timer_due_ms <= due_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        delay_s = max(delay_s_min, self._clock.seconds_until(due_ms), _TIMER_DELAY_S_MIN)
        self._timer_due_ms = due_ms
        self._timer = self._loop.call_later(delay_s, self._due)

    def _due(self) -> None:
        self._timer = None
        self._expiring = True
        self._start(self._expire())

    async def _expire(self) -> None:
        done = await self._carry_out_all(self.shard.expire(self._clock.passed_ms()))
        self._expiring = False
        self._arm(delay_s_min=0.0 if done else _TIMER_RETRY_S)

    def carry_out_soon(self, decisions: Iterable[Decision[None]]) -> "asyncio.Task[None]":
        """Each is carried out before the next is asked for."""
        return self._start(self._carry_out_and_arm(decisions))

    async def _carry_out_and_arm(self, decisions: Iterable[Decision[None]]) -> None:
        await self._carry_out_all(decisions)
        self._arm()

    async def _carry_out_all(self, decisions: Iterable[Decision[None]]) -> bool:
        """False if one could not be, and so those after it were not."""
        pacer = Pacer(self._loop, slice_ms=self._slice_ms)
        for decision in decisions:
            if isinstance(self.carry_out(decision), Refusal) or self.dropped:
                return False
            await pacer.pause()
        return True

    def _start(self, coroutine: Any) -> "asyncio.Task[None]":
        task = self._loop.create_task(self._guarded(coroutine))
        self._tasks[task] = None

        def forget(task: asyncio.Task[None]) -> None:
            del self._tasks[task]
            coroutine.close()  # if the task was cancelled before it began

        task.add_done_callback(forget)
        return task

    async def _guarded(self, coroutine: Any) -> None:
        try:
            await coroutine
        except Exception:
            log.exception("%s: the coordinator failed; reloading its state from the log", self.partition)
            self.drop()

    # The end.

    def drop(self) -> None:
        """Of no use any more: whoever waits is sent to look for the coordinator again."""
        if self.dropped:
            return
        self.dropped = True
        self._writer.discard()
        if self._timer is not None:
            self._timer.cancel()
        for task in list(self._tasks):
            task.cancel()
        for future in list(self._owed):
            self._settle(future, NOT_COORDINATOR)
        self._on_dropped(self)

    def _promise(self) -> "asyncio.Future[Any]":
        future: asyncio.Future[Any] = self._loop.create_future()
        self._owed[future] = None
        return future

    def _forget(self, pending: Pending[Any], future: "asyncio.Future[Any]") -> None:
        """It was answered, or nobody waits any more."""
        self._pending.pop(pending, None)
        self._owed.pop(future, None)

    def _settle(self, future: "asyncio.Future[Any]", outcome: Any) -> None:
        self._owed.pop(future, None)
        if not future.done():  # its connection may be gone
            future.set_result(outcome)
