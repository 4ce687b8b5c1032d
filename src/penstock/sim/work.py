"""Work off the loop, simulated: it is done some time after the call, and its result is delivered some time later.

Between the two the process runs on, and may be killed: then the work is done without a result.
"""

import asyncio
import random
from collections.abc import Callable
from typing import Any, TypeVar

from penstock.sim.loop import SimLoop

T = TypeVar("T")

START_S_MAX = 0.0005
ANSWER_S_MAX = 0.002


def no_delay() -> float:
    return 0.0


class SimWork:
    """A `world.Work`. `slowness_s` is asked after each function: what a device took longer than usual."""

    def __init__(
        self, loop: SimLoop, chance: random.Random, *, slowness_s: Callable[[], float] = no_delay
    ) -> None:
        self._loop = loop
        self._chance = chance
        self._slowness_s = slowness_s
        self._pending: dict[asyncio.Future[Any], Callable[[], None] | None] = {}
        self._closed = False

    @property
    def is_pending(self) -> bool:
        """Whether a result is still to be delivered."""
        return bool(self._pending)

    def run(self, function: Callable[[], T]) -> asyncio.Future[T]:
        if self._closed:
            raise RuntimeError("work was asked for after it was closed")
        future: asyncio.Future[T] = self._loop.create_future()
        self._pending[future] = None
        self._loop.call_later(self._chance.random() * START_S_MAX, self._perform, function, future)
        return future

    def close(self) -> None:
        """Cancel what has not started, and deliver the results of what is done. Fine to repeat."""
        self._closed = True
        pending, self._pending = self._pending, {}
        for future, tell in pending.items():
            if tell is not None:
                tell()
            else:
                future.cancel()

    def _perform(self, function: Callable[[], T], future: "asyncio.Future[T]") -> None:
        if future.done():  # who asked has gone, or the work was closed
            self._pending.pop(future, None)
            return
        tell = self._outcome(function, future)
        self._pending[future] = tell
        delay_s = self._chance.random() * ANSWER_S_MAX + self._slowness_s()
        self._loop.call_later(delay_s, self._tell, future)

    def _tell(self, future: "asyncio.Future[Any]") -> None:
        tell = self._pending.pop(future, None)
        if tell is not None:
            tell()

    def _outcome(self, function: Callable[[], T], future: "asyncio.Future[T]") -> Callable[[], None]:
        """Run the function; calling what this returns delivers its result or exception."""
        try:
            result = function()
        except Exception as error:
            problem = error
            return lambda: None if future.done() else future.set_exception(problem)
        return lambda: None if future.done() else future.set_result(result)
