"""Opening of replicas: their logs are recovered or created, in the data directory or in memory."""

import logging
from collections.abc import Collection, Container
from dataclasses import replace
from functools import partial

from penstock.base.broker_settings import PENSTOCK_MEMORY_BYTES_MAX, PENSTOCK_PARTITION_PRODUCERS_MAX
from penstock.base.errors import StorageError
from penstock.base.ids import TopicId, TopicPartition
from penstock.base.settings import Settings
from penstock.base.topic_settings import FLUSH_MESSAGES, PENSTOCK_STORAGE
from penstock.cluster.metadata import Topic
from penstock.core.producer_state import ProducerStates
from penstock.services.configs import Configs
from penstock.services.log_damage import LogDamageHandler
from penstock.services.other_directories import tell_of_stray
from penstock.services.replicas.checkpoint_writer import CheckpointWriter
from penstock.services.replicas.context import ReplicaContext, ReplicaStorage
from penstock.services.replicas.directory_removal import DirectoryRemoval
from penstock.services.replicas.replica import Replica
from penstock.services.topic_rules import TopicRules, log_config
from penstock.storage.data_directory import DataDirectory
from penstock.storage.log import Log
from penstock.storage.log_config import LogConfig
from penstock.storage.log_factory import create_log
from penstock.storage.partition_directories import STRAY
from penstock.world import Disk
from penstock.world.memory_disk import MemoryDisk
from penstock.world.pacing import Pacer

log = logging.getLogger("penstock.partitions")


class ReplicaOpener:
    """Opens the replicas of a broker."""

    def __init__(
        self,
        context: ReplicaContext,
        configs: Configs,
        directory: DataDirectory,
        checkpoints: CheckpointWriter,
        removal: DirectoryRemoval,
        findings: LogDamageHandler,
        *,
        deletions: Container[bytes],
        slice_ms: int,
    ) -> None:
        self._context = context
        self._world = context.world
        self._node_id = context.node_id
        self._configs = configs
        self._directory = directory
        self._checkpoints = checkpoints
        self._removal = removal
        self._log_damage = findings
        self._deletions = deletions
        self._slice_ms = slice_ms
        self.memory: Disk = MemoryDisk(size_max=configs.broker[PENSTOCK_MEMORY_BYTES_MAX])

    async def open(
        self, topic: Topic, settings: Settings, present: Collection[TopicPartition], indexes: list[int]
    ) -> list[Replica]:
        """Open or create the replicas of a topic's partitions; StorageError if one fails: then none is open."""
        topic_rules = TopicRules(settings, self._configs.broker)
        config = log_config(settings, self._configs.broker)
        in_memory = settings[PENSTOCK_STORAGE] == "memory"
        pacer = Pacer(self._world.loop, slice_ms=self._slice_ms)
        opened: list[Replica] = []
        created: list[TopicPartition] = []
        try:
            for index in indexes:
                producers = ProducerStates(self._configs.broker[PENSTOCK_PARTITION_PRODUCERS_MAX])
                log_of_it = await self._log(
                    topic,
                    index,
                    replace(config, ends_at_damage=self._ends_at_damage(topic, index, settings)),
                    producers,
                    present,
                    created,
                    in_memory=in_memory,
                )
                known = 0 if in_memory else self._directory.high_watermark(TopicPartition(topic.name, index))
                opened.append(
                    Replica(
                        self._context,
                        TopicPartition(topic.name, index),
                        topic.topic_id,
                        topic.partitions[index],
                        ReplicaStorage(
                            log_of_it, producers, self.memory if in_memory else self._world.disk, known
                        ),
                        topic_rules,
                    )
                )
                self._log_damage.watch(opened[-1])
                await pacer.pause()
        except StorageError:
            for partition in opened:
                partition.log.close()
            for each in created:
                await self._world.work.run(partial(self._directory.remove_created, each))
            raise
        return opened

    def _ends_at_damage(self, topic: Topic, index: int, settings: Settings) -> bool:
        """Whether the log is truncated at a gap that a power cut left, instead of keeping what follows it.

        A follower cannot copy past a gap, and a replica with one must not be in the ISR. Where another replica has all
        committed records (the ISR or ELR; with majority acknowledgement, any other voter), the truncated ones are
        copied again. An internal topic is truncated anyway: its coordinator could never load a log with a gap. Else a
        gap stays where every batch was synced before it was acknowledged.
        """
        state = topic.partitions[index]
        have_all = state.present_replicas if topic.counts_majority else (*state.isr, *state.elr)
        if any(member != self._node_id for member in have_all):
            return True
        return (topic.is_internal or len(state.replicas) > 1) and settings[FLUSH_MESSAGES] != 1

    async def _log(
        self,
        topic: Topic,
        index: int,
        config: LogConfig,
        producers: ProducerStates,
        present: Collection[TopicPartition],
        created: list[TopicPartition],
        *,
        in_memory: bool,
    ) -> Log:
        """Open the log of a partition that is `present` on disk, or create it."""
        partition = TopicPartition(topic.name, index)
        now_ms = self._world.loop.now_ms()
        if in_memory:
            self.memory.remove_tree(str(partition))  # of a failed attempt
            return create_log(
                self.memory,
                str(partition),
                topic_id=topic.topic_id,
                config=config,
                producers=producers,
                now_ms=now_ms,
            )
        if self._world.disk.exists(str(partition)):
            topic_id = self._directory.topic_id(str(partition))
            if partition in present and topic_id == topic.topic_id:
                return await self._recover(partition, config, producers, now_ms)
            await self._vacate(partition, topic_id, topic)
        if self._directory.is_in_checkpoints(partition):
            await self._checkpoints.remove(partition)
        log_of_it = self._directory.create_log(
            partition, topic_id=topic.topic_id, config=config, producers=producers, now_ms=now_ms
        )
        created.append(partition)
        return log_of_it

    async def _vacate(self, partition: TopicPartition, found: TopicId, topic: Topic) -> None:
        """Remove or rename the directory that has a partition's name, but another topic id (`found`)."""
        if found in self._deletions or found == topic.topic_id:
            # Of a deleted topic of the same name, or of a replica that a reassignment moved away and back.
            await self._removal.discard([partition])
            return
        try:
            is_free = await self._world.work.run(
                partial(self._directory.clear_without_records, str(partition))
            )
        except OSError as error:
            raise StorageError(f"{partition}: cannot empty the directory of this name: {error}") from error
        if not is_free:
            (name,) = await self._removal.rename([partition], STRAY)
            tell_of_stray(partition, found, renamed_to=name, needed_by=topic.topic_id)

    async def _recover(
        self, partition: TopicPartition, config: LogConfig, producers: ProducerStates, now_ms: int
    ) -> Log:
        def open_log() -> Log:
            opened, report = self._directory.open_log(
                partition, config=config, producers=producers, now_ms=now_ms
            )
            for line in report.problems():
                log.warning("%s", line)
            return opened

        if self._directory.was_closed_cleanly:
            return open_log()  # a few small reads: not worth a thread
        return await self._world.work.run(open_log)
