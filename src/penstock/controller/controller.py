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
from typing import TypeAlias

from penstock.base.errors import ErrorCode, Refusal, StorageError
from penstock.base.ids import ZERO_ID, TopicId, TopicPartition
from penstock.cluster.changes import Change
from penstock.cluster.deletions import surplus
from penstock.cluster.features import Features, FeatureUpdate, updated
from penstock.cluster.metadata import (
    BROKERS,
    DELETIONS,
    PRODUCER_ID_BLOCK,
    PRODUCER_IDS,
    BrokerRegistration,
    MetadataImage,
    Topic,
    decode_number,
    encode_number,
)
from penstock.cluster.new_topic import TopicSpec
from penstock.controller.metadata_writer import MetadataWriter, NotControllerError
from penstock.controller.rules.admin_requests import (
    PartitionDecisions,
    RequestedReplicas,
    decide_elections,
    decide_reassignments,
)
from penstock.controller.rules.isr import judge_proposals
from penstock.controller.rules.leader_election import clear_needless_elr
from penstock.controller.rules.new_topics import TopicConfigs, TopicPlanner
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
        self._planner = TopicPlanner(
            image,
            configs,
            default_partition_count=default_partition_count,
            default_replication_factor=default_replication_factor,
            partition_count_max=partition_count_max,
        )
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
            topic = self._planner.plan_topic(new, self._new_topic_id)
            if validate_only or isinstance(topic, Refusal):
                return topic
            change = Change(topics={topic.name: topic})
            undo = Change(deleted={topic.name: self._image.deletions.next(topic.topic_id)})
            return await self._publish(change, undo=undo) or topic

    def _new_topic_id(self) -> TopicId:
        return TopicId(self._world.entropy.random_bytes(16))

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
            grown = self._planner.plan_growth(topic, count, assignments)
            if validate_only or isinstance(grown, Refusal):
                return grown
            return await self._change_topic(topic, grown) or grown

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
            changed = self._with_needless_elr_cleared(topic.with_configs(dict(configs)))
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
            await self.clear_needless_elrs()
        return refusal

    async def clear_needless_elrs(self) -> None:
        """Brokers' configs, which are topics' defaults, may ask for fewer in-sync replicas than they did, and a leader
        commits nothing while anybody is eligible.
        """

        def decide() -> Change:
            topics = ((topic, self._with_needless_elr_cleared(topic)) for topic in self._image.topics())
            return Change(topics={after.name: after for before, after in topics if after is not before})

        await self.decide(decide)

    def _with_needless_elr_cleared(self, topic: Topic) -> Topic:
        if not any(state.elr for state in topic.partitions):
            return topic
        least = self._configs.min_isr(topic)
        partitions = tuple(clear_needless_elr(state, min_isr=least) for state in topic.partitions)
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

    async def elect_majority_leaders(self, decide: Callable[[], tuple[Change, set[int]]]) -> Refusal | None:
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
        """Elect preferred or `unclean` leaders; the outcome of each, NONE for those that have another leader now."""
        return await self._move(lambda: decide_elections(self._image, partitions, unclean=unclean))

    async def reassign_replicas(
        self, asked_for: Sequence[RequestedReplicas], *, keeps_factor: bool
    ) -> dict[TopicPartition, Refusal] | Refusal:
        """Begin, change or cancel reassignments; the outcome of each, NONE for those that have begun."""
        return await self._move(
            lambda: decide_reassignments(self._image, asked_for, keeps_factor=keeps_factor)
        )

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
