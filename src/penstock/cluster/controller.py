"""The controller: the only writer of cluster metadata.

A change is decided against the image, written to the store in one `multi`, prepared by the listener (which makes
room for the data), and only then applied to the image, where clients can see it. If the listener cannot, the store
gets back what it had. Changes run one after the other.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from penstock.base.errors import ErrorCode, Refusal, StorageError
from penstock.base.ids import TopicId, topic_name_problem
from penstock.cluster.metadata import (
    BROKER_CONFIGS,
    PRODUCER_ID_BLOCK,
    PRODUCER_IDS,
    TOPICS,
    MetadataImage,
    PartitionState,
    Topic,
    decode_number,
    encode_configs,
    encode_number,
    group_configs_path,
)
from penstock.core.placement import assign_replicas, check_assignment
from penstock.world import World
from penstock.world.store import Create, Delete, NoNodeError, Operation, Set

DEFAULT = -1

# What becomes of configs; called with those there are when no other change is under way.
ConfigChange: TypeAlias = Callable[[Mapping[str, str]], Mapping[str, str] | Refusal]


class TopicConfigs(Protocol):
    """Whoever knows which configs a topic may have, and which it gets without asking."""

    def at_creation(self, configs: Mapping[str, str]) -> Mapping[str, str]: ...

    def topic_refusal(
        self, configs: Mapping[str, str], before: Mapping[str, str] | None = None
    ) -> Refusal | None: ...

    def reload(self) -> None:
        """The brokers' own configs changed."""
        ...


class TopicListener(Protocol):
    """Whoever keeps the data of topics. A change that raises StorageError has changed nothing."""

    async def topic_created(self, topic: Topic) -> None: ...

    async def topic_changed(self, topic: Topic) -> None: ...

    async def topic_deleted(self, topic: Topic) -> None: ...

    def configs_changed(self) -> None:
        """The brokers' own configs changed, and with them the defaults of every topic."""
        ...


@dataclass(frozen=True)
class NewTopic:
    """A topic to create, as a client asks for it."""

    name: str
    partition_count: int = DEFAULT
    replication_factor: int = DEFAULT
    assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)
    configs: Mapping[str, str] = field(default_factory=dict)


class Controller:
    """Carries out changes of metadata, one at a time."""

    def __init__(
        self,
        world: World,
        image: MetadataImage,
        listener: TopicListener,
        configs: TopicConfigs,
        *,
        default_partition_count: int,
        default_replication_factor: int,
        partition_count_max: int,
    ) -> None:
        self._world = world
        self._image = image
        self._listener = listener
        self._configs = configs
        self._default_partition_count = default_partition_count
        self._default_replication_factor = default_replication_factor
        self._partition_count_max = partition_count_max
        self._one_at_a_time = asyncio.Lock()

    async def create_topic(self, new: NewTopic, *, validate_only: bool = False) -> Topic | Refusal:
        async with self._one_at_a_time:
            topic = self._plan_topic(new)
            if validate_only or isinstance(topic, Refusal):
                return topic
            path = f"{TOPICS}/{topic.name}"
            refusal = await self._carry_out(
                Create(path, topic.encode()),
                prepare=lambda: self._listener.topic_created(topic),
                undo=Delete(path),
            )
            if refusal is not None:
                return refusal
            self._image.apply_topic(topic)
            return topic

    async def _carry_out(
        self, change: Operation, *, prepare: Callable[[], Awaitable[None]], undo: Operation
    ) -> Refusal | None:
        """Write a change to the store and have it prepared; None if that worked, else it is undone."""
        store = self._world.store
        try:
            await store.multi([change])
            try:
                await prepare()
            except StorageError:
                await store.multi([undo])
                raise
        except StorageError as error:
            return Refusal(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
        return None

    def _plan_topic(self, new: NewTopic) -> Topic | Refusal:
        refusal = self._name_refusal(new.name)
        if refusal is not None:
            return refusal
        replicas = self._plan_replicas(new)
        if isinstance(replicas, Refusal):
            return replicas
        refusal = self._configs.topic_refusal(new.configs)
        if refusal is not None:
            return refusal
        topic_id = TopicId(self._world.entropy.random_bytes(16))
        return Topic(
            new.name, topic_id, tuple(map(_new_partition, replicas)), self._configs.at_creation(new.configs)
        )

    def _name_refusal(self, name: str) -> Refusal | None:
        problem = topic_name_problem(name)
        if problem is not None:
            return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
        if self._image.topic(name) is not None:
            return Refusal(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        twin = self._image.namesake(name)
        if twin is not None:
            return Refusal(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"Topic '{name}' collides with existing topic: {twin}",
            )
        return None

    def _plan_replicas(self, new: NewTopic) -> list[tuple[int, ...]] | Refusal:
        brokers = sorted(self._image.brokers)
        if new.assignments:
            if new.partition_count != DEFAULT or new.replication_factor != DEFAULT:
                return Refusal(
                    ErrorCode.INVALID_REQUEST,
                    "both an assignment and a partition count or replication factor were given; give one of them",
                )
            return self._count_refusal(len(new.assignments)) or check_assignment(
                new.assignments, brokers=brokers
            )
        count = self._default_partition_count if new.partition_count == DEFAULT else new.partition_count
        factor = (
            self._default_replication_factor if new.replication_factor == DEFAULT else new.replication_factor
        )
        refusal = self._count_refusal(count)
        if refusal is not None:
            return refusal
        return assign_replicas(brokers=brokers, partition_count=count, replication_factor=factor)

    def _count_refusal(self, added: int) -> Refusal | None:
        total = self._image.partition_count + added
        if total <= self._partition_count_max:
            return None
        return Refusal(
            ErrorCode.POLICY_VIOLATION,
            f"there would be {total} partitions; penstock.partitions.max is {self._partition_count_max}",
        )

    async def delete_topic(self, name: str, topic_id: bytes | None = None) -> Topic | Refusal:
        """Delete the topic of that name; if an id is given, only if it still is the one with that id."""
        async with self._one_at_a_time:
            topic = self._image.topic(name)
            if topic_id is not None and (topic is None or topic.topic_id != topic_id):
                return Refusal(ErrorCode.UNKNOWN_TOPIC_ID, "there is no topic with this id")
            if topic is None:
                return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
            try:
                await self._world.store.multi([Delete(f"{TOPICS}/{name}")])
            except StorageError as error:
                return Refusal(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
            self._image.apply_topic_deleted(name)
            await self._listener.topic_deleted(topic)
            return topic

    async def create_partitions(
        self, name: str, count: int, assignments: Sequence[Sequence[int]] | None, *, validate_only: bool
    ) -> Topic | Refusal:
        """Grow a topic to `count` partitions."""
        async with self._one_at_a_time:
            topic = self._image.topic(name)
            if topic is None:
                return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
            replicas = self._plan_growth(topic, count, assignments)
            if isinstance(replicas, Refusal):
                return replicas
            grown = topic.with_partitions(tuple(map(_new_partition, replicas)))
            refusal = None if validate_only else await self._change_topic(topic, grown)
            return refusal or grown

    def _plan_growth(
        self, topic: Topic, count: int, assignments: Sequence[Sequence[int]] | None
    ) -> list[tuple[int, ...]] | Refusal:
        present = len(topic.partitions)
        if count == present:
            return Refusal(ErrorCode.INVALID_PARTITIONS, f"Topic already has {present} partition(s).")
        if count < present:
            return Refusal(
                ErrorCode.INVALID_PARTITIONS,
                f"The topic {topic.name} currently has {present} partition(s); {count} would not be an increase.",
            )
        refusal = self._count_refusal(count - present)
        if refusal is not None:
            return refusal
        brokers = sorted(self._image.brokers)
        factor = len(topic.partitions[0].replicas)
        if assignments is None:
            return assign_replicas(
                brokers=brokers, partition_count=count - present, replication_factor=factor, start=present
            )
        if len(assignments) != count - present:
            return Refusal(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"{count - present} partition(s) would be added, but {len(assignments)} assignment(s) were given",
            )
        return check_assignment(
            {present + index: replicas for index, replicas in enumerate(assignments)},
            brokers=brokers,
            first=present,
            replication_factor=factor,
        )

    async def begin_new_leader_epochs(self) -> None:
        """After a start that was not clean: what is written now must not pass for what may have been lost."""
        async with self._one_at_a_time:
            changed = [topic.with_new_leader_epochs() for topic in self._image.topics()]
            if not changed:
                return
            await self._world.store.multi(
                [Set(f"{TOPICS}/{topic.name}", topic.encode()) for topic in changed]
            )
            for topic in changed:
                self._image.apply_topic(topic)

    async def alter_topic_configs(
        self, name: str, change: ConfigChange, *, validate_only: bool
    ) -> Topic | Refusal:
        """Replace a topic's configs by what `change` makes of them."""
        async with self._one_at_a_time:
            topic = self._image.topic(name)
            if topic is None:
                return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
            configs = change(topic.configs)
            if isinstance(configs, Refusal):
                return configs
            refusal = self._configs.topic_refusal(configs, before=topic.configs)
            if refusal is not None:
                return refusal
            changed = topic.with_configs(dict(configs))
            if validate_only or changed.configs == topic.configs:
                return changed
            return await self._change_topic(topic, changed) or changed

    async def _change_topic(self, before: Topic, after: Topic) -> Refusal | None:
        path = f"{TOPICS}/{after.name}"
        refusal = await self._carry_out(
            Set(path, after.encode()),
            prepare=lambda: self._listener.topic_changed(after),
            undo=Set(path, before.encode()),
        )
        if refusal is None:
            self._image.apply_topic(after)
        return refusal

    async def alter_broker_configs(
        self, key: str, change: ConfigChange, *, validate_only: bool
    ) -> Refusal | None:
        """Replace the dynamic configs of one broker, or of all (the empty key), by what `change` makes of them."""
        async with self._one_at_a_time:
            configs = change(self._image.broker_configs.get(key, {}))
            if isinstance(configs, Refusal):
                return configs
            return None if validate_only else await self._write_broker_configs(key, configs)

    async def _write_broker_configs(self, key: str, configs: Mapping[str, str]) -> Refusal | None:
        path = f"{BROKER_CONFIGS}/{key or 'default'}"
        data = encode_configs(configs)
        known = key in self._image.broker_configs
        operation: Operation = Set(path, data) if known else Create(path, data)
        try:
            await self._world.store.multi([operation])
        except StorageError as error:
            return Refusal(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
        self._image.apply_broker_configs(key, dict(configs))
        self._configs.reload()
        self._listener.configs_changed()
        return None

    async def alter_group_configs(
        self, group_id: str, change: ConfigChange, *, validate_only: bool
    ) -> Refusal | None:
        """Replace the configs of one group, which need not exist, by what `change` makes of them."""
        async with self._one_at_a_time:
            before = self._image.group_configs.get(group_id, {})
            configs = change(before)
            if isinstance(configs, Refusal):
                return configs
            if validate_only or configs == before:
                return None
            return await self._write_group_configs(group_id, configs)

    async def _write_group_configs(self, group_id: str, configs: Mapping[str, str]) -> Refusal | None:
        path = group_configs_path(group_id)
        known = group_id in self._image.group_configs
        operation: Operation
        if not configs:
            operation = Delete(path)
        else:
            data = encode_configs(configs)
            operation = Set(path, data) if known else Create(path, data)
        try:
            await self._world.store.multi([operation])
        except StorageError as error:
            return Refusal(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
        self._image.apply_group_configs(group_id, dict(configs))
        return None

    async def settle(self) -> None:
        """Return when no change is under way."""
        async with self._one_at_a_time:
            return

    async def allocate_producer_ids(self) -> int:
        """The first id of a block nobody else will get."""
        async with self._one_at_a_time:
            store = self._world.store
            try:
                node = await store.get(PRODUCER_IDS)
            except NoNodeError:
                first = 0
                await store.multi([Create(PRODUCER_IDS, encode_number(PRODUCER_ID_BLOCK))])
            else:
                first = decode_number(node.data)
                after = encode_number(first + PRODUCER_ID_BLOCK)
                await store.multi([Set(PRODUCER_IDS, after, node.version)])
            return first


def _new_partition(replicas: tuple[int, ...]) -> PartitionState:
    return PartitionState(
        leader=replicas[0], leader_epoch=0, replicas=replicas, in_sync=replicas, partition_epoch=0
    )
