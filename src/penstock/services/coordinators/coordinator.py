"""All shards of one kind of coordinator: which one a key belongs to, loaded when needed, asked, dropped, stopped.

Those whose partitions this broker leads, that is; of the others it only knows who leads them. A shard comes and goes
with the leadership of its partition.
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
from penstock.core.coordination import Answer, Decision, Shard, partition_for
from penstock.records.control import Marker
from penstock.records.errors import CorruptBatchError
from penstock.records.internal.record import RecordFormat
from penstock.services.configs import Configs
from penstock.services.coordinators.internal_topics import InternalTopic, TopicCreator, create
from penstock.services.coordinators.loaded_shard import NOT_COORDINATOR, LoadedShard
from penstock.services.coordinators.loading import load
from penstock.services.coordinators.writing import NO_LINGER
from penstock.services.replicas.replica import Replica
from penstock.services.replicas.replica_manager import ReplicaManager
from penstock.world import World

log = logging.getLogger("penstock.coordinators")

S = TypeVar("S", bound=Shard)
R = TypeVar("R")

LOADING = Refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


class NotBegun(Generic[R]):
    """An answer that nobody works on before it is awaited: whoever asked may be gone by then."""

    def __init__(self, begin: Callable[[], Coroutine[Any, Any, R]]) -> None:
        self._begin = begin

    def __await__(self) -> Generator[Any, Any, R]:
        return self._begin().__await__()


class _Load(NamedTuple, Generic[S]):
    """A shard that is being loaded, and under which leadership."""

    partition: Replica
    leader_epoch: int
    task: "asyncio.Task[LoadedShard[S] | None]"


class Coordinator(Generic[S]):
    """The groups' coordinator, or the transactions'."""

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
        self._instances: dict[int, LoadedShard[S]] = {}
        self._loads: dict[int, _Load[S]] = {}
        self._started = False
        self._loading: asyncio.Task[None] | None = None  # of all that this broker leads
        self._has_more_to_load = False
        self._creation: asyncio.Task[Topic | Refusal] | None = None
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._stopped = False
        # Told what the shards want done by others, as soon as it is certain; see `Decision.effects`.
        self.on_effect: Callable[[Any], None] = _nobody_listens
        # Told when shards may have come or gone, and of every one that was loaded.
        self.on_moved: Callable[[], None] = lambda: None
        self.on_loaded: Callable[[LoadedShard[S]], None] = lambda _: None

    # Where a key belongs.

    async def topic(self) -> Topic | Refusal:
        """The internal topic, created if it is not there yet."""
        found = self._image.topic(self._topic.name)
        if found is not None:
            return found
        # Everybody comes at once when a cluster is new: one asks for all, and does not stop when a client goes.
        if self._creation is None or self._creation.done():
            self._creation = self._world.loop.create_task(
                create(self._topic, self._image, self._creator), name=f"create {self._topic.name}"
            )
        return await asyncio.shield(self._creation)

    def index_for(self, key: str) -> int | None:
        """The partition that looks after a key; None while there is no internal topic."""
        count = self.partition_count
        return partition_for(key, count) if count else None

    def leader_for(self, key: str) -> int | None:
        """The broker that looks after a key; None if there is none now."""
        topic = self._image.topic(self._topic.name)
        if topic is None:
            return None
        leader = topic.partitions[partition_for(key, len(topic.partitions))].leader
        return None if leader == NO_LEADER else leader

    def leader_epoch_for(self, key: str) -> int | None:
        """The leader epoch under which this broker looks after a key; None if it does not."""
        index = self.index_for(key)
        partition = None if index is None else self._led(index)
        return None if partition is None else partition.leader_epoch

    @property
    def partition_count(self) -> int:
        topic = self._image.topic(self._topic.name)
        return 0 if topic is None else len(topic.partitions)

    # Asking.

    async def ask(self, key: str, request: Callable[[S, int], Answer[R]]) -> R | Refusal:
        """What the shard that looks after `key` answers, once it is safe."""
        answer = self.ask_at_once(key, request)
        return await answer if isinstance(answer, Awaitable) else answer

    def ask_at_once(
        self, key: str, request: Callable[[S, int], Answer[R]]
    ) -> "R | Refusal | Awaitable[R | Refusal]":
        """The same for those who are asked often: no coroutine is made where the answer is there already.

        `NotBegun` if the shard has to be loaded first.
        """
        index = self.index_for(key)
        if index is None:
            return NOT_COORDINATOR
        instance = self._loaded(index)
        if instance is None:
            return NotBegun(partial(self.ask_partition, index, request))
        return instance.ask(request)

    async def ask_partition(self, index: int, request: Callable[[S, int], Answer[R]]) -> R | Refusal:
        """As `ask`, of the shard with that number."""
        instance = self._loaded(index) or await self._load(index)
        if isinstance(instance, Refusal):
            return instance
        answer = instance.ask(request)
        return await answer if isinstance(answer, asyncio.Future) else answer

    async def ask_all(self, request: Callable[[S, int], Answer[R]]) -> list[R] | Refusal:
        """What all shards of this broker answer, in the order of their numbers; the first refusal, if there is one."""
        answers: list[R] = []
        for index in range(self.partition_count):
            answer = await self.ask_partition(index, request)
            if isinstance(answer, Refusal):
                if self._led(index) is None:
                    continue  # it is on another broker
                return answer
            answers.append(answer)
        return answers

    def write_gathered(self, index: int) -> None:
        """Somebody is about to append to a partition of the internal topic."""
        instance = self._loaded(index)
        if instance is not None:
            instance.write_gathered()

    def marker_written(self, index: int, marker: Marker, *, offset: int) -> None:
        """Somebody appended the end of a transaction to a partition of the internal topic."""
        instance = self._loaded(index)
        if instance is not None:
            instance.marker_written(marker, offset=offset)

    async def carry_out_everywhere(self, decisions: Callable[[S], Iterable[Decision[None]]]) -> None:
        """Have every loaded shard do something of its own accord, one after the other, in slices."""
        for index in list(self._instances):
            instance = self._loaded(index)
            if instance is not None:
                await asyncio.wait([instance.carry_out_soon(decisions(instance.shard))])

    # Loading.

    def start(self) -> None:
        """Begin to load what there is, so that timers run and what was left half done goes on."""
        self._started = True
        self._load_soon()

    def leadership_changed(self) -> None:
        """ReplicaManager of the internal topic came, went, or have another leader or leader epoch.

        What is not here any more is dropped, and whoever waits for it answered; what is new here is loaded, so that
        timers run and what another broker left half done goes on without anybody asking.
        """
        for index in list(self._instances):
            self._loaded(index)
        for index, begun in list(self._loads.items()):
            partition = self._led(index)
            if partition is not begun.partition or partition.leader_epoch != begun.leader_epoch:
                begun.task.cancel()
                del self._loads[index]
        self.on_moved()
        if self._started:
            self._load_soon()

    def _load_soon(self) -> None:
        self._has_more_to_load = True
        if (self._loading is None or self._loading.done()) and not self._stopped:
            self._loading = self._start_task(self._load_all(), name=f"load {self._topic.name}")

    async def _load_all(self) -> None:
        while self._has_more_to_load:
            self._has_more_to_load = False
            for index in range(self.partition_count):
                if self._stopped:
                    return
                partition = self._led(index)
                if partition is not None and self._loaded(index) is None:
                    await asyncio.wait([self._begin_load(index, partition)])

    def _led(self, index: int) -> Replica | None:
        """The partition, if this broker leads it."""
        partition = self._replicas.find(self._topic.name, index)
        return None if isinstance(partition, ErrorCode) else partition

    def _loaded(self, index: int) -> LoadedShard[S] | None:
        """The instance, if there is one that is of use."""
        instance = self._instances.get(index)
        if instance is None:
            return None
        partition = instance.partition
        if (
            self._replicas.find(self._topic.name, index) is not partition
            or instance.leader_epoch != partition.leader_epoch
            or partition.log.failed is not None
        ):
            instance.drop()
            return None
        return instance

    async def _load(self, index: int) -> LoadedShard[S] | Refusal:
        partition = self._led(index)
        if partition is None or self._stopped:
            return NOT_COORDINATOR
        # The load goes on when whoever waits for it does not.
        task = self._begin_load(index, partition)
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
            return LOADING
        instance = None if task.cancelled() else task.result()
        return NOT_COORDINATOR if instance is None or instance.dropped else instance

    def _begin_load(self, index: int, partition: Replica) -> "asyncio.Task[LoadedShard[S] | None]":
        begun = self._loads.get(index)
        if begun is None:
            task = self._start_task(self._new_instance(index, partition), name=f"load {partition}")
            begun = self._loads[index] = _Load(partition, partition.leader_epoch, task)
            task.add_done_callback(partial(self._load_ended, index))
        return begun.task

    def _load_ended(self, index: int, task: "asyncio.Task[LoadedShard[S] | None]") -> None:
        begun = self._loads.get(index)
        if begun is not None and begun.task is task:
            del self._loads[index]

    async def _new_instance(self, index: int, partition: Replica) -> LoadedShard[S] | None:
        if partition.log.failed is not None:
            return None
        instance = self._instance_of(index, partition)
        try:
            offset = await load(
                self._world,
                partition,
                instance.shard,
                self._record_format,
                decompressed_max=self._configs.broker[PENSTOCK_DECOMPRESSED_BYTES_MAX],
                slice_ms=self._configs.broker[PENSTOCK_LOOP_SLICE_MS],
            )
        except (CorruptBatchError, OSError, PeerError, StorageError) as error:
            log.error(
                "%s: loading the coordinator's state failed: %s; the next request tries again",
                partition,
                error,
            )
            return None
        self._instances[index] = instance
        instance.begin(offset)
        loaded = self._loaded(index)  # unless deleted meanwhile, or led by another
        if loaded is not None:
            self.on_loaded(loaded)
        return loaded

    def _instance_of(self, index: int, partition: Replica) -> LoadedShard[S]:
        def dropped(instance: LoadedShard[S]) -> None:
            if self._instances.get(index) is instance:
                del self._instances[index]

        return LoadedShard(
            self._world,
            partition,
            self._new_shard(index),
            self._record_format,
            write_timeout_ms=self._configs.broker[OFFSETS_COMMIT_TIMEOUT_MS],
            linger_ms=self._linger_ms,
            slice_ms=self._configs.broker[PENSTOCK_LOOP_SLICE_MS],
            on_effect=lambda effect: self.on_effect(effect),
            on_dropped=dropped,
        )

    # The end.

    async def stop(self) -> None:
        """Answer whoever waits, and take no more requests."""
        self._stopped = True
        for instance in list(self._instances.values()):
            instance.drop()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _start_task(self, coroutine: Coroutine[Any, Any, R], *, name: str) -> "asyncio.Task[R]":
        task = self._world.loop.create_task(coroutine, name=name)
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))
        return task


def _nobody_listens(effect: object) -> None:
    raise AssertionError(f"nobody listens to {effect}")
