"""A process that has stood still may have been replaced meanwhile, and does not know it yet.

A broker that is paused for longer than its session, by whoever runs its machine, goes on where it was: what clients
have sent to it lies in its sockets, and is read before anything is heard of the cluster. It would tell a group's
offsets as they were before another broker became the coordinator. So it looks at the clock first: who has not run for
half a session serves nobody until the store has said what became of its place. The same holds when it hears that its
session is over.
"""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable

from penstock.world.loop import Loop, Timer

log = logging.getLogger("penstock.cluster")

_LOOKS = 4  # within the time that a broker may stand still


class LeaseGuard:
    """Whether what this broker knows of its place can be trusted; that of a broker that is alone, always."""

    def __init__(self, loop: Loop, *, end_connections: Callable[[], None]) -> None:
        self._loop = loop
        self._end_connections = end_connections
        self.trusted_until = math.inf  # of the loop's time
        self._limit_s = math.inf
        self._confirm: Callable[[], Awaitable[None]] | None = None
        self._confirming: asyncio.Task[None] | None = None
        self._timer: Timer | None = None

    def watch(self, limit_s: float, confirm: Callable[[], Awaitable[None]]) -> None:
        """`confirm` returns when what this broker knows of its place is what the store says."""
        self._limit_s = limit_s
        self._confirm = confirm
        self._look_again()

    def stop(self) -> None:
        """Serve whatever still comes: the broker ends."""
        if self._timer is not None:
            self._timer.cancel()
        if self._confirming is not None:
            self._confirming.cancel()
        self._confirm = None
        self.trusted_until = math.inf

    def look(self) -> None:
        """Doubt if the clock says so."""
        if self._confirming is None and self._loop.time() > self.trusted_until:
            log.warning(
                "this process was paused for more than half a ZooKeeper session; closing all connections and rejecting"
                " new ones until ZooKeeper has confirmed its registration"
            )
            self.doubt()

    def doubt(self) -> None:
        """Others may have taken this broker's place: nothing from before is served, and nothing new for now."""
        self._end_connections()
        if self._confirm is None:
            return
        self.trusted_until = -math.inf
        if self._confirming is None:
            self._confirming = self._loop.create_task(self._until_confirmed(self._confirm))

    async def _until_confirmed(self, confirm: Callable[[], Awaitable[None]]) -> None:
        await confirm()
        self._confirming = None
        self._trust()

    def _look_again(self) -> None:
        self.look()
        if self._confirming is None:
            self._trust()
        self._timer = self._loop.call_later(self._limit_s / _LOOKS, self._look_again)

    def _trust(self) -> None:
        self.trusted_until = self._loop.time() + self._limit_s
