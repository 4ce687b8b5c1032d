"""Which partitions and replicas a new topic gets, and which ones CreatePartitions adds. Pure."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from penstock.base.errors import ErrorCode, Refusal
from penstock.base.ids import TopicId, topic_name_problem
from penstock.cluster.metadata import NO_LEADER, MetadataImage, PartitionState, Topic
from penstock.cluster.topic_spec import DEFAULT, TopicSpec
from penstock.controller.rules.placement import assign_replicas, check_assignment


class TopicConfigs(Protocol):
    """The configs that a topic may have, and those that every new topic gets."""

    def at_creation(self, configs: Mapping[str, str]) -> Mapping[str, str]: ...

    def topic_refusal(
        self, configs: Mapping[str, str], before: Mapping[str, str] | None = None
    ) -> Refusal | None: ...

    def min_isr(self, topic: Topic) -> int: ...


class TopicPlanner:
    """Plans new topics and new partitions from the brokers and topics in the image."""

    def __init__(
        self,
        image: MetadataImage,
        configs: TopicConfigs,
        *,
        default_partition_count: int,
        default_replication_factor: int,
        partition_count_max: int,
    ) -> None:
        self._image = image
        self._configs = configs
        self._default_partition_count = default_partition_count
        self._default_replication_factor = default_replication_factor
        self._partition_count_max = partition_count_max

    def plan_topic(self, new: TopicSpec, new_topic_id: Callable[[], TopicId]) -> Topic | Refusal:
        """The topic that CreateTopics asks for, or why it cannot be created."""
        refusal = self._name_refusal(new.name)
        if refusal is not None:
            return refusal
        replicas = self._plan_replicas(new)
        if isinstance(replicas, Refusal):
            return replicas
        refusal = self._configs.topic_refusal(new.configs)
        if refusal is not None:
            return refusal
        configs = self._configs.at_creation(new.configs)
        return Topic(new.name, new_topic_id(), self._new_partitions(replicas), configs)

    def plan_growth(
        self, topic: Topic, count: int, assignments: Sequence[Sequence[int]] | None
    ) -> Topic | Refusal:
        """The topic with `count` partitions, or why it cannot have that many."""
        replicas = self._plan_added_replicas(topic, count, assignments)
        if isinstance(replicas, Refusal):
            return replicas
        return topic.with_partitions(self._new_partitions(replicas))

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

    def _plan_replicas(self, new: TopicSpec) -> list[tuple[int, ...]] | Refusal:
        if new.assignments:
            if new.partition_count != DEFAULT or new.replication_factor != DEFAULT:
                return Refusal(
                    ErrorCode.INVALID_REQUEST,
                    "both an assignment and a partition count or replication factor were given; give one of them",
                )
            added = sum(map(len, new.assignments.values()))
            return self._limit_refusal(added) or check_assignment(
                new.assignments, brokers=self._image.alive()
            )
        count = self._default_partition_count if new.partition_count == DEFAULT else new.partition_count
        factor = (
            self._default_replication_factor if new.replication_factor == DEFAULT else new.replication_factor
        )
        # `assign_replicas` rejects an impossible factor; here it counts as the nearest possible one.
        refusal = self._limit_refusal(count * min(max(1, factor), max(1, len(self._image.brokers))))
        if refusal is not None:
            return refusal
        return self._assign(partition_count=count, replication_factor=factor)

    def _plan_added_replicas(
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
        factor = len(topic.partitions[0].replicas)
        refusal = self._limit_refusal((count - present) * factor)
        if refusal is not None:
            return refusal
        if assignments is None:
            return self._assign(partition_count=count - present, replication_factor=factor, start=present)
        if len(assignments) != count - present:
            return Refusal(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"{count - present} partition(s) would be added, but {len(assignments)} assignment(s) were given",
            )
        return check_assignment(
            {present + index: replicas for index, replicas in enumerate(assignments)},
            brokers=self._image.alive(),
            first=present,
            replication_factor=factor,
        )

    def _assign(
        self, *, partition_count: int, replication_factor: int, start: int = 0
    ) -> list[tuple[int, ...]] | Refusal:
        return assign_replicas(
            brokers=self._brokers_for(replication_factor),
            partition_count=partition_count,
            replication_factor=replication_factor,
            start=start,
            racks={node_id: broker.rack for node_id, broker in self._image.brokers.items()},
        )

    def _brokers_for(self, replication_factor: int) -> list[int]:
        """The brokers that may get new replicas: those being drained only if the others are too few, and fenced ones
        only if all that are alive are too few. A fenced broker copies its replicas when it is back.
        """
        for found in (self._image.assignable(), self._image.alive()):
            if len(found) >= replication_factor:
                return found
        return sorted(self._image.brokers)

    def _new_partitions(self, assigned: Sequence[tuple[int, ...]]) -> tuple[PartitionState, ...]:
        alive = frozenset(self._image.alive())
        return tuple(new_partition(replicas, alive) for replicas in assigned)

    def _limit_refusal(self, added: int) -> Refusal | None:
        """Why the cluster cannot hold `added` more replicas. `penstock.partitions.max` is per broker, but replicas are
        spread evenly enough to check the sum.
        """
        total, brokers = self._image.replica_count + added, max(1, len(self._image.brokers))
        if total <= self._partition_count_max * brokers:
            return None
        return Refusal(
            ErrorCode.POLICY_VIOLATION,
            f"{brokers} broker{'s' if brokers > 1 else ''} would hold {total} partitions, replicas included; "
            f"penstock.partitions.max is {self._partition_count_max} for each. Delete topics, or set it higher",
        )


def new_partition(replicas: tuple[int, ...], alive: frozenset[int]) -> PartitionState:
    """A partition without records. Replicas on brokers that are alive come first: they are the ISR, and the first of
    them leads. If none is alive, all are in the ELR, and the first broker to return leads: it cannot lack a record yet.
    """
    isr = tuple(node_id for node_id in replicas if node_id in alive)
    away = tuple(node_id for node_id in replicas if node_id not in alive)
    return PartitionState(
        leader=isr[0] if isr else NO_LEADER,
        leader_epoch=0,
        replicas=(*isr, *away),
        isr=isr,
        partition_epoch=0,
        elr=() if isr else away,
    )
