"""The controller: the only writer of cluster metadata.

A change is decided against the image (`rules`), written to the store in one `multi` (`metadata_writer`), applied by the
metadata publisher, which creates the replicas' directories, and only then put into the image, where clients can see it.
If that fails on a broker that is alone, the change is taken back. Changes run one after the other. A broker that is not
the controller has a `Controller` too: it answers NOT_CONTROLLER before it decides anything, since its image may be old.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from penstock.base.errors import ErrorCode, Refusal, StorageError
from penstock.base.ids import ZERO_ID, TopicId, TopicPartition
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
from penstock.cluster.metadata_changes import Change
from penstock.cluster.topic_deletions import surplus
from penstock.cluster.topic_spec import TopicSpec
from penstock.controller.controller_fencing import NotControllerError
from penstock.controller.metadata_writer import MetadataWriter
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

# Returns the new configs; called with the present ones while no other change runs.
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
        self.on_active: Callable[[], None] | None = None  # called when this broker has become the controller

    # Elected and deposed.

    @property
    def is_active(self) -> bool:
        return self._writer is not None and not self._writer.is_deposed

    def activate(self, writer: MetadataWriter) -> None:
        """Act as the controller: this broker has been elected, and its image holds all that was written before."""
        self._writer = writer
        if self.on_active is not None:
            self.on_active()

    def resign(self) -> None:
        """Stop acting as the controller: another one is elected, or this broker's session is over."""
        if self._writer is not None:
            self._writer.depose()
        self._writer = None

    async def decide(
        self, decide: Callable[[], Change], *, checks: Callable[[], tuple[Check, ...]] = tuple
    ) -> Refusal | None:
        """Write the change that `decide` returns; it is called while no other change runs."""
        async with self._one_at_a_time:
            change = decide()
            return None if change.is_empty else await self._publish(change, checks=checks())

    async def _publish(
        self, change: Change, *, undo: Change | None = None, checks: tuple[Check, ...] = ()
    ) -> Refusal | None:
        """Write and apply a change; None if that worked. If it cannot be applied here, `undo` takes it back."""
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
        """Delete the oldest deletion records beyond the number that is kept."""
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
        """Raise all leader epochs after an unclean shutdown, so that new records cannot pass for lost ones.

        For a broker that is alone, before its replicas are opened.
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
        """Replace a topic's configs by those that `change` returns."""
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
        """Replace the dynamic configs of one broker, or of all (the empty key), by those that `change` returns."""
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
        """Clear the ELRs of partitions whose ISR is large enough: a lower `min.insync.replicas` of the brokers is the
        topics' default, and a leader's high watermark does not move while its ELR has members.
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
        """Replace the configs of one group, which need not exist, by those that `change` returns."""
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
        """Finalise other feature levels, all of them or none; returns all finalised levels."""
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
            return await self._publish_if_registered(change, joining) or verdicts

    async def elect_majority_leaders(self, decide: Callable[[], tuple[Change, set[int]]]) -> Refusal | None:
        """Write the elections that `decide` returns, unless one of the elected brokers has registered again."""
        async with self._one_at_a_time:
            change, elected = decide()
            return None if change.is_empty else await self._publish_if_registered(change, elected)

    async def _publish_if_registered(self, change: Change, brokers: set[int]) -> Refusal | None:
        """Write a change, unless one of the brokers has registered again meanwhile."""
        try:
            checks = tuple([await self._registration_check(node_id) for node_id in sorted(brokers)])
        except StoreError as error:
            return Refusal(ErrorCode.NOT_CONTROLLER, f"the metadata store cannot be asked: {error!r}")
        return await self._publish(change, checks=checks)

    async def elect_leaders(
        self, partitions: Sequence[TopicPartition] | None, *, unclean: bool
    ) -> dict[TopicPartition, Refusal] | Refusal:
        """Elect preferred or `unclean` leaders; the outcome of each, NONE for those that have another leader now."""
        return await self._decide_partitions(
            lambda: decide_elections(self._image, partitions, unclean=unclean)
        )

    async def reassign_replicas(
        self, asked_for: Sequence[RequestedReplicas], *, keeps_factor: bool
    ) -> dict[TopicPartition, Refusal] | Refusal:
        """Begin, change or cancel reassignments; the outcome of each, NONE for those that have begun."""
        return await self._decide_partitions(
            lambda: decide_reassignments(self._image, asked_for, keeps_factor=keeps_factor)
        )

    async def _decide_partitions(
        self, decide: Callable[[], PartitionDecisions]
    ) -> dict[TopicPartition, Refusal] | Refusal:
        async with self._one_at_a_time:
            if not self.is_active:
                return NOT_CONTROLLER
            decisions = decide()
            refusal = None if decisions.change.is_empty else await self._publish(decisions.change)
            if refusal is None:
                return decisions.outcomes
            return {
                where: refusal if outcome.code is ErrorCode.NONE else outcome
                for where, outcome in decisions.outcomes.items()
            }

    async def _registration_check(self, node_id: int) -> Check:
        """A check that a broker has not registered again since the image was updated."""
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
        """The first producer id of a new block."""
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
