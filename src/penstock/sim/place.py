"""Who runs: one process in the simulation, a broker's incarnation or a client.

All processes share one event loop; whose callback it is, its context variables say. So whatever a process starts
(tasks, timers, callbacks of futures) is its own without its code doing anything for it, and when the
process is killed all of that is left undone: nothing is cancelled, no `finally` runs.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import Context, ContextVar
from typing import Any, Protocol, TypeVar

from penstock.sim.clock import Clock

T = TypeVar("T")

_PLACE: ContextVar["Place | None"] = ContextVar("place", default=None)


def current_place() -> "Place | None":
    """The process whose code runs now."""
    return _PLACE.get()


def place_in(context: Context) -> "Place | None":
    return context.get(_PLACE)


class PlaceWatcher(Protocol):
    """Hears what a process does, as far as one can see that from outside."""

    def hears(self) -> None:
        """Bytes have come for it."""
        ...

    def answers(self) -> None:
        """It sends bytes."""
        ...

    def rests(self) -> None:
        """Nothing of it is runnable."""
        ...


class Place:
    """A process. `revoked` once it has been killed: then nothing of it runs any more. `paused`: not now."""

    def __init__(self, name: str, *, host: str, clock: Clock) -> None:
        self.name = name
        self.host = host
        self.clock = clock
        self.revoked = False
        self.paused = False
        self.watcher: PlaceWatcher | None = None
        self.ready: deque[SimHandle] = deque()
        self.tasks: dict[asyncio.Task[Any], None] = {}
        self._steps_left = 0
        self._strike: Callable[[], object] | None = None
        self.context = Context()
        self.context.run(_PLACE.set, self)

    def __repr__(self) -> str:
        return f"<{self.name}{' (killed)' if self.revoked else ''}>"

    def enter(self, function: Callable[..., T], *args: Any) -> T:
        """Call a function as this process."""
        return self.context.copy().run(function, *args)

    def strike_after(self, steps: int, strike: Callable[[], object]) -> None:
        """Do something to the process when it has made so many callbacks: between two of them, at an await."""
        assert steps > 0
        self._steps_left, self._strike = steps, strike

    def count_step(self) -> None:
        if self._strike is None:
            return
        self._steps_left -= 1
        if self._steps_left == 0:
            strike, self._strike = self._strike, None
            strike()

    def revoke(self) -> None:
        """Kill the process."""
        self.revoked = True
        self.ready.clear()


class SimHandle:
    """One callback of one process, to be made when its turn comes; what asyncio calls a handle."""

    __slots__ = ("_when", "args", "callback", "context", "is_cancelled", "place")

    def __init__(
        self,
        place: Place,
        context: Context,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        when: float = 0.0,
    ) -> None:
        self.place = place
        self.context = context
        self.callback: Callable[..., object] | None = callback
        self.args = args
        self.is_cancelled = False
        self._when = when

    def __repr__(self) -> str:
        return f"<call of {self.callback!r} by {self.place.name}>"

    def when(self) -> float:
        """The moment it is due, on the clock of its process."""
        return self._when

    def cancelled(self) -> bool:
        return self.is_cancelled

    def cancel(self) -> None:
        self.is_cancelled = True
        self.callback, self.args = None, ()  # what they hold on to may be large

    def run(self) -> None:
        if self.callback is not None:
            self.context.run(self.callback, *self.args)
