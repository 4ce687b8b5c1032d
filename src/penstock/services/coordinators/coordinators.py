"""The coordinators of a broker: the groups' and the transactions', with the broker's settings in their own words."""

import asyncio

from penstock.base.coordinator_settings import (
    GROUP_CONSUMER_ASSIGNORS,
    GROUP_CONSUMER_MAX_SIZE,
    GROUP_CONSUMER_MIGRATION_POLICY,
    GROUP_COORDINATOR_APPEND_LINGER_MS,
    GROUP_INITIAL_REBALANCE_DELAY_MS,
    GROUP_MAX_SESSION_TIMEOUT_MS,
    GROUP_MAX_SIZE,
    GROUP_MIN_SESSION_TIMEOUT_MS,
    OFFSET_METADATA_MAX_BYTES,
    OFFSETS_RETENTION_CHECK_INTERVAL_MS,
    OFFSETS_RETENTION_MINUTES,
    PENSTOCK_GROUP_HEARTBEAT_WAIT_MS,
    TRANSACTION_MAX_TIMEOUT_MS,
    TRANSACTION_TWO_PHASE_COMMIT_ENABLE,
    TRANSACTIONAL_ID_EXPIRATION_MS,
)
from penstock.base.features import TRANSACTION_VERSION
from penstock.base.group_settings import (
    CONSUMER_ASSIGNMENT_INTERVAL_MS,
    CONSUMER_HEARTBEAT_INTERVAL_MS,
    CONSUMER_SESSION_TIMEOUT_MS,
)
from penstock.base.ids import CONSUMER_OFFSETS, TRANSACTION_STATE, ZERO_ID
from penstock.base.settings import MINUTE_MS, Settings
from penstock.cluster.metadata import MetadataImage, Topic
from penstock.core.groups.consumer import consumer_groups
from penstock.core.groups.consumer_settings import ConsumerGroupSettings, GroupTimes, MigrationPolicy
from penstock.core.groups.settings import GroupSettings
from penstock.core.groups.shard import GroupShard
from penstock.core.transactions.settings import TransactionSettings
from penstock.core.transactions.shard import TransactionShard
from penstock.records.internal.group_records import GROUP_RECORDS
from penstock.records.internal.transaction_records import transaction_records
from penstock.services.configs import Configs
from penstock.services.coordinators.coordinator import Coordinator
from penstock.services.coordinators.internal_topics import TopicCreator, consumer_offsets, transaction_state
from penstock.services.coordinators.known_topics import ImageTopics
from penstock.services.coordinators.loaded_shard import LoadedShard
from penstock.services.replicas.replica_manager import ReplicaManager
from penstock.world import World


class Coordinators:
    """Both kinds. `groups.ask` and `transactions.ask` are what handlers need."""

    def __init__(
        self,
        world: World,
        image: MetadataImage,
        creator: TopicCreator,
        replicas: ReplicaManager,
        configs: Configs,
    ) -> None:
        self._image = image
        self._configs = configs
        self._topics = ImageTopics(image)
        settings = configs.broker
        self.groups: Coordinator[GroupShard] = Coordinator(
            world,
            image,
            creator,
            replicas,
            configs,
            topic=consumer_offsets(settings),
            record_format=GROUP_RECORDS,
            new_shard=self._new_group_shard,
            linger_ms=settings[GROUP_COORDINATOR_APPEND_LINGER_MS],
        )
        self.transactions: Coordinator[TransactionShard] = Coordinator(
            world,
            image,
            creator,
            replicas,
            configs,
            topic=transaction_state(settings),
            record_format=transaction_records(lambda: image.features.level(TRANSACTION_VERSION)),
            new_shard=lambda _: TransactionShard(_transaction_settings(configs.broker)),
        )
        self._world = world
        self._forgetting: asyncio.Task[None] | None = None
        self._has_deleted_topics = False
        image.on_topic_deleted.append(lambda _: self._forget_soon())
        self.groups.on_loaded = self._forget_in

    def leadership_changed(self, topic: Topic) -> None:
        """A topic came, changed or went, in the partitions of this broker and in its image."""
        if topic.name == CONSUMER_OFFSETS:
            self.groups.leadership_changed()
        elif topic.name == TRANSACTION_STATE:
            self.transactions.leadership_changed()

    def start(self) -> None:
        """Begin to load what there is."""
        self.groups.start()
        self.transactions.start()

    async def stop(self) -> None:
        """Answer whoever waits, and take no more requests."""
        if self._forgetting is not None:
            self._forgetting.cancel()
            await asyncio.gather(self._forgetting, return_exceptions=True)
        await self.groups.stop()
        await self.transactions.stop()

    def group_times(self, group_id: str) -> GroupTimes:
        """What the group's own configs and the broker's settings come to."""
        settings = self._configs.of_group(group_id)
        return GroupTimes(
            session_timeout_ms=settings[CONSUMER_SESSION_TIMEOUT_MS],
            heartbeat_interval_ms=settings[CONSUMER_HEARTBEAT_INTERVAL_MS],
            assignment_interval_ms=settings[CONSUMER_ASSIGNMENT_INTERVAL_MS],
        )

    def _new_group_shard(self, _index: int) -> GroupShard:
        settings = self._configs.broker
        consumer_settings = _consumer_group_settings(settings)
        return GroupShard(
            _group_settings(settings),
            consumer_groups(self._topics, consumer_settings, self.group_times),
        )

    def _forget_soon(self) -> None:
        """Topics are often deleted by the hundred: all groups are looked through once for many, not once for each."""
        self._has_deleted_topics = True
        if self._forgetting is None or self._forgetting.done():
            self._forgetting = self._world.loop.create_task(
                self._forget_deleted_topics(), name="forget the offsets of deleted topics"
            )

    async def _forget_deleted_topics(self) -> None:
        """What was committed for a topic goes with it, so that a namesake does not inherit it."""
        while self._has_deleted_topics:
            self._has_deleted_topics = False
            await self.groups.carry_out_everywhere(lambda shard: shard.forget_topics(self._is_gone))

    def _forget_in(self, instance: LoadedShard[GroupShard]) -> None:
        """Topics may have gone while the shard was nowhere, or on its way here."""
        instance.carry_out_soon(instance.shard.forget_topics(self._is_gone))

    def _is_gone(self, name: str, topic_id: bytes) -> bool:
        topic = self._image.topic(name)
        return topic is None or topic_id not in (ZERO_ID, topic.topic_id)


def _group_settings(settings: Settings) -> GroupSettings:
    return GroupSettings(
        session_timeout_ms_min=settings[GROUP_MIN_SESSION_TIMEOUT_MS],
        session_timeout_ms_max=settings[GROUP_MAX_SESSION_TIMEOUT_MS],
        initial_rebalance_delay_ms=settings[GROUP_INITIAL_REBALANCE_DELAY_MS],
        members_max=settings[GROUP_MAX_SIZE],
        heartbeat_wait_ms=settings[PENSTOCK_GROUP_HEARTBEAT_WAIT_MS],
        offset_metadata_bytes_max=settings[OFFSET_METADATA_MAX_BYTES],
        offsets_retention_ms=settings[OFFSETS_RETENTION_MINUTES] * MINUTE_MS,
        offsets_check_interval_ms=settings[OFFSETS_RETENTION_CHECK_INTERVAL_MS],
    )


def _consumer_group_settings(settings: Settings) -> ConsumerGroupSettings:
    return ConsumerGroupSettings(
        members_max=settings[GROUP_CONSUMER_MAX_SIZE],
        migration_policy=MigrationPolicy(settings[GROUP_CONSUMER_MIGRATION_POLICY].lower()),
        assignors=settings[GROUP_CONSUMER_ASSIGNORS],
    )


def _transaction_settings(settings: Settings) -> TransactionSettings:
    return TransactionSettings(
        timeout_max_ms=settings[TRANSACTION_MAX_TIMEOUT_MS],
        expiration_ms=settings[TRANSACTIONAL_ID_EXPIRATION_MS],
        two_phase_commit=settings[TRANSACTION_TWO_PHASE_COMMIT_ENABLE],
    )
