"""Stops a broker from serving clients while its ZooKeeper session may have expired.

A process that was paused for longer than its session (a stopped container, a migrated machine) resumes and reads the
requests in its sockets before it learns that other brokers lead its partitions. It would answer with a group's offsets
from before another broker became the coordinator. So each connection checks the clock before it serves requests. A
broker that has not run for half a session closes all connections, and rejects new ones until the store has confirmed
its registration; so does one that learns that its session has expired.
"""

import logging
import math
from collections.abc import Awaitable, Callable

from penstock.world.loop import Loop, Timer
from penstock.world.tasks import Tasks

log = logging.getLogger("penstock.cluster")

_CONFIRMATION = "confirm the broker's registration"
_CHECKS = 4  # within the longest pause that is allowed


class LeaseGuard:
    """Until when this broker may serve clients. Without `watch` (a broker without a cluster), always."""

    def __init__(self, loop: Loop, *, end_connections: Callable[[], None]) -> None:
        self._loop = loop
        self._end_connections = end_connections
        self.trusted_until = math.inf  # by the loop's clock
        self._limit_s = math.inf
        self._confirm: Callable[[], Awaitable[None]] | None = None
        self._tasks = Tasks(loop)
        self._timer: Timer | None = None

    def watch(self, limit_s: float, confirm: Callable[[], Awaitable[None]]) -> None:
        """Guard from now on. `confirm` returns when the store has confirmed this broker's registration."""
        self._limit_s = limit_s
        self._confirm = confirm
        self._check_again()

    def stop(self) -> None:
        """Stop guarding: the broker shuts down, and answers the requests that still arrive."""
        if self._timer is not None:
            self._timer.cancel()
        self._tasks.cancel()
        self._confirm = None
        self.trusted_until = math.inf

    def check(self) -> None:
        """Suspend the lease if the clock says that this process was paused."""
        if not self._is_confirming and self._loop.time() > self.trusted_until:
            log.warning(
                "this process was paused for more than half a ZooKeeper session; closing all connections and rejecting"
                " new ones until ZooKeeper has confirmed its registration"
            )
            self.suspend()

    def suspend(self) -> None:
        """Close all connections, and reject new ones until the registration is confirmed."""
        self._end_connections()
        if self._confirm is None:
            return
        self.trusted_until = -math.inf
        if not self._is_confirming:
            self._tasks.start(_CONFIRMATION, self._until_confirmed(self._confirm))

    @property
    def _is_confirming(self) -> bool:
        return self._tasks.is_running(_CONFIRMATION)

    async def _until_confirmed(self, confirm: Callable[[], Awaitable[None]]) -> None:
        await confirm()
        self._renew()

    def _check_again(self) -> None:
        self.check()
        if not self._is_confirming:
            self._renew()
        self._timer = self._loop.call_later(self._limit_s / _CHECKS, self._check_again)

    def _renew(self) -> None:
        self.trusted_until = self._loop.time() + self._limit_s
