"""Requests that wait for a partition: fetches for new bytes, produce requests for an offset to be safe, deletions for
all followers.

Nobody polls. An append tells the fetches that wait on that partition how many bytes came; a high watermark
that moves wakes the produce requests up to it. Both are bounded by the connections' limit of requests in flight.
"""

import asyncio
from collections import deque
from typing import Final, Protocol

from penstock.base.errors import ErrorCode
from penstock.world import Loop
from penstock.world.loop import Timer

HIGH_WATERMARK_WAITS_MS: Final = 5  # until a follower is told of it, if nothing else is to be told sooner


class Waiter(Protocol):
    """Whoever wants to hear what happens at a partition."""

    def bytes_came(self, count: int) -> None: ...

    def high_watermark_moved(self) -> None: ...

    def end(self) -> None: ...

    def recheck(self) -> None: ...


class WaitingFetch:
    """A long poll: done when enough bytes came, when something it must report happened, or in time.

    That the high watermark has moved is for followers to know, and no hurry: with every batch that they have copied it
    does. So it waits a little for the next batch, and both go into one answer.
    """

    __slots__ = ("_is_patient", "_loop", "_missing_bytes", "_places", "_timer", "future")

    def __init__(self, loop: Loop, *, missing_bytes: int, max_wait_ms: float) -> None:
        self.future: asyncio.Future[bool] = loop.create_future()  # True: do not wait again
        self._loop = loop
        self._missing_bytes = missing_bytes
        self._places: list[FetchWaiters] = []
        self._is_patient = max_wait_ms > HIGH_WATERMARK_WAITS_MS
        self._timer: Timer = loop.call_later(max_wait_ms / 1000, self.end)

    def wait_at(self, place: "FetchWaiters") -> None:
        self._places.append(place)
        place.add(self)

    def bytes_came(self, count: int) -> None:
        self._missing_bytes -= count
        if self._missing_bytes <= 0 and not self.future.done():
            self.future.set_result(False)

    def high_watermark_moved(self) -> None:
        if self._is_patient:
            self._is_patient = False
            self._timer.cancel()
            self._timer = self._loop.call_later(HIGH_WATERMARK_WAITS_MS / 1000, self.end)

    def end(self) -> None:
        """Answer with what there is: the time is over, or the partition or the broker goes away."""
        if not self.future.done():
            self.future.set_result(True)

    def recheck(self) -> None:
        """Nothing to read, and nothing to tell."""

    def leave(self) -> None:
        """Forget it everywhere; called once the wait is over, however it ended."""
        self._timer.cancel()
        for place in self._places:
            place.discard(self)
        self._places.clear()


class FetchWaiters:
    """The fetches that wait on one partition, in the order in which they came."""

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        self.waiting: dict[Waiter, None] = {}

    def __len__(self) -> int:
        return len(self.waiting)

    def add(self, fetch: Waiter) -> None:
        self.waiting[fetch] = None

    def discard(self, fetch: Waiter) -> None:
        self.waiting.pop(fetch, None)

    def bytes_came(self, count: int) -> None:
        for fetch in tuple(self.waiting):  # some leave when they hear of it
            fetch.bytes_came(count)

    def high_watermark_moved(self) -> None:
        for fetch in tuple(self.waiting):
            fetch.high_watermark_moved()

    def end_all(self) -> None:
        """Something happened that every fetch must hear of: deleted, failed, moved, stopping."""
        for fetch in tuple(self.waiting):
            fetch.end()

    def recheck_all(self) -> None:
        """Something happened that matters when a follower asks the next time, no sooner."""
        for fetch in self.waiting:
            fetch.recheck()


class OffsetWaiters:
    """Who waits until the high watermark has passed an offset; offsets are asked for in growing order."""

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        self.waiting: deque[tuple[int, asyncio.Future[ErrorCode]]] = deque()

    def wait_for(self, offset: int, *, loop: Loop, timeout_ms: int) -> "asyncio.Future[ErrorCode]":
        """NONE once everything below `offset` is safe, else why it is not."""
        future: asyncio.Future[ErrorCode] = loop.create_future()
        timer = loop.call_later(timeout_ms / 1000, _settle, future, ErrorCode.REQUEST_TIMED_OUT)
        future.add_done_callback(lambda _: timer.cancel())
        while self.waiting and self.waiting[0][1].done():  # timed out: nobody waits there any more
            self.waiting.popleft()
        self.waiting.append((offset, future))
        return future

    def reached(self, offset: int) -> None:
        while self.waiting and self.waiting[0][0] <= offset:
            _settle(self.waiting.popleft()[1], ErrorCode.NONE)

    def give_up(self, reason: ErrorCode) -> None:
        while self.waiting:
            _settle(self.waiting.popleft()[1], reason)


class Bell:
    """Rings when something may be different, for whoever waits to look again."""

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        self.waiting: dict[asyncio.Future[None], None] = {}

    def __len__(self) -> int:
        return len(self.waiting)

    def ring(self) -> None:
        for future in self.waiting:
            _ring(future)

    async def rings(self, loop: Loop, *, timeout_s: float) -> None:
        """Return when it does, or in time."""
        future: asyncio.Future[None] = loop.create_future()
        self.waiting[future] = None
        timer = loop.call_later(timeout_s, _ring, future)
        try:
            await future
        finally:
            timer.cancel()
            del self.waiting[future]


def _ring(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


def _settle(future: "asyncio.Future[ErrorCode]", outcome: ErrorCode) -> None:
    if not future.done():  # it may have timed out, or its connection may be gone
        future.set_result(outcome)
