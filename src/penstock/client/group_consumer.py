"""Reads topics as a member of a group: the assigned partitions, from the group's committed offsets.

The caller polls, reads, moves its position with `advance`, and commits. Positions of partitions that a rebalance
revokes are committed first.

    consumer = await GroupConsumer.join(client, MemberSettings("billing", ("orders",)))
    for fetched in await consumer.poll(): ...
    consumer.advance(partition, next_offset)
    await consumer.commit()
    await consumer.close()
"""

import asyncio
import contextlib
from collections.abc import Collection, Iterable
from typing import Any

from penstock.base.errors import ErrorCode
from penstock.base.ids import TopicPartition
from penstock.client.classic_member import ClassicProtocolMember
from penstock.client.client import Client
from penstock.client.consumer_member import ConsumerProtocolMember
from penstock.client.errors import AnsweredError, ClientError
from penstock.client.fetch import Fetched, FetchLimits
from penstock.client.fetcher import Fetcher
from penstock.client.group_offsets import (
    GONE_ON,
    GroupOffset,
    Membership,
    commit_offsets,
    committed_offsets,
)
from penstock.client.groups import GroupProtocol
from penstock.client.membership import GroupMembership, MemberSettings
from penstock.client.offsets import EARLIEST, find_offsets
from penstock.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from penstock.world.tasks import cancel_and_wait

_LAST_WORD_MS = 5_000  # how long to try to commit the positions of revoked partitions


class GroupConsumer:
    """A member and its fetcher; made with `join`."""

    def __init__(
        self,
        client: Client,
        member_client: Client,
        member: GroupMembership,
        settings: MemberSettings,
        *,
        begin_at: int,
        limits: FetchLimits | None,
        committed_only: bool,
    ) -> None:
        self._client = client
        self._member_client = member_client
        self._member = member
        self._settings = settings
        self._begin_at = begin_at
        self._committed_only = committed_only
        self._fetcher = Fetcher(client, {}, limits=limits, committed_only=committed_only)
        self._fetching: asyncio.Task[list[Fetched]] | None = None
        self._uncommitted: dict[TopicPartition, int] = {}

    @classmethod
    async def join(
        cls,
        client: Client,
        settings: MemberSettings,
        *,
        protocol: GroupProtocol | None = None,
        begin_at: int = EARLIEST,
        limits: FetchLimits | None = None,
        committed_only: bool = False,
    ) -> "GroupConsumer":
        """A consumer that joins at its first poll; with the consumer protocol if the broker has it and none is given.

        `begin_at` (EARLIEST or LATEST) is where it starts in partitions without a committed offset.
        """
        member_client = client.sibling()
        member: GroupMembership
        if protocol is None:
            connection = await client.any_connection()
            offered = connection.versions.offers(ConsumerGroupHeartbeatRequest)
            protocol = GroupProtocol.CONSUMER if offered else GroupProtocol.CLASSIC
        if protocol is GroupProtocol.CONSUMER:
            member = ConsumerProtocolMember(member_client, settings)
        else:
            member = ClassicProtocolMember(member_client, settings)
        return cls(
            client,
            member_client,
            member,
            settings,
            begin_at=begin_at,
            limits=limits,
            committed_only=committed_only,
        )

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        return self._member.assignment

    @property
    def membership(self) -> Membership:
        """For committing offsets in a transaction."""
        return self._member.membership

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """The next offset to read of each partition."""
        return dict(self._fetcher.positions)

    async def poll(self) -> list[Fetched]:
        """The next response for assigned partitions; empty after a rebalance, or if nothing came.

        May be cancelled at any time: the next call continues.
        """
        news = self._member.news
        if news.is_set:
            try:
                await self._member.rebalance(self._revoke)
            except BaseException:
                news.set()  # a rebalance is pending
                raise
        if not self._member.assignment <= self._fetcher.positions.keys():
            await self._take_up()
            return []
        if not self._fetcher.positions:
            await news.wait()
            return []
        if self._fetching is None:
            self._fetching = self._client.loop.create_task(self._fetcher.poll(), name="fetches")
        heard = news.wait()
        waiting: list[asyncio.Future[Any]] = [self._fetching, heard]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        heard.cancel()
        if not self._fetching.done():
            return []
        task, self._fetching = self._fetching, None
        return await self._readable(task.result())

    def advance(self, partition: TopicPartition, offset: int) -> None:
        """Move the position: everything below `offset` has been processed."""
        if partition in self._fetcher.positions:
            self._fetcher.advance(partition, offset)
            self._uncommitted[partition] = offset

    async def commit(self) -> None:
        """Commit the positions; AnsweredError if the coordinator rejects them."""
        await self._commit(self._uncommitted, patience_ms=None)

    async def close(self, *, commit: bool = True, leave: bool = True) -> None:
        """Commit the positions, leave the group, close the connections.

        A member that does not leave keeps its partitions until its session times out.
        """
        if commit:
            await self._revoke(self.assignment)
        if self._fetching is not None:
            await cancel_and_wait(self._fetching)
        await self._fetcher.close()
        await (self._member.leave() if leave else self._member.stop_without_leaving())
        await self._member_client.close()

    async def _revoke(self, partitions: Collection[TopicPartition]) -> None:
        leaving = {each: self._uncommitted[each] for each in sorted(partitions) if each in self._uncommitted}
        # Fenced, or no coordinator: the partition's next owner reads again from the last committed offset.
        with contextlib.suppress(ClientError):
            await self._commit(leaving, patience_ms=_LAST_WORD_MS)
        for partition in partitions:
            self._uncommitted.pop(partition, None)
            self._fetcher.leave(partition)

    async def _commit(self, offsets: dict[TopicPartition, int], *, patience_ms: int | None) -> None:
        if not offsets:
            return
        asked = dict(offsets)
        results = await commit_offsets(
            self._member_client,
            self._settings.group_id,
            {partition: GroupOffset(offset) for partition, offset in asked.items()},
            membership=self._member.membership,
            patience_ms=patience_ms,
        )
        for partition, refusal in results.items():
            if refusal is not None:
                raise AnsweredError(refusal, f"commit {partition} for group {self._settings.group_id!r}")
            if self._uncommitted.get(partition) == asked[partition]:
                del self._uncommitted[partition]

    async def _take_up(self) -> None:
        """Look up the positions of newly assigned partitions."""
        new = sorted(self._member.assignment - self._fetcher.positions.keys())
        if not new:
            return
        try:
            known = await committed_offsets(
                self._member_client,
                self._settings.group_id,
                new,
                stable=True,
                membership=self._member.membership,
            )
        except AnsweredError as error:
            if error.refusal.code not in GONE_ON:
                raise
            self._member.news.set()  # the next heartbeat or join has the group's new state
            await self._client.back_off(0)
            return
        unknown = {partition: self._begin_at for partition in new if partition not in known}
        starts = {partition: committed.offset for partition, committed in known.items()}
        if unknown:
            starts |= await find_offsets(self._client, unknown, committed_only=self._committed_only)
        for partition, offset in starts.items():
            if partition in self._member.assignment:
                self._fetcher.advance(partition, offset)

    async def _readable(self, answers: Iterable[Fetched]) -> list[Fetched]:
        """The responses for partitions that are still assigned; a position that is out of range is reset."""
        mine = []
        for fetched in answers:
            if fetched.partition not in self._member.assignment:
                continue
            if fetched.refusal is None:
                mine.append(fetched)
                continue
            assert fetched.refusal.code == ErrorCode.OFFSET_OUT_OF_RANGE
            partition = fetched.partition
            found = await find_offsets(
                self._client, {partition: self._begin_at}, committed_only=self._committed_only
            )
            self._fetcher.advance(partition, found[partition])
        return mine
