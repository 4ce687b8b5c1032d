"""At the end of a run: whether every coordinator serves, and which offsets and records are committed.

Initializes every transactional id, which aborts its open transaction; joins every group until all of its partitions are
assigned to it; waits until no partition has an open transaction; then reads all that is committed.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from functools import partial
from typing import Any

from penstock.base.ids import TopicPartition
from penstock.client.errors import ClientError, NoAnswerError
from penstock.client.fetch import FetchLimits
from penstock.client.group_consumer import GroupConsumer
from penstock.client.group_offsets import committed_offsets
from penstock.client.offsets import EARLIEST, LATEST, find_offsets
from penstock.client.transactional_producer import TransactionalProducer
from penstock.sim.coordination_actors import MemberPlan
from penstock.sim.plan import Plan
from penstock.sim.workload.final_fetch import final_fetch
from penstock.sim.workload.journal import Journal
from penstock.sim.workload.member import member_settings, protocol_of
from penstock.sim.workload.polling import committed_poll
from penstock.sim.workload.recording_client import RecordingClient

_NAME = "last look"
_PATIENCE_S = 120.0  # virtual: longer than any session or transaction may last
_TIMEOUT_MS = 60_000
_AGAIN_S = 0.5
_LIMITS = FetchLimits(max_wait_ms=1)


class CoordinatorCheck:
    """`problems` has a line for each check that failed."""

    def __init__(self, plan: Plan, client: RecordingClient, journal: Journal, *, expects_ends: bool) -> None:
        """Without `expects_ends`, a power cut may have taken markers, or torn holes into logs."""
        self._plan = plan
        self._client = client
        self._journal = journal
        self._expects_ends = expects_ends
        self.problems: list[str] = []

    async def look(self) -> None:
        for transactional_id in self._transactional_ids():
            await self._try(
                f"transactional id {transactional_id}", partial(self._take_over, transactional_id)
            )
        groups = {group: members for group, members in self._groups().items() if self._is_sound(members)}
        for group, members in groups.items():
            await self._try(f"group {group}", partial(self._take_all, members))
        partitions = [
            TopicPartition(topic.name, index)
            for topic in self._plan.topics
            for index in range(topic.partitions)
        ]
        for partition in partitions:
            if self._expects_ends:
                await self._try(f"{partition} with its transactions", partial(self._see_ends, partition))
                await self._try(f"{partition} for readers of committed data", partial(self._read, partition))
        for group, members in groups.items():
            read = [each for each in partitions if any(each.topic in member.topics for member in members)]
            await self._try(f"offsets of group {group}", partial(self._see_committed, group, read))

    def _is_sound(self, members: Sequence[MemberPlan]) -> bool:
        """Transactional offsets whose markers were lost block a group until the transaction is aborted by hand."""
        return self._expects_ends or not any(member.copies_to for member in members)

    def _transactional_ids(self) -> Iterator[str]:
        yield from (transactor.name for transactor in self._plan.transactors)
        yield from (member.name for member in self._plan.members if member.copies_to)

    def _groups(self) -> dict[str, list[MemberPlan]]:
        groups: dict[str, list[MemberPlan]] = {}
        for member in self._plan.members:
            groups.setdefault(member.group, []).append(member)
        return groups

    async def _try(self, what: str, do: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a check, and repeat it while it gets no answer: a broker may wait for another one that has left."""
        problem = "still waiting"
        try:
            async with asyncio.timeout(_PATIENCE_S):
                while True:
                    try:
                        return await do()
                    except NoAnswerError as error:
                        problem = str(error)
        except TimeoutError:
            self.problems.append(f"{what}: {problem} after {_PATIENCE_S:.0f} s")
        except ClientError as error:
            self.problems.append(f"{what}: {error}")

    async def _take_over(self, transactional_id: str) -> None:
        producer = TransactionalProducer(self._client, transactional_id, timeout_ms=_TIMEOUT_MS)
        await producer.start()

    async def _take_all(self, members: Sequence[MemberPlan]) -> None:
        """Join the group until all partitions are assigned to this member: members that left without LeaveGroup first
        have to time out.
        """
        topics = tuple(sorted({topic for member in members for topic in member.topics}))
        settings = member_settings(members[0])._replace(topics=topics)
        wanted = {
            TopicPartition(topic.name, index)
            for topic in self._plan.topics
            if topic.name in topics
            for index in range(topic.partitions)
        }
        consumer = await GroupConsumer.join(
            self._client, settings, protocol=protocol_of(members[0]), limits=_LIMITS, committed_only=True
        )
        try:
            while consumer.assignment != wanted:
                await consumer.poll()
        finally:
            await consumer.close(commit=False)

    async def _see_ends(self, partition: TopicPartition) -> None:
        while True:
            stable = (await find_offsets(self._client, {partition: LATEST}, committed_only=True))[partition]
            if stable == (await find_offsets(self._client, {partition: LATEST}))[partition]:
                return
            await asyncio.sleep(_AGAIN_S)

    async def _read(self, partition: TopicPartition) -> None:
        client, history = self._client, self._journal.history
        position = (await find_offsets(client, {partition: EARLIEST}))[partition]
        end = (await find_offsets(client, {partition: LATEST}, committed_only=True))[partition]
        while position < end:
            began = history.tick()
            fetched = await final_fetch(client, partition, position, committed_only=True)
            if fetched.refusal is not None:
                self.problems.append(f"{partition}: {fetched.refusal.code.name} at offset {position}")
                return
            poll = committed_poll(
                fetched,
                actor=_NAME,
                session=0,
                log=client.log(partition),
                position=position,
                began=began,
                journal=self._journal,
                now_ms=client.loop.now_ms(),
            )
            history.polls.append(poll)
            if poll.next_position == position:
                self.problems.append(f"{partition}: nothing comes at offset {position}, below its end {end}")
                return
            position = poll.next_position

    async def _see_committed(self, group: str, partitions: Sequence[TopicPartition]) -> None:
        """Fetch the committed offsets, which the client records."""
        await committed_offsets(self._client, group, partitions, stable=True)
