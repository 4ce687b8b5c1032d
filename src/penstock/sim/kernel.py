"""The scheduler of the simulation: runs callbacks in virtual time, and hashes the history of the run.

Each process (`SimProcess`) runs its callbacks in the order in which it scheduled them, as on a loop of its own. If
several processes are runnable, the seed chooses the next one. If none is, virtual time advances to the next timer; if
there is no timer either, the run is deadlocked.
"""

import hashlib
import heapq
import random
from collections.abc import Callable
from contextvars import Context
from enum import Enum
from typing import Any, NamedTuple

from penstock.sim.process import SimHandle, SimProcess

# The longest virtual time that a callback takes: time always advances, and no two callbacks run at the same time.
CALLBACK_S_MAX = 20e-6

# Most timers are cancelled before they are due. They are removed when the heap has doubled, but not below this size.
CLEANED_FROM = 64

HASHED_TOGETHER = 256  # notes per update of the hash, which does not depend on it


class StepKind(Enum):
    """The kinds of events in the history of a run."""

    TIMER = "timer"
    CONNECT = "connect"
    SEND = "send"
    WRITE = "write"
    FAULT = "fault"
    NODE = "node"

    def __init__(self, word: str) -> None:
        self.word = word  # read at every step; `value` is a descriptor, and slower


class Problem(NamedTuple):
    """An exception that no code caught."""

    process: str
    message: str
    error: BaseException | None


Tracer = Callable[[float, StepKind, tuple[object, ...]], None]


class Kernel:
    """Schedules the callbacks of all processes. The order depends only on `seed` and on the code that runs."""

    def __init__(self, seed: int | str, *, trace: Tracer | None = None) -> None:
        self.seed = seed
        self.now = 0.0
        self.steps = 0
        self.is_over = False
        self.problems: list[Problem] = []
        self._trace = trace
        self._chance = self.random("kernel")
        self._timers: list[tuple[float, int, SimHandle]] = []
        self._timer_count = 0
        self._cleaned_at = CLEANED_FROM
        self._ready: list[SimProcess] = []  # the runnable processes
        self._hash = hashlib.blake2b(digest_size=16)
        self._notes: list[tuple[float, str, tuple[object, ...]]] = []  # not hashed yet

    def random(self, purpose: str) -> random.Random:
        """A random generator for one purpose, so that draws of one component do not shift those of another."""
        return random.Random(f"{self.seed}/{purpose}")

    def time(self) -> float:
        return self.now

    # The history.

    def note(self, kind: StepKind, *facts: object) -> None:
        """Add an event to the history. `facts` are immutable, and their `repr` is the same in every Python process."""
        self._notes.append((self.now, kind.word, facts))
        if len(self._notes) >= HASHED_TOGETHER:
            self._hash_notes()
        if self._trace is not None:
            self._trace(self.now, kind, facts)

    def _hash_notes(self) -> None:
        if self._notes:
            self._hash.update("\n".join([*map(repr, self._notes), ""]).encode())
            self._notes.clear()

    @property
    def history_hash(self) -> str:
        """Equal for two runs if, and only if, their histories are equal."""
        self._hash_notes()
        return self._hash.hexdigest()

    def report(self, process: SimProcess, message: str, error: BaseException | None) -> None:
        """Record an uncaught exception, unless its process was killed."""
        if not process.killed and not self.is_over:
            self.problems.append(Problem(process.name, message, error))

    # Scheduling.

    def call_soon(
        self, process: SimProcess, context: Context, callback: Callable[..., object], *args: Any
    ) -> SimHandle:
        call = SimHandle(process, context, callback, args)
        if self.is_over or process.killed:
            call.cancel()
        else:
            self._make_ready(call)
        return call

    def call_at(
        self,
        time: float,
        process: SimProcess,
        context: Context,
        callback: Callable[..., object],
        *args: Any,
        when: float = 0.0,
    ) -> SimHandle:
        """Schedule a callback at a virtual time; `when` is the same moment on the process's own clock."""
        call = SimHandle(process, context, callback, args, when)
        if self.is_over or process.killed:
            call.cancel()
        else:
            self._timer_count += 1
            heapq.heappush(self._timers, (time, self._timer_count, call))
            if len(self._timers) > self._cleaned_at:
                self._clean()
        return call

    def run_until(self, is_done: Callable[[], bool], *, time_max: float | None = None) -> bool:
        """Run callbacks until `is_done`; False if no callback is left, or none before `time_max`."""
        while not is_done():
            if not self._step(time_max):
                return False
        return True

    def end(self) -> None:
        """Discard all callbacks, and accept no new ones."""
        self.is_over = True
        self._timers.clear()
        for process in self._ready:
            process.ready.clear()
        self._ready.clear()

    def _step(self, time_max: float | None) -> bool:
        while not self._any_process_is_runnable():
            self._drop_void()
            if not self._timers or (time_max is not None and self._timers[0][0] > time_max):
                return False
            self.now = self._timers[0][0]
            self._release_due()
        process = self._choose()
        call = process.ready.popleft()
        if not process.ready:
            self._ready.remove(process)
        self.steps += 1
        self.now += self._chance.random() * CALLBACK_S_MAX
        try:
            call.run()
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            self.report(process, f"exception in {call!r}", error)
        process.count_step()
        if process.watcher is not None and not process.ready and not process.killed:
            process.watcher.on_idle()
        return True

    def _choose(self) -> SimProcess:
        if len(self._ready) == 1:
            return self._ready[0]
        return self._ready[int(self._chance.random() * len(self._ready))]

    def _any_process_is_runnable(self) -> bool:
        if self._timers and self._timers[0][0] <= self.now:
            self._release_due()
        for process in self._ready:
            if process.killed:
                self._ready = [process for process in self._ready if not process.killed]
                break
        return bool(self._ready)

    def _release_due(self) -> None:
        """Move the callbacks of due timers to the queues of their processes."""
        while self._timers and self._timers[0][0] <= self.now:
            call = heapq.heappop(self._timers)[2]
            if not call.is_cancelled and not call.process.killed:
                self.note(StepKind.TIMER, call.process.name)
                self._make_ready(call)

    def pause(self, process: SimProcess) -> None:
        """Pause a process: its callbacks are queued, and none runs."""
        process.paused = True
        if process in self._ready:
            self._ready.remove(process)

    def resume(self, process: SimProcess) -> None:
        """Resume a process, with all callbacks that were queued meanwhile."""
        if process.paused and process.ready:
            self._ready.append(process)
        process.paused = False

    def _make_ready(self, call: SimHandle) -> None:
        process = call.process
        if not process.ready and not process.paused:
            self._ready.append(process)
        process.ready.append(call)

    def _drop_void(self) -> None:
        """Drop cancelled timers first: time must not advance to a moment at which nothing runs."""
        while self._timers and _is_void(self._timers[0][2]):
            heapq.heappop(self._timers)

    def _clean(self) -> None:
        self._timers = [timer for timer in self._timers if not _is_void(timer[2])]
        heapq.heapify(self._timers)
        self._cleaned_at = max(CLEANED_FROM, 2 * len(self._timers))


def _is_void(call: SimHandle) -> bool:
    return call.is_cancelled or call.process.killed
