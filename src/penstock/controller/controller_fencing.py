"""Fencing of controllers: a deposed controller can write nothing more to the metadata store.

Every write first checks the version of `/controller-epoch`, which each election of a controller raises. A write that
fails that check, or whose session has expired, marks this controller as deposed.

The same check stops a controller that does not know that it was deposed (its process was paused, or its connection to
the store was broken).
"""

import asyncio

from penstock.base.errors import PenstockError
from penstock.cluster.metadata import CONTROLLER_EPOCH
from penstock.world import World
from penstock.world.store import (
    BadVersionError,
    Check,
    ConnectionLossError,
    NodeExistsError,
    Operation,
    SessionExpiredError,
)

_TRY_AGAIN_S = 0.1


class NotControllerError(PenstockError):
    """This broker may not change the metadata (any more)."""


class FencedStore:
    """The store as one controller writes to it. `epoch_version` is None where no other broker can be the controller."""

    def __init__(self, world: World, *, epoch_version: int | None) -> None:
        self._world = world
        self._epoch_version = epoch_version
        self.is_deposed = False

    async def write(self, operations: list[Operation]) -> None:
        """Carry out operations exactly once, even if the connection breaks meanwhile; NotControllerError if deposed.

        For that, the first of them has to create a node: see `metadata_writer`.
        """
        task = self._world.loop.create_task(self._try([*self._epoch_check(), *operations]))
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            # The caller is gone, but the next change has to know whether this one was written.
            await asyncio.wait([task])
            task.exception()
            raise

    def _epoch_check(self) -> list[Check]:
        return [] if self._epoch_version is None else [Check(CONTROLLER_EPOCH, self._epoch_version)]

    async def _try(self, operations: list[Operation]) -> None:
        in_doubt = False
        while True:
            if self.is_deposed:
                raise NotControllerError("this broker is not the controller any more")
            try:
                await self._world.store.multi(operations)
                return
            except ConnectionLossError:
                in_doubt = True
                await self._world.loop.sleep(_TRY_AGAIN_S)
            except SessionExpiredError as error:
                raise self._deposed("its session with the metadata store has expired") from error
            except NodeExistsError:
                if in_doubt:
                    return
                raise
            except BadVersionError as error:
                if await self._has_successor():
                    raise self._deposed("another one has been elected") from error
                raise

    async def _has_successor(self) -> bool:
        if self._epoch_version is None:
            return False
        while True:
            try:
                return (await self._world.store.get(CONTROLLER_EPOCH)).version != self._epoch_version
            except ConnectionLossError:
                await self._world.loop.sleep(_TRY_AGAIN_S)
            except SessionExpiredError:
                return True

    def _deposed(self, why: str) -> NotControllerError:
        self.is_deposed = True
        return NotControllerError(f"this broker is not the controller any more: {why}")
