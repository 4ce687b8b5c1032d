"""A member of a group: once it has joined it reads and commits by itself, until it leaves."""

import asyncio
import contextlib
from collections.abc import Sequence

from penstock.base.ids import TopicPartition, format_id
from penstock.client.errors import AnsweredError, ClientError
from penstock.client.fetch import FetchLimits
from penstock.client.group_consumer import GroupConsumer
from penstock.client.groups import GroupProtocol
from penstock.client.membership import MemberSettings
from penstock.client.transactional_producer import FencedError
from penstock.sim.checkers import Holding, LogName, Poll
from penstock.sim.coordination_actors import CLASSIC, MemberPlan
from penstock.sim.entries import JoinGroup, LeaveGroup
from penstock.sim.workload.journal import Journal
from penstock.sim.workload.polling import committed_poll
from penstock.sim.workload.recording_client import RecordingClient

_LIMITS = FetchLimits(max_wait_ms=300, partition_max_bytes=500)
_AGAIN_S = 0.2


def member_settings(plan: MemberPlan) -> MemberSettings:
    """The settings of a member: short timeouts, like those of all clients of a run."""
    return MemberSettings(
        plan.group,
        plan.topics,
        session_timeout_ms=2_000,
        heartbeat_interval_ms=400,
        rebalance_timeout_ms=3_000,
    )


def protocol_of(plan: MemberPlan) -> GroupProtocol:
    return GroupProtocol.CLASSIC if plan.protocol == CLASSIC else GroupProtocol.CONSUMER


class MemberActor:
    """Reads its assigned partitions; joins again after any error."""

    def __init__(self, plan: MemberPlan, client: RecordingClient, journal: Journal) -> None:
        self.plan = plan
        self.client = client
        self.journal = journal
        self._life: asyncio.Task[None] | None = None
        self._says_so = True
        self._commit_every = 1
        self._answers = 0
        self._sessions = 0
        self._stands: dict[TopicPartition, tuple[int, int]] = {}  # session, next position
        self._asked_since = 0  # when what is answered next may have been asked for, at the earliest

    async def join(self, entry: JoinGroup) -> None:
        self._commit_every = entry.commit_every
        if self._life is None:
            self._life = self.client.loop.create_task(self._live())

    async def leave(self, entry: LeaveGroup) -> None:
        await self._end(says_so=entry.says_so)

    async def finish(self) -> None:
        await self._end(says_so=True)

    async def _end(self, *, says_so: bool) -> None:
        life, self._life = self._life, None
        if life is not None:
            self._says_so = says_so
            life.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await life

    async def _live(self) -> None:
        while True:
            self._says_so = True
            try:
                await self._session()
            except AnsweredError as error:
                self.journal.count("session", error.refusal.code.name)
            except (ClientError, FencedError) as error:
                self.journal.count("session", type(error).__name__)
            self.client.cluster.forget()
            await asyncio.sleep(_AGAIN_S)

    async def _session(self) -> None:
        logs = {name: format_id((await self.client.topic(name)).topic_id) for name in self.plan.topics}
        consumer = await GroupConsumer.join(
            self.client,
            member_settings(self.plan),
            protocol=protocol_of(self.plan),
            limits=_LIMITS,
            committed_only=True,
        )
        self._stands.clear()
        self._asked_since = self.journal.history.tick()
        try:
            await self.begin()
            while True:
                await self._poll(consumer, logs)
        finally:
            await consumer.close(commit=self._says_so and not self.plan.copies_to, leave=self._says_so)

    async def begin(self) -> None:
        """Called once per session, before it polls."""

    async def _poll(self, consumer: GroupConsumer, logs: dict[str, str]) -> None:
        history = self.journal.history
        began = self._asked_since
        answers = await consumer.poll()
        if answers:
            # A poll may return before the fetch is answered; the next poll then returns that fetch's records.
            self._asked_since = history.tick()
        self._note_holding(consumer)
        polls: dict[TopicPartition, Poll] = {}
        for fetched in answers:
            partition = fetched.partition
            position = consumer.positions[partition]
            poll = committed_poll(
                fetched,
                actor=self.plan.name,
                session=self._session_of(partition, position),
                log=LogName(partition.topic, logs[partition.topic], partition.partition),
                position=position,
                began=began,
                journal=self.journal,
                now_ms=self.client.loop.now_ms(),
            )
            if poll.next_position > position:
                history.polls.append(poll)
                polls[partition] = poll
                self._stands[partition] = (poll.session, poll.next_position)
        if polls:
            await self.deal_with(consumer, polls)
            self.journal.count("poll", "ok")

    async def deal_with(self, consumer: GroupConsumer, polls: dict[TopicPartition, Poll]) -> None:
        for partition, poll in polls.items():
            consumer.advance(partition, poll.next_position)
        self._answers += 1
        if self._answers % self._commit_every == 0:
            await consumer.commit()

    def _session_of(self, partition: TopicPartition, position: int) -> int:
        session, expected = self._stands.get(partition, (0, -1))
        if position != expected:
            self._sessions += 1
            session = self._sessions
        return session

    def _note_holding(self, consumer: GroupConsumer) -> None:
        holdings, membership = self.journal.history.holdings, consumer.membership
        partitions: Sequence[TopicPartition] = sorted(consumer.assignment)
        holding = Holding(self.plan.group, membership.member_id, membership.generation, tuple(partitions))
        if partitions and holding not in holdings[-20:]:
            holdings.append(holding)
