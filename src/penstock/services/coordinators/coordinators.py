"""The group coordinator and the transaction coordinator of a broker, made from its settings."""

from penstock.base.coordinator_settings import (
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
from penstock.base.ids import CONSUMER_OFFSETS, TRANSACTION_STATE, ZERO_ID
from penstock.base.settings import MINUTE_MS, Settings
from penstock.cluster.metadata import MetadataImage, Topic
from penstock.core.groups.settings import GroupSettings
from penstock.core.groups.shard import GroupShard
from penstock.core.transactions.settings import TransactionSettings
from penstock.core.transactions.shard import TransactionShard
from penstock.records.internal.group_records import GROUP_RECORDS
from penstock.records.internal.transaction_records import transaction_records
from penstock.services.configs import Configs
from penstock.services.coordinators.coordinator import Coordinator
from penstock.services.coordinators.group_kinds import group_kinds
from penstock.services.coordinators.image_topics import ImageTopics
from penstock.services.coordinators.internal_topics import TopicCreator, consumer_offsets, transaction_state
from penstock.services.coordinators.loaded_shard import LoadedShard
from penstock.services.replicas.replica_manager import ReplicaManager
from penstock.world import World
from penstock.world.tasks import Tasks


class Coordinators:
    """Both coordinators. Handlers call `groups.ask` and `transactions.ask`."""

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
        self._tasks = Tasks(world.loop)
        self._has_deleted_topics = False
        image.on_topic_deleted.append(lambda _: self._delete_offsets_soon())
        self.groups.on_loaded = self._delete_offsets_in

    def leadership_changed(self, topic: Topic) -> None:
        """A topic was created, changed or deleted, and this broker's replicas and metadata image follow it."""
        if topic.name == CONSUMER_OFFSETS:
            self.groups.leadership_changed()
        elif topic.name == TRANSACTION_STATE:
            self.transactions.leadership_changed()

    def start(self) -> None:
        """Begin to load the shards that this broker leads."""
        self.groups.start()
        self.transactions.start()

    async def stop(self) -> None:
        """Unload all shards, answering their waiting requests, and take no more requests."""
        await self._tasks.stop()
        await self.groups.stop()
        await self.transactions.stop()

    def _new_group_shard(self, _index: int) -> GroupShard:
        return GroupShard(_group_settings(self._configs.broker), group_kinds(self._topics, self._configs))

    def _delete_offsets_soon(self) -> None:
        """Topics are often deleted by the hundred: all groups are scanned once for many of them."""
        self._has_deleted_topics = True
        name = "delete the offsets of deleted topics"
        if not self._tasks.is_running(name):
            self._tasks.start(name, self._delete_offsets_of_deleted_topics())

    async def _delete_offsets_of_deleted_topics(self) -> None:
        """A topic created later under the same name must not find the offsets of the deleted one."""
        while self._has_deleted_topics:
            self._has_deleted_topics = False
            await self.groups.carry_out_in_all_shards(
                lambda shard: shard.delete_offsets_of_topics(self._is_deleted)
            )

    def _delete_offsets_in(self, loaded: LoadedShard[GroupShard]) -> None:
        """Topics may have been deleted before this broker loaded the shard."""
        loaded.carry_out_soon(loaded.shard.delete_offsets_of_topics(self._is_deleted))

    def _is_deleted(self, name: str, topic_id: bytes) -> bool:
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


def _transaction_settings(settings: Settings) -> TransactionSettings:
    return TransactionSettings(
        timeout_max_ms=settings[TRANSACTION_MAX_TIMEOUT_MS],
        expiration_ms=settings[TRANSACTIONAL_ID_EXPIRATION_MS],
        two_phase_commit=settings[TRANSACTION_TWO_PHASE_COMMIT_ENABLE],
    )
