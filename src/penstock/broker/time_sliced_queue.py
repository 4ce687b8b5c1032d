"""A queue of work that gets a slice of each iteration of the event loop.

A rebalance brings hundreds of requests at the same moment, and so do dashboards. Each is short, but the event loop
would answer all that have arrived before it reads a socket again. Here they wait in one queue for the whole broker;
when the slice is used up, the loop does all other work first, and continues with the queue in its next iteration.
"""

from collections import deque
from collections.abc import Callable

from penstock.world.loop import Loop
from penstock.world.pacing import SLICE_MS


class TimeSlicedQueue:
    """The queue, first in, first out. How much a connection may put into it is limited by its channel."""

    def __init__(self, loop: Loop, *, slice_ms: float = SLICE_MS) -> None:
        self._loop = loop
        self._slice_s = slice_ms / 1000
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_next = False  # the queue runs in this iteration of the loop, or in the next

    def __len__(self) -> int:
        return len(self._waiting)

    def wait(self, work: Callable[[], None]) -> None:
        """Call `work` when it is its turn, which is never at once."""
        self._waiting.append(work)
        if not self._is_next:
            self._run_next()

    def _run_next(self) -> None:
        self._is_next = True
        self._loop.call_soon(self._run)

    def _run(self) -> None:
        waiting = self._waiting
        ends = self._loop.time() + self._slice_s
        try:
            while waiting:
                waiting.popleft()()
                if self._loop.time() >= ends:
                    break
        finally:
            self._is_next = False
            if waiting:
                self._run_next()
