"""The deadline of a controlled shutdown: how long a stopping broker waits for ZooKeeper and the controller.

After `penstock.shutdown.timeout.ms` the broker closes its ZooKeeper session on its own side, so that nothing waits for
an answer any more, and then closes its logs as in any clean shutdown.
"""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from penstock.broker.cluster_member import ClusterMember
from penstock.world import World
from penstock.world.loop import Timer

log = logging.getLogger("penstock.broker")


class ShutdownDeadline:
    """Runs the steps of leaving the cluster, and cancels them at the deadline.

    At the deadline it closes the ZooKeeper session on this side: every call of the store fails, so that nothing waits
    for it. A write in flight may have been applied or not; the next start reads the outcome. The logs are closed, and
    the shutdown is marked as clean: the mark says that the disk has all records that this broker acknowledged, which
    does not depend on ZooKeeper.
    """

    def __init__(self, world: World, member: ClusterMember) -> None:
        self._world = world
        self.member = member
        self.is_given_up = False
        self._timer: Timer | None = None
        self._running: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None

    def limit(self, timeout_ms: int) -> None:
        """Set the deadline to `timeout_ms` from now, in place of an earlier one."""
        self.done()
        if self.is_given_up:
            return
        self._timer = self._world.loop.call_later(timeout_ms / 1000, self._give_up, timeout_ms)

    def done(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run a step of leaving to its end, or until the deadline cancels it; nothing after the deadline."""
        if self.is_given_up:
            coroutine.close()
            return
        self._running = self._world.loop.create_task(coroutine, name="leave the cluster")
        try:
            await asyncio.wait([self._running])
        except asyncio.CancelledError:
            self._running.cancel()
            raise
        if not self._running.cancelled():
            self._running.result()

    def _give_up(self, timeout_ms: int) -> None:
        self.is_given_up = True
        who = "ZooKeeper, or the controller," if self.member.hears_store else "ZooKeeper"
        log.error(
            "this broker could not leave its cluster within %d ms: %s does not answer. It stops without a controlled "
            "shutdown; its logs are synced and closed, and other brokers lead its partitions once its session expires "
            "(zookeeper.session.timeout.ms)",
            timeout_ms,
            who,
        )
        self.member.give_up()
        if self._running is not None:
            self._running.cancel()
        self._closing = self._world.loop.create_task(self._world.store.close(), name="close the session")
