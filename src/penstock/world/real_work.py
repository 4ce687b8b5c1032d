"""A thread pool for functions that may block: fsync, reads from the device, compression.

At most `queued_max` functions are queued for the threads; further ones wait on the loop in the order they came.
A function whose caller cancels before it has started is never run.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")

_Job = tuple[Callable[[], Any], "asyncio.Future[Any]"]
_Outcome = tuple["asyncio.Future[Any]", Any, BaseException | None]


class RealWork:
    """A thread pool that delivers results on the event loop it was created on."""

    def __init__(self, *, threads: int = 4, queued_max: int = 64) -> None:
        assert threads > 0
        assert queued_max > 0
        self._loop = asyncio.get_running_loop()
        self._handed_over: SimpleQueue[_Job | None] = SimpleQueue()
        self._waiting: deque[_Job] = deque()
        self._limit = threads + queued_max
        self._in_hand = 0  # queued or running, without a delivered result
        self._outcomes: deque[_Outcome] = deque()
        self._delivery_due = False
        self._delivery_lock = threading.Lock()
        self._closed = False
        self._threads = [
            threading.Thread(target=self._serve, name=f"penstock-work-{number}", daemon=True)
            for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def waiting(self) -> int:
        """How many functions wait on the loop, beyond those queued for the threads."""
        return len(self._waiting)

    def run(self, function: Callable[[], T]) -> asyncio.Future[T]:
        """Run `function` in a thread. Only from the loop's own thread."""
        if self._closed:
            raise RuntimeError("the thread pool is closed")
        future: asyncio.Future[T] = self._loop.create_future()
        if self._in_hand < self._limit:
            self._hand_over((function, future))
        else:
            self._waiting.append((function, future))
        return future

    def close(self) -> None:
        """Wait for running functions and cancel those that have not started. May be called again."""
        self._closed = True
        while self._waiting:
            self._waiting.popleft()[1].cancel()
        for _ in self._threads:
            self._handed_over.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()
        self._deliver()

    def _hand_over(self, job: _Job) -> None:
        self._in_hand += 1
        self._handed_over.put(job)

    def _serve(self) -> None:
        while True:
            job = self._handed_over.get()
            if job is None:
                return
            self._answer(self._perform(job))
            del job  # else its arguments stay alive until the next job

    def _perform(self, job: _Job) -> _Outcome:
        function, future = job
        if self._closed or future.cancelled():
            return future, None, asyncio.CancelledError()
        try:
            return future, function(), None
        except StopIteration as error:  # a future cannot carry one
            return future, None, RuntimeError(f"StopIteration from work: {error}")
        except BaseException as error:
            return future, None, error

    def _answer(self, outcome: _Outcome) -> None:
        # One wake-up of the loop delivers all outcomes up to then.
        with self._delivery_lock:
            self._outcomes.append(outcome)
            if self._delivery_due:
                return
            self._delivery_due = True
        try:
            self._loop.call_soon_threadsafe(self._deliver)
        except RuntimeError:
            return  # the loop is closed: no caller waits any more

    def _deliver(self) -> None:
        with self._delivery_lock:
            outcomes, self._outcomes = self._outcomes, deque()
            self._delivery_due = False
        self._in_hand -= len(outcomes)
        while self._waiting and self._in_hand < self._limit:
            self._hand_over(self._waiting.popleft())
        for future, result, error in outcomes:
            if future.done():
                continue
            if isinstance(error, asyncio.CancelledError):
                future.cancel()
            elif error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)
