"""What is known of a cluster: its brokers, its topics, who leads which partition in which epoch, who coordinates what.

Answers may arrive out of order and from brokers that lag behind, so a partition's older leader epoch never
replaces a newer one, unless the topic is another one by now (another id).
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
    elr: tuple[
        int, ...
    ] = ()  # not in sync, and able to lead; metadata does not tell, `topics.with_eligible` does


class KnownTopic(NamedTuple):
    name: str
    topic_id: TopicId
    is_internal: bool
    partitions: tuple[KnownPartition, ...]  # by index, without gaps
    refusal: Refusal | None = None


class CoordinatorKind(IntEnum):
    """What a coordinator looks after; the numbers are the wire's."""

    GROUP = 0
    TRANSACTION = 1


class ClusterMetadata:
    """The newest that is known."""

    def __init__(self) -> None:
        self.cluster_id: str | None = None
        self.controller_id = NO_NODE
        self.brokers: dict[int, KnownBroker] = {}
        self.topics: dict[str, KnownTopic] = {}
        self.coordinators: dict[tuple[CoordinatorKind, str], int] = {}  # by group or transactional id

    def learn(self, response: MetadataResponse, *, everything: bool = False) -> list[KnownTopic]:
        """Take in an answer; `everything` if all topics were asked for. Returns the answer's topics."""
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
        """Take in who leads, as an error answer tells it; False if that is no news."""
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
        """Something turned out to be wrong: leaders, the controller and coordinators are to be asked for again."""
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
