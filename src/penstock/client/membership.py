"""The membership of a group consumer, which the classic and the consumer protocol implement."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import NamedTuple, Protocol, TypeAlias

from penstock.base.ids import TopicPartition
from penstock.client.group_offsets import Membership
from penstock.world.loop import Loop

# Called with partitions that are about to be revoked, while this member still owns them.
Revoke: TypeAlias = Callable[[Collection[TopicPartition]], Awaitable[None]]


class MemberSettings(NamedTuple):
    """A member's group, topics and timeouts."""

    group_id: str
    topics: tuple[str, ...]
    instance_id: str | None = None
    session_timeout_ms: int = 45_000  # classic: session.timeout.ms
    heartbeat_interval_ms: int = 3_000  # classic; in the consumer protocol the broker decides
    rebalance_timeout_ms: int = 300_000


class GroupMembership(Protocol):
    """Membership in a group."""

    @property
    def membership(self) -> Membership:
        """The member id and generation or member epoch that offsets are committed with."""
        ...

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The assigned partitions."""
        ...

    @property
    def news(self) -> "News":
        """Set when a rebalance is due: call `rebalance` then."""
        ...

    async def rebalance(self, revoke: Revoke) -> None:
        """Join the group, or apply a new assignment: revoke what is not assigned any more, add the rest."""
        ...

    async def leave(self) -> None:
        """Leave the group."""
        ...

    async def stop_without_leaving(self) -> None:
        """Stop heartbeats without leaving the group."""
        ...


class News:
    """A flag that can be awaited."""

    def __init__(self, loop: Loop, *, is_set: bool) -> None:
        self.is_set = is_set
        self._loop = loop
        self._waiters: list[asyncio.Future[None]] = []

    def set(self) -> None:
        self.is_set = True
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def clear(self) -> None:
        self.is_set = False

    def wait(self) -> "asyncio.Future[None]":
        """Wait until the flag is set."""
        waiter: asyncio.Future[None] = self._loop.create_future()
        if self.is_set:
            waiter.set_result(None)
        else:
            self._waiters.append(waiter)
        return waiter
