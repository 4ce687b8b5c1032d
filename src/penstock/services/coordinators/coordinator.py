"""The group coordinator or the transaction coordinator of this broker: all its shards.

Finds the shard for a group or transactional id, loads the shards of the partitions that this broker leads, and unloads
them when it no longer does. Of the other partitions it only knows their leaders.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

from penstock.base.broker_settings import PENSTOCK_DECOMPRESSED_BYTES_MAX, PENSTOCK_LOOP_SLICE_MS
from penstock.base.coordinator_settings import OFFSETS_COMMIT_TIMEOUT_MS
from penstock.base.errors import ErrorCode, PeerError, Refusal, StorageError
from penstock.cluster.metadata import NO_LEADER, MetadataImage, Topic
from penstock.core.coordinator_shard import Answer, Decision, Shard, partition_for
from penstock.records.control import Marker
from penstock.records.errors import CorruptBatchError
from penstock.records.internal.record import RecordFormat
from penstock.services.configs import Configs
from penstock.services.coordinators.internal_topics import InternalTopic, TopicCreator, create
from penstock.services.coordinators.loaded_shard import NOT_COORDINATOR, LoadedShard
from penstock.services.coordinators.loading import load
from penstock.services.coordinators.shard_writer import NO_LINGER
from penstock.services.replicas.leader import LeaderRole
from penstock.services.replicas.replica_manager import ReplicaManager
from penstock.world import World
from penstock.world.tasks import Tasks

log = logging.getLogger("penstock.coordinators")

S = TypeVar("S", bound=Shard)
R = TypeVar("R")

LOAD_IN_PROGRESS = Refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


class AnswerAfterLoading(Generic[R]):
    """The response of a shard that has to be loaded first; awaiting it starts the load."""

    def __init__(self, begin: Callable[[], Coroutine[Any, Any, R]]) -> None:
        self._begin = begin

    def __await__(self) -> Generator[Any, Any, R]:
        return self._begin().__await__()


class _LoadInProgress(NamedTuple, Generic[S]):
    """A shard that is being loaded, and in which leader epoch."""

    leader: LeaderRole
    task: "asyncio.Task[LoadedShard[S] | None]"


class Coordinator(Generic[S]):
    """The shards of one internal topic that this broker leads."""

    def __init__(
        self,
        world: World,
        image: MetadataImage,
        creator: TopicCreator,
        replicas: ReplicaManager,
        configs: Configs,
        *,
        topic: InternalTopic,
        record_format: RecordFormat,
        new_shard: Callable[[int], S],
        linger_ms: int = NO_LINGER,
    ) -> None:
        self._world = world
        self._image = image
        self._creator = creator
        self._replicas = replicas
        self._configs = configs
        self._topic = topic
        self._record_format = record_format
        self._new_shard = new_shard
        self._linger_ms = linger_ms
        self._loaded_shards: dict[int, LoadedShard[S]] = {}
        self._loads_in_progress: dict[int, _LoadInProgress[S]] = {}
        self._started = False
        self._has_more_to_load = False
        self._creation: asyncio.Task[Topic | Refusal] | None = None
        self._tasks = Tasks(world.loop)
        self._stopped = False
        # Called with each of `Decision.effects` once the decision's records are committed.
        self.on_effect: Callable[[Any], None] = _unexpected_effect
        # Called after partitions changed their leaders, and with every shard that was loaded.
        self.on_leadership_changed: Callable[[], None] = lambda: None
        self.on_loaded: Callable[[LoadedShard[S]], None] = lambda _: None

    # Which partition and broker coordinate a key.

    async def topic(self) -> Topic | Refusal:
        """The internal topic, created if it does not exist yet."""
        found = self._image.topic(self._topic.name)
        if found is not None:
            return found
        # The clients of a new cluster all connect at once: they share one task, which outlives their connections.
        if self._creation is None or self._creation.done():
            self._creation = self._world.loop.create_task(
                create(self._topic, self._image, self._creator), name=f"create {self._topic.name}"
            )
        return await asyncio.shield(self._creation)

    def index_for(self, key: str) -> int | None:
        """The partition of the internal topic that a key belongs to; None while there is no internal topic."""
        count = self.partition_count
        return partition_for(key, count) if count else None

    def leader_for(self, key: str) -> int | None:
        """The broker that coordinates a key; None while its partition has no leader."""
        topic = self._image.topic(self._topic.name)
        if topic is None:
            return None
        leader = topic.partitions[partition_for(key, len(topic.partitions))].leader
        return None if leader == NO_LEADER else leader

    def leader_epoch_for(self, key: str) -> int | None:
        """The leader epoch in which this broker coordinates a key; None if it does not."""
        index = self.index_for(key)
        leader = None if index is None else self._led(index)
        return None if leader is None else leader.leader_epoch

    @property
    def partition_count(self) -> int:
        topic = self._image.topic(self._topic.name)
        return 0 if topic is None else len(topic.partitions)

    # Requests.

    async def ask(self, key: str, request: Callable[[S, int], Answer[R]]) -> R | Refusal:
        """The response of the shard that `key` belongs to, once it is committed."""
        answer = self.ask_at_once(key, request)
        return await answer if isinstance(answer, Awaitable) else answer

    def ask_at_once(
        self, key: str, request: Callable[[S, int], Answer[R]]
    ) -> "R | Refusal | Awaitable[R | Refusal]":
        """As `ask`, but returns a response that is available at once without a coroutine; `AnswerAfterLoading` if the
        shard has to be loaded first."""
        index = self.index_for(key)
        if index is None:
            return NOT_COORDINATOR
        loaded = self._find_loaded(index)
        if loaded is None:
            return AnswerAfterLoading(partial(self.ask_partition, index, request))
        return loaded.ask(request)

    async def ask_partition(self, index: int, request: Callable[[S, int], Answer[R]]) -> R | Refusal:
        """As `ask`, of the shard of this partition."""
        loaded = self._find_loaded(index) or await self._await_load(index)
        if isinstance(loaded, Refusal):
            return loaded
        answer = loaded.ask(request)
        return await answer if isinstance(answer, asyncio.Future) else answer

    async def ask_all(self, request: Callable[[S, int], Answer[R]]) -> list[R] | Refusal:
        """The responses of all shards of this broker, in the order of partitions; or the first refusal."""
        answers: list[R] = []
        for index in range(self.partition_count):
            answer = await self.ask_partition(index, request)
            if isinstance(answer, Refusal):
                if self._led(index) is None:
                    continue  # led by another broker
                return answer
            answers.append(answer)
        return answers

    def flush_batch(self, index: int) -> None:
        """Append a shard's current batch, before a transaction marker is appended to its partition."""
        loaded = self._find_loaded(index)
        if loaded is not None:
            loaded.flush_batch()

    def marker_written(self, index: int, marker: Marker, *, offset: int) -> None:
        """A transaction marker was appended to a partition of the internal topic: replay it."""
        loaded = self._find_loaded(index)
        if loaded is not None:
            loaded.marker_written(marker, offset=offset)

    async def carry_out_in_all_shards(self, decisions: Callable[[S], Iterable[Decision[None]]]) -> None:
        """Carry out decisions of every loaded shard, one shard after the other, in slices."""
        for index in list(self._loaded_shards):
            loaded = self._find_loaded(index)
            if loaded is not None:
                await asyncio.wait([loaded.carry_out_soon(decisions(loaded.shard))])

    # Loading.

    def start(self) -> None:
        """Begin to load all shards, so that timers run and prepared transactions are completed."""
        self._started = True
        self._load_soon()

    def leadership_changed(self) -> None:
        """Partitions of the internal topic were created, deleted, or changed their leader or leader epoch.

        Shards that this broker no longer leads are unloaded, and their waiting requests answered. Shards that it leads
        now are loaded at once, so that timers run and transactions that another broker prepared are completed.
        """
        for index in list(self._loaded_shards):
            self._find_loaded(index)
        for index, begun in list(self._loads_in_progress.items()):
            if self._led(index) is not begun.leader:
                begun.task.cancel()
                del self._loads_in_progress[index]
        self.on_leadership_changed()
        if self._started:
            self._load_soon()

    def _load_soon(self) -> None:
        self._has_more_to_load = True
        name = f"load {self._topic.name}"
        if not self._tasks.is_running(name) and not self._stopped:
            self._tasks.start(name, self._load_all())

    async def _load_all(self) -> None:
        while self._has_more_to_load:
            self._has_more_to_load = False
            for index in range(self.partition_count):
                if self._stopped:
                    return
                leader = self._led(index)
                if leader is not None and self._find_loaded(index) is None:
                    await asyncio.wait([self._begin_load(index, leader)])

    def _led(self, index: int) -> LeaderRole | None:
        """The leader's role of the partition, if this broker leads it."""
        leader = self._replicas.find_leader(self._topic.name, index)
        return None if isinstance(leader, ErrorCode) else leader

    def _find_loaded(self, index: int) -> LoadedShard[S] | None:
        """The loaded shard; it is unloaded if its leader epoch is over or its log failed."""
        loaded = self._loaded_shards.get(index)
        if loaded is None:
            return None
        leader = loaded.leader
        if self._replicas.find_leader(self._topic.name, index) is not leader or leader.is_offline:
            loaded.unload()
            return None
        return loaded

    async def _await_load(self, index: int) -> LoadedShard[S] | Refusal:
        leader = self._led(index)
        if leader is None or self._stopped:
            return NOT_COORDINATOR
        # The load continues when the request that waits for it times out.
        task = self._begin_load(index, leader)
        timeout: asyncio.Future[None] = self._world.loop.create_future()
        timer = self._world.loop.call_later(
            self._configs.broker[OFFSETS_COMMIT_TIMEOUT_MS] / 1000, timeout.cancel
        )
        try:
            either: list[asyncio.Future[Any]] = [task, timeout]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()
            timeout.cancel()
        if not task.done():
            return LOAD_IN_PROGRESS
        loaded = None if task.cancelled() else task.result()
        return NOT_COORDINATOR if loaded is None or loaded.is_unloaded else loaded

    def _begin_load(self, index: int, leader: LeaderRole) -> "asyncio.Task[LoadedShard[S] | None]":
        begun = self._loads_in_progress.get(index)
        if begun is None:
            task = self._tasks.start(f"load {leader}", self._load_shard(index, leader))
            begun = self._loads_in_progress[index] = _LoadInProgress(leader, task)
            task.add_done_callback(partial(self._load_ended, index))
        return begun.task

    def _load_ended(self, index: int, task: "asyncio.Task[LoadedShard[S] | None]") -> None:
        begun = self._loads_in_progress.get(index)
        if begun is not None and begun.task is task:
            del self._loads_in_progress[index]

    async def _load_shard(self, index: int, leader: LeaderRole) -> LoadedShard[S] | None:
        if leader.is_offline:
            return None
        loaded = self._new_loaded_shard(index, leader)
        try:
            offset = await load(
                self._world,
                leader.replica,
                loaded.shard,
                self._record_format,
                decompressed_max=self._configs.broker[PENSTOCK_DECOMPRESSED_BYTES_MAX],
                slice_ms=self._configs.broker[PENSTOCK_LOOP_SLICE_MS],
            )
        except (CorruptBatchError, OSError, PeerError, StorageError) as error:
            log.error(
                "%s: loading the coordinator's state failed: %s; the next request tries again",
                leader,
                error,
            )
            return None
        self._loaded_shards[index] = loaded
        loaded.begin(offset)
        current = self._find_loaded(
            index
        )  # None if the partition was deleted or got another leader meanwhile
        if current is not None:
            self.on_loaded(current)
        return current

    def _new_loaded_shard(self, index: int, leader: LeaderRole) -> LoadedShard[S]:
        def unloaded(loaded: LoadedShard[S]) -> None:
            if self._loaded_shards.get(index) is loaded:
                del self._loaded_shards[index]

        return LoadedShard(
            self._world,
            leader,
            self._new_shard(index),
            self._record_format,
            write_timeout_ms=self._configs.broker[OFFSETS_COMMIT_TIMEOUT_MS],
            linger_ms=self._linger_ms,
            slice_ms=self._configs.broker[PENSTOCK_LOOP_SLICE_MS],
            on_effect=lambda effect: self.on_effect(effect),
            on_unloaded=unloaded,
        )

    # Stopping.

    async def stop(self) -> None:
        """Unload all shards, answering their waiting requests, and take no more requests."""
        self._stopped = True
        for loaded in list(self._loaded_shards.values()):
            loaded.unload()
        await self._tasks.stop()


def _unexpected_effect(effect: object) -> None:
    raise AssertionError(f"no handler for {effect}")
