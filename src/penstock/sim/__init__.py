"""The simulated world: the broker's own code on a seeded loop with virtual time, where everything can fail.

    with Simulation(seed=7) as simulation:
        node = simulation.new_node(1, settings={"num.partitions": "3"})
        someone = simulation.new_outsider("client-1")

        async def talk() -> None:                                  # runs as the client's process
            async with Client(someone.loop, node.address, entropy=someone.entropy) as client:
                ...

        async def story() -> None:                                 # runs outside of all processes
            await node.start()
            task = simulation.loop.spawn(someone.place, talk())
            simulation.network.cut("client-1", "node-1")           # a fault
            await asyncio.sleep(60)                                # virtual seconds
            simulation.network.heal("client-1", "node-1")
            node.crash_machine()                                   # or crash_process()
            await node.start()
            await task

        simulation.run(story(), seconds_max=600)                   # else OutOfTimeError: who waits for what
        simulation.kernel.history_hash                             # equal for equal seeds, in every process
        simulation.kernel.problems                                 # exceptions that nobody caught

Its nouns. The *kernel* decides what happens next and hashes it. A *place* is one process (a node's life, a client): all
that its code starts belongs to it, and killing it leaves its tasks undone and never cancels them. A *host* is a
machine in the *network*, with *links* to and from the others. A *node* is a host with a broker, a disk and a clock.

All asyncio code works in `simulation.loop` (asyncio.sleep, timeouts, streams: open_connection(host, port)), as long as
it needs no threads and no TLS. Hosts go by their names: "node-1", "client-1". Faults are methods:

    simulation.network   cut, heal, delay, slow, reset, half_open, restore
    node                 crash_process, crash_machine, clock.skew, clock.jump; strike_after(steps, fault)
    node.disk            faults.*, flip_bit
    node.phases.now      what the node is doing when a fault strikes
    simulation.kernel    pause, resume of a place: a process that stands still
    StoreServer          cut, mend, expire: the metadata store of several nodes (`new_node(make_store=...)`)

`kernel.random(purpose)` is seeded chance, `kernel.note(kind, *facts)` adds to the history.
"""

from penstock.sim.event_loop import DeadlockError, OutOfTimeError
from penstock.sim.kernel import Kernel, Problem, StepKind
from penstock.sim.node import Node, NodeCrashedError
from penstock.sim.simulation import Outsider, Simulation

__all__ = [
    "DeadlockError",
    "Kernel",
    "Node",
    "NodeCrashedError",
    "OutOfTimeError",
    "Outsider",
    "Problem",
    "Simulation",
    "StepKind",
]
