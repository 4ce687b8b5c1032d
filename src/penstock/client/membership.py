"""What a group consumer asks of its membership, whichever protocol it is a member by."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import NamedTuple, Protocol, TypeAlias

from penstock.base.ids import TopicPartition
from penstock.client.group_offsets import Membership
from penstock.world.loop import Loop

# Called with partitions that are about to be taken away, while they are still ours.
GiveUp: TypeAlias = Callable[[Collection[TopicPartition]], Awaitable[None]]


class MemberSettings(NamedTuple):
    """How a member behaves in its group."""

    group_id: str
    topics: tuple[str, ...]
    instance_id: str | None = None
    session_timeout_ms: int = 45_000  # classic: without a heartbeat for so long, a member is taken for dead
    heartbeat_interval_ms: int = 3_000  # classic; in the new protocol the broker says
    rebalance_timeout_ms: int = 300_000


class GroupMembership(Protocol):
    """A place in a group."""

    @property
    def membership(self) -> Membership:
        """In whose name offsets are committed now."""
        ...

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """What this member may read now."""
        ...

    @property
    def news(self) -> "News":
        """Set when the group wants something: call `settle` then."""
        ...

    async def settle(self, give_up: GiveUp) -> None:
        """Do what the group wants: join, or take over another assignment, giving up what is not ours any more."""
        ...

    async def leave(self) -> None:
        """Tell the group that this member is gone."""
        ...

    async def fall_silent(self) -> None:
        """Stop without leaving the group."""
        ...


class News:
    """A flag that can be waited for."""

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
        """Done when the flag is set; at once if it is."""
        waiter: asyncio.Future[None] = self._loop.create_future()
        if self.is_set:
            waiter.set_result(None)
        else:
            self._waiters.append(waiter)
        return waiter
