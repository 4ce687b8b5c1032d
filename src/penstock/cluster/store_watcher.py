"""Reads the store again whenever something may have changed there."""

import logging
from collections.abc import Awaitable, Callable

from penstock.world import World
from penstock.world.store import StoreError
from penstock.world.tasks import Tasks

log = logging.getLogger("penstock.cluster")

_TRY_AGAIN_S = 0.1


class StoreWatcher:
    """Calls `look` when `ask` is called, one call at a time; an `ask` during a look causes another look after it.

    `look` returns whether it is done. If it is not, or if the store does not answer, it is repeated a little later.
    """

    def __init__(self, world: World, look: Callable[[], Awaitable[bool]], *, name: str) -> None:
        self._loop = world.loop
        self._look = look
        self._name = name
        self._tasks = Tasks(world.loop)
        self._asked = False
        self._stopped = False

    def ask(self) -> None:
        """Look again: called by the watch that a look has set, and after each new session, which has no watches."""
        self._asked = True
        if not self._stopped and not self._tasks.is_running(self._name):
            self._tasks.start(self._name, self._run())

    async def stop(self) -> None:
        self._stopped = True
        await self._tasks.stop()

    async def _run(self) -> None:
        while self._asked:
            self._asked = False
            try:
                done = await self._look()
            except StoreError as error:
                log.debug("%s: %s", self._name, error)
                done = False
            if not done:
                self._asked = True
                await self._loop.sleep(_TRY_AGAIN_S)
