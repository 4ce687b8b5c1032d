"""Truncation of a follower's log to what its leader's log has, with the checkpoints that have to be written first."""

import asyncio
from collections.abc import Callable

from penstock.base.errors import StorageError
from penstock.services.replicas.checkpoint_writer import CheckpointWriter
from penstock.services.replicas.replica import Replica
from penstock.storage.data_directory import DataDirectory
from penstock.storage.errors import NoRoomError
from penstock.world import World
from penstock.world.disk import found_no_room

_CHECKPOINT_BYTES = (
    4096  # an estimate: with many partitions a checkpoint is larger, and the next attempt says so
)


class LogTruncation:
    """Truncates logs in turn with the writers of checkpoints."""

    def __init__(self, world: World, directory: DataDirectory, checkpoints: CheckpointWriter) -> None:
        self._world = world
        self._directory = directory
        self._checkpoints = checkpoints

    async def truncate_to(self, replica: Replica, offset: int) -> None:
        """Remove everything from `offset` on; StorageError if that fails."""
        key = replica.topic_partition
        if replica.in_memory:
            await self._truncate(replica, lambda: replica.log.truncate_to(offset))
        else:
            await self._truncate(replica, lambda: self._directory.truncate(key, replica.log, offset))

    async def truncate_fully(self, replica: Replica, start_offset: int) -> None:
        """Remove everything, and start again at `start_offset`; StorageError if that fails."""
        key, now_ms = replica.topic_partition, self._world.loop.now_ms()
        if replica.in_memory:
            await self._truncate(replica, lambda: replica.log.truncate_fully(start_offset, now_ms=now_ms))
        else:
            await self._truncate(
                replica,
                lambda: self._directory.truncate_fully(key, replica.log, start_offset, now_ms=now_ms),
            )

    async def _truncate(self, replica: Replica, truncate: Callable[[], None]) -> None:
        assert replica.truncation is None
        done: asyncio.Future[None] = self._world.loop.create_future()
        replica.truncation = done

        async def run() -> None:
            try:
                await self._world.work.run(truncate)
            except OSError as error:
                if found_no_room(error):  # for the checkpoints, which are written first
                    replica.found_no_room(str(error), size=_CHECKPOINT_BYTES)
                    raise NoRoomError(f"{replica}: truncating the log failed: {error}") from error
                replica.log.fail(f"truncation failed: {error}")
                raise StorageError(f"{replica}: {replica.log.failed}") from error
            finally:
                replica.truncation = None
                done.set_result(None)
                replica.truncated()

        await self._checkpoints.in_turn(run)
