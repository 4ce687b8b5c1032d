"""A simulation: the kernel, the loop, the network, the nodes and the clients."""

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

from penstock.sim.clock import Clock
from penstock.sim.entropy import SimEntropy
from penstock.sim.event_loop import VirtualEventLoop
from penstock.sim.kernel import Kernel, Tracer
from penstock.sim.loop import SimLoop
from penstock.sim.network import Network
from penstock.sim.node import Node
from penstock.sim.process import SimProcess
from penstock.world.store import Store

T = TypeVar("T")


class Outsider:
    """A process that is no broker: a client's machine, with all that `penstock.client.Client` asks for."""

    def __init__(self, simulation: "Simulation", process: SimProcess) -> None:
        self.process = process
        self.loop = SimLoop(simulation.loop, process)
        self.entropy = SimEntropy(simulation.kernel.random(f"{process.name}/entropy"))


class Simulation:
    """`with Simulation(seed) as simulation:` holds everything of one run."""

    def __init__(self, seed: int | str, *, trace: Tracer | None = None) -> None:
        self.kernel = Kernel(seed, trace=trace)
        self.network = Network(self.kernel)
        # Sockets, threads and processes of the system are what the loop leaves out.
        self.loop = VirtualEventLoop(self.kernel, self.network)  # type: ignore[abstract]
        self.nodes: dict[int, Node] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def new_node(
        self,
        node_id: int,
        *,
        settings: Mapping[str, object] | None = None,
        make_store: Callable[[SimLoop], Awaitable[Store]] | None = None,
    ) -> Node:
        """A machine with an empty disk; `await node.start()` to have a broker on it."""
        assert node_id not in self.nodes
        node = self.nodes[node_id] = Node(self, node_id, settings=settings, make_store=make_store)
        return node

    def new_outsider(self, name: str, *, host: str | None = None) -> Outsider:
        """A client's process, on a machine of its own unless `host` names one."""
        return Outsider(self, self.new_process(name, host=host))

    def new_process(self, name: str, *, host: str | None = None, clock: Clock | None = None) -> SimProcess:
        return self.loop.new_process(name, host=host, clock=clock)

    def run(self, story: Coroutine[Any, Any, T], *, seconds_max: float | None = None) -> T:
        """Run a coroutine outside of all processes to its end, in at most so much virtual time."""
        if seconds_max is None:
            return self.loop.run_until_complete(story)
        return self.loop.run_for(story, seconds_max=seconds_max)

    def close(self) -> None:
        """Put everything away that still waits. Fine to repeat."""
        self.loop.close()
