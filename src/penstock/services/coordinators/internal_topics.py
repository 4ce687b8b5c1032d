"""The internal topics, created when somebody first needs them."""

from typing import NamedTuple, Protocol

from penstock.base.coordinator_settings import (
    OFFSETS_TOPIC_NUM_PARTITIONS,
    OFFSETS_TOPIC_REPLICATION_FACTOR,
    OFFSETS_TOPIC_SEGMENT_BYTES,
    TRANSACTION_STATE_LOG_MIN_ISR,
    TRANSACTION_STATE_LOG_NUM_PARTITIONS,
    TRANSACTION_STATE_LOG_REPLICATION_FACTOR,
    TRANSACTION_STATE_LOG_SEGMENT_BYTES,
)
from penstock.base.errors import ErrorCode, Refusal
from penstock.base.ids import CONSUMER_OFFSETS, TRANSACTION_STATE
from penstock.base.settings import Settings
from penstock.cluster.controller import NewTopic
from penstock.cluster.metadata import MetadataImage, Topic


class TopicCreator(Protocol):
    """Whoever can have a topic created: the controller, or somebody who asks it on another broker."""

    async def create_topic(self, new: NewTopic) -> Topic | Refusal | None:
        """A refusal also where nobody can be asked. What was created may not be in this broker's image yet."""
        ...


class InternalTopic(NamedTuple):
    """An internal topic as it is to be created."""

    name: str
    partition_count: int
    replication_factor: int
    min_in_sync_replicas: int | None
    configs: dict[str, str]


def consumer_offsets(settings: Settings) -> InternalTopic:
    """Where groups and committed offsets are."""
    return InternalTopic(
        CONSUMER_OFFSETS,
        settings[OFFSETS_TOPIC_NUM_PARTITIONS],
        settings[OFFSETS_TOPIC_REPLICATION_FACTOR],
        None,
        {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(settings[OFFSETS_TOPIC_SEGMENT_BYTES]),
        },
    )


def transaction_state(settings: Settings) -> InternalTopic:
    """Where transactional ids are."""
    return InternalTopic(
        TRANSACTION_STATE,
        settings[TRANSACTION_STATE_LOG_NUM_PARTITIONS],
        settings[TRANSACTION_STATE_LOG_REPLICATION_FACTOR],
        settings[TRANSACTION_STATE_LOG_MIN_ISR],
        {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "segment.bytes": str(settings[TRANSACTION_STATE_LOG_SEGMENT_BYTES]),
            "unclean.leader.election.enable": "false",
        },
    )


async def create(wanted: InternalTopic, image: MetadataImage, creator: TopicCreator) -> Topic | Refusal:
    """The topic, new unless somebody else was faster; a refusal while this broker has not heard of it."""
    # Of all that belong to the cluster: a broker that is away now is to have its replica all the same.
    replicas = max(1, min(wanted.replication_factor, len(image.brokers)))
    configs = dict(wanted.configs)
    if wanted.min_in_sync_replicas is not None:
        configs["min.insync.replicas"] = str(min(wanted.min_in_sync_replicas, replicas))
    created = await creator.create_topic(
        NewTopic(wanted.name, wanted.partition_count, replicas, configs=configs)
    )
    if isinstance(created, Refusal) and created.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
        return created
    return image.topic(wanted.name) or Refusal(
        ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{wanted.name} was created; this broker has not heard of it yet"
    )
