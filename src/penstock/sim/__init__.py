"""The simulated world: the broker's own code on a seeded loop with virtual time, where everything can fail.

    with Simulation(seed=7) as simulation:
        node = simulation.new_node(1, settings={"num.partitions": "3"})
        outsider = simulation.new_outsider("client-1")

        async def talk() -> None:                                  # runs as the client's process
            async with Client(outsider.loop, node.address, entropy=outsider.entropy) as client:
                ...

        async def story() -> None:                                 # runs outside of all processes
            await node.start()
            task = simulation.loop.spawn(outsider.process, talk())
            simulation.network.cut("client-1", "node-1")           # a fault
            await asyncio.sleep(60)                                # virtual seconds
            simulation.network.heal("client-1", "node-1")
            node.crash_machine()                                   # or crash_process()
            await node.start()
            await task

        simulation.run(story(), seconds_max=600)                   # else OutOfTimeError, with all pending tasks
        simulation.kernel.history_hash                             # equal for equal seeds, in every process
        simulation.kernel.problems                                 # exceptions that no code caught

The *kernel* decides which callback runs next, and hashes the history. A *process* is a client, or a broker from one
start to its end: the tasks and timers that its code starts belong to it, and killing it abandons them; nothing is
cancelled and no `finally` block runs. A *host* is a machine in the *network*, with *links* to the others. A *node* is a
host with a broker, a disk and a clock.

All asyncio code works in `simulation.loop` (asyncio.sleep, timeouts, streams: open_connection(host, port)), as long as
it needs no threads and no TLS. Hosts go by their names: "node-1", "client-1". Faults are methods:

    simulation.network   cut, heal, delay, slow, reset, half_open, restore
    node                 crash_process, crash_machine, clock.skew, clock.jump; strike_after(steps, fault)
    node.disk            faults.*, flip_bit
    node.phases.now      what the node is doing when a fault is injected
    simulation.kernel    pause, resume a process, as SIGSTOP and SIGCONT do
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
