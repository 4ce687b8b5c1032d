"""Injects the faults that only one of several nodes can have: pauses, partitions, a lost metadata store."""

from collections.abc import Sequence
from typing import assert_never, cast

from penstock.sim import entries
from penstock.sim.checkers import CrashKind, History
from penstock.sim.fault_injector import FaultInjector
from penstock.sim.power_cuts import PowerCuts
from penstock.sim.process import SimProcess
from penstock.sim.shared_store import SharedStore
from penstock.sim.simulation import Simulation

AnyClusterFault = (
    entries.CrashSilently
    | entries.PauseNode
    | entries.CutPeers
    | entries.IsolateNode
    | entries.CutStore
    | entries.ExpireSession
)


class ClusterFaultInjector(FaultInjector):
    """Injects the faults of one node of a cluster in one run."""

    def __init__(
        self,
        simulation: Simulation,
        node_id: int,
        history: History,
        *,
        store: SharedStore,
        power: PowerCuts,
        clients: Sequence[str],
    ) -> None:
        super().__init__(simulation, node_id, history)
        self._node_id = node_id
        self._store = store
        self._power = power
        self._clients = clients
        self._paused: SimProcess | None = None

    def heal(self) -> None:
        super().heal()
        self._store.mend_all()
        self._resume()

    def _note_crash(self, kind: CrashKind) -> None:
        """Other replicas have what this node had, except in the logs that `PowerCuts` reports."""
        if kind is CrashKind.MACHINE:
            self._power.cut(self._node_id)

    def _do(self, fault: entries.Fault) -> None:
        if isinstance(fault, entries.ClusterFault):
            self._count(fault)
            self._do_to_member(cast(AnyClusterFault, fault))
        else:
            super()._do(fault)

    def _do_to_member(self, fault: AnyClusterFault) -> None:
        network, host = self._simulation.network, self._node.host
        match fault:
            case entries.CrashSilently():
                self._crash_silently(fault.down_ms / 1000)
            case entries.PauseNode():
                self._pause()
                self._later(fault.for_ms, self._resume)
            case entries.CutPeers():
                other, one_way = self._simulation.nodes[fault.other].host, fault.one_way
                network.cut(host, other, one_way=one_way)
                self._later(fault.for_ms, lambda: network.heal(host, other, one_way=one_way))
            case entries.IsolateNode():
                self._isolate(fault.for_ms)
            case entries.CutStore():
                self._store.cut(self._node_id, silently=fault.silently)
                self._later(fault.for_ms, lambda: self._store.mend(self._node_id))
            case entries.ExpireSession():
                self._store.expire(self._node_id)
            case _:
                assert_never(fault)

    def _crash_silently(self, down_s: float) -> None:
        if self._node.process is None:
            return
        self._note_crash(CrashKind.PROCESS)
        self._node.crash_process(silently=True)
        self._go(self._start(down_s))

    def _pause(self) -> None:
        if self._node.process is not None and self._paused is None:
            self._paused = self._node.process
            self._simulation.kernel.pause(self._paused)

    def _resume(self) -> None:
        if self._paused is not None:
            self._simulation.kernel.resume(self._paused)
            self._paused = None

    def _isolate(self, for_ms: int) -> None:
        network, host = self._simulation.network, self._node.host
        nodes = [each.host for each in self._simulation.nodes.values() if each is not self._node]
        others = [*nodes, *self._clients]
        for other in others:
            network.cut(host, other)
        self._store.cut(self._node_id, silently=True)

        def mend() -> None:
            for other in others:
                network.heal(host, other)
            self._store.mend(self._node_id)

        self._later(for_ms, mend)
