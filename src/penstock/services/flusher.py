"""Syncs, shared: whoever waits for a sync while one runs is served by the next, together with everybody else.

One round takes every partition that asked, syncs its files off the loop, and then tells each how far it is safe.
Few partitions are synced file by file on several threads; many with one call for the whole file system (syncfs),
which `bench/sync.py` found eight times faster and more from 100 files on. A journal shared by all partitions would be
two to three times faster still, and would write every byte twice: not built.

A failed sync is final: the kernel may have dropped what it could not write, so the partition goes offline.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Protocol

from penstock.storage.log import SyncPlan
from penstock.world import World


class Syncable(Protocol):
    """A partition, as the flusher sees it."""

    def sync_plan(self) -> SyncPlan | None:
        """What to sync, and up to which offset that makes it safe; None if there is nothing to do."""
        ...

    def run_sync(self, plan: SyncPlan) -> None:
        """Carry the plan out. Blocks; called off the loop."""
        ...

    def synced(self, plan: SyncPlan) -> None: ...

    def sync_failed(self, error: OSError) -> None: ...


class Flusher:
    """Collects partitions that want a sync and syncs them in rounds."""

    def __init__(self, world: World, *, lanes: int, queue_max: int, whole_from: int) -> None:
        self._world = world
        self._lanes = lanes
        self._queue_max = queue_max
        self._whole_from = whole_from
        self._asked: dict[Syncable, None] = {}
        self._waiting_for_room: dict[asyncio.Future[None], None] = {}
        self._round: asyncio.Task[None] | None = None
        # Whether `room` has a wait for whoever appends. An attribute: every produce request reads it.
        self.is_full = False

    def request(self, partition: Syncable) -> None:
        """Sync what the partition has now; many requests before the next round are one."""
        self._asked[partition] = None
        if len(self._asked) >= self._queue_max:
            self.is_full = True
        if self._round is None:
            self._round = self._world.loop.create_task(self._run(), name="flusher")

    def room(self) -> "asyncio.Future[None] | None":
        """None if further appends may ask for a sync; else a future, first come first served.

        A future counts until whoever waits for it has gone on: who asks in between must not overtake.
        """
        if not self.is_full:
            return None
        future: asyncio.Future[None] = self._world.loop.create_future()
        self._waiting_for_room[future] = None
        future.add_done_callback(self._went_on)
        return future

    async def settle(self) -> None:
        """Return when nothing is being synced and nobody asks."""
        while self._round is not None:
            await asyncio.wait([self._round])

    async def _run(self) -> None:
        try:
            while self._asked:
                asked = list(self._asked)
                self._asked.clear()
                self._look_if_full()
                self._make_room()
                await self._sync(asked)
        finally:
            self._round = None
            self._make_room()

    def _went_on(self, future: "asyncio.Future[None]") -> None:
        del self._waiting_for_room[future]
        self._look_if_full()
        if self._round is None:  # no further round would tell who has queued behind it
            self._make_room()

    def _look_if_full(self) -> None:
        self.is_full = len(self._asked) >= self._queue_max or bool(self._waiting_for_room)

    def _make_room(self) -> None:
        for future in self._waiting_for_room:
            if not future.done():
                future.set_result(None)

    async def _sync(self, asked: Sequence[Syncable]) -> None:
        plans = [(partition, plan) for partition in asked if (plan := partition.sync_plan()) is not None]
        if self._whole_from and len(plans) >= self._whole_from and await self._sync_whole(plans):
            return
        shares = [plans[lane :: self._lanes] for lane in range(min(self._lanes, len(plans)))]
        outcomes = await asyncio.gather(
            *(self._world.work.run(partial(_sync_share, share)) for share in shares)
        )
        for share, errors in zip(shares, outcomes, strict=True):
            for (partition, plan), error in zip(share, errors, strict=True):
                _tell(partition, plan, error)

    async def _sync_whole(self, plans: Sequence[tuple[Syncable, SyncPlan]]) -> bool:
        """One call for everybody. Which file failed, if one did, it does not say: then all of them have."""
        problem: OSError | None = None
        try:
            if not await self._world.work.run(self._world.disk.sync_all):
                return False
        except OSError as error:
            problem = error
        for partition, plan in plans:
            _tell(partition, plan, problem)
        return True


def _tell(partition: Syncable, plan: SyncPlan, error: OSError | None) -> None:
    if error is None:
        partition.synced(plan)
    else:
        partition.sync_failed(error)


def _sync_share(share: Sequence[tuple[Syncable, SyncPlan]]) -> list[OSError | None]:
    """Runs off the loop: sync one after the other, and say for each how it went."""
    outcomes: list[OSError | None] = []
    for partition, plan in share:
        try:
            partition.run_sync(plan)
        except OSError as error:
            outcomes.append(error)
        else:
            outcomes.append(None)
    return outcomes
