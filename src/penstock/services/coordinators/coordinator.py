"""All shards of one kind of coordinator: which one a key belongs to, loaded when needed, asked, dropped, stopped."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable
from functools import partial
from typing import Any, Generic, TypeVar

from penstock.base.broker_settings import PENSTOCK_DECOMPRESSED_BYTES_MAX, PENSTOCK_LOOP_SLICE_MS
from penstock.base.coordinator_settings import OFFSETS_COMMIT_TIMEOUT_MS
from penstock.base.errors import ErrorCode, PeerError, Refusal, StorageError
from penstock.cluster.controller import Controller
from penstock.cluster.metadata import MetadataImage, Topic
from penstock.core.coordination import Answer, Decision, Shard, partition_for
from penstock.records.control import Marker
from penstock.records.errors import CorruptBatchError
from penstock.records.internal.record import RecordFormat
from penstock.services.configs import Configs
from penstock.services.coordinators.instance import NOT_COORDINATOR, Instance
from penstock.services.coordinators.internal_topics import InternalTopic, find_or_create
from penstock.services.coordinators.loading import load
from penstock.services.coordinators.writing import NO_LINGER
from penstock.services.partition import Partition
from penstock.services.partitions import Partitions
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


class Coordinator(Generic[S]):
    """The groups' coordinator, or the transactions'."""

    def __init__(
        self,
        world: World,
        image: MetadataImage,
        controller: Controller,
        partitions: Partitions,
        configs: Configs,
        *,
        node_id: int,
        topic: InternalTopic,
        record_format: RecordFormat,
        new_shard: Callable[[int], S],
        linger_ms: int = NO_LINGER,
    ) -> None:
        self._world = world
        self._image = image
        self._controller = controller
        self._partitions = partitions
        self._configs = configs
        self._node_id = node_id
        self._topic = topic
        self._record_format = record_format
        self._new_shard = new_shard
        self._linger_ms = linger_ms
        self._instances: dict[int, Instance[S]] = {}
        self._loads: dict[int, asyncio.Task[Instance[S] | None]] = {}
        self._starting: asyncio.Task[None] | None = None
        self._stopped = False
        # Told what the shards want done by others, as soon as it is certain; see `Decision.effects`.
        self.on_effect: Callable[[Any], None] = _nobody_listens

    # Where a key belongs.

    async def topic(self) -> Topic | Refusal:
        """The internal topic, created if it is not there yet."""
        return await find_or_create(self._topic, self._image, self._controller)

    def index_for(self, key: str) -> int | None:
        """The partition that looks after a key; None while there is no internal topic."""
        count = self.partition_count
        return partition_for(key, count) if count else None

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
        self._starting = self._world.loop.create_task(self._load_all(), name=f"load {self._topic.name}")

    async def _load_all(self) -> None:
        for index in range(self.partition_count):
            if self._loaded(index) is None and not self._stopped:
                await asyncio.wait([self._begin_load(index)])

    def _loaded(self, index: int) -> Instance[S] | None:
        """The instance, if there is one that is of use."""
        instance = self._instances.get(index)
        if instance is None:
            return None
        partition = instance.partition
        if (
            self._partitions.find(self._topic.name, index) is not partition
            or instance.leader_epoch != partition.leader_epoch
            or partition.log.failed is not None
        ):
            instance.drop()
            return None
        return instance

    async def _load(self, index: int) -> Instance[S] | Refusal:
        if self._stopped:
            return NOT_COORDINATOR
        # The load goes on when whoever waits for it does not.
        task = self._begin_load(index)
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

    def _begin_load(self, index: int) -> "asyncio.Task[Instance[S] | None]":
        task = self._loads.get(index)
        if task is None:
            name = f"load {self._topic.name}-{index}"
            task = self._loads[index] = self._world.loop.create_task(self._new_instance(index), name=name)
            task.add_done_callback(lambda _: self._loads.pop(index, None))
        return task

    async def _new_instance(self, index: int) -> Instance[S] | None:
        partition = self._partitions.find(self._topic.name, index)
        if (
            isinstance(partition, ErrorCode)
            or partition.log.failed is not None
            or partition.state.leader != self._node_id
        ):
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
            log.error("the coordinator cannot load %s: %s", partition, error)
            return None
        self._instances[index] = instance
        instance.begin(offset)
        return self._loaded(index)  # deleted meanwhile, or led by another

    def _instance_of(self, index: int, partition: Partition) -> Instance[S]:
        def dropped(instance: Instance[S]) -> None:
            if self._instances.get(index) is instance:
                del self._instances[index]

        return Instance(
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
        tasks: list[asyncio.Task[Any]] = [*self._loads.values()]
        if self._starting is not None:
            tasks.append(self._starting)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _nobody_listens(effect: object) -> None:
    raise AssertionError(f"nobody listens to {effect}")
