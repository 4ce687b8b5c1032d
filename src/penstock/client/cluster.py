"""The cached metadata of a cluster: brokers, topics, leaders and leader epochs, coordinators.

Responses may arrive out of order and from brokers that lag behind, so an older leader epoch never replaces a newer
one, unless the topic was deleted and created again (it has another id).
"""

from enum import IntEnum
from typing import NamedTuple

from penstock.base.errors import ErrorCode, Refusal
from penstock.base.ids import ZERO_ID, TopicId
from penstock.client.addresses import Address
from penstock.client.errors import refusal_of
from penstock.wire.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic

NO_NODE = -1


class KnownBroker(NamedTuple):
    node_id: int
    address: Address
    rack: str | None = None


class KnownPartition(NamedTuple):
    """One partition; `leader` is NO_NODE while it has none."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    offline: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()  # the ELR; Metadata responses do not have it, `topics.with_eligible` adds it


class KnownTopic(NamedTuple):
    name: str
    topic_id: TopicId
    is_internal: bool
    partitions: tuple[KnownPartition, ...]  # by index, without gaps
    refusal: Refusal | None = None


class CoordinatorKind(IntEnum):
    """The kind of a coordinator's keys, with the numbers of the protocol."""

    GROUP = 0
    TRANSACTION = 1


class ClusterMetadata:
    """The newest metadata that any response had."""

    def __init__(self) -> None:
        self.cluster_id: str | None = None
        self.controller_id = NO_NODE
        self.brokers: dict[int, KnownBroker] = {}
        self.topics: dict[str, KnownTopic] = {}
        self.coordinators: dict[tuple[CoordinatorKind, str], int] = {}  # by group or transactional id

    def learn(self, response: MetadataResponse, *, everything: bool = False) -> list[KnownTopic]:
        """Merge a Metadata response; `everything` if it was for all topics. Returns the response's topics."""
        self.cluster_id = response.cluster_id
        self.controller_id = response.controller_id
        self.brokers = {
            broker.node_id: KnownBroker(broker.node_id, Address(broker.host, broker.port), broker.rack)
            for broker in response.brokers
        }
        answered = [self._merge(topic) for topic in response.topics if topic.name is not None]
        if everything:
            self.topics.clear()
        for topic in answered:
            if topic.refusal is None or topic.partitions:
                self.topics[topic.name] = topic
            else:
                self.topics.pop(topic.name, None)
        return answered

    def learn_leader(self, topic: str, partition: int, *, leader: int, leader_epoch: int) -> bool:
        """Merge the leader that an error response names; False if it was known."""
        known = self.partition(topic, partition)
        if known is None or leader < 0 or leader_epoch <= known.leader_epoch or leader not in self.brokers:
            return False
        before = self.topics[topic]
        changed = list(before.partitions)
        changed[partition] = known._replace(leader=leader, leader_epoch=leader_epoch)
        self.topics[topic] = before._replace(partitions=tuple(changed))
        return True

    def partition(self, topic: str, partition: int) -> KnownPartition | None:
        known = self.topics.get(topic)
        if known is None or not 0 <= partition < len(known.partitions):
            return None
        return known.partitions[partition]

    def leader(self, topic: str, partition: int) -> int | None:
        """The leader of a partition, or None if none is known."""
        known = self.partition(topic, partition)
        return known.leader if known is not None and known.leader in self.brokers else None

    def topic_id(self, topic: str) -> TopicId:
        """ZERO_ID for topics of brokers that are too old to have ids."""
        known = self.topics.get(topic)
        return ZERO_ID if known is None else known.topic_id

    def forget(self) -> None:
        """Forget leaders, the controller and coordinators: one of them turned out to be stale."""
        self.controller_id = NO_NODE
        self.topics.clear()
        self.coordinators.clear()

    def _merge(self, answer: MetadataResponseTopic) -> KnownTopic:
        assert answer.name is not None
        known = self.topics.get(answer.name)
        if known is not None and known.topic_id != answer.topic_id:
            known = None
        partitions = []
        for index, each in enumerate(sorted(answer.partitions, key=lambda each: each.partition_index)):
            new = _partition(index, each)
            old = known.partitions[index] if known is not None and index < len(known.partitions) else None
            partitions.append(old if old is not None and old.leader_epoch > new.leader_epoch else new)
        return KnownTopic(
            answer.name,
            TopicId(answer.topic_id),
            answer.is_internal,
            tuple(partitions),
            refusal_of(answer.error_code),
        )


def _partition(index: int, answer: MetadataResponsePartition) -> KnownPartition:
    leaderless = answer.error_code == ErrorCode.LEADER_NOT_AVAILABLE
    return KnownPartition(
        index,
        NO_NODE if leaderless else answer.leader_id,
        answer.leader_epoch,
        tuple(answer.replica_nodes),
        tuple(answer.isr_nodes),
        tuple(answer.offline_replicas),
    )
