"""A member of the classic protocol: joins, waits for the leader's assignment, sends heartbeats. JoinGroup v0-v9,
SyncGroup v0-v5, Heartbeat v0-v4, LeaveGroup v0-v5.

Eager, with the range assignor: at every rebalance all partitions are revoked first, and the group leader assigns
each topic in ranges, as Kafka's range assignor does.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import TypeVar

from penstock.base.errors import ErrorCode, PeerError
from penstock.base.ids import TopicPartition
from penstock.client.client import Client
from penstock.client.cluster import CoordinatorKind
from penstock.client.coordinators import ask_coordinator
from penstock.client.errors import AnsweredError, ClientError
from penstock.client.group_offsets import NO_EPOCH, NO_MEMBER, Membership
from penstock.client.membership import MemberSettings, News, Revoke
from penstock.records.consumer_protocol import (
    AssignedTopic,
    Assignment,
    Subscription,
    read_assignment,
    read_subscription,
    write_assignment,
    write_subscription,
)
from penstock.schema.words import Message
from penstock.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from penstock.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from penstock.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from penstock.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from penstock.world.tasks import cancel_and_wait

R = TypeVar("R", JoinGroupResponse, SyncGroupResponse, HeartbeatResponse)

_PROTOCOL_TYPE = "consumer"
_PROTOCOL = "range"
_SEVERAL_LEAVE_SINCE = 3

# The member rejoins: its generation or member id is out of date, or a rebalance is in progress.
_AGAIN = frozenset(
    {ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID}
)


class ClassicProtocolMember:
    """One member. `client` is its own: the response to JoinGroup is delayed until all members have joined, and
    other requests must not queue behind it.
    """

    def __init__(self, client: Client, settings: MemberSettings) -> None:
        self.assignment: frozenset[TopicPartition] = frozenset()
        self.news = News(client.loop, is_set=True)
        self._client = client
        self._settings = settings
        self._member_id = NO_MEMBER
        self._generation = NO_EPOCH
        self._heartbeats: asyncio.Task[None] | None = None

    @property
    def membership(self) -> Membership:
        return Membership(self._generation, self._member_id, self._settings.instance_id)

    async def rebalance(self, revoke: Revoke) -> None:
        await self.stop_without_leaving()
        await revoke(self.assignment)
        self.assignment = frozenset()
        while True:
            self.news.clear()
            try:
                self.assignment = await self._join_and_sync()
                break
            except AnsweredError as error:
                if error.refusal.code not in _AGAIN:
                    raise
                if error.refusal.code == ErrorCode.UNKNOWN_MEMBER_ID:
                    self._member_id, self._generation = NO_MEMBER, NO_EPOCH
        self._heartbeats = self._client.loop.create_task(self._keep_alive(), name="heartbeats")

    async def leave(self) -> None:
        await self.stop_without_leaving()
        if self._member_id == NO_MEMBER or self._settings.instance_id is not None:
            return  # a static member keeps its assignment until its session times out
        group_id, member_id = self._settings.group_id, self._member_id
        try:
            await ask_coordinator(
                self._client,
                CoordinatorKind.GROUP,
                group_id,
                await self._leave_request(member_id),
                LeaveGroupResponse,
                code_of=lambda answer: answer.error_code,
                about=f"leave group {group_id!r}",
                patience_ms=0,
            )
        except ClientError:
            return  # the session's end says the same, a little later

    async def _leave_request(self, member_id: str) -> LeaveGroupRequest:
        connection = await self._client.any_connection()
        if connection.versions.pick(LeaveGroupRequest) >= _SEVERAL_LEAVE_SINCE:
            return LeaveGroupRequest(
                group_id=self._settings.group_id, members=[MemberIdentity(member_id=member_id)]
            )
        return LeaveGroupRequest(group_id=self._settings.group_id, member_id=member_id)

    async def _join_and_sync(self) -> frozenset[TopicPartition]:
        joined = await self._join()
        self._generation = joined.generation_id
        assignments: dict[str, bytes] = {}
        if joined.leader == joined.member_id and not joined.skip_assignment:
            assignments = await self._assign(joined.members)
        synced = await self._ask(
            SyncGroupRequest(
                group_id=self._settings.group_id,
                generation_id=self._generation,
                member_id=self._member_id,
                group_instance_id=self._settings.instance_id,
                protocol_type=_PROTOCOL_TYPE,
                protocol_name=_PROTOCOL,
                assignments=[
                    SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
                    for member_id, assignment in assignments.items()
                ],
            ),
            SyncGroupResponse,
        )
        return frozenset(read_assignment(synced.assignment))

    async def _join(self) -> JoinGroupResponse:
        settings = self._settings
        while True:
            request = JoinGroupRequest(
                group_id=settings.group_id,
                session_timeout_ms=settings.session_timeout_ms,
                rebalance_timeout_ms=settings.rebalance_timeout_ms,
                member_id=self._member_id,
                group_instance_id=settings.instance_id,
                protocol_type=_PROTOCOL_TYPE,
                protocols=[
                    JoinGroupRequestProtocol(
                        name=_PROTOCOL,
                        metadata=write_subscription(Subscription(topics=list(settings.topics))),
                    )
                ],
            )
            joined = await self._ask(request, JoinGroupResponse, but_for=ErrorCode.MEMBER_ID_REQUIRED)
            self._member_id = joined.member_id
            if joined.error_code == 0:
                return joined

    async def _assign(self, members: Sequence[JoinGroupResponseMember]) -> dict[str, bytes]:
        wanted: dict[str, list[str]] = {}
        for member in members:
            try:
                wanted[member.member_id] = read_subscription(member.metadata).topics
            except PeerError:
                wanted[
                    member.member_id
                ] = []  # its subscription cannot be decoded: it gets no partitions, the others go on
        topics = sorted({topic for each in wanted.values() for topic in each})
        counts = {topic.name: len(topic.partitions) for topic in await self._client.refresh(topics)}
        return {
            member_id: write_assignment(
                Assignment(
                    assigned_partitions=[
                        AssignedTopic(topic=topic, partitions=list(partitions))
                        for topic, partitions in ranges.items()
                    ]
                )
            )
            for member_id, ranges in assign_ranges(wanted, counts).items()
        }

    async def _keep_alive(self) -> None:
        settings = self._settings
        loop = self._client.loop
        alive_at = due_at = loop.time()
        while not self.news.is_set:
            # The first one at once, the next after each response, which a broker may delay until a rebalance begins.
            await loop.sleep(max(0.0, due_at - loop.time()))
            due_at = loop.time() + settings.heartbeat_interval_ms / 1000
            request = HeartbeatRequest(
                group_id=settings.group_id,
                generation_id=self._generation,
                member_id=self._member_id,
                group_instance_id=settings.instance_id,
            )
            try:
                await self._ask(request, HeartbeatResponse, patience_ms=settings.heartbeat_interval_ms)
                alive_at = loop.time()
            except AnsweredError:
                self.news.set()  # the next JoinGroup will report it
            except ClientError:
                if loop.time() - alive_at >= settings.session_timeout_ms / 1000:
                    self.news.set()

    async def stop_without_leaving(self) -> None:
        """Stop without LeaveGroup: no more heartbeats."""
        task, self._heartbeats = self._heartbeats, None
        if task is not None:
            await cancel_and_wait(task)

    async def _ask(
        self,
        request: Message,
        response: type[R],
        *,
        but_for: ErrorCode = ErrorCode.NONE,
        patience_ms: int | None = None,
    ) -> R:
        """Send a request to the coordinator; AnsweredError for any error code that is not in `but_for`."""

        def code_of(answer: R) -> int:
            return 0 if answer.error_code == but_for else answer.error_code

        group_id = self._settings.group_id
        return await ask_coordinator(
            self._client,
            CoordinatorKind.GROUP,
            group_id,
            request,
            response,
            code_of=code_of,
            about=f"group {group_id!r}",
            patience_ms=patience_ms,
            # JoinGroup is answered when all members have joined, SyncGroup when the leader has sent the assignment.
            timeout_ms=self._settings.rebalance_timeout_ms + self._client.settings.limits.request_timeout_ms,
        )


def assign_ranges(
    wanted: Mapping[str, Sequence[str]], counts: Mapping[str, int]
) -> dict[str, dict[str, range]]:
    """Each topic's partitions in ranges to its subscribers, by member id; the first members get one more if uneven."""
    dealt: dict[str, dict[str, range]] = {member_id: {} for member_id in wanted}
    for topic, count in sorted(counts.items()):
        members = sorted(member_id for member_id, topics in wanted.items() if topic in topics)
        start = 0
        for place, member_id in enumerate(members):
            share = count // len(members) + (place < count % len(members))
            if share:
                dealt[member_id][topic] = range(start, start + share)
            start += share
    return dealt
