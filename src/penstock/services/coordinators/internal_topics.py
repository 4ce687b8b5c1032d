"""The internal topics `__consumer_offsets` and `__transaction_state`, created when a coordinator first needs them."""

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
from penstock.cluster.topic_spec import TopicSpec


class TopicCreator(Protocol):
    """Creates a topic: the controller, or a link to the controller on another broker."""

    async def create_topic(self, new: TopicSpec) -> Topic | Refusal | None:
        """A refusal also if no controller can be reached. The created topic may not be in this broker's image yet."""
        ...


class InternalTopic(NamedTuple):
    """What an internal topic is created with."""

    name: str
    partition_count: int
    replication_factor: int
    configs: dict[str, str]


def consumer_offsets(settings: Settings) -> InternalTopic:
    """`__consumer_offsets`: groups and committed offsets."""
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
    """`__transaction_state`: transactional ids."""
    return InternalTopic(
        TRANSACTION_STATE,
        settings[TRANSACTION_STATE_LOG_NUM_PARTITIONS],
        settings[TRANSACTION_STATE_LOG_REPLICATION_FACTOR],
        {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            # Limited by the number of replicas when it is applied: the topic may get more of them later.
            "min.insync.replicas": str(settings[TRANSACTION_STATE_LOG_MIN_ISR]),
            "segment.bytes": str(settings[TRANSACTION_STATE_LOG_SEGMENT_BYTES]),
            "unclean.leader.election.enable": "false",
        },
    )


def replicas_wanted(settings: Settings) -> dict[str, int]:
    """The replication factor of each internal topic, for clusters with enough brokers."""
    topics = (consumer_offsets(settings), transaction_state(settings))
    return {topic.name: topic.replication_factor for topic in topics}


async def create(wanted: InternalTopic, image: MetadataImage, creator: TopicCreator) -> Topic | Refusal:
    """Create the topic, unless it exists; a refusal until it is in this broker's metadata image."""
    # All registered brokers count: one that is down now gets its replica too.
    replicas = max(1, min(wanted.replication_factor, len(image.brokers)))
    created = await creator.create_topic(
        TopicSpec(wanted.name, wanted.partition_count, replicas, configs=wanted.configs)
    )
    if isinstance(created, Refusal) and created.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
        return created
    return image.topic(wanted.name) or Refusal(
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        f"{wanted.name} was created; this broker's metadata does not have it yet",
    )
