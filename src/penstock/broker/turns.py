"""Turns: requests that are in no hurry share a few milliseconds of each turn of the loop.

A rebalance brings hundreds of requests at the same moment, and so do dashboards. Each is short, but the loop would
answer all that have arrived before it looks at a socket again. Here they wait in one line for the whole broker; when
the slice of this turn of the loop is used up, whoever else has something to do goes first.
"""

from collections import deque
from collections.abc import Callable

from penstock.world.loop import Loop
from penstock.world.pacing import SLICE_MS


class Turns:
    """The line. Work is done in the order in which it came; what one connection may put here is the connection's to
    bound."""

    def __init__(self, loop: Loop, *, slice_ms: float = SLICE_MS) -> None:
        self._loop = loop
        self._slice_s = slice_ms / 1000
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_next = False  # in the loop's next turn, or in this one

    def __len__(self) -> int:
        return len(self._waiting)

    def wait(self, work: Callable[[], None]) -> None:
        """Have `work` done when it is its turn, which is never at once."""
        self._waiting.append(work)
        if not self._is_next:
            self._ask_for_a_turn()

    def _ask_for_a_turn(self) -> None:
        self._is_next = True
        self._loop.call_soon(self._take_turn)

    def _take_turn(self) -> None:
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
                self._ask_for_a_turn()
