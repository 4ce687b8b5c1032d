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
from penstock.cluster.metadata import MetadataImage, Topic
from penstock.cluster.new_topic import TopicSpec


class TopicCreator(Protocol):
    """Whoever can have a topic created: the controller, or somebody who asks it on another broker."""

    async def create_topic(self, new: TopicSpec) -> Topic | Refusal | None:
        """A refusal also where nobody can be asked. What was created may not be in this broker's image yet."""
        ...


class InternalTopic(NamedTuple):
    """An internal topic as it is to be created."""

    name: str
    partition_count: int
    replication_factor: int
    configs: dict[str, str]


def consumer_offsets(settings: Settings) -> InternalTopic:
    """Where groups and committed offsets are."""
    return InternalTopic(
        CONSUMER_OFFSETS,
        settings[OFFSETS_TOPIC_NUM_PARTITIONS],
        settings[OFFSETS_TOPIC_REPLICATION_FACTOR],
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
        {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            # Counts as far as there are replicas: the topic may get more of them later.
            "min.insync.replicas": str(settings[TRANSACTION_STATE_LOG_MIN_ISR]),
            "segment.bytes": str(settings[TRANSACTION_STATE_LOG_SEGMENT_BYTES]),
            "unclean.leader.election.enable": "false",
        },
    )


def replicas_wanted(settings: Settings) -> dict[str, int]:
    """How many replicas each internal topic is to have, where there are as many brokers."""
    topics = (consumer_offsets(settings), transaction_state(settings))
    return {topic.name: topic.replication_factor for topic in topics}


async def create(wanted: InternalTopic, image: MetadataImage, creator: TopicCreator) -> Topic | Refusal:
    """The topic, new unless somebody else was faster; a refusal while this broker has not heard of it."""
    # Of all that belong to the cluster: a broker that is away now is to have its replica all the same.
    replicas = max(1, min(wanted.replication_factor, len(image.brokers)))
    created = await creator.create_topic(
        TopicSpec(wanted.name, wanted.partition_count, replicas, configs=wanted.configs)
    )
    if isinstance(created, Refusal) and created.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
        return created
    return image.topic(wanted.name) or Refusal(
        ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{wanted.name} was created; this broker has not heard of it yet"
    )
