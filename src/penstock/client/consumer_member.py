"""A member of the consumer protocol (KIP-848): heartbeats report the owned partitions, responses the assigned ones.
ConsumerGroupHeartbeat v0-v1.

Rebalances are incremental: the member revokes what it no longer owns, reports that with a heartbeat, and only then is
assigned new partitions. It keeps reading the others meanwhile.
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
from penstock.client.membership import MemberSettings, News, Revoke
from penstock.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from penstock.world.tasks import cancel_and_wait

_JOINING: Final = 0
_LEAVING: Final = -1
_LEAVING_FOR_A_WHILE: Final = -2  # the member epoch of a static member that leaves and will rejoin

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

    async def rebalance(self, revoke: Revoke) -> None:
        await self.stop_without_leaving()
        self.news.clear()
        if self._lost:
            await revoke(self.assignment)
            self.assignment = self._target = frozenset()
            self._epoch, self._lost = _JOINING, False
        if self._epoch == _JOINING:
            await self._beat(joining=True)
        # Each response may have another assignment: repeat until there is nothing to revoke or to add.
        while self.assignment != self._target and not self._lost:
            await revoke(self.assignment - self._target)
            self.assignment = self._target
            await self._beat(joining=False)
        if self._lost:
            self.news.set()
            return
        self._heartbeats = self._client.loop.create_task(self._keep_alive(), name="heartbeats")

    async def leave(self) -> None:
        await self.stop_without_leaving()
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
                self._lost = True  # the next heartbeat that joins will report it
            except ClientError:
                continue  # the coordinator is unreachable; it will end the session if it must
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

    async def stop_without_leaving(self) -> None:
        """Stop without leaving the group: no more heartbeats."""
        task, self._heartbeats = self._heartbeats, None
        if task is not None:
            await cancel_and_wait(task)

    # The protocol names topics by id.

    async def _with_ids(self, partitions: Iterable[TopicPartition]) -> list[TopicPartitions]:
        by_topic: dict[str, list[int]] = {}
        for topic, partition in sorted(partitions):
            by_topic.setdefault(topic, []).append(partition)
        return [
            TopicPartitions(topic_id=(await self._client.topic(topic)).topic_id, partitions=indexes)
            for topic, indexes in by_topic.items()
        ]

    async def _with_names(self, assignment: Assignment) -> frozenset[TopicPartition]:
        """The assigned partitions; a topic without a name was deleted, and the coordinator will revoke it too."""
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
