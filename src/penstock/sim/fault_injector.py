"""Injects the faults of a plan into one node and its network, and counts in which phase of the node each happened.

Whatever brings the node down, the injector starts it again after a while, until it serves.
"""

import asyncio
import errno
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, assert_never, cast

from penstock.base.errors import PenstockError, UserError
from penstock.sim import entries
from penstock.sim.checkers import CrashKind, History, LogName
from penstock.sim.checkers.history import DamagedLog
from penstock.sim.clock import EPOCH_MS
from penstock.sim.foreign_directories import copy_foreign_directory, has_partitions
from penstock.sim.link import DELAY_S
from penstock.sim.node import NodeCrashedError
from penstock.sim.phases import Phase
from penstock.sim.simulation import Simulation
from penstock.storage import file_names
from penstock.storage.data_directory import LOCK
from penstock.storage.ownership import METADATA

_START_AGAIN_S = 1.0
_WAIT_MS_MAX = 3_000  # for the node to do what a fault waits for

AnyFault = (
    entries.CrashProcess
    | entries.CrashMachine
    | entries.Restart
    | entries.CutNetwork
    | entries.DelayNetwork
    | entries.SlowNetwork
    | entries.ResetConnections
    | entries.HalfOpenConnections
    | entries.FillDisk
    | entries.FailAppend
    | entries.FailSync
    | entries.SlowSyncs
    | entries.ColdCache
    | entries.FlipBit
    | entries.JumpClock
    | entries.SkewClock
    | entries.CopyForeignDirectory
    | entries.StartWithoutMetadata
)


class FaultInjector:
    """Injects the faults of one node in one run, and keeps the node running."""

    def __init__(self, simulation: Simulation, node_id: int, history: History) -> None:
        self._simulation = simulation
        self._node = simulation.nodes[node_id]
        self._history = history
        self._is_up = asyncio.Event()
        self._problem: BaseException | None = None
        self._waiting: list[entries.Fault] = []
        self._node.phases.listener = self._see
        self._node.on_exit = self._exited
        self._slack_ms = (0, 0)  # how far the node's clock was behind and ahead, at most
        self.struck: Counter[tuple[str, Phase]] = Counter()  # by kind of fault and the node's phase
        self.failed_starts: list[str] = []
        self.problems: list[str] = []  # found by starting the node without its metadata
        self._has_metadata = asyncio.Event()
        self._has_metadata.set()

    # ---- the node's life

    async def begin(self) -> None:
        await self._start(0.0)

    async def settle(self) -> None:
        """Return when the node serves."""
        while not self._node.is_running:
            self._is_up.clear()
            await self._is_up.wait()
            if self._problem is not None:
                raise self._problem

    async def restart(self, kind: str) -> None:
        """Restart the node as the plan says, and wait until it serves again."""
        if kind == entries.Restart.kind:
            await self._stop_and_start(0.0)
        else:
            self._crash(CrashKind.PROCESS if kind == entries.CrashProcess.kind else CrashKind.MACHINE, 0.0)
        await self.settle()

    def _crash(self, kind: CrashKind, down_s: float) -> None:
        if self._node.process is None:
            return
        self._note_crash(kind)
        if kind is CrashKind.PROCESS:
            self._node.crash_process()
        else:
            self._node.crash_machine()
        self._go(self._start(down_s))

    def _exited(self) -> None:
        self._note_crash(CrashKind.PROCESS)
        self._go(self._start(_START_AGAIN_S))

    def _note_crash(self, kind: CrashKind) -> None:
        self._history.crash(kind)

    async def _start(self, down_s: float) -> None:
        await asyncio.sleep(down_s)
        await self._has_metadata.wait()
        while self._node.process is None:
            try:
                await self._node.start()
            except NodeCrashedError:
                return  # the fault that crashed it starts it again
            except (OSError, PenstockError) as error:
                self.failed_starts.append(str(error))
                self._note_crash(CrashKind.PROCESS)
                await asyncio.sleep(_START_AGAIN_S)
        self._is_up.set()

    async def _stop_and_start(self, down_s: float) -> None:
        if not self._node.is_running:
            return
        kind = CrashKind.STOP
        try:
            await self._node.stop()
        except NodeCrashedError:
            return
        except (OSError, PenstockError):
            kind = CrashKind.PROCESS  # a process that ends with an error has not stopped cleanly
        self._note_crash(kind)
        await self._start(down_s)

    async def _start_without_metadata(self, down_s: float) -> None:
        node = self._node
        if not node.is_running or not has_partitions(node.disk):
            return
        self._note_crash(CrashKind.PROCESS)
        node.crash_process()
        self._has_metadata.clear()
        taken = node.disk.take_away(METADATA) if METADATA in node.disk.names("") else None
        before = self._files()
        try:
            await node.start(alone=True)
            self.problems.append(f"{node.host} started without its metadata")
            node.crash_process()
        except UserError:
            if self._files() != before:
                self.problems.append(f"{node.host} refused to start without its metadata, but changed files")
        except (NodeCrashedError, OSError, PenstockError):
            pass
        if taken is not None:
            node.disk.put_back(taken)
        self._has_metadata.set()
        await self._start(down_s)

    def _files(self) -> dict[str, bytes]:
        disk = self._node.disk
        return {path: disk.content(path) for path in disk.paths() if path != LOCK}

    def _go(self, coroutine: Coroutine[Any, Any, None]) -> None:
        # As the simulation's own process: a crash may be caused by a callback of the node's.
        loop = self._simulation.loop
        loop.spawn(loop.home, coroutine).add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        """Starts and stops fail with known errors only; any other is a bug, which `settle` raises."""
        self._problem = self._problem or task.exception()
        if self._problem is not None:
            self._is_up.set()

    # ---- injecting

    def strike(self, fault: entries.Fault) -> None:
        """Inject one fault: now, or when the node next enters the phase that the fault waits for."""
        if fault.when is None:
            self._do(fault)
            return
        self._waiting.append(fault)
        self._later(_WAIT_MS_MAX, lambda: self._strike_waiting(fault))

    def _see(self, phase: Phase) -> None:
        """Inject what waits for this phase as soon as the node's code, which runs now, comes to its next await."""
        for fault in self._waiting:
            if fault.when == phase:
                self._simulation.loop.home.enter(self._simulation.loop.call_soon, self._strike_waiting, fault)

    def _strike_waiting(self, fault: entries.Fault) -> None:
        if fault in self._waiting:
            self._waiting.remove(fault)
            self._do(fault)

    def heal(self) -> None:
        """Inject no more faults, and end those that last; damage that was done stays."""
        self._waiting.clear()
        faults = self._node.disk.faults
        faults.full = faults.nothing_is_cached = faults.syncs_fail = False
        faults.sync_delay_s = 0.0
        faults.fail_appends(count=0)
        faults.fail_syncs(count=0)
        faults.call_off_strike()
        self._simulation.network.restore()

    @property
    def clock_slack_ms(self) -> int:
        """How much the node's clock may have gained or lost between any two moments."""
        self._sample_clock()
        behind, ahead = self._slack_ms
        return ahead - behind + 1

    def _count(self, fault: entries.Fault) -> None:
        self.struck[fault.kind, self._node.phases.now] += 1

    def _do(self, fault: entries.Fault) -> None:
        self._do_any(cast(AnyFault, fault))

    def _do_any(self, fault: AnyFault) -> None:
        node, network, disk = self._node, self._simulation.network, self._node.disk.faults
        match fault:
            case entries.CrashProcess():
                self._crash_by_plan(fault, CrashKind.PROCESS)
                return
            case entries.CrashMachine():
                self._crash_by_plan(fault, CrashKind.MACHINE)
                return
            case entries.Restart():
                self._go(self._stop_and_start(fault.down_ms / 1000))
            case entries.CutNetwork():
                network.cut(fault.actor, node.host)
                self._later(fault.for_ms, lambda: network.heal(fault.actor, node.host))
            case entries.DelayNetwork():
                network.delay(fault.actor, node.host, low_s=0.0, high_s=fault.delay_ms / 1000)
                self._later(
                    fault.for_ms,
                    lambda: network.delay(fault.actor, node.host, low_s=DELAY_S[0], high_s=DELAY_S[1]),
                )
            case entries.SlowNetwork():
                network.slow(fault.actor, node.host, bytes_per_s=fault.bytes_per_s)
                self._later(fault.for_ms, lambda: network.slow(fault.actor, node.host, bytes_per_s=None))
            case entries.ResetConnections():
                network.reset(fault.actor, node.host)
            case entries.HalfOpenConnections():
                network.half_open(node.host, fault.actor)
            case entries.FillDisk():
                disk.full = True
                self._later(fault.for_ms, lambda: setattr(disk, "full", False))
            case entries.FailAppend():
                disk.fail_appends(errno.EIO)
            case entries.FailSync():
                disk.fail_syncs()
            case entries.SlowSyncs():
                disk.sync_delay_s = fault.delay_ms / 1000
                self._later(fault.for_ms, lambda: setattr(disk, "sync_delay_s", 0.0))
            case entries.ColdCache():
                disk.nothing_is_cached = True
                self._later(fault.for_ms, lambda: setattr(disk, "nothing_is_cached", False))
            case entries.FlipBit():
                self._flip_bit(fault.suffix)
            case entries.JumpClock():
                self._sample_clock()
                node.clock.jump(fault.by_ms)
                self._sample_clock()
            case entries.SkewClock():
                self._sample_clock()
                node.clock.skew(fault.percent / 100)
            case entries.CopyForeignDirectory():
                copy_foreign_directory(node.disk, fault)
            case entries.StartWithoutMetadata():
                self._go(self._start_without_metadata(fault.down_ms / 1000))
            case _:
                assert_never(fault)
        self._count(fault)

    def _later(self, delay_ms: int, action: Callable[[], object]) -> None:
        self._simulation.loop.call_later(delay_ms / 1000, action)

    def _crash_by_plan(self, fault: entries.CrashProcess | entries.CrashMachine, kind: CrashKind) -> None:
        def crash() -> None:
            self._count(fault)
            self._crash(kind, fault.down_ms / 1000)

        if fault.after_changes is None or self._node.process is None:
            crash()
        else:
            self._node.disk.faults.strike_after(fault.after_changes, crash)

    def _flip_bit(self, suffix: str) -> None:
        path = self._node.disk.flip_bit(suffix=suffix, spare=METADATA)
        log = None if path is None else self._log_of(path)
        if log is not None:
            self._history.damages.append(DamagedLog(self._history.tick(), log))

    def _log_of(self, path: str) -> LogName | None:
        """The log that a file belongs to; None for files that are not read any more."""
        directory = path.rpartition("/")[0]
        topic, _, partition = directory.rpartition("-")
        try:
            text = self._node.disk.content(f"{directory}/{file_names.PARTITION_METADATA}").decode()
        except (AssertionError, FileNotFoundError):
            return None
        if not partition.isdecimal():
            return None
        topic_id = text.partition("topic_id: ")[2].strip()
        return LogName(topic, topic_id, int(partition))

    def _sample_clock(self) -> None:
        true_ms = EPOCH_MS + int(self._simulation.kernel.now * 1000)
        ahead_ms = self._node.clock.now_ms() - true_ms
        self._slack_ms = (min(self._slack_ms[0], ahead_ms), max(self._slack_ms[1], ahead_ms))
