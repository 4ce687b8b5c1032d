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
from penstock.sim.fleet import Fleet
from penstock.sim.kernel import Tracer
from penstock.sim.phases import Phase
from penstock.sim.place import Place
from penstock.sim.plan import OPERATOR, Plan
from penstock.sim.simulation import Simulation
from penstock.sim.workload.admin import Admin
from penstock.sim.workload.copier import Copier
from penstock.sim.workload.journal import Journal
from penstock.sim.workload.last_look import LastLook
from penstock.sim.workload.last_reader import LastReader
from penstock.sim.workload.member import MemberActor
from penstock.sim.workload.operator import Operator
from penstock.sim.workload.pipelining import PipeliningWriter
from penstock.sim.workload.promises import Promises
from penstock.sim.workload.reader import Reader
from penstock.sim.workload.recording import RecordingClient
from penstock.sim.workload.transactor import Transactor
from penstock.sim.workload.watching import StrayingClient, WatchingClient
from penstock.sim.workload.writer import Writer

C = TypeVar("C", bound=WatchingClient)

_ADMIN = "admin"
_LAST_READER = "last-reader"
_LAST_LOOK = "last-look"
_SECONDS_MAX = 3600.0

# Clients of a run are impatient: what a fault makes them wait for ends as unknown, and they go on.
_IMPATIENT = ConnectionLimits(connect_timeout_ms=1_000, request_timeout_ms=2_000)
# Requests that have to wait for their turn may be sent in another order than they were asked for.
_IN_ORDER = _IMPATIENT._replace(in_flight_max=1_000)
_HELD_BACK = ConnectionLimits(connect_timeout_ms=1_000, request_timeout_ms=5_000)  # by a rebalance
_PATIENCE_MS = 6_000


class Finding(NamedTuple):
    """Something that should not have been: an anomaly by its name, or one of the kinds below."""

    kind: str
    what: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.what}"


UNREADABLE = "unreadable log"
FORGOTTEN = "forgotten producer"
LOST_TOPIC = "lost topic"
UNCAUGHT = "uncaught exception"
COMPLAINT = "complaint of the broker"
ENDLESS = "endless run"
BROKEN_OFF = "broken off"
OUT_OF_REACH = "out of reach"
DISAGREEMENT = "disagreement"
MISPLACED = "misplaced directory"


@dataclass
class RunOutcome:
    """What a run came to; in order if there are no `problems`."""

    problems: list[Finding] = field(default_factory=list)
    hash: str = ""
    operations: int = 0
    messages: int = 0
    seconds: float = 0.0  # of virtual time
    counts: Counter[str] = field(default_factory=Counter)  # "send ok", "read ConnectionLostError", ...
    struck: Counter[tuple[str, Phase]] = field(default_factory=Counter)  # faults by what the node was about

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
    """Everything that a plan says, from an empty disk to the last check."""
    with Simulation(plan.seed, trace=trace) as simulation, _listening() as complaints:
        run = _Run(plan, simulation)
        try:
            simulation.run(run.story(), seconds_max=_SECONDS_MAX)
        except (OutOfTimeError, DeadlockError) as error:
            run.outcome.problems.append(Finding(ENDLESS, str(error)))
        except Exception as error:
            run.outcome.problems.append(Finding(BROKEN_OFF, repr(error)))
        run.conclude()
    run.outcome.problems += complaints
    return run.outcome


class _Run:
    """One plan under way."""

    def __init__(self, plan: Plan, simulation: Simulation) -> None:
        self._plan = plan
        self._simulation = simulation
        self._journal = Journal()
        self._promises = Promises(plan.topics)
        self._fleet = Fleet(plan, simulation, self._journal.history)
        self._client_count = 0
        self.outcome = RunOutcome()

    async def story(self) -> None:
        await self._fleet.begin()
        actors = [self._simulation.loop.spawn(place, coroutine) for place, coroutine in self._actors()]
        await self._faults()
        await asyncio.gather(*actors)
        self._fleet.heal()
        await self._fleet.settle()
        await self._fleet.restart(self._plan.finish)
        self.outcome.problems += [Finding(DISAGREEMENT, problem) for problem in self._fleet.problems]
        self.outcome.problems += [Finding(MISPLACED, problem) for problem in self._fleet.misplaced()]
        if self._plan.is_coordinated:
            await self._look_at_coordinators()
        await self._read_everything()

    async def _faults(self) -> None:
        for fault in self._plan.faults:
            await self._until(fault.at_ms)
            self._fleet.strike(fault)

    async def _until(self, at_ms: int) -> None:
        await asyncio.sleep(max(0.0, at_ms / 1000 - self._simulation.kernel.now))

    # ---- clients

    def _actors(self) -> Iterator[tuple[Place, Coroutine[Any, Any, None]]]:
        for writer_plan in self._plan.writers:
            if writer_plan.pipelines:
                client, place = self._client_of(WatchingClient, writer_plan.name, _IN_ORDER)
                pipelining = PipeliningWriter(writer_plan, client, self._journal)
                yield (
                    place,
                    self._act(
                        writer_plan.name,
                        client,
                        {entries.SendBatch: pipelining.send},
                        finish=pipelining.finish,
                    ),
                )
            else:
                client, place = self._client(writer_plan.name)
                writer = Writer(writer_plan, client, self._journal)
                yield place, self._act(writer_plan.name, client, {entries.SendBatch: writer.send})
        for name in self._plan.readers:
            client, place = self._client(name)
            reader = Reader(name, client, self._journal)
            yield place, self._act(name, client, {entries.ReadOn: reader.read, entries.Seek: reader.seek})
        kind = StrayingClient if self._plan.is_of_cluster else WatchingClient
        client, place = self._client_of(kind, _ADMIN, _IMPATIENT)
        admin = Admin(client, self._journal, self._promises)
        doing = {
            entries.CreateTopic: admin.create,
            entries.DeleteTopic: admin.delete,
            entries.RecreateTopic: admin.recreate,
            entries.AlterTopic: admin.alter,
            entries.DeleteRecords: admin.delete_records,
            entries.GrowTopic: admin.grow,
        }
        yield place, self._act(_ADMIN, client, doing)
        if self._plan.is_of_cluster:
            yield self._operator()
        yield from self._coordinated_actors()

    def _operator(self) -> tuple[Place, Coroutine[Any, Any, None]]:
        client, place = self._client_of(StrayingClient, OPERATOR, _IMPATIENT)
        operator = Operator(client, self._journal)
        doing = {
            entries.MoveReplicas: operator.move,
            entries.ElectPreferred: operator.elect,
            entries.DrainBroker: operator.drain,
            entries.UndrainBroker: operator.undrain,
        }
        return place, self._act(OPERATOR, client, doing)

    def _coordinated_actors(self) -> Iterator[tuple[Place, Coroutine[Any, Any, None]]]:
        for plan in self._plan.transactors:
            client, place = self._recording_client(plan.name)
            transactor = Transactor(plan, client, self._journal)
            yield place, self._act(plan.name, client, {entries.Transact: transactor.transact})
        for member_plan in self._plan.members:
            client, place = self._recording_client(member_plan.name)
            member = (Copier if member_plan.copies_to else MemberActor)(member_plan, client, self._journal)
            doing: dict[type[Operation], Any] = {
                entries.JoinGroup: member.join,
                entries.LeaveGroup: member.leave,
            }
            yield place, self._act(member_plan.name, client, doing, finish=member.finish)

    def _client(self, name: str) -> tuple[WatchingClient, Place]:
        return self._client_of(WatchingClient, name, _IMPATIENT)

    def _recording_client(self, name: str) -> tuple[RecordingClient, Place]:
        client, place = self._client_of(RecordingClient, name, _HELD_BACK)
        return client.record_for(name, self._journal), place

    def _client_of(self, kind: type[C], name: str, limits: ConnectionLimits) -> tuple[C, Place]:
        outsider = self._simulation.new_outsider(name)
        settings = ClientSettings(client_id=name, limits=limits, patience_ms=_PATIENCE_MS)
        servers = self._fleet.bootstrap_servers(self._client_count)
        self._client_count += 1
        client = kind(outsider.loop, servers, entropy=outsider.entropy, settings=settings)
        return client, outsider.place

    async def _act(
        self,
        name: str,
        client: WatchingClient,
        doing: Mapping[type[Operation], Any],
        *,
        finish: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Do what the plan has for one client, one thing after the other."""
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
        client, place = self._client(_LAST_READER)
        await self._simulation.loop.spawn(place, LastReader(client, self._journal).read_all())
        await client.close()

    async def _look_at_coordinators(self) -> None:
        client, place = self._recording_client(_LAST_LOOK)
        look = LastLook(self._plan, client, self._journal, expects_ends=not self._lost_unsynced)
        await self._simulation.loop.spawn(place, look.look())
        await client.close()
        self.outcome.problems += [Finding(OUT_OF_REACH, problem) for problem in look.problems]

    @property
    def _lost_unsynced(self) -> bool:
        """Whether what coordinators had answered may be gone."""
        return self._lost_power and FLUSHES_ALWAYS not in self._plan.broker

    @property
    def _lost_power(self) -> bool:
        return any(crash.kind is CrashKind.MACHINE for crash in self._journal.history.crashes)

    def _anomalies(self) -> list[Anomaly]:
        history = self._journal.history
        found = check(history)
        if self._plan.is_of_cluster:
            # A leader that has just become one may know a lower watermark than the last had told, for a moment.
            found = [each for each in found if each.kind is not AnomalyKind.LOW_WATERMARK]
        if self._lost_unsynced:
            # Each log is as it should be, but what lies in several of them need not fit together any more.
            return [each for each in found if each.kind is not AnomalyKind.TORN_TRANSACTION]
        return found + check_coordination(history)

    def conclude(self) -> None:
        """Check what was seen."""
        history, outcome = self._journal.history, self.outcome
        history.clock_slack_ms = self._fleet.clock_slack_ms
        for log in [log for send in history.sends for log in send.logs] + [
            poll.log for poll in history.polls
        ]:
            history.keeping[log.topic_id] = self._promises.of(log.topic)
        outcome.problems += [Finding(each.kind, f"{each.log}: {each.what}") for each in self._anomalies()]
        outcome.problems += self._unreadable_logs()
        outcome.problems += self._forgotten_producers()
        outcome.problems += [
            Finding(LOST_TOPIC, f"{topic} was created: {why}")
            for topic, why in self._journal.topics.lost.items()
        ]
        outcome.problems += [
            Finding(UNCAUGHT, f"{problem.place}: {problem.message}: {problem.error!r}")
            for problem in self._simulation.kernel.problems
        ]
        outcome.hash = self._simulation.kernel.history_hash
        outcome.seconds = self._simulation.kernel.now
        outcome.messages = sum(len(send.messages) for send in history.sends)
        outcome.counts = self._journal.counts
        outcome.struck = self._fleet.struck

    def _unreadable_logs(self) -> list[Finding]:
        """Nothing but damage on the device excuses a log that cannot be read; a power cut, offsets that cannot."""
        history = self._journal.history
        damaged = {damage.log for damage in history.damages}
        unreadable = list(self._journal.unreadable.items())
        if not self._lost_power:
            unreadable += [
                (each.log, f"nothing at offset {each.first_offset}") for each in history.unreadable
            ]
        return [Finding(UNREADABLE, f"{log}: {why}") for log, why in unreadable if log not in damaged]

    def _forgotten_producers(self) -> list[Finding]:
        """Nothing but a power cut excuses a log that calls a batch out of order: nobody left anything out."""
        if self._lost_power:
            return []
        return [
            Finding(FORGOTTEN, f"{log}: {what} is out of order")
            for log, what in self._journal.out_of_order.items()
        ]


@contextmanager
def _listening() -> Iterator[list[Finding]]:
    """Collect what the broker logs as a bug of its own, and keep the rest of its log to itself."""
    complaints: list[Finding] = []
    logger = logging.getLogger("penstock")
    handler = _Complaints(complaints)
    propagate, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield complaints
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagate


class _Complaints(logging.Handler):
    """An exception in the log is a bug, unless it is the disk's."""

    def __init__(self, complaints: list[Finding]) -> None:
        super().__init__(logging.ERROR)
        self._complaints = complaints

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and not isinstance(error, OSError | StorageError):
            self._complaints.append(Finding(COMPLAINT, f"{record.getMessage()}: {error!r}"))
