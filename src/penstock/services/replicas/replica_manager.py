"""All replicas of this broker: found by topic name or id, created, changed and deleted as the metadata says.

`find_leader` is for what only a leader does, `find_replica` for the rest.
"""

import asyncio
import logging
from collections.abc import Collection, Container, Iterator
from functools import partial
from typing import NamedTuple

from penstock.base.errors import ErrorCode, StorageError
from penstock.base.ids import TopicPartition
from penstock.base.settings import Settings
from penstock.base.topic_settings import FILE_DELETE_DELAY_MS
from penstock.cluster.metadata import Topic
from penstock.services.configs import Configs
from penstock.services.disk_space import DiskSpace
from penstock.services.flusher import Flusher
from penstock.services.log_damage import LogDamageHandler
from penstock.services.metrics import Metrics
from penstock.services.other_directories import Others, look_at_others, tell_of_unknown
from penstock.services.replicas.checkpoint_writer import CheckpointWriter
from penstock.services.replicas.context import ReplicaContext, ReplicaListener
from penstock.services.replicas.directory_removal import DirectoryRemoval
from penstock.services.replicas.leader import LeaderRole
from penstock.services.replicas.replica import Replica
from penstock.services.replicas.replica_opener import ReplicaOpener
from penstock.services.replicas.truncation import LogTruncation
from penstock.services.topic_rules import TopicRules, log_config
from penstock.storage.data_directory import DataDirectory
from penstock.world import World

log = logging.getLogger("penstock.partitions")


class _Held(NamedTuple):
    """A topic's replicas on this broker."""

    topic: Topic
    partitions: list[Replica | None]  # by index; None where this broker has no replica

    def here(self) -> Iterator[Replica]:
        return (partition for partition in self.partitions if partition is not None)


class ReplicaManager:
    """The table of replicas. The metadata publisher changes it; request handlers look replicas up."""

    def __init__(
        self,
        world: World,
        directory: DataDirectory,
        flusher: Flusher,
        configs: Configs,
        *,
        node_id: int,
        slice_ms: int,
        metrics: Metrics | None = None,
        deletions: Container[bytes] = frozenset(),
    ) -> None:
        """`deletions` has the ids of the topics whose deletion is recorded in the metadata."""
        self._world = world
        self._directory = directory
        self._configs = configs
        self._node_id = node_id
        self._deletions = deletions
        self._by_name: dict[str, _Held] = {}
        self._by_id: dict[bytes, _Held] = {}
        self.is_admitted = True  # the controller has processed this broker's registration
        metrics = Metrics() if metrics is None else metrics
        self.disk_space = DiskSpace(world, metrics)
        self._context = ReplicaContext(world, flusher, self.disk_space, node_id=node_id)
        self._log_damage = LogDamageHandler(self._context, metrics)
        self.checkpoints = CheckpointWriter(world, directory, self.all, slice_ms=slice_ms)
        self.truncation = LogTruncation(world, directory, self.checkpoints)
        self.removal = DirectoryRemoval(world, directory, self.checkpoints)
        self._opener = ReplicaOpener(
            self._context,
            configs,
            directory,
            self.checkpoints,
            self.removal,
            self._log_damage,
            deletions=deletions,
            slice_ms=slice_ms,
        )

    def listen(self, listener: ReplicaListener) -> None:
        """Tell replication of changes, from now on."""
        self._context.listener = listener

    def _tell_changed(self, replica: Replica) -> None:
        if self._context.listener is not None:
            self._context.listener.replica_changed(replica)

    # Finding.

    def holds(self, topic: str) -> bool:
        """Whether the topic is in the table, perhaps without a replica on this broker."""
        return topic in self._by_name

    def find_leader(self, topic: str, index: int) -> LeaderRole | ErrorCode:
        """The leader's role of a partition, if this broker leads it."""
        replica = self.find_replica(topic, index)
        if isinstance(replica, ErrorCode):
            return replica
        return replica.leader or ErrorCode.NOT_LEADER_OR_FOLLOWER

    def find_leader_by_id(self, topic_id: bytes, index: int) -> LeaderRole | ErrorCode:
        """As `find_leader`."""
        replica = self.find_replica_by_id(topic_id, index)
        if isinstance(replica, ErrorCode):
            return replica
        return replica.leader or ErrorCode.NOT_LEADER_OR_FOLLOWER

    def find_replica(self, topic: str, index: int) -> Replica | ErrorCode:
        """This broker's replica of a partition, whatever its role."""
        held = self._by_name.get(topic)
        if held is None or not 0 <= index < len(held.partitions):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return held.partitions[index] or ErrorCode.NOT_LEADER_OR_FOLLOWER

    def find_replica_by_id(self, topic_id: bytes, index: int) -> Replica | ErrorCode:
        """As `find_replica`."""
        held = self._by_id.get(topic_id)
        if held is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        if not 0 <= index < len(held.partitions):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return held.partitions[index] or ErrorCode.NOT_LEADER_OR_FOLLOWER

    def all(self) -> Iterator[Replica]:
        """Every replica, by topic name and index."""
        for name in sorted(self._by_name):
            yield from self._by_name[name].here()

    # Following the metadata.

    async def load(self, topics: list[Topic]) -> None:
        """Open the logs on disk when the broker starts.

        Directories of topics that the metadata records as deleted, and of replicas that were moved to other brokers,
        are removed; all other directories are left alone.
        """
        for problem in self._directory.problems:
            log.warning("%s", problem)
        present = frozenset(self._directory.partitions)
        for topic in topics:
            await self._hold(topic, present)
        found = await self._world.work.run(lambda: self._look_at_others(topics))
        if found.deleted:
            await self.removal.discard(found.deleted)
        self.removal.resume(found.doomed)
        tell_of_unknown(found.unknown)
        try:
            await self._world.work.run(partial(self._directory.write_unknown_partitions, found.unknown))
        except StorageError as error:
            log.warning("%s", error)
        if not self._directory.was_closed_cleanly:
            # Offsets that a crash took must not count as committed after the next one: others may have them then.
            await self.checkpoints.write_high_watermarks()

    def _look_at_others(self, topics: list[Topic]) -> Others:
        held = frozenset(partition.topic_partition for partition in self.all() if not partition.in_memory)
        return look_at_others(self._directory, held, topics, node_id=self._node_id, deletions=self._deletions)

    async def topic_created(self, topic: Topic) -> None:
        await self._hold(topic, ())

    async def topic_changed(self, topic: Topic) -> None:
        """Apply new partitions, configs, replicas, leaders and ISRs of a topic.

        StorageError if new replicas cannot be opened; the changes of the others are applied.
        """
        held = self._by_name[topic.name]
        settings = self._configs.of_topic(topic)
        before = [*held.partitions, *[None] * (len(topic.partitions) - len(held.partitions))]
        is_here = [self._node_id in state.replicas for state in topic.partitions]
        new = [index for index, partition in enumerate(before) if partition is None and is_here[index]]
        problem: StorageError | None = None
        try:
            opened = dict(zip(new, await self._opener.open(topic, settings, (), new), strict=True))
        except StorageError as error:
            opened, problem = {}, error
        leaving = [partition for partition in held.here() if not is_here[partition.index]]
        partitions = [
            (before[index] or opened.get(index)) if is_here[index] else None for index in range(len(before))
        ]
        if problem is not None:
            # The controller of a single broker reverts the change: the topic has as many partitions as before.
            del partitions[len(held.partitions) :]
        changed = _Held(topic, partitions)
        self._configure(changed, settings)
        self._remember(changed)
        for partition in changed.here():
            while partition.truncation is not None:
                await asyncio.wait([partition.truncation])
            before_epoch = partition.state.partition_epoch
            partition.change(topic.partitions[partition.index])
            if partition.index in opened or partition.state.partition_epoch != before_epoch:
                self._tell_changed(partition)
        if leaving:
            log.info("%s: replica removed from this broker by a reassignment", ", ".join(map(str, leaving)))
            await self._remove(leaving, settings)
        if problem is not None:
            raise problem

    async def topic_deleted(self, topic: Topic, *, is_recorded: bool = True) -> None:
        """Delete a topic's replicas. Their files are kept if the metadata has no record of the deletion."""
        held = self._by_name.pop(topic.name)
        del self._by_id[topic.topic_id]
        settings = self._configs.of_topic(topic)
        await self._remove(list(held.here()), settings, is_recorded=is_recorded)

    async def _remove(
        self, partitions: list[Replica], settings: Settings, *, is_recorded: bool = True
    ) -> None:
        """Close replicas and delete their files."""
        for partition in partitions:
            partition.close()
            partition.log.fail("it is deleted")
            self._tell_changed(partition)
        for partition in partitions:
            while partition.truncation is not None:
                await asyncio.wait([partition.truncation])
            partition.log.close()
            if partition.in_memory:
                self._opener.memory.remove_tree(partition.log.path)
        names = [partition.topic_partition for partition in partitions if not partition.in_memory]
        if names and not is_recorded:
            log.warning(
                "%s: the topic is gone from the metadata without a record of its deletion; keeping its directories",
                ", ".join(map(str, names)),
            )
            return
        try:
            if names:
                await self.removal.discard(names, settings[FILE_DELETE_DELAY_MS])
        except StorageError as error:
            # They are out of the table; a topic of the same name, or the next start, removes them.
            log.error(
                "%s: deleting the partition directory failed: %s; the next start tries again",
                ", ".join(map(str, partitions)),
                error,
            )

    def configs_changed(self) -> None:
        """Apply new configs of the broker, which are the defaults of every topic."""
        for held in self._by_name.values():
            self._configure(held, self._configs.of_topic(held.topic))

    def brokers_changed(self) -> None:
        """Have requests that wait for all followers check again: a follower's broker may be gone."""
        for partition in self.all():
            partition.follower_changes.notify()

    def end_waiting_fetches(self) -> None:
        """Answer all delayed fetches with what there is: the broker stops."""
        for partition in self.all():
            partition.end_fetches()

    async def close_cleanly(self) -> None:
        """Sync and close every log, and mark the shutdown as clean."""
        await self.disk_space.stop()
        await self._log_damage.settle()
        await self.checkpoints.close_cleanly()

    async def _hold(self, topic: Topic, present: Collection[TopicPartition]) -> None:
        settings = self._configs.of_topic(topic)
        here = [index for index, state in enumerate(topic.partitions) if self._node_id in state.replicas]
        held = _Held(topic, [None] * len(topic.partitions))
        for partition in await self._opener.open(topic, settings, present, here):
            held.partitions[partition.index] = partition
        self._remember(held)
        for partition in held.here():
            self._tell_changed(partition)

    def _remember(self, held: _Held) -> None:
        self._by_name[held.topic.name] = held
        self._by_id[held.topic.topic_id] = held

    def _configure(self, held: _Held, settings: Settings) -> None:
        topic_rules = TopicRules(settings, self._configs.broker)
        config = log_config(settings, self._configs.broker)
        for partition in held.here():
            partition.configure(topic_rules, config)
