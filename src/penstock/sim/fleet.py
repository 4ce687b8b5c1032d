"""The nodes of a run: one with its metadata on its own disk, or several that share a metadata store."""

import asyncio
from collections import Counter

from penstock.base.cluster_settings import ZOOKEEPER_SESSION_TIMEOUT_MS
from penstock.sim import entries
from penstock.sim.checkers import CrashKind, History
from penstock.sim.convergence import differences
from penstock.sim.faults import Storm
from penstock.sim.foreign import left_behind, vanished
from penstock.sim.member_faults import MemberStorm
from penstock.sim.node import Node
from penstock.sim.phases import Phase
from penstock.sim.plan import Plan
from penstock.sim.power import PowerCuts
from penstock.sim.shared_store import SharedStore
from penstock.sim.simulation import Simulation

_CONVERGED_WITHIN_S = 90.0  # virtual: longer than any session, request or backoff lasts
_LOOK_AGAIN_S = 0.25


class Fleet:
    """What befalls the nodes, and whether they agree when it is over."""

    def __init__(self, plan: Plan, simulation: Simulation, history: History) -> None:
        self._simulation = simulation
        self._store: SharedStore | None = None
        self.nodes: dict[int, Node] = {}
        self._storms: dict[int, Storm] = {}
        self.problems: list[str] = []  # that the nodes did not agree upon in time
        settings = dict(plan.broker)
        if not plan.is_of_cluster:
            self.nodes[1] = simulation.new_node(1, settings=settings)
            self._storms[1] = Storm(simulation, 1, history)
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
            self._storms[node_id] = MemberStorm(
                simulation, node_id, history, store=store, power=power, clients=plan.clients
            )

    def bootstrap_servers(self, first: int) -> str:
        """All nodes, one of them first."""
        addresses = [node.address for node in self.nodes.values()]
        cut = first % len(addresses)
        return ",".join([*addresses[cut:], *addresses[:cut]])

    async def begin(self) -> None:
        await asyncio.gather(*(storm.begin() for storm in self._storms.values()))

    def strike(self, fault: entries.Fault) -> None:
        self._storms[fault.node].strike(fault)

    def heal(self) -> None:
        for storm in self._storms.values():
            storm.heal()

    async def settle(self) -> None:
        """Return when all nodes serve, and agree, or have had the time to."""
        for storm in self._storms.values():
            await storm.settle()
        await self._converge(all_online=False)

    async def restart(self, kind: str) -> None:
        """One last time, as the plan says: killed all at once, else one after the other."""
        if kind == entries.CrashProcess.kind:
            await asyncio.gather(*(storm.restart(kind) for storm in self._storms.values()))
        else:
            for storm in self._storms.values():
                await storm.restart(kind)
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
        """What is not there that others put there, or is there and should not be; when all nodes run."""
        found = [problem for storm in self._storms.values() for problem in storm.problems]
        for node in self.nodes.values():
            found += vanished(node)
            found += left_behind(node)
        return found

    @property
    def clock_slack_ms(self) -> int:
        return sum(storm.clock_slack_ms for storm in self._storms.values())

    @property
    def struck(self) -> Counter[tuple[str, Phase]]:
        return sum((storm.struck for storm in self._storms.values()), Counter())
