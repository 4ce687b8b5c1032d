"""Removal of deleted partitions' directories: renamed at once, removed after `file.delete.delay.ms`."""

from functools import partial
from typing import NamedTuple

from penstock.base.ids import TopicPartition
from penstock.services.replicas.checkpoint_writer import CheckpointWriter
from penstock.storage.data_directory import DataDirectory
from penstock.storage.partition_directories import DELETE
from penstock.world import World


class _DueRemoval(NamedTuple):
    """A deleted partition's directory, and when it may be removed."""

    name: str
    due_ms: int


class DirectoryRemoval:
    """Renames and removes directories of partitions."""

    def __init__(self, world: World, directory: DataDirectory, checkpoints: CheckpointWriter) -> None:
        self._world = world
        self._directory = directory
        self._checkpoints = checkpoints
        self._due: list[_DueRemoval] = []

    def resume(self, names: list[str]) -> None:
        """Remove directories that a crash left renamed."""
        self._due += [_DueRemoval(name, 0) for name in names]

    async def remove_due(self) -> None:
        """Remove the directories of deleted partitions whose `file.delete.delay.ms` is over."""
        now_ms = self._world.loop.now_ms()
        due = [removal for removal in self._due if removal.due_ms <= now_ms]
        self._due = [removal for removal in self._due if removal.due_ms > now_ms]
        for removal in due:
            await self._world.work.run(partial(self._directory.remove_deleted, removal.name))

    async def discard(self, partitions: list[TopicPartition], delay_ms: int = 0) -> None:
        """Rename partitions' directories to `-delete` now, and remove them after the delay."""
        names = await self.rename(partitions, DELETE)
        due_ms = self._world.loop.now_ms() + delay_ms
        self._due += [_DueRemoval(name, due_ms) for name in names]

    async def rename(self, partitions: list[TopicPartition], suffix: str) -> list[str]:
        """Rename partitions' directories, in turn with the writers of checkpoints; the new names."""
        uniques = {partition: self._world.entropy.random_bytes(16) for partition in partitions}
        names: list[str] = []

        async def rename() -> None:
            names.extend(
                await self._world.work.run(lambda: self._directory.rename_removed(uniques, suffix=suffix))
            )

        await self._checkpoints.in_turn(rename)
        return names
