"""The partitions this broker holds: found by name or id, created, changed and deleted as the metadata says.

It holds those that it is a replica of. `find_leader` is for what only a leader does, `find_replica` for the rest.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Container, Iterator
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from penstock.base.broker_settings import PENSTOCK_MEMORY_BYTES_MAX, PENSTOCK_PARTITION_PRODUCERS_MAX
from penstock.base.errors import ErrorCode, StorageError
from penstock.base.ids import TopicId, TopicPartition
from penstock.base.settings import Settings
from penstock.base.topic_settings import FILE_DELETE_DELAY_MS, FLUSH_MESSAGES, PENSTOCK_STORAGE
from penstock.cluster.metadata import Topic
from penstock.core.producer_state import ProducerStates
from penstock.services.configs import Configs
from penstock.services.findings import Findings
from penstock.services.flusher import Flusher
from penstock.services.metrics import Metrics
from penstock.services.other_directories import Others, look_at_others, tell_of_stray, tell_of_unknown
from penstock.services.replicas.context import ReplicaContext, ReplicaListener, ReplicaStorage
from penstock.services.replicas.leader import LeaderRole
from penstock.services.replicas.replica import Replica
from penstock.services.room import Room
from penstock.services.topic_rules import TopicRules, log_config
from penstock.storage.data_directory import DataDirectory
from penstock.storage.errors import NoRoomError
from penstock.storage.log import Log
from penstock.storage.log_config import LogConfig
from penstock.storage.log_factory import create_log
from penstock.storage.partition_directories import DELETE, STRAY
from penstock.world import Disk, World
from penstock.world.disk import found_no_room
from penstock.world.memory_disk import MemoryDisk
from penstock.world.pacing import Pacer

log = logging.getLogger("penstock.partitions")

_CHECKPOINT_BYTES = 4096  # and more, with many partitions; where it is too little, the next try says so


class _Held(NamedTuple):
    """A topic's partitions on this broker."""

    topic: Topic
    partitions: list[Replica | None]  # by number; None where others have the replicas

    def here(self) -> Iterator[Replica]:
        return (partition for partition in self.partitions if partition is not None)


class _Doomed(NamedTuple):
    """A deleted partition's directory, and when its room may be freed."""

    name: str
    due_ms: int


class ReplicaManager:
    """All live partitions. Told of changes by the controller; asked by request handlers."""

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
        """`deletions` are the ids of topics whose deletion the metadata record, as the broker hears of them."""
        self._world = world
        self._directory = directory
        self._configs = configs
        self._node_id = node_id
        self._slice_ms = slice_ms
        self._deletions = deletions
        self._memory: Disk = MemoryDisk(size_max=configs.broker[PENSTOCK_MEMORY_BYTES_MAX])
        self._by_name: dict[str, _Held] = {}
        self._by_id: dict[bytes, _Held] = {}
        self._doomed: list[_Doomed] = []
        self.is_admitted = True  # the controller has acted on this broker's being here
        metrics = Metrics() if metrics is None else metrics
        self.room = Room(world, metrics)
        self._context = ReplicaContext(world, flusher, self.room, node_id=node_id)
        self._findings = Findings(self._context, metrics)
        self._turn = asyncio.Lock()  # of who has the directory's files in hand

    def listen(self, listener: ReplicaListener) -> None:
        """Tell replication of changes, from now on."""
        self._context.listener = listener

    def _tell_changed(self, replica: Replica) -> None:
        if self._context.listener is not None:
            self._context.listener.replica_changed(replica)

    # Finding.

    def holds(self, topic: str) -> bool:
        """Whether a topic of that name has been made ready here; it may be one of which others have all replicas."""
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
        """Every partition that is here, by topic name and index."""
        for name in sorted(self._by_name):
            yield from self._by_name[name].here()

    def logs_on_disk(self) -> dict[TopicPartition, Log]:
        """Every log that outlives the process."""
        return {
            partition.topic_partition: partition.log for partition in self.all() if not partition.in_memory
        }

    # Following the metadata.

    async def load(self, topics: list[Topic]) -> None:
        """Open what is on disk, at start-up. What was deleted, or moved to other brokers, as the metadata record it, is
        deleted; what else there is stays as it is.
        """
        for problem in self._directory.problems:
            log.warning("%s", problem)
        present = frozenset(self._directory.partitions)
        for topic in topics:
            await self._hold(topic, present)
        found = await self._world.work.run(lambda: self._look_at_others(topics))
        if found.deleted:
            await self._discard(found.deleted)
        self._doomed += [_Doomed(name, 0) for name in found.doomed]
        tell_of_unknown(found.unknown)
        try:
            await self._world.work.run(partial(self._directory.write_unknown, found.unknown))
        except StorageError as error:
            log.warning("%s", error)
        if not self._directory.was_closed_cleanly:
            # What a crash took must not be taken for committed after the next one: something else may be in its place.
            await self.write_high_watermarks()

    def _look_at_others(self, topics: list[Topic]) -> Others:
        held = frozenset(partition.topic_partition for partition in self.all() if not partition.in_memory)
        return look_at_others(self._directory, held, topics, node_id=self._node_id, deletions=self._deletions)

    async def topic_created(self, topic: Topic) -> None:
        await self._hold(topic, ())

    async def topic_changed(self, topic: Topic) -> None:
        """A topic has more partitions, other configs, or other replicas, leaders and in-sync sets.

        StorageError if new partitions cannot be opened; those that are here have followed all the same.
        """
        held = self._by_name[topic.name]
        settings = self._configs.of_topic(topic)
        before = [*held.partitions, *[None] * (len(topic.partitions) - len(held.partitions))]
        is_here = [self._node_id in state.replicas for state in topic.partitions]
        new = [index for index, partition in enumerate(before) if partition is None and is_here[index]]
        problem: StorageError | None = None
        try:
            opened = dict(zip(new, await self._open(topic, settings, (), new), strict=True))
        except StorageError as error:
            opened, problem = {}, error
        leaving = [partition for partition in held.here() if not is_here[partition.index]]
        partitions = [
            (before[index] or opened.get(index)) if is_here[index] else None for index in range(len(before))
        ]
        if problem is not None:
            # A controller that is alone takes the change back: the topic is not known to have grown.
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
        """A topic is gone. Its files go too if the metadata have a record of that."""
        held = self._by_name.pop(topic.name)
        del self._by_id[topic.topic_id]
        settings = self._configs.of_topic(topic)
        await self._remove(list(held.here()), settings, is_recorded=is_recorded)

    async def _remove(
        self, partitions: list[Replica], settings: Settings, *, is_recorded: bool = True
    ) -> None:
        """Close partitions and delete what they hold."""
        for partition in partitions:
            partition.close()
            partition.log.fail("it is deleted")
            self._tell_changed(partition)
        for partition in partitions:
            while partition.truncation is not None:
                await asyncio.wait([partition.truncation])
            partition.log.close()
            if partition.in_memory:
                self._memory.remove_tree(partition.log.path)
        names = [partition.topic_partition for partition in partitions if not partition.in_memory]
        if names and not is_recorded:
            log.warning(
                "%s: the topic is gone from the metadata without a record of its deletion; keeping its directories",
                ", ".join(map(str, names)),
            )
            return
        try:
            if names:
                await self._discard(names, settings[FILE_DELETE_DELAY_MS])
        except StorageError as error:
            # Nobody finds them any more; a topic of the same name, or the next start, clears them away.
            log.error(
                "%s: deleting the partition directory failed: %s; the next start tries again",
                ", ".join(map(str, partitions)),
                error,
            )

    def configs_changed(self) -> None:
        """The broker's own configs changed, and with them the defaults of every topic."""
        for held in self._by_name.values():
            self._configure(held, self._configs.of_topic(held.topic))

    def brokers_changed(self) -> None:
        """Others may have come or gone: for some it was waited."""
        for partition in self.all():
            partition.followers.ring()

    def end_waiting_fetches(self) -> None:
        """The broker stops: whoever waits for records is answered with what there is."""
        for partition in self.all():
            partition.end_fetches()

    async def remove_doomed(self) -> None:
        """Free the room of deleted partitions whose time has come."""
        now_ms = self._world.loop.now_ms()
        due = [doomed for doomed in self._doomed if doomed.due_ms <= now_ms]
        self._doomed = [doomed for doomed in self._doomed if doomed.due_ms > now_ms]
        for doomed in due:
            await self._world.work.run(partial(self._directory.remove_deleted, doomed.name))

    async def _discard(self, partitions: list[TopicPartition], delay_ms: int = 0) -> None:
        """Take partitions' directories out of the way at once; what they hold goes later."""
        names = await self._set_aside(partitions, DELETE)
        due_ms = self._world.loop.now_ms() + delay_ms
        self._doomed += [_Doomed(name, due_ms) for name in names]

    async def _set_aside(self, partitions: list[TopicPartition], suffix: str) -> list[str]:
        uniques = {partition: self._world.entropy.random_bytes(16) for partition in partitions}
        names: list[str] = []

        async def set_aside() -> None:
            names.extend(
                await self._world.work.run(lambda: self._directory.set_aside(uniques, suffix=suffix))
            )

        await self._in_turn(set_aside)
        return names

    async def _forget(self, partition: TopicPartition) -> None:
        """Have the checkpoints say nothing about a partition any more."""

        async def forget() -> None:
            await self._world.work.run(partial(self._directory.forget, [partition]))

        await self._in_turn(forget)

    # What is written down about all logs. Deleting writes there too, so everybody takes turns: what an older
    # view says of a deleted partition must not come back and be taken for a new one's of the same name.

    async def write_checkpoints(self) -> None:
        """Write down up to where each log is synced, and where it starts."""

        async def write() -> None:
            await self._note_offsets()
            await self._world.work.run(self._directory.write_checkpoints)

        await self._in_turn(write)

    async def write_start_offsets(self) -> None:
        """Write down where each log starts."""

        async def write() -> None:
            await self._note_offsets()
            await self._world.work.run(self._directory.write_start_offsets)

        await self._in_turn(write)

    async def write_high_watermarks(self) -> None:
        """Write down up to where each replica knows everything to be committed: the next start begins with that."""

        async def write() -> None:
            self._directory.note_high_watermarks(await self._high_watermarks())
            try:
                await self._world.work.run(self._directory.write_high_watermarks)
            except OSError as error:
                kind = NoRoomError if found_no_room(error) else StorageError
                raise kind(f"the high watermarks cannot be written down: {error}") from error

        await self._in_turn(write)

    async def _high_watermarks(self) -> dict[TopicPartition, int]:
        """Of the partitions that others have replicas of: one that is alone knows what is committed by itself."""
        pacer = Pacer(self._world.loop, slice_ms=self._slice_ms)
        found = {}
        for partition in list(self.all()):
            if len(partition.state.replicas) > 1 and not partition.in_memory:
                found[partition.topic_partition] = partition.high_watermark
            await pacer.pause()
        return found

    async def _note_offsets(self) -> None:
        """What is deleted meanwhile is noted too; who deletes it forgets it again, in the next turn."""
        pacer = Pacer(self._world.loop, slice_ms=self._slice_ms)
        logs = (
            (partition.topic_partition, partition.log)
            for partition in list(self.all())
            if not partition.in_memory
        )
        for _ in self._directory.note_offsets_stepwise(logs):
            await pacer.pause()

    async def write_cleaner_offset(self, partition: Replica, offset: int) -> None:
        """Write down how far compaction has come."""
        key = partition.topic_partition

        async def write() -> None:
            if partition.log.failed is None:
                await self._world.work.run(
                    partial(self._directory.write_cleaner_offset, key, partition.log, offset)
                )

        await self._in_turn(write)

    async def set_data_version(self, data_version: int) -> None:
        """Have the data directory say what it takes to read it. Where that cannot be written down, the finalised level
        in the metadata still keeps older programs out, and the next start tries again.
        """
        if data_version == self._directory.meta.data_version:
            return

        async def write() -> None:
            await self._world.work.run(partial(self._directory.set_data_version, data_version))

        try:
            await self._in_turn(write)
        except OSError as error:
            log.error("cannot write data version %d to meta.properties: %s", data_version, error)

    async def close_cleanly(self) -> None:
        """Sync and close every log, and leave the mark of a clean stop."""

        async def close() -> None:
            logs = self.logs_on_disk()
            self._directory.note_high_watermarks(await self._high_watermarks())
            problem = await self._world.work.run(lambda: self._directory.close_cleanly(logs))
            if problem is not None:
                log.warning(
                    "clean shutdown incomplete: %s; the next start recovers all logs, without data loss",
                    problem,
                )

        await self.room.stop()
        await self._findings.settle()
        await self._in_turn(close)

    async def _in_turn(self, write: Callable[[], Awaitable[None]]) -> None:
        async def turn() -> None:
            async with self._turn:
                await write()

        # What a thread has begun goes on when its caller is cancelled; so does its turn.
        task = self._world.loop.create_task(turn())
        task.add_done_callback(_look_at_outcome)
        await asyncio.shield(task)

    # Following a leader.

    async def cut_end(self, partition: Replica, offset: int) -> None:
        """Drop what a log has from `offset` on; StorageError if that fails."""
        key = partition.topic_partition
        if partition.in_memory:
            await self._cut(partition, lambda: partition.log.truncate_to(offset))
        else:
            await self._cut(partition, lambda: self._directory.truncate(key, partition.log, offset))

    async def begin_anew(self, partition: Replica, start_offset: int) -> None:
        """Drop all that a log has, and go on at `start_offset`; StorageError if that fails."""
        key, now_ms = partition.topic_partition, self._world.loop.now_ms()
        if partition.in_memory:
            await self._cut(partition, lambda: partition.log.truncate_fully(start_offset, now_ms=now_ms))
        else:
            await self._cut(
                partition,
                lambda: self._directory.truncate_fully(key, partition.log, start_offset, now_ms=now_ms),
            )

    async def _cut(self, partition: Replica, cut: Callable[[], None]) -> None:
        assert partition.truncation is None
        done: asyncio.Future[None] = self._world.loop.create_future()
        partition.truncation = done

        async def run() -> None:
            try:
                await self._world.work.run(cut)
            except OSError as error:
                if found_no_room(error):  # for the checkpoints, which are written first
                    partition.found_no_room(str(error), size=_CHECKPOINT_BYTES)
                    raise NoRoomError(f"{partition}: its end cannot be cut off: {error}") from error
                partition.log.fail(f"its end cannot be cut off: {error}")
                raise StorageError(f"{partition}: {partition.log.failed}") from error
            finally:
                partition.truncation = None
                done.set_result(None)
                partition.truncated()

        await self._in_turn(run)

    async def _hold(self, topic: Topic, present: Collection[TopicPartition]) -> None:
        settings = self._configs.of_topic(topic)
        here = [index for index, state in enumerate(topic.partitions) if self._node_id in state.replicas]
        held = _Held(topic, [None] * len(topic.partitions))
        for partition in await self._open(topic, settings, present, here):
            held.partitions[partition.index] = partition
        self._remember(held)
        for partition in held.here():
            self._tell_changed(partition)

    def _remember(self, held: _Held) -> None:
        self._by_name[held.topic.name] = held
        self._by_id[held.topic.topic_id] = held

    async def _open(
        self, topic: Topic, settings: Settings, present: Collection[TopicPartition], indexes: list[int]
    ) -> list[Replica]:
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
                            log_of_it, producers, self._memory if in_memory else self._world.disk, known
                        ),
                        topic_rules,
                    )
                )
                self._findings.watch(opened[-1])
                await pacer.pause()
        except StorageError:
            for partition in opened:
                partition.log.close()
            for each in created:
                await self._world.work.run(partial(self._directory.take_back, each))
            raise
        return opened

    def _ends_at_damage(self, topic: Topic, index: int, settings: Settings) -> bool:
        """Whether what lies behind a hole that a power cut left is given up.

        No follower gets past a hole, and whoever has one must not count as in sync. A replica that is not the only one
        to have everything gets back what it gives up; where majorities count, others have all that is safe wherever
        there is another voter. An internal topic's coordinator needs all of its log: a hole would keep it from loading
        for ever. Else a hole stays where every batch was synced before it was answered.
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
        """The log of a partition, opened if it is one of those `present`, else created."""
        partition = TopicPartition(topic.name, index)
        now_ms = self._world.loop.now_ms()
        if in_memory:
            self._memory.remove_tree(str(partition))  # of an attempt that failed
            return create_log(
                self._memory,
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
        if self._directory.remembers(partition):
            await self._forget(partition)
        log_of_it = self._directory.create_log(
            partition, topic_id=topic.topic_id, config=config, producers=producers, now_ms=now_ms
        )
        created.append(partition)
        return log_of_it

    async def _vacate(self, partition: TopicPartition, found: TopicId, topic: Topic) -> None:
        """Make room for a partition of which the name is taken by a directory of topic `found`."""
        if found in self._deletions or found == topic.topic_id:
            # Of a namesake that was deleted, or of a replica that was moved away and comes back.
            await self._discard([partition])
            return
        try:
            is_free = await self._world.work.run(partial(self._directory.clear_blank, str(partition)))
        except OSError as error:
            raise StorageError(f"cannot make room for {partition}: {error}") from error
        if not is_free:
            (name,) = await self._set_aside([partition], STRAY)
            tell_of_stray(partition, found, aside=name, needed_by=topic.topic_id)

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

    def _configure(self, held: _Held, settings: Settings) -> None:
        topic_rules = TopicRules(settings, self._configs.broker)
        config = log_config(settings, self._configs.broker)
        for partition in held.here():
            partition.configure(topic_rules, config)


def _look_at_outcome(task: asyncio.Task[None]) -> None:
    """Who waited may have gone; a failure that nobody asks for would be told by asyncio as a bug."""
    if not task.cancelled():
        task.exception()
