"""One simulated process: a client, or a broker from one start to its end.

All processes share one event loop. A context variable says which process a callback belongs to, so tasks, timers and
callbacks that a process starts belong to it without any help from its code. Killing the process abandons all of them:
nothing is cancelled and no `finally` block runs.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import Context, ContextVar
from typing import Any, Protocol, TypeVar

from penstock.sim.clock import Clock

T = TypeVar("T")

_PROCESS: ContextVar["SimProcess | None"] = ContextVar("process", default=None)


def current_process() -> "SimProcess | None":
    """The process whose code runs now."""
    return _PROCESS.get()


def process_in(context: Context) -> "SimProcess | None":
    return context.get(_PROCESS)


class ProcessWatcher(Protocol):
    """Is notified of what a process does, as far as that is visible from outside."""

    def on_received(self) -> None:
        """The process has received bytes."""
        ...

    def on_sent(self) -> None:
        """The process sends bytes."""
        ...

    def on_idle(self) -> None:
        """The process has nothing to run."""
        ...


class SimProcess:
    """A process: nothing of it runs while it is `paused`, or once it is `killed`."""

    def __init__(self, name: str, *, host: str, clock: Clock) -> None:
        self.name = name
        self.host = host
        self.clock = clock
        self.killed = False
        self.paused = False
        self.watcher: ProcessWatcher | None = None
        self.ready: deque[SimHandle] = deque()
        self.tasks: dict[asyncio.Task[Any], None] = {}
        self._steps_left = 0
        self._strike: Callable[[], object] | None = None
        self.context = Context()
        self.context.run(_PROCESS.set, self)

    def __repr__(self) -> str:
        return f"<{self.name}{' (killed)' if self.killed else ''}>"

    def enter(self, function: Callable[..., T], *args: Any) -> T:
        """Call a function as this process."""
        return self.context.copy().run(function, *args)

    def strike_after(self, steps: int, strike: Callable[[], object]) -> None:
        """Call `strike` after so many more callbacks of the process: between two of them, at an await."""
        assert steps > 0
        self._steps_left, self._strike = steps, strike

    def count_step(self) -> None:
        if self._strike is None:
            return
        self._steps_left -= 1
        if self._steps_left == 0:
            strike, self._strike = self._strike, None
            strike()

    def kill(self) -> None:
        """Kill the process."""
        self.killed = True
        self.ready.clear()


class SimHandle:
    """One scheduled callback of one process; what asyncio calls a handle."""

    __slots__ = ("_when", "args", "callback", "context", "is_cancelled", "process")

    def __init__(
        self,
        process: SimProcess,
        context: Context,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        when: float = 0.0,
    ) -> None:
        self.process = process
        self.context = context
        self.callback: Callable[..., object] | None = callback
        self.args = args
        self.is_cancelled = False
        self._when = when

    def __repr__(self) -> str:
        return f"<call of {self.callback!r} by {self.process.name}>"

    def when(self) -> float:
        """The moment it is due, on the clock of its process."""
        return self._when

    def cancelled(self) -> bool:
        return self.is_cancelled

    def cancel(self) -> None:
        self.is_cancelled = True
        self.callback, self.args = None, ()  # the objects they refer to may be large

    def run(self) -> None:
        if self.callback is not None:
            self.context.run(self.callback, *self.args)
