"""The controller: the only writer of cluster metadata.

A change is decided against the image, written to the store in one `multi`, made true by the metadata publisher (which
makes room for the data), and only then in the image, where clients can see it. If that fails on this broker, the change
is taken back. Changes run one after the other. A broker that is not the controller has one of these too, which refuses
before it decides anything: its image may be behind, and what it says of that would be no reason to give up.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeAlias

from penstock.base.errors import ErrorCode, Refusal, StorageError
from penstock.base.ids import ZERO_ID, TopicId, TopicPartition, topic_name_problem
from penstock.cluster.changes import Change
from penstock.cluster.deletions import surplus
from penstock.cluster.features import Features, FeatureUpdate, updated
from penstock.cluster.metadata import (
    BROKERS,
    DELETIONS,
    NO_LEADER,
    PRODUCER_ID_BLOCK,
    PRODUCER_IDS,
    BrokerRegistration,
    MetadataImage,
    PartitionState,
    Topic,
    decode_number,
    encode_number,
)
from penstock.cluster.new_topic import DEFAULT, TopicSpec
from penstock.controller.metadata_writer import MetadataWriter, NotControllerError
from penstock.controller.rules.isr import judge_proposals
from penstock.controller.rules.leader_election import without_needless
from penstock.controller.rules.placement import assign_replicas, check_assignment
from penstock.controller.rules.reassignment import PartitionDecisions, RequestedReplicas, elections, exchanges
from penstock.core.isr_proposals import Proposals, Verdicts
from penstock.world import World
from penstock.world.store import BadVersionError, Check, Create, Delete, NoNodeError, Set, StoreError

log = logging.getLogger("penstock.controller")

_TRIMMED_AT_A_TIME = 1_000
NOT_CONTROLLER = Refusal(
    ErrorCode.NOT_CONTROLLER,
    "this broker is not the controller, and the one that is cannot be asked now; try again",
)

# What becomes of configs; called with those there are when no other change is under way.
ConfigChange: TypeAlias = Callable[[Mapping[str, str]], Mapping[str, str] | Refusal]


class TopicConfigs(Protocol):
    """Whoever knows which configs a topic may have, and which it gets without asking."""

    def at_creation(self, configs: Mapping[str, str]) -> Mapping[str, str]: ...

    def topic_refusal(
        self, configs: Mapping[str, str], before: Mapping[str, str] | None = None
    ) -> Refusal | None: ...

    def min_isr(self, topic: Topic) -> int: ...


class Controller:
    """Carries out changes of metadata, one at a time."""

    def __init__(
        self,
        world: World,
        image: MetadataImage,
        configs: TopicConfigs,
        *,
        default_partition_count: int,
        default_replication_factor: int,
        partition_count_max: int,
    ) -> None:
        self._world = world
        self._image = image
        self._configs = configs
        self._default_partition_count = default_partition_count
        self._default_replication_factor = default_replication_factor
        self._partition_count_max = partition_count_max
        self._one_at_a_time = asyncio.Lock()
        self._writer: MetadataWriter | None = None
        self.on_active: Callable[[], None] | None = None  # told when this broker has become the controller

    # Being the controller, or not.

    @property
    def is_active(self) -> bool:
        return self._writer is not None and not self._writer.is_deposed

    def activate(self, writer: MetadataWriter) -> None:
        """This broker has been elected, and its image holds all that was written before."""
        self._writer = writer
        if self.on_active is not None:
            self.on_active()

    def resign(self) -> None:
        if self._writer is not None:
            self._writer.is_deposed = True
        self._writer = None

    async def decide(
        self, decide: Callable[[], Change], *, checks: Callable[[], tuple[Check, ...]] = tuple
    ) -> Refusal | None:
        """Carry out what `decide` makes of the image, when no other change is under way."""
        async with self._one_at_a_time:
            change = decide()
            return None if change.is_empty else await self._publish(change, checks=checks())

    async def _publish(
        self, change: Change, *, undo: Change | None = None, checks: tuple[Check, ...] = ()
    ) -> Refusal | None:
        """Make a change; None if that worked. If it cannot be made true here, `undo` takes it back."""
        writer = self._writer
        if writer is None or writer.is_deposed:  # since it was decided
            return NOT_CONTROLLER
        try:
            try:
                await writer.publish(change, checks=checks)
            except StorageError:
                if undo is not None:
                    await writer.publish_elsewhere(undo)
                raise
        except StorageError as error:
            return Refusal(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
        except NotControllerError as error:
            return Refusal(ErrorCode.NOT_CONTROLLER, str(error))
        except StoreError as error:
            return Refusal(ErrorCode.INVALID_UPDATE_VERSION, f"the metadata store refused: {error!r}")
        return None

    async def create_topic(self, new: TopicSpec, *, validate_only: bool = False) -> Topic | Refusal:
        async with self._one_at_a_time:
            if not self.is_active:
                return NOT_CONTROLLER
            topic = self._plan_topic(new)
            if validate_only or isinstance(topic, Refusal):
                return topic
            change = Change(topics={topic.name: topic})
            undo = Change(deleted={topic.name: self._image.deletions.next(topic.topic_id)})
            return await self._publish(change, undo=undo) or topic

    def _plan_topic(self, new: TopicSpec) -> Topic | Refusal:
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
            new.name, topic_id, self._new_partitions(replicas), self._configs.at_creation(new.configs)
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

    def _plan_replicas(self, new: TopicSpec) -> list[tuple[int, ...]] | Refusal:
        brokers = self._image.alive()
        if new.assignments:
            if new.partition_count != DEFAULT or new.replication_factor != DEFAULT:
                return Refusal(
                    ErrorCode.INVALID_REQUEST,
                    "both an assignment and a partition count or replication factor were given; give one of them",
                )
            added = sum(map(len, new.assignments.values()))
            return self._count_refusal(added) or check_assignment(new.assignments, brokers=brokers)
        count = self._default_partition_count if new.partition_count == DEFAULT else new.partition_count
        factor = (
            self._default_replication_factor if new.replication_factor == DEFAULT else new.replication_factor
        )
        # A factor that cannot be is refused as such, and counts for no more than can be.
        refusal = self._count_refusal(count * min(max(1, factor), max(1, len(self._image.brokers))))
        if refusal is not None:
            return refusal
        return assign_replicas(
            brokers=self._takers(factor),
            partition_count=count,
            replication_factor=factor,
            racks=self._racks(),
        )

    def _takers(self, factor: int) -> list[int]:
        """Who gets new replicas: those that are being drained only if there are too few others, and those that are
        away only if there are too few at all. They copy what there is when they come back.
        """
        for found in (self._image.takers(), self._image.alive()):
            if len(found) >= factor:
                return found
        return sorted(self._image.brokers)

    def _new_partitions(self, assigned: Sequence[tuple[int, ...]]) -> tuple[PartitionState, ...]:
        alive = frozenset(self._image.alive())
        return tuple(_new_partition(replicas, alive) for replicas in assigned)

    def _racks(self) -> dict[int, str | None]:
        return {node_id: broker.rack for node_id, broker in self._image.brokers.items()}

    def _count_refusal(self, added: int) -> Refusal | None:
        """Why so many more replicas cannot be. Each broker has the limit; they are spread evenly, by and large."""
        total, brokers = self._image.replica_count + added, max(1, len(self._image.brokers))
        if total <= self._partition_count_max * brokers:
            return None
        return Refusal(
            ErrorCode.POLICY_VIOLATION,
            f"{brokers} broker{'s' if brokers > 1 else ''} would hold {total} partitions, replicas included; "
            f"penstock.partitions.max is {self._partition_count_max} for each. Delete topics, or set it higher",
        )

    async def delete_topic(self, name: str | None, topic_id: bytes = ZERO_ID) -> Topic | Refusal:
        """Delete the topic of that name, or, without one, the topic of that id."""
        async with self._one_at_a_time:
            if not self.is_active:
                return NOT_CONTROLLER
            topic = self._image.topic_by_id(topic_id) if name is None else self._image.topic(name)
            if topic is not None:
                deletion = self._image.deletions.next(topic.topic_id)
                refusal = await self._publish(Change(deleted={topic.name: deletion}))
                if deletion.is_time_to_trim:
                    await self._trim_deletions()
                return refusal or topic
            if name is None:
                return Refusal(ErrorCode.UNKNOWN_TOPIC_ID, "there is no topic with this id")
            return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")

    async def _trim_deletions(self) -> None:
        """Keep no more records of deletions than are promised. Nothing depends on it."""
        if self._writer is None:
            return
        try:
            nodes = surplus(await self._world.store.children(DELETIONS))
            for begin in range(0, len(nodes), _TRIMMED_AT_A_TIME):
                some = nodes[begin : begin + _TRIMMED_AT_A_TIME]
                await self._writer.write([Delete(f"{DELETIONS}/{node}") for node in some])
        except (NotControllerError, StorageError, StoreError) as error:
            log.warning(
                "cannot remove old topic deletion records from the metadata: %s; retrying with the next deletion",
                error,
            )

    async def create_partitions(
        self, name: str, count: int, assignments: Sequence[Sequence[int]] | None, *, validate_only: bool
    ) -> Topic | Refusal:
        """Grow a topic to `count` partitions."""
        async with self._one_at_a_time:
            if not self.is_active:
                return NOT_CONTROLLER
            topic = self._image.topic(name)
            if topic is None:
                return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
            replicas = self._plan_growth(topic, count, assignments)
            if isinstance(replicas, Refusal):
                return replicas
            grown = topic.with_partitions(self._new_partitions(replicas))
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
        factor = len(topic.partitions[0].replicas)
        refusal = self._count_refusal((count - present) * factor)
        if refusal is not None:
            return refusal
        brokers = self._image.alive()
        if assignments is None:
            return assign_replicas(
                brokers=self._takers(factor),
                partition_count=count - present,
                replication_factor=factor,
                start=present,
                racks=self._racks(),
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
        """After a start that was not clean: what is written now must not pass for what may have been lost.

        For a broker that is alone, before its partitions are opened.
        """
        assert self._writer is not None
        change = Change(topics={topic.name: topic.with_new_leader_epochs() for topic in self._image.topics()})
        if change.is_empty:
            return
        await self._writer.write(change.operations(self._image))
        for topic in change.topics.values():
            self._image.apply_topic(topic)

    async def alter_topic_configs(
        self, name: str, change: ConfigChange, *, validate_only: bool
    ) -> Topic | Refusal:
        """Replace a topic's configs by what `change` makes of them."""
        async with self._one_at_a_time:
            if not self.is_active:
                return NOT_CONTROLLER
            topic = self._image.topic(name)
            if topic is None:
                return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
            configs = change(topic.configs)
            if isinstance(configs, Refusal):
                return configs
            refusal = self._configs.topic_refusal(configs, before=topic.configs)
            if refusal is not None:
                return refusal
            changed = self._without_needless_eligible(topic.with_configs(dict(configs)))
            if validate_only or changed.configs == topic.configs:
                return changed
            return await self._change_topic(topic, changed) or changed

    async def _change_topic(self, before: Topic, after: Topic) -> Refusal | None:
        return await self._publish(
            Change(topics={after.name: after}), undo=Change(topics={before.name: before})
        )

    async def alter_broker_configs(
        self, key: str, change: ConfigChange, *, validate_only: bool
    ) -> Refusal | None:
        """Replace the dynamic configs of one broker, or of all (the empty key), by what `change` makes of them."""
        async with self._one_at_a_time:
            if not self.is_active:
                return NOT_CONTROLLER
            configs = change(self._image.broker_configs.get(key, {}))
            if isinstance(configs, Refusal):
                return configs
            if validate_only:
                return None
            refusal = await self._publish(Change(broker_configs={key: dict(configs)}))
        if refusal is None:
            await self.clear_needless_eligible()
        return refusal

    async def clear_needless_eligible(self) -> None:
        """Brokers' configs, which are topics' defaults, may ask for fewer in-sync replicas than they did, and a leader
        commits nothing while anybody is eligible.
        """

        def decide() -> Change:
            topics = ((topic, self._without_needless_eligible(topic)) for topic in self._image.topics())
            return Change(topics={after.name: after for before, after in topics if after is not before})

        await self.decide(decide)

    def _without_needless_eligible(self, topic: Topic) -> Topic:
        if not any(state.elr for state in topic.partitions):
            return topic
        least = self._configs.min_isr(topic)
        partitions = tuple(without_needless(state, min_isr=least) for state in topic.partitions)
        return topic if partitions == topic.partitions else replace(topic, partitions=partitions)

    async def alter_group_configs(
        self, group_id: str, change: ConfigChange, *, validate_only: bool
    ) -> Refusal | None:
        """Replace the configs of one group, which need not exist, by what `change` makes of them."""
        async with self._one_at_a_time:
            if not self.is_active:
                return NOT_CONTROLLER
            before = self._image.group_configs.get(group_id, {})
            configs = change(before)
            if isinstance(configs, Refusal):
                return configs
            if validate_only or configs == before:
                return None
            return await self._publish(Change(group_configs={group_id: dict(configs)}))

    async def update_features(
        self, updates: Mapping[str, FeatureUpdate], *, validate_only: bool
    ) -> Features | Refusal:
        """Raise or lower levels, all of them or none; what is finalised then."""
        async with self._one_at_a_time:
            if not self.is_active:
                return NOT_CONTROLLER
            brokers = {node_id: broker.features for node_id, broker in self._image.brokers.items()}
            features = updated(self._image.features, updates, brokers)
            if isinstance(features, Refusal) or validate_only or features == self._image.features:
                return features
            refusal = await self._publish(Change(features=features))
            if refusal is not None and refusal.code is not ErrorCode.NOT_CONTROLLER:
                return Refusal(ErrorCode.FEATURE_UPDATE_FAILED, refusal.message)
            return refusal or features

    async def alter_partitions(
        self, leader: int, proposals: Proposals, *, broker_epoch: int
    ) -> Verdicts | Refusal:
        """Judge the ISRs that a leader proposes, and write those that are accepted."""
        async with self._one_at_a_time:
            if not self.is_active:
                return NOT_CONTROLLER
            broker = self._image.brokers.get(leader)
            if broker is None or broker.epoch != broker_epoch:
                return Refusal(ErrorCode.STALE_BROKER_EPOCH, f"broker {leader} has registered again")
            change, verdicts, joining = judge_proposals(
                self._image, leader, proposals, min_isr=self._configs.min_isr
            )
            if change.is_empty:
                return verdicts
            return await self._publish_of(change, joining) or verdicts

    async def appoint(self, decide: Callable[[], tuple[Change, set[int]]]) -> Refusal | None:
        """Carry out what `decide` makes of the image, if those whom it names are still in the lives they were in."""
        async with self._one_at_a_time:
            change, appointed = decide()
            return None if change.is_empty else await self._publish_of(change, appointed)

    async def _publish_of(self, change: Change, brokers: set[int]) -> Refusal | None:
        """Make a change that depends on brokers' having begun no other life."""
        try:
            checks = tuple([await self._check_unchanged(node_id) for node_id in sorted(brokers)])
        except StoreError as error:
            return Refusal(ErrorCode.NOT_CONTROLLER, f"the metadata store cannot be asked: {error!r}")
        return await self._publish(change, checks=checks)

    async def elect_leaders(
        self, partitions: Sequence[TopicPartition] | None, *, unclean: bool
    ) -> dict[TopicPartition, Refusal] | Refusal:
        """What came of each election; NONE for those that have another leader now."""
        return await self._move(lambda: elections(self._image, partitions, unclean=unclean))

    async def exchange_replicas(
        self, asked_for: Sequence[RequestedReplicas], *, keeps_factor: bool
    ) -> dict[TopicPartition, Refusal] | Refusal:
        """What came of each exchange; NONE for those that have begun."""
        return await self._move(lambda: exchanges(self._image, asked_for, keeps_factor=keeps_factor))

    async def _move(
        self, decide: Callable[[], PartitionDecisions]
    ) -> dict[TopicPartition, Refusal] | Refusal:
        async with self._one_at_a_time:
            if not self.is_active:
                return NOT_CONTROLLER
            moves = decide()
            refusal = None if moves.change.is_empty else await self._publish(moves.change)
            if refusal is None:
                return moves.outcomes
            return {
                where: refusal if outcome.code is ErrorCode.NONE else outcome
                for where, outcome in moves.outcomes.items()
            }

    async def _check_unchanged(self, node_id: int) -> Check:
        """That a broker has not begun another life since the image heard of it."""
        path = f"{BROKERS}/{node_id}"
        node = await self._world.store.get(path)
        if BrokerRegistration.decode(node.data) != self._image.brokers.get(node_id):
            raise BadVersionError(f"broker {node_id} has registered again")
        return Check(path, node.version)

    async def settle(self) -> None:
        """Return when no change is under way."""
        async with self._one_at_a_time:
            return

    async def allocate_producer_ids(self) -> int | Refusal:
        """The first id of a block nobody else will get."""
        async with self._one_at_a_time:
            writer = self._writer
            if writer is None or writer.is_deposed:
                return NOT_CONTROLLER
            try:
                return await self._next_producer_ids(writer)
            except NotControllerError as error:
                return Refusal(ErrorCode.NOT_CONTROLLER, str(error))
            except (StorageError, StoreError) as error:
                return Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"no producer ids can be had: {error}")

    async def _next_producer_ids(self, writer: MetadataWriter) -> int:
        try:
            node = await self._world.store.get(PRODUCER_IDS)
        except NoNodeError:
            await writer.write([Create(PRODUCER_IDS, encode_number(PRODUCER_ID_BLOCK))])
            return 0
        first = decode_number(node.data)
        await writer.write([Set(PRODUCER_IDS, encode_number(first + PRODUCER_ID_BLOCK), node.version)])
        return first


def _new_partition(replicas: tuple[int, ...], alive: frozenset[int]) -> PartitionState:
    """Those that are alive first: they are in sync, and one of them leads. If all are away, the first to come does:
    there is nothing yet that it could miss.
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
