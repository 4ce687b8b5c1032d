"""A member by the new protocol (KIP-848): one heartbeat says what it has, the answer what it should have.
ConsumerGroupHeartbeat v0-v1.

Partitions that stay are read on while others come and go: first those to be given up are, then the coordinator hears
of it, and hands out the rest.
"""

import asyncio
from collections.abc import Iterable
from typing import Final

from penstock.base.errors import ErrorCode
from penstock.base.ids import TopicPartition, format_id
from penstock.client.client import Client
from penstock.client.cluster import CoordinatorKind
from penstock.client.coordinators import ask_coordinator
from penstock.client.errors import AnsweredError, ClientError
from penstock.client.group_offsets import Membership
from penstock.client.membership import GiveUp, MemberSettings, News
from penstock.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from penstock.world.tasks import cancel_and_wait

_JOINING: Final = 0
_LEAVING: Final = -1
_LEAVING_FOR_A_WHILE: Final = -2  # a static member, that is expected back

# The coordinator has fenced this member: it rejoins without any partition.
_LOST = frozenset({ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID})


class ConsumerProtocolMember:
    """One member. `client` is its own, so that heartbeats never wait behind a fetch."""

    def __init__(self, client: Client, settings: MemberSettings) -> None:
        self.assignment: frozenset[TopicPartition] = frozenset()
        self.news = News(client.loop, is_set=True)
        self._client = client
        self._settings = settings
        self._member_id = format_id(client.entropy.random_bytes(16))
        self._epoch = _JOINING
        self._interval_s = 0.0
        self._target: frozenset[TopicPartition] = frozenset()
        self._lost = False
        self._heartbeats: asyncio.Task[None] | None = None

    @property
    def membership(self) -> Membership:
        return Membership(self._epoch, self._member_id, self._settings.instance_id)

    async def settle(self, give_up: GiveUp) -> None:
        await self.fall_silent()
        self.news.clear()
        if self._lost:
            await give_up(self.assignment)
            self.assignment = self._target = frozenset()
            self._epoch, self._lost = _JOINING, False
        if self._epoch == _JOINING:
            await self._beat(joining=True)
        # Each answer may name another target: go on until there is nothing left to give up or to take.
        while self.assignment != self._target and not self._lost:
            await give_up(self.assignment - self._target)
            self.assignment = self._target
            await self._beat(joining=False)
        if self._lost:
            self.news.set()
            return
        self._heartbeats = self._client.loop.create_task(self._keep_alive(), name="heartbeats")

    async def leave(self) -> None:
        await self.fall_silent()
        if self._epoch == _JOINING:
            return
        self._epoch = _LEAVING if self._settings.instance_id is None else _LEAVING_FOR_A_WHILE
        try:
            await self._ask(self._request(), patience_ms=0)
        except ClientError:
            return  # the session's end says the same, a little later

    async def _keep_alive(self) -> None:
        while not self.news.is_set:
            await self._client.loop.sleep(self._interval_s)
            try:
                await self._beat(joining=False)
            except AnsweredError:
                self.news.set()
                self._lost = True  # whatever it is, joining again will tell
            except ClientError:
                continue  # the coordinator is away; our session is its to end
            if self._lost or self._target != self.assignment:
                self.news.set()

    async def _beat(self, *, joining: bool) -> None:
        request = self._request()
        if joining:
            request.subscribed_topic_names = list(self._settings.topics)
            request.rebalance_timeout_ms = self._settings.rebalance_timeout_ms
        if joining or self._target == self.assignment:
            request.topic_partitions = await self._with_ids(self.assignment)
        try:
            answer = await self._ask(request)
        except AnsweredError as error:
            if error.refusal.code not in _LOST:
                raise
            self._lost = True
            return
        self._member_id = answer.member_id or self._member_id
        self._epoch = answer.member_epoch
        self._interval_s = answer.heartbeat_interval_ms / 1000
        if answer.assignment is not None:
            self._target = await self._with_names(answer.assignment)

    def _request(self) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest(
            group_id=self._settings.group_id,
            member_id=self._member_id,
            member_epoch=self._epoch,
            instance_id=self._settings.instance_id,
        )

    async def _ask(
        self, request: ConsumerGroupHeartbeatRequest, *, patience_ms: int | None = None
    ) -> ConsumerGroupHeartbeatResponse:
        group_id = self._settings.group_id
        return await ask_coordinator(
            self._client,
            CoordinatorKind.GROUP,
            group_id,
            request,
            ConsumerGroupHeartbeatResponse,
            code_of=lambda answer: answer.error_code,
            about=f"group {group_id!r}",
            patience_ms=patience_ms,
        )

    async def fall_silent(self) -> None:
        """Stop without leaving the group: no more heartbeats."""
        task, self._heartbeats = self._heartbeats, None
        if task is not None:
            await cancel_and_wait(task)

    # The wire speaks of topics by id.

    async def _with_ids(self, partitions: Iterable[TopicPartition]) -> list[TopicPartitions]:
        by_topic: dict[str, list[int]] = {}
        for topic, partition in sorted(partitions):
            by_topic.setdefault(topic, []).append(partition)
        return [
            TopicPartitions(topic_id=(await self._client.topic(topic)).topic_id, partitions=indexes)
            for topic, indexes in by_topic.items()
        ]

    async def _with_names(self, assignment: Assignment) -> frozenset[TopicPartition]:
        """What is assigned; a topic that has no name here has been deleted, and the coordinator will notice too."""
        if not assignment.topic_partitions:
            return frozenset()
        names: dict[bytes, str] = {
            topic.topic_id: topic.name for topic in self._client.cluster.topics.values()
        }
        if any(each.topic_id not in names for each in assignment.topic_partitions):
            names = {
                topic.topic_id: topic.name for topic in await self._client.refresh(self._settings.topics)
            }
        return frozenset(
            TopicPartition(names[each.topic_id], partition)
            for each in assignment.topic_partitions
            if each.topic_id in names
            for partition in each.partitions
        )
