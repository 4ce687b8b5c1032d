"""The purgatory of a partition: delayed fetches (until new bytes arrive), delayed produce requests (until the high
watermark passes their batches) and delayed DeleteRecords requests (until all followers have the new log start offset).

Nothing polls. An append tells the partition's delayed fetches how many bytes it added; an advance of the high watermark
completes the produce requests up to it. The number of both is bounded by the connections' limit of in-flight requests.

A follower gets a new high watermark with the next batch, or after 5 ms without one (`HIGH_WATERMARK_WAITS_MS`):
answering at once doubled the number of fetch responses.
"""

import asyncio
from collections import deque
from typing import Final, Protocol

from penstock.base.errors import ErrorCode
from penstock.world import Loop
from penstock.world.loop import Timer

# A follower's delayed fetch completes this long after the high watermark advanced.
HIGH_WATERMARK_WAITS_MS: Final = 5


class FetchWaiter(Protocol):
    """Is notified of appends, high watermark advances and role changes of a partition."""

    def bytes_appended(self, count: int) -> None: ...

    def high_watermark_advanced(self) -> None: ...

    def end(self) -> None: ...

    def recheck(self) -> None: ...


class FetchWait:
    """The wait of a delayed fetch: ends when enough bytes arrived, when there is an event to report, or at its timeout.

    The high watermark advances with every batch that the followers have copied, and no follower needs it at once. So
    the fetch waits up to 5 ms for the next batch, and one response carries both.
    """

    __slots__ = ("_loop", "_missing_bytes", "_places", "_timer", "_waits_for_batch", "future")

    def __init__(self, loop: Loop, *, missing_bytes: int, max_wait_ms: float) -> None:
        self.future: asyncio.Future[bool] = loop.create_future()  # True: do not wait again
        self._loop = loop
        self._missing_bytes = missing_bytes
        self._places: list[FetchWaiters] = []
        self._waits_for_batch = max_wait_ms > HIGH_WATERMARK_WAITS_MS
        self._timer: Timer = loop.call_later(max_wait_ms / 1000, self.end)

    def wait_at(self, place: "FetchWaiters") -> None:
        self._places.append(place)
        place.add(self)

    def bytes_appended(self, count: int) -> None:
        self._missing_bytes -= count
        if self._missing_bytes <= 0 and not self.future.done():
            self.future.set_result(False)

    def high_watermark_advanced(self) -> None:
        if self._waits_for_batch:
            self._waits_for_batch = False
            self._timer.cancel()
            self._timer = self._loop.call_later(HIGH_WATERMARK_WAITS_MS / 1000, self.end)

    def end(self) -> None:
        """End the wait: at the timeout, or because the partition is removed or the broker stops."""
        if not self.future.done():
            self.future.set_result(True)

    def recheck(self) -> None:
        """Do nothing: there is nothing to read and nothing to report."""

    def leave(self) -> None:
        """Remove the fetch from all partitions; called once the wait is over, however it ended."""
        self._timer.cancel()
        for place in self._places:
            place.discard(self)
        self._places.clear()


class FetchWaiters:
    """The delayed fetches of one partition, in order of arrival."""

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        self.waiting: dict[FetchWaiter, None] = {}

    def __len__(self) -> int:
        return len(self.waiting)

    def add(self, fetch: FetchWaiter) -> None:
        self.waiting[fetch] = None

    def discard(self, fetch: FetchWaiter) -> None:
        self.waiting.pop(fetch, None)

    def bytes_appended(self, count: int) -> None:
        for fetch in tuple(self.waiting):  # a copy: a notified fetch may remove itself
            fetch.bytes_appended(count)

    def high_watermark_advanced(self) -> None:
        for fetch in tuple(self.waiting):
            fetch.high_watermark_advanced()

    def end_all(self) -> None:
        """Complete every fetch: the partition was deleted, failed or moved, or the broker stops."""
        for fetch in tuple(self.waiting):
            fetch.end()

    def recheck_all(self) -> None:
        """Have the followers' next fetches look at the partition again; the current ones stay delayed."""
        for fetch in self.waiting:
            fetch.recheck()


class HighWatermarkWaiters:
    """Requests that wait until the high watermark has passed an offset; their offsets arrive in ascending order."""

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        self.waiting: deque[tuple[int, asyncio.Future[ErrorCode]]] = deque()

    def wait_for(self, offset: int, *, loop: Loop, timeout_ms: int) -> "asyncio.Future[ErrorCode]":
        """A future: NONE once the high watermark has reached `offset`, else the error why it has not."""
        future: asyncio.Future[ErrorCode] = loop.create_future()
        timer = loop.call_later(timeout_ms / 1000, _complete, future, ErrorCode.REQUEST_TIMED_OUT)
        future.add_done_callback(lambda _: timer.cancel())
        while self.waiting and self.waiting[0][1].done():  # timed out
            self.waiting.popleft()
        self.waiting.append((offset, future))
        return future

    def reached(self, offset: int) -> None:
        while self.waiting and self.waiting[0][0] <= offset:
            _complete(self.waiting.popleft()[1], ErrorCode.NONE)

    def give_up(self, reason: ErrorCode) -> None:
        while self.waiting:
            _complete(self.waiting.popleft()[1], reason)


class ChangeSignal:
    """Wakes all waiting tasks, which then check their condition again."""

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        self.waiting: dict[asyncio.Future[None], None] = {}

    def __len__(self) -> int:
        return len(self.waiting)

    def notify(self) -> None:
        for future in self.waiting:
            _wake(future)

    async def wait(self, loop: Loop, *, timeout_s: float) -> None:
        """Return at the next `notify`, or after the timeout."""
        future: asyncio.Future[None] = loop.create_future()
        self.waiting[future] = None
        timer = loop.call_later(timeout_s, _wake, future)
        try:
            await future
        finally:
            timer.cancel()
            del self.waiting[future]


def _wake(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


def _complete(future: "asyncio.Future[ErrorCode]", outcome: ErrorCode) -> None:
    if not future.done():  # it may have timed out, or its connection may be gone
        future.set_result(outcome)
