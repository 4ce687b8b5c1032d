"""Applies metadata changes to this broker: first to its replicas, then to the metadata image, which clients see."""

import logging
from collections.abc import Callable
from dataclasses import replace

from penstock.base.errors import StorageError
from penstock.base.features import PENSTOCK_VERSION
from penstock.cluster.metadata import NO_LEADER, MetadataImage, Topic
from penstock.cluster.metadata_changes import Change
from penstock.services.configs import Configs
from penstock.services.replicas.replica_manager import ReplicaManager

log = logging.getLogger("penstock.metadata")


class BrokerMetadataPublisher:
    """Applies metadata changes, one after the other."""

    def __init__(
        self, image: MetadataImage, replicas: ReplicaManager, configs: Configs, *, node_id: int
    ) -> None:
        self._image = image
        self._replicas = replicas
        self._configs = configs
        self._node_id = node_id
        self._epoch: int | None = None  # the broker epoch from which on this broker may lead
        self._may_lead = True
        self._unprepared: dict[str, None] = {}  # topics whose replicas could not be opened; retried
        # Called after a change was applied: topics created or changed, brokers changed, features changed.
        self.on_topic: list[Callable[[Topic], None]] = []
        self.on_brokers: list[Callable[[], None]] = []
        self.on_features: list[Callable[[], None]] = []

    def leads_nothing_before(self, epoch: int) -> None:
        """Lead no partition until the controller has processed the registration with this broker epoch: before that
        the metadata describes this broker as it was before its restart.
        """
        self._epoch = epoch
        self._may_lead = self._replicas.is_admitted = False

    def permitted(self, topic: Topic) -> Topic:
        """The topic, without this broker as a leader while it may not lead."""
        if self._may_lead:
            return topic
        return replace(
            topic,
            partitions=tuple(
                state._replace(leader=NO_LEADER) if state.leader == self._node_id else state
                for state in topic.partitions
            ),
        )

    async def apply(self, change: Change) -> None:
        """Apply a change. StorageError if replicas of a topic cannot be opened; everything else is applied then."""
        problem: StorageError | None = None
        await self._apply_deletions(change)
        for topic in change.topics.values():
            try:
                await self._prepare(topic)
            except StorageError as error:
                log.error("topic %s: failed to apply metadata: %s", topic.name, error)
                problem = error
            else:
                self._apply_topic(topic)
        await self._apply_rest(change)
        if problem is not None:
            raise problem

    async def follow(self, change: Change) -> None:
        """Apply a change that is committed already: replicas that cannot be opened now are retried (`try_again`)."""
        await self._apply_deletions(change)
        for topic in change.topics.values():
            await self._prepare_or_retry_later(topic)
            self._apply_topic(topic)
        await self._apply_rest(change)

    @property
    def has_unprepared_topics(self) -> bool:
        """Whether there are topics whose replicas could not be opened yet."""
        return bool(self._unprepared)

    async def try_again(self) -> None:
        """Try again to open the replicas that could not be opened."""
        for name in list(self._unprepared):
            topic = self._image.topic(name)
            if topic is not None:
                await self._prepare_or_retry_later(topic)
                for tell in self.on_topic:
                    tell(topic)

    async def _prepare_or_retry_later(self, topic: Topic) -> None:
        try:
            await self._prepare(topic)
        except StorageError as error:
            log.error("topic %s: failed to apply metadata: %s; retrying", topic.name, error)
            self._unprepared[topic.name] = None
        else:
            self._unprepared.pop(topic.name, None)

    async def _prepare(self, topic: Topic) -> None:
        """Open the topic's new replicas on this broker, and change the others."""
        if self._replicas.holds(topic.name):
            await self._replicas.topic_changed(self.permitted(topic))
        else:
            await self._replicas.topic_created(self.permitted(topic))

    async def _apply_deletions(self, change: Change) -> None:
        for name, deletion in change.deleted.items():
            topic = self._image.topic(name)
            if topic is None or topic.topic_id != deletion.topic_id:
                continue
            self._unprepared.pop(name, None)
            self._image.apply_topic_deleted(name)
            if self._replicas.holds(name):
                await self._replicas.topic_deleted(topic, is_recorded=deletion.is_recorded)

    def _apply_topic(self, topic: Topic) -> None:
        self._image.apply_topic(topic)
        for tell in self.on_topic:
            tell(topic)

    async def _apply_rest(self, change: Change) -> None:
        if change.features is not None:
            # Before the image: data in a format of the new level must not be written under the old data version.
            await self._replicas.checkpoints.set_data_version(change.features.level(PENSTOCK_VERSION))
            self._image.apply_features(change.features)
            levels = sorted(change.features.levels.items())
            log.info(
                "finalized features, epoch %d: %s",
                change.features.epoch,
                ", ".join(f"{name} {level}" for name, level in levels),
            )
            for tell in self.on_features:
                tell()
        for broker in change.brokers.values():
            self._image.apply_broker(broker)
        if change.brokers:
            await self._begin_to_lead()
            for tell in self.on_brokers:
                tell()
        self._apply_configs(change)

    async def _begin_to_lead(self) -> None:
        own = self._image.brokers.get(self._node_id)
        if self._may_lead or own is None or own.fenced or self._epoch is None or own.epoch < self._epoch:
            return
        self._may_lead = self._replicas.is_admitted = True
        for topic in self._image.topics():
            if any(state.leader == self._node_id for state in topic.partitions):
                await self._prepare_or_retry_later(topic)
                for tell in self.on_topic:
                    tell(topic)

    def _apply_configs(self, change: Change) -> None:
        for group_id, configs in change.group_configs.items():
            self._image.apply_group_configs(group_id, configs)
        for key, configs in change.broker_configs.items():
            self._image.apply_broker_configs(key, configs)
        if change.broker_configs:
            self._configs.reload()
            self._replicas.configs_changed()
