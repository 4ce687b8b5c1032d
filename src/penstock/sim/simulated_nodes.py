"""The nodes of a run: one with the embedded metadata store, or several that share a simulated ZooKeeper."""

import asyncio
from collections import Counter

from penstock.base.cluster_settings import ZOOKEEPER_SESSION_TIMEOUT_MS
from penstock.sim import entries
from penstock.sim.checkers import CrashKind, History
from penstock.sim.cluster_fault_injector import ClusterFaultInjector
from penstock.sim.convergence import differences
from penstock.sim.fault_injector import FaultInjector
from penstock.sim.foreign_directories import leftover_partition_directories, missing_foreign_directories
from penstock.sim.node import Node
from penstock.sim.phases import Phase
from penstock.sim.plan import Plan
from penstock.sim.power_cuts import PowerCuts
from penstock.sim.shared_store import SharedStore
from penstock.sim.simulation import Simulation

_CONVERGED_WITHIN_S = 90.0  # virtual: longer than any session, request or backoff lasts
_LOOK_AGAIN_S = 0.25


class SimulatedNodes:
    """Starts the nodes, injects their faults, and checks at the end that they agree."""

    def __init__(self, plan: Plan, simulation: Simulation, history: History) -> None:
        self._simulation = simulation
        self._store: SharedStore | None = None
        self.nodes: dict[int, Node] = {}
        self._injectors: dict[int, FaultInjector] = {}
        self.problems: list[str] = []  # what the nodes did not agree upon in time
        settings = dict(plan.broker)
        if not plan.is_of_cluster:
            self.nodes[1] = simulation.new_node(1, settings=settings)
            self._injectors[1] = FaultInjector(simulation, 1, history)
            return
        timeout_ms = int(
            settings.get(ZOOKEEPER_SESSION_TIMEOUT_MS.name, ZOOKEEPER_SESSION_TIMEOUT_MS.default)
        )
        self._store = store = SharedStore(simulation, session_timeout_ms=timeout_ms)
        power = PowerCuts(store, lambda logs: history.crash(CrashKind.MACHINE, logs))
        for node_id in range(1, plan.nodes + 1):
            self.nodes[node_id] = simulation.new_node(
                node_id, settings=settings, make_store=store.opener(node_id)
            )
        for node_id in self.nodes:
            self._injectors[node_id] = ClusterFaultInjector(
                simulation, node_id, history, store=store, power=power, clients=plan.clients
            )

    def bootstrap_servers(self, first: int) -> str:
        """All nodes' addresses, beginning with the given one."""
        addresses = [node.address for node in self.nodes.values()]
        cut = first % len(addresses)
        return ",".join([*addresses[cut:], *addresses[:cut]])

    async def begin(self) -> None:
        await asyncio.gather(*(injector.begin() for injector in self._injectors.values()))

    def strike(self, fault: entries.Fault) -> None:
        self._injectors[fault.node].strike(fault)

    def heal(self) -> None:
        for injector in self._injectors.values():
            injector.heal()

    async def settle(self) -> None:
        """Return when all nodes serve and agree, or the time for it is over."""
        for injector in self._injectors.values():
            await injector.settle()
        await self._converge(all_online=False)

    async def restart(self, kind: str) -> None:
        """Restart all nodes as the plan says: killed at once, or stopped one after the other."""
        if kind == entries.CrashProcess.kind:
            await asyncio.gather(*(injector.restart(kind) for injector in self._injectors.values()))
        else:
            for injector in self._injectors.values():
                await injector.restart(kind)
                await self._converge(all_online=False)
        await self._converge(all_online=True)

    async def _converge(self, *, all_online: bool) -> None:
        if self._store is None or self.problems:
            return
        deadline = self._simulation.kernel.now + _CONVERGED_WITHIN_S
        while True:
            problems = differences(self._store, self.nodes.values(), all_online=all_online)
            if not problems:
                return
            if self._simulation.kernel.now > deadline:
                self.problems = problems
                return
            await asyncio.sleep(_LOOK_AGAIN_S)

    def misplaced(self) -> list[str]:
        """Foreign directories that are gone, and directories that should be; when all nodes run."""
        found = [problem for injector in self._injectors.values() for problem in injector.problems]
        for node in self.nodes.values():
            found += missing_foreign_directories(node)
            found += leftover_partition_directories(node)
        return found

    @property
    def clock_slack_ms(self) -> int:
        return sum(injector.clock_slack_ms for injector in self._injectors.values())

    @property
    def struck(self) -> Counter[tuple[str, Phase]]:
        return sum((injector.struck for injector in self._injectors.values()), Counter())
