"""asyncio's event loop on virtual time, shared by all processes of a simulation.

Whatever runs on asyncio runs here unchanged, as long as it needs no threads, no sockets and no processes of the
system. Each process (`SimProcess`) sees its own clock and its own address in the network.

Tasks and futures are hashed by their number: so a set of them has the same order in every run.
"""

import asyncio
import contextlib
import gc
import itertools
import logging
import socket
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Sequence
from contextvars import Context, copy_context
from typing import Any, TypeVar, TypeVarTuple, cast

from penstock.sim.abandoned_tasks import close_abandoned, silence_pending_warning
from penstock.sim.clock import Clock
from penstock.sim.kernel import Kernel
from penstock.sim.network import Network, SimServer
from penstock.sim.pending_tasks import describe_pending
from penstock.sim.process import SimHandle, SimProcess, current_process, process_in

log = logging.getLogger("penstock.sim")

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")

_ExceptionHandler = Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object]


class DeadlockError(RuntimeError):
    """No callback is runnable, and no timer is set."""


class OutOfTimeError(RuntimeError):
    """What was waited for did not happen in the (virtual) time it was given."""


class SimTask(asyncio.Task[T]):
    """A task with a number of its own."""

    def __init__(self, coroutine: Any, *, loop: "VirtualEventLoop", name: object, context: Context) -> None:
        self.number = loop.next_number()  # first: asyncio puts the task into a set of all tasks
        super().__init__(coroutine, loop=loop, name=str(name or self.number), context=context)

    def __hash__(self) -> int:
        return self.number


class SimFuture(asyncio.Future[T]):
    """A future with a number of its own."""

    def __init__(self, *, loop: "VirtualEventLoop") -> None:
        self.number = loop.next_number()
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self.number


class VirtualEventLoop(asyncio.AbstractEventLoop):
    """The loop. `new_process` makes processes; code outside all of them runs in `home`."""

    def __init__(self, kernel: Kernel, network: Network) -> None:
        self.kernel = kernel
        self.network = network
        self.processes: list[SimProcess] = []
        self.home = self.new_process("home")
        self._numbers = itertools.count(1)
        self._exception_handler: _ExceptionHandler | None = None
        self._running = False
        self._stopping = False
        self._closed = False
        # By identity: when a generator is finalized, weak references to it are gone already.
        self._generators: dict[int, SimProcess] = {}

    # Processes.

    def new_process(self, name: str, *, host: str | None = None, clock: Clock | None = None) -> SimProcess:
        """A process on `host` (its own name if none is given); a killed one is replaced by making another."""
        process = SimProcess(name, host=host or name, clock=clock or Clock(self.kernel.time))
        self.processes.append(process)
        self.network.know_host(process.host)
        return process

    def process(self) -> SimProcess:
        """The process whose code runs now."""
        return current_process() or self.home

    def spawn(self, process: SimProcess, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start a task of another process."""
        return process.enter(lambda: self.create_task(coroutine))

    def kill(self, process: SimProcess) -> None:
        """End a process as `kill -9` does. The caller closes its connections with `Network.lose_process`."""
        process.kill()
        for task in process.tasks:
            silence_pending_warning(task)

    # Time and callbacks.

    def time(self) -> float:
        return self.process().clock.time()

    def call_soon(
        self,
        callback: Callable[[*Arguments], object],
        *args: *Arguments,
        context: Context | None = None,
    ) -> asyncio.Handle:
        if context is None:
            context = copy_context()
        process = process_in(context) or self.home
        return cast(asyncio.Handle, self.kernel.call_soon(process, context, callback, *args))

    call_soon_threadsafe = call_soon

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Arguments], object],
        *args: *Arguments,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        if context is None:
            context = copy_context()
        now = (process_in(context) or self.home).clock.time()
        return self.call_at(now + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*Arguments], object],
        *args: *Arguments,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        if context is None:
            context = copy_context()
        process = process_in(context) or self.home
        call: SimHandle = self.kernel.call_at(
            process.clock.true_time_at(when), process, context, callback, *args, when=when
        )
        return cast(asyncio.TimerHandle, call)

    # Futures and tasks.

    def create_future(self) -> asyncio.Future[Any]:
        return SimFuture(loop=self)

    def next_number(self) -> int:
        return next(self._numbers)

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: object = None,
        context: Context | None = None,
    ) -> asyncio.Task[T]:
        if context is None:
            context = copy_context()
        process = process_in(context) or self.home
        task: SimTask[T] = SimTask(coro, loop=self, name=name, context=context)
        if process.killed or self.kernel.is_over:
            close_abandoned([task])
            return task
        process.tasks[task] = None
        task.add_done_callback(lambda done: process.tasks.pop(done, None), context=process.context)
        return task

    # The network.

    async def create_connection(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None = None,
        port: int | None = None,
        **options: Any,
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        _refuse_options(options)
        assert host is not None
        assert port is not None
        made: asyncio.Future[tuple[asyncio.Transport, asyncio.BaseProtocol]] = self.create_future()
        self.network.connect(self.process(), host, port, protocol_factory, made)
        return await made

    async def create_server(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | Sequence[str] | None = None,
        port: int | None = None,
        **options: Any,
    ) -> SimServer:
        _refuse_options(options)
        if host is not None and not isinstance(host, str):
            (host,) = host
        return self.network.listen(self.process(), host or "0.0.0.0", port or 0, protocol_factory)

    async def getaddrinfo(
        self, host: bytes | str | None, port: bytes | str | int | None, **options: Any
    ) -> list[Any]:
        name = self.network.resolve(self.process(), _text(host))
        kind = options.get("type") or socket.SOCK_STREAM
        return [(socket.AF_INET, kind, socket.IPPROTO_TCP, "", (name, int(port or 0)))]

    # Running.

    def run_until_complete(  # type: ignore[override]
        self, future: Generator[Any, None, T] | Coroutine[Any, Any, T] | asyncio.Future[T]
    ) -> T:
        task: asyncio.Future[T] = self._as_future(future)
        self._run(task.done)
        return task.result()

    def run_for(self, future: Coroutine[Any, Any, T] | asyncio.Future[T], *, seconds_max: float) -> T:
        """Like `run_until_complete`, but OutOfTimeError when more (virtual) time than that has passed."""
        task: asyncio.Future[T] = self._as_future(future)
        self._run(task.done, time_max=self.kernel.now + seconds_max)
        return task.result()

    def run_forever(self) -> None:
        self._stopping = False
        self._run(lambda: self._stopping)

    def stop(self) -> None:
        self._stopping = True

    def _as_future(self, future: Any) -> asyncio.Future[Any]:
        if asyncio.isfuture(future):
            return future
        return self.spawn(self.home, future)

    def _run(self, is_done: Callable[[], bool], *, time_max: float | None = None) -> None:
        assert not self._running, "the loop runs already"
        assert not self._closed, "the loop was closed"
        with self._as_running_loop():
            finished = self.kernel.run_until(is_done, time_max=time_max)
        if finished:
            return
        waiting = describe_pending(self.processes)
        if time_max is None:
            raise DeadlockError(f"nothing can run and no timer is set, yet these wait:\n{waiting}")
        raise OutOfTimeError(f"not done at {self.kernel.now:.3f} s of virtual time; these wait:\n{waiting}")

    @contextlib.contextmanager
    def _as_running_loop(self) -> Generator[None]:
        before = asyncio._get_running_loop()
        hooks = sys.get_asyncgen_hooks()
        collecting = gc.isenabled()
        # The collector comes when it likes, and what it calls (finalizers, weak references) would come with it.
        gc.disable()
        asyncio._set_running_loop(self)
        sys.set_asyncgen_hooks(firstiter=self._begin_generator, finalizer=self._end_generator)
        self._running = True
        try:
            yield
        finally:
            self._running = False
            sys.set_asyncgen_hooks(*hooks)
            asyncio._set_running_loop(before)
            if collecting:
                gc.enable()

    def _begin_generator(self, generator: AsyncGenerator[Any, Any]) -> None:
        self._generators[id(generator)] = self.process()

    def _end_generator(self, generator: AsyncGenerator[Any, Any]) -> None:
        process = self._generators.pop(id(generator), None)
        if process is not None and not process.killed and not self.kernel.is_over:
            self.spawn(process, generator.aclose())

    # What asyncio asks a loop for besides.

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """End the simulation: pending tasks are closed without being run. Fine to repeat."""
        if self._closed:
            return
        self._closed = True
        self.kernel.end()
        with self._as_running_loop():
            for process in self.processes:
                close_abandoned(list(process.tasks))
                process.tasks.clear()

    async def shutdown_asyncgens(self) -> None:
        return None

    async def shutdown_default_executor(self) -> None:
        return None

    def get_debug(self) -> bool:
        return False

    def set_debug(self, enabled: bool) -> None:
        del enabled  # nothing is slow in virtual time

    def get_task_factory(self) -> None:
        return None

    def get_exception_handler(self) -> _ExceptionHandler | None:
        return self._exception_handler

    def set_exception_handler(self, handler: _ExceptionHandler | None) -> None:
        self._exception_handler = handler

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        task = context.get("task") or context.get("future")
        error = context.get("exception")
        process = next((each for each in self.processes if task in each.tasks), self.process())
        if process.killed or self.kernel.is_over:
            return
        log.error("%s: %s", process.name, context.get("message"), exc_info=error)
        self.kernel.report(process, str(context.get("message")), error)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if self._exception_handler is not None:
            self._exception_handler(self, context)
        else:
            self.default_exception_handler(context)


def _refuse_options(options: dict[str, Any]) -> None:
    """There is no TLS here, and there are no sockets; how a system queues connections makes no difference."""
    for name in ("ssl", "sock", "local_addr"):
        if options.get(name) is not None:
            raise NotImplementedError(f"{name} is not simulated")


def _text(host: bytes | str | None) -> str:
    if isinstance(host, bytes):
        return host.decode()
    return host or "localhost"
