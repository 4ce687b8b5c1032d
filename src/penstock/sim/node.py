"""A simulated machine with a broker, which can be started, stopped, killed, or lose power.

The disk and the clock outlive the broker's process; `SimProcess`, mounted disk and work pool end with it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.base.load_settings import load_broker_settings
from penstock.broker.broker import Broker
from penstock.broker.start import WorldParts, start_on
from penstock.sim.clock import Clock
from penstock.sim.disk import SimDisk
from penstock.sim.disk_operations import CHANGES, DiskOperation
from penstock.sim.entropy import SimEntropy
from penstock.sim.kernel import StepKind
from penstock.sim.loop import SimLoop
from penstock.sim.mounted_disk import MountedDisk
from penstock.sim.phases import NodePhases
from penstock.sim.process import SimProcess
from penstock.sim.work import SimWork
from penstock.world.store import Store

if TYPE_CHECKING:
    from penstock.sim.simulation import Simulation

T = TypeVar("T")

PORT = 9092


class NodeCrashedError(Exception):
    """The node crashed before the operation was complete."""


class Node:
    """A broker's machine. Its methods are called by the simulation, not by the broker."""

    def __init__(
        self,
        simulation: "Simulation",
        node_id: int,
        *,
        settings: Mapping[str, object] | None = None,
        make_store: Callable[[SimLoop], Awaitable[Store]] | None = None,
    ) -> None:
        """`make_store` opens a metadata store session per start; without it, metadata is on the node's disk."""
        self.node_id = node_id
        self.host = f"node-{node_id}"
        self.address = f"{self.host}:{PORT}"
        self.clock = Clock(simulation.kernel.time)
        self.phases = NodePhases()
        self.disk = SimDisk(simulation.kernel.random(f"{self.host}/disk"), watcher=self._watch_disk)
        self.lives = 0
        self.process: SimProcess | None = None
        self.broker: Broker | None = None
        self._simulation = simulation
        self._settings = load_broker_settings(
            file={"node.id": node_id, **(settings or {})},
            file_name="settings",
            listen=self.address,
            data_dir="simulated",
        )
        self._make_store = make_store
        self._work: SimWork | None = None
        # Called when the broker has exited by itself; a supervisor would restart it.
        self.on_exit: Callable[[], None] = _stay_down
        self._is_stopping = False
        self._outcomes: dict[asyncio.Future[Any], None] = {}
        simulation.network.know_host(self.host)

    @property
    def is_running(self) -> bool:
        """Whether the broker serves clients: it has started, and neither stops nor has crashed."""
        return self.broker is not None and not self._is_stopping

    # Start, stop, crash.

    async def start(self, *, alone: bool = False) -> None:
        """Start a broker on the node's disk; NodeCrashedError if the node crashes meanwhile. `alone`: without the
        shared metadata store, as if it were not configured.
        """
        assert self.process is None, f"{self.host} runs already"
        self._note("start")
        self.lives += 1
        self._simulation.network.return_machine(self.host)
        process = self._simulation.new_process(f"{self.host}.{self.lives}", host=self.host, clock=self.clock)
        process.watcher = self
        self.process = process
        self._is_stopping = False
        self.phases.starts()
        try:
            make_store = None if alone else self._make_store
            self.broker = broker = await self._outcome(self._live(process, make_store))
        except BaseException:
            if self.process is process:
                self.crash_process()  # the start failed: the process exits
            raise
        self.phases.serves()
        self._simulation.loop.spawn(process, self._exit_by_itself(process, broker))

    async def stop(self) -> None:
        """Stop the broker cleanly."""
        assert self.broker is not None, f"{self.host} does not run"
        self._note("stop")
        self._is_stopping = True
        self.phases.stops()
        process = self.process
        try:
            await self._outcome(self.broker.stop())
        finally:
            if self.process is process:  # else it has crashed meanwhile
                self._end_life(silently=False)

    def crash_process(self, *, silently: bool = False) -> None:
        """Kill the broker, as `kill -9` does: the disk keeps what was written. Connections close, unless `silently`."""
        self._note("crash of the process", silently, self.phases.now.value)
        self._end_life(silently=silently)

    def crash_machine(self) -> None:
        """Cut the power: the disk keeps what was synced, and a part of the rest; peers get neither FIN nor RST."""
        self._note("crash of the machine", self.phases.now.value)
        self._simulation.network.lose_machine(
            self.host
        )  # before the process ends; after a restart the machine answers packets of old connections with RST
        self._end_life(silently=True)
        self.disk.crash_machine()

    def strike_after(self, steps: int, strike: Callable[[], object]) -> None:
        """Call `strike` (a crash, say) after so many more callbacks of the broker; no effect if it is down.

        Unlike a fault at a given time, this hits the node while it is busy: with a request, a response, its start.
        """
        if self.process is not None:
            self.process.strike_after(steps, strike)

    async def _live(
        self, process: SimProcess, make_store: Callable[[SimLoop], Awaitable[Store]] | None
    ) -> Broker:
        simulation = self._simulation
        loop = SimLoop(simulation.loop, process)
        disk = self.disk.mount()
        parts = WorldParts(
            loop=loop,
            disk=disk,
            entropy=SimEntropy(simulation.kernel.random(f"{process.name}/entropy")),
            make_work=lambda: self._begin_work(loop, disk),
        )
        open_store = None if make_store is None else lambda loop, _: make_store(loop)
        return await start_on(parts, self._settings, log_dir=self.host, open_store=open_store)

    async def _exit_by_itself(self, process: SimProcess, broker: Broker) -> None:
        """Exit after a failure, as `penstock serve` does."""
        await broker.failure
        if self._is_stopping:
            return  # `stop` fails too, and ends the process
        await broker.abandon()
        loop = self._simulation.loop
        loop.home.enter(loop.call_soon, self._exit, process)

    def _exit(self, process: SimProcess) -> None:
        if self.process is process:  # else it has crashed meanwhile
            self._note("exit", self.phases.now.value)
            self._end_life(silently=False)
            self.on_exit()

    def _begin_work(self, loop: SimLoop, disk: MountedDisk) -> SimWork:
        chance = self._simulation.kernel.random(f"{loop.process.name}/work")
        self._work = SimWork(loop, chance, slowness_s=disk.take_delay_s)
        return self._work

    def _end_life(self, *, silently: bool) -> None:
        process, self.process, self.broker, self._work = self.process, None, None, None
        self.phases.is_down()
        if process is None:
            return
        self._simulation.loop.kill(process)
        self._simulation.network.lose_process(process, silently=silently)
        self.disk.crash_process()
        outcomes, self._outcomes = self._outcomes, {}
        for outcome in outcomes:
            if not outcome.done():
                outcome.set_exception(NodeCrashedError(f"{process.name} crashed"))

    async def _outcome(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine as the node; NodeCrashedError if the node is killed meanwhile."""
        assert self.process is not None
        outcome: asyncio.Future[T] = self._simulation.loop.create_future()
        self._outcomes[outcome] = None

        def take(task: asyncio.Task[T]) -> None:
            error = (
                None if task.cancelled() else task.exception()
            )  # retrieved even after a crash, so that asyncio does not log it
            if outcome.done():
                return
            if task.cancelled():
                outcome.cancel()
            elif error is not None:
                outcome.set_exception(error)
            else:
                outcome.set_result(task.result())

        self._simulation.loop.spawn(self.process, coroutine).add_done_callback(take)
        try:
            return await outcome
        finally:
            self._outcomes.pop(outcome, None)

    def _note(self, *facts: object) -> None:
        self._simulation.kernel.note(StepKind.NODE, self.host, *facts)

    # Notifications of the process and the disk, from which the phase is derived.

    def on_received(self) -> None:
        self.phases.on_received()

    def on_sent(self) -> None:
        self.phases.on_sent()

    def on_idle(self) -> None:
        if self._work is None or not self._work.is_pending:
            self.phases.on_idle()

    def _watch_disk(self, operation: DiskOperation, path: str, count: int) -> None:
        self.phases.watch(operation, path, count)
        if operation in CHANGES:
            self._simulation.kernel.note(StepKind.WRITE, self.host, operation.value, path, count)


def _stay_down() -> None:
    """The default for `on_exit`: the node stays down until it is started."""
