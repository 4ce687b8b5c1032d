"""Runs a plan: the broker in the simulated world, its clients, the faults; then reads everything and checks.

`run_plan` gives the same outcome, history hash included, whenever and wherever a plan is run.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from penstock.base.errors import StorageError
from penstock.client.client import ClientSettings
from penstock.client.connection import ConnectionLimits
from penstock.sim import entries
from penstock.sim.checkers import Anomaly, AnomalyKind, CrashKind, check, check_coordination
from penstock.sim.coordination_plan import FLUSHES_ALWAYS
from penstock.sim.entries import Operation
from penstock.sim.event_loop import DeadlockError, OutOfTimeError
from penstock.sim.kernel import Tracer
from penstock.sim.phases import Phase
from penstock.sim.plan import OPERATOR, Plan
from penstock.sim.process import SimProcess
from penstock.sim.simulated_nodes import SimulatedNodes
from penstock.sim.simulation import Simulation
from penstock.sim.workload.admin import Admin
from penstock.sim.workload.coordinator_check import CoordinatorCheck
from penstock.sim.workload.copier import Copier
from penstock.sim.workload.final_reader import FinalReader
from penstock.sim.workload.journal import Journal
from penstock.sim.workload.member import MemberActor
from penstock.sim.workload.operator import Operator
from penstock.sim.workload.pipelined_writer import PipelinedWriter
from penstock.sim.workload.reader import Reader
from penstock.sim.workload.recording_client import RecordingClient
from penstock.sim.workload.topic_promises import TopicPromises
from penstock.sim.workload.tracking_client import AnyBrokerClient, TrackingClient
from penstock.sim.workload.transactor import Transactor
from penstock.sim.workload.writer import Writer

C = TypeVar("C", bound=TrackingClient)

_ADMIN = "admin"
_LAST_READER = "last-reader"
_LAST_LOOK = "last-look"
_SECONDS_MAX = 3600.0

# Short timeouts: an operation that a fault holds up ends as unknown, and the client goes on.
_SHORT_TIMEOUTS = ConnectionLimits(connect_timeout_ms=1_000, request_timeout_ms=2_000)
# No limit in practice: requests that wait for a free slot may be sent in another order.
_IN_ORDER = _SHORT_TIMEOUTS._replace(in_flight_max=1_000)
_LONGER_THAN_REBALANCES = ConnectionLimits(connect_timeout_ms=1_000, request_timeout_ms=5_000)
_PATIENCE_MS = 6_000


class Finding(NamedTuple):
    """Something wrong with a run: an anomaly, or one of the kinds below."""

    kind: str
    what: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.what}"


UNREADABLE = "unreadable log"
PRODUCER_STATE_LOST = "producer state lost"
LOST_TOPIC = "lost topic"
UNCAUGHT = "uncaught exception"
LOGGED_EXCEPTION = "logged exception"
NOT_FINISHED = "run not finished"
RUN_FAILED = "run failed"
COORDINATOR_UNAVAILABLE = "coordinator unavailable"
NOT_CONVERGED = "cluster not converged"
WRONG_DIRECTORY = "wrong directory"


@dataclass
class RunOutcome:
    """The result of a run; it passed if there are no `problems`."""

    problems: list[Finding] = field(default_factory=list)
    hash: str = ""
    operations: int = 0
    messages: int = 0
    seconds: float = 0.0  # of virtual time
    counts: Counter[str] = field(default_factory=Counter)  # "send ok", "read ConnectionLostError", ...
    struck: Counter[tuple[str, Phase]] = field(default_factory=Counter)  # faults by kind and the node's phase

    @property
    def ok(self) -> bool:
        return not self.problems

    @property
    def kinds(self) -> list[str]:
        """The kinds of problems, each once, in the order in which they were found."""
        return list(dict.fromkeys(problem.kind for problem in self.problems))

    @property
    def faults(self) -> int:
        return self.struck.total()


def run_plan(plan: Plan, *, trace: Tracer | None = None) -> RunOutcome:
    """Run a plan, from empty disks to the last check."""
    with Simulation(plan.seed, trace=trace) as simulation, _listening() as logged:
        run = _Run(plan, simulation)
        try:
            simulation.run(run.story(), seconds_max=_SECONDS_MAX)
        except (OutOfTimeError, DeadlockError) as error:
            run.outcome.problems.append(Finding(NOT_FINISHED, str(error)))
        except Exception as error:
            run.outcome.problems.append(Finding(RUN_FAILED, repr(error)))
        run.conclude()
    run.outcome.problems += logged
    return run.outcome


class _Run:
    """A plan that is being run."""

    def __init__(self, plan: Plan, simulation: Simulation) -> None:
        self._plan = plan
        self._simulation = simulation
        self._journal = Journal()
        self._promises = TopicPromises(plan.topics)
        self._nodes = SimulatedNodes(plan, simulation, self._journal.history)
        self._client_count = 0
        self.outcome = RunOutcome()

    async def story(self) -> None:
        await self._nodes.begin()
        actors = [self._simulation.loop.spawn(process, coroutine) for process, coroutine in self._actors()]
        await self._faults()
        await asyncio.gather(*actors)
        self._nodes.heal()
        await self._nodes.settle()
        await self._nodes.restart(self._plan.finish)
        self.outcome.problems += [Finding(NOT_CONVERGED, problem) for problem in self._nodes.problems]
        self.outcome.problems += [Finding(WRONG_DIRECTORY, problem) for problem in self._nodes.misplaced()]
        if self._plan.is_coordinated:
            await self._check_coordinators()
        await self._read_everything()

    async def _faults(self) -> None:
        for fault in self._plan.faults:
            await self._until(fault.at_ms)
            self._nodes.strike(fault)

    async def _until(self, at_ms: int) -> None:
        await asyncio.sleep(max(0.0, at_ms / 1000 - self._simulation.kernel.now))

    # ---- clients

    def _actors(self) -> Iterator[tuple[SimProcess, Coroutine[Any, Any, None]]]:
        for writer_plan in self._plan.writers:
            if writer_plan.pipelines:
                client, process = self._client_of(TrackingClient, writer_plan.name, _IN_ORDER)
                pipelining = PipelinedWriter(writer_plan, client, self._journal)
                yield (
                    process,
                    self._act(
                        writer_plan.name,
                        client,
                        {entries.SendBatch: pipelining.send},
                        finish=pipelining.finish,
                    ),
                )
            else:
                client, process = self._client(writer_plan.name)
                writer = Writer(writer_plan, client, self._journal)
                yield process, self._act(writer_plan.name, client, {entries.SendBatch: writer.send})
        for name in self._plan.readers:
            client, process = self._client(name)
            reader = Reader(name, client, self._journal)
            yield process, self._act(name, client, {entries.ReadOn: reader.read, entries.Seek: reader.seek})
        kind = AnyBrokerClient if self._plan.is_of_cluster else TrackingClient
        client, process = self._client_of(kind, _ADMIN, _SHORT_TIMEOUTS)
        admin = Admin(client, self._journal, self._promises)
        doing = {
            entries.CreateTopic: admin.create,
            entries.DeleteTopic: admin.delete,
            entries.RecreateTopic: admin.recreate,
            entries.AlterTopic: admin.alter,
            entries.DeleteRecords: admin.delete_records,
            entries.GrowTopic: admin.grow,
        }
        yield process, self._act(_ADMIN, client, doing)
        if self._plan.is_of_cluster:
            yield self._operator()
        yield from self._coordinated_actors()

    def _operator(self) -> tuple[SimProcess, Coroutine[Any, Any, None]]:
        client, process = self._client_of(AnyBrokerClient, OPERATOR, _SHORT_TIMEOUTS)
        operator = Operator(client, self._journal)
        doing = {
            entries.MoveReplicas: operator.move,
            entries.ElectPreferred: operator.elect,
            entries.DrainBroker: operator.drain,
            entries.UndrainBroker: operator.undrain,
        }
        return process, self._act(OPERATOR, client, doing)

    def _coordinated_actors(self) -> Iterator[tuple[SimProcess, Coroutine[Any, Any, None]]]:
        for plan in self._plan.transactors:
            client, process = self._recording_client(plan.name)
            transactor = Transactor(plan, client, self._journal)
            yield process, self._act(plan.name, client, {entries.Transact: transactor.transact})
        for member_plan in self._plan.members:
            client, process = self._recording_client(member_plan.name)
            member = (Copier if member_plan.copies_to else MemberActor)(member_plan, client, self._journal)
            doing: dict[type[Operation], Any] = {
                entries.JoinGroup: member.join,
                entries.LeaveGroup: member.leave,
            }
            yield process, self._act(member_plan.name, client, doing, finish=member.finish)

    def _client(self, name: str) -> tuple[TrackingClient, SimProcess]:
        return self._client_of(TrackingClient, name, _SHORT_TIMEOUTS)

    def _recording_client(self, name: str) -> tuple[RecordingClient, SimProcess]:
        client, process = self._client_of(RecordingClient, name, _LONGER_THAN_REBALANCES)
        return client.record_for(name, self._journal), process

    def _client_of(self, kind: type[C], name: str, limits: ConnectionLimits) -> tuple[C, SimProcess]:
        outsider = self._simulation.new_outsider(name)
        settings = ClientSettings(client_id=name, limits=limits, patience_ms=_PATIENCE_MS)
        servers = self._nodes.bootstrap_servers(self._client_count)
        self._client_count += 1
        client = kind(outsider.loop, servers, entropy=outsider.entropy, settings=settings)
        return client, outsider.process

    async def _act(
        self,
        name: str,
        client: TrackingClient,
        doing: Mapping[type[Operation], Any],
        *,
        finish: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Carry out the operations of one client, one after the other."""
        for operation in self._plan.operations:
            if operation.actor == name:
                await self._until(operation.at_ms)
                await doing[type(operation)](operation)
                self.outcome.operations += 1
        if finish is not None:
            await finish()
        await client.close()

    # ---- the end

    async def _read_everything(self) -> None:
        client, process = self._client(_LAST_READER)
        await self._simulation.loop.spawn(process, FinalReader(client, self._journal).read_all())
        await client.close()

    async def _check_coordinators(self) -> None:
        client, process = self._recording_client(_LAST_LOOK)
        look = CoordinatorCheck(self._plan, client, self._journal, expects_ends=not self._lost_unsynced)
        await self._simulation.loop.spawn(process, look.look())
        await client.close()
        self.outcome.problems += [Finding(COORDINATOR_UNAVAILABLE, problem) for problem in look.problems]

    @property
    def _lost_unsynced(self) -> bool:
        """Whether records that coordinators acknowledged may be lost."""
        return self._lost_power and FLUSHES_ALWAYS not in self._plan.broker

    @property
    def _lost_power(self) -> bool:
        return any(crash.kind is CrashKind.MACHINE for crash in self._journal.history.crashes)

    def _anomalies(self) -> list[Anomaly]:
        history = self._journal.history
        found = check(history)
        if self._plan.is_of_cluster:
            # A new leader may have a lower high watermark than the one before, for a moment.
            found = [each for each in found if each.kind is not AnomalyKind.LOW_WATERMARK]
        if self._lost_unsynced:
            # Each log is consistent, but parts of a transaction in several logs may be lost.
            return [each for each in found if each.kind is not AnomalyKind.TORN_TRANSACTION]
        return found + check_coordination(history)

    def conclude(self) -> None:
        """Check the history."""
        history, outcome = self._journal.history, self.outcome
        history.clock_slack_ms = self._nodes.clock_slack_ms
        for log in [log for send in history.sends for log in send.logs] + [
            poll.log for poll in history.polls
        ]:
            history.keeping[log.topic_id] = self._promises.of(log.topic)
        outcome.problems += [Finding(each.kind, f"{each.log}: {each.what}") for each in self._anomalies()]
        outcome.problems += self._unreadable_logs()
        outcome.problems += self._lost_producer_states()
        outcome.problems += [
            Finding(LOST_TOPIC, f"{topic} was created: {why}")
            for topic, why in self._journal.topics.lost.items()
        ]
        outcome.problems += [
            Finding(UNCAUGHT, f"{problem.process}: {problem.message}: {problem.error!r}")
            for problem in self._simulation.kernel.problems
        ]
        outcome.hash = self._simulation.kernel.history_hash
        outcome.seconds = self._simulation.kernel.now
        outcome.messages = sum(len(send.messages) for send in history.sends)
        outcome.counts = self._journal.counts
        outcome.struck = self._nodes.struck

    def _unreadable_logs(self) -> list[Finding]:
        """A log has to be readable unless bits were flipped; single offsets, unless power was cut."""
        history = self._journal.history
        damaged = {damage.log for damage in history.damages}
        unreadable = list(self._journal.unreadable.items())
        if not self._lost_power:
            unreadable += [
                (each.log, f"nothing at offset {each.first_offset}") for each in history.unreadable
            ]
        return [Finding(UNREADABLE, f"{log}: {why}") for log, why in unreadable if log not in damaged]

    def _lost_producer_states(self) -> list[Finding]:
        """No batch may be rejected as out of order, unless power was cut: producers leave no gaps."""
        if self._lost_power:
            return []
        return [
            Finding(PRODUCER_STATE_LOST, f"{log}: {what} was rejected as out of order")
            for log, what in self._journal.out_of_order.items()
        ]


@contextmanager
def _listening() -> Iterator[list[Finding]]:
    """Collect exceptions that the broker logs, and keep its log from other handlers."""
    logged: list[Finding] = []
    logger = logging.getLogger("penstock")
    handler = _ExceptionCollector(logged)
    propagate, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield logged
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagate


class _ExceptionCollector(logging.Handler):
    """Collects logged exceptions: each is a bug, unless the disk raised it."""

    def __init__(self, logged: list[Finding]) -> None:
        super().__init__(logging.ERROR)
        self._findings = logged

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and not isinstance(error, OSError | StorageError):
            self._findings.append(Finding(LOGGED_EXCEPTION, f"{record.getMessage()}: {error!r}"))
