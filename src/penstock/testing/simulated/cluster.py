"""A broker and the code that uses it, in one simulation."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

from penstock.sim import Simulation
from penstock.testing.simulated.broker import SimulatedBroker
from penstock.testing.simulated.network import SimulatedNetwork
from penstock.testing.simulated.replaced import replaced

T = TypeVar("T")

CLIENT = "client"

# A story that takes longer waits for something that does not come.
SECONDS_MAX = 3600


class SimulatedCluster:
    """One broker, with an empty disk, and a machine for the code under test.

    `settings` are the broker's own, by name: `SimulatedCluster(settings={"num.partitions": "6"})`.
    """

    def __init__(self, *, seed: int = 1, settings: Mapping[str, object] | None = None) -> None:
        self.seed = seed
        self._simulation = Simulation(seed)
        node = self._simulation.new_node(1, settings=settings)
        self._client = self._simulation.new_process(CLIENT)
        self._chance = self._simulation.kernel.random("program")
        self._was_started = False
        self._over: asyncio.Future[None] = self._simulation.loop.create_future()  # of the story that runs
        self.broker = SimulatedBroker(node)
        self.network = SimulatedNetwork(self._simulation.network, client=CLIENT, broker=node.host)

    @property
    def bootstrap_servers(self) -> str:
        """Where clients connect, inside the simulation only."""
        return self.broker.bootstrap_servers

    @property
    def seconds(self) -> float:
        """How much time has passed since the simulation began."""
        return self._simulation.kernel.now

    def run(self, story: Coroutine[Any, Any, T], *, seconds_max: float = SECONDS_MAX) -> T:
        """Run a coroutine to its end, the first time with a broker that has just started; give what it returns.

        One that takes more virtual time than `seconds_max` is ended with an error that says who waits for what.
        """
        try:
            with replaced(lambda: self._simulation.loop.process().clock, self._chance):
                return self._simulation.run(self._tell(story), seconds_max=seconds_max)
        except BaseException as error:
            error.add_note(
                f"in SimulatedCluster(seed={self.seed}), after {self.seconds:.3f} simulated seconds"
            )
            raise
        finally:
            if inspect.getcoroutinestate(story) == inspect.CORO_CREATED:
                story.close()  # it never began: the broker did not start

    def after(self, seconds: float, happening: Callable[[], Awaitable[None] | object]) -> None:
        """Let something happen so many seconds from now: `cluster.after(60, cluster.broker.kill)`.

        If it fails, `run` does.
        """
        loop = self._simulation.loop
        loop.spawn(loop.home, _happen(seconds, happening)).add_done_callback(self._note_failure)

    def close(self) -> None:
        """The end of the simulation; what still runs in it is put away. Fine to repeat."""
        self._simulation.close()

    async def _tell(self, story: Coroutine[Any, Any, T]) -> T:
        if not self._was_started:
            self._was_started = True
            await self.broker.start()
        self._over = self._simulation.loop.create_future()
        told = self._simulation.loop.spawn(self._client, story)
        told.add_done_callback(self._note_end)
        await self._over
        return told.result()

    def _note_end(self, _told: "asyncio.Task[Any]") -> None:
        if not self._over.done():
            self._over.set_result(None)

    def _note_failure(self, happened: "asyncio.Task[None]") -> None:
        """Something of the script went wrong: the story might wait for it in vain."""
        error = None if happened.cancelled() else happened.exception()
        if error is not None and not self._over.done():
            self._over.set_exception(error)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


async def _happen(seconds: float, happening: Callable[[], Awaitable[None] | object]) -> None:
    await asyncio.sleep(seconds)
    outcome = happening()
    if inspect.isawaitable(outcome):
        await outcome
