"""Flushes logs in shared rounds: all partitions that request a sync while a round runs are synced in the next round.

A round syncs the files of every requesting partition off the loop, then gives each partition its flushed offset. With
`flush.messages=1` the high watermark, and so what consumers read, stops at the flushed offset.

A few partitions are synced file by file (fdatasync) on several threads. From `penstock.sync.whole.file.system.from`
partitions on (8 by default), one syncfs call for the whole file system serves all. Per round of 16 KiB appended to each
file, on the machine of the benchmarks (`bench/sync.py`), in ms:

    files   fdatasync, 4 threads   syncfs   a shared journal
        1                    0.2      0.1                0.1
       10                    0.8      0.3                0.2
      100                    7.1      1.7                0.8
    1,000                     74       16                  7
   10,000                    839      201                 64

A journal shared by all partitions would write every byte twice and need a replay, so it was not built.

A failed sync is never retried: the kernel may have dropped the pages that it could not write, and a second sync would
succeed without them. So the partition goes offline. A failed syncfs does not say which file failed: all partitions of
the round go offline, and `storage.log_dir_failure` ends the broker.
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
        """Which files to sync, and the flushed offset afterwards; None if there is nothing to sync."""
        ...

    def run_sync(self, plan: SyncPlan) -> None:
        """Sync the files of the plan. Blocks; called off the loop."""
        ...

    def synced(self, plan: SyncPlan) -> None: ...

    def sync_failed(self, error: OSError) -> None: ...


class Flusher:
    """Collects the partitions that request a sync, and syncs them in rounds."""

    def __init__(self, world: World, *, lanes: int, queue_max: int, whole_from: int) -> None:
        self._world = world
        self._lanes = lanes
        self._queue_max = queue_max
        self._whole_from = whole_from
        self._requested: dict[Syncable, None] = {}
        self._waiting_for_room: dict[asyncio.Future[None], None] = {}
        self._round: asyncio.Task[None] | None = None
        # Whether appends have to wait for `room`. An attribute, not a call: every produce request reads it.
        self.is_full = False

    def request(self, partition: Syncable) -> None:
        """Sync the partition's log up to its current end; repeated requests before the next round count as one."""
        self._requested[partition] = None
        if len(self._requested) >= self._queue_max:
            self.is_full = True
        if self._round is None:
            self._round = self._world.loop.create_task(self._run(), name="flusher")

    def room(self) -> "asyncio.Future[None] | None":
        """None if further appends may request a sync; else a future, completed in order of arrival.

        The queue counts as full until the waiting task of every future has resumed: a later append must not overtake.
        """
        if not self.is_full:
            return None
        future: asyncio.Future[None] = self._world.loop.create_future()
        self._waiting_for_room[future] = None
        future.add_done_callback(self._resumed)
        return future

    async def settle(self) -> None:
        """Return when no sync is running or requested."""
        while self._round is not None:
            await asyncio.wait([self._round])

    async def _run(self) -> None:
        try:
            while self._requested:
                requested = list(self._requested)
                self._requested.clear()
                self._update_is_full()
                self._complete_waits()
                await self._sync(requested)
        finally:
            self._round = None
            self._complete_waits()

    def _resumed(self, future: "asyncio.Future[None]") -> None:
        del self._waiting_for_room[future]
        self._update_is_full()
        if self._round is None:  # no further round would complete the futures queued behind it
            self._complete_waits()

    def _update_is_full(self) -> None:
        self.is_full = len(self._requested) >= self._queue_max or bool(self._waiting_for_room)

    def _complete_waits(self) -> None:
        for future in self._waiting_for_room:
            if not future.done():
                future.set_result(None)

    async def _sync(self, requested: Sequence[Syncable]) -> None:
        plans = [(partition, plan) for partition in requested if (plan := partition.sync_plan()) is not None]
        if self._whole_from and len(plans) >= self._whole_from and await self._sync_whole(plans):
            return
        shares = [plans[lane :: self._lanes] for lane in range(min(self._lanes, len(plans)))]
        outcomes = await asyncio.gather(
            *(self._world.work.run(partial(_sync_share, share)) for share in shares)
        )
        for share, errors in zip(shares, outcomes, strict=True):
            for (partition, plan), error in zip(share, errors, strict=True):
                _report(partition, plan, error)

    async def _sync_whole(self, plans: Sequence[tuple[Syncable, SyncPlan]]) -> bool:
        """Sync all partitions with one syncfs call; False if there is none. It does not say which file failed: then all
        partitions have failed.
        """
        problem: OSError | None = None
        try:
            if not await self._world.work.run(self._world.disk.sync_all):
                return False
        except OSError as error:
            problem = error
        for partition, plan in plans:
            _report(partition, plan, problem)
        return True


def _report(partition: Syncable, plan: SyncPlan, error: OSError | None) -> None:
    if error is None:
        partition.synced(plan)
    else:
        partition.sync_failed(error)


def _sync_share(share: Sequence[tuple[Syncable, SyncPlan]]) -> list[OSError | None]:
    """Sync partitions one after the other, off the loop; the error of each, or None."""
    outcomes: list[OSError | None] = []
    for partition, plan in share:
        try:
            partition.run_sync(plan)
        except OSError as error:
            outcomes.append(error)
        else:
            outcomes.append(None)
    return outcomes
