"""Two brokers in one process, with metadata that the test sets."""

import itertools
from collections.abc import Mapping, Sequence
from types import TracebackType

from penstock.apis.context import Services
from penstock.base.errors import ErrorCode
from penstock.base.features import SUPPORTED
from penstock.base.ids import CONSUMER_OFFSETS, TRANSACTION_STATE, TopicId
from penstock.cluster.metadata import NO_LEADER, PartitionState, Topic
from penstock.cluster.metadata import BrokerRegistration as BrokerMetadata
from penstock.core.coordinator_shard import partition_for
from penstock.records.batch import headers, read_header
from tests.broker.controlled import ControlledBroker
from tests.raw_client import RawClient

LEFT, RIGHT = 1, 2
COMPACTED = {"cleanup.policy": "compact"}

_ids = itertools.count(1)
_names = itertools.count()


def key_led_by(node_id: int) -> str:
    """A new transactional id, or group, that the partition led by that broker looks after: 0 left, 1 right."""
    keys = (f"key-{next(_names)}" for _ in itertools.count())
    return next(key for key in keys if partition_for(key, 2) == node_id - 1)


class Pair:
    """`with Pair() as pair`: the left broker leads partition 0 of everything, the right one partition 1."""

    def __init__(self) -> None:
        self.brokers = {node_id: ControlledBroker(settings={"node.id": node_id}) for node_id in (LEFT, RIGHT)}
        self.clients: dict[int, RawClient] = {}
        self.topics: dict[str, Topic] = {}

    @property
    def left(self) -> RawClient:
        return self.clients[LEFT]

    @property
    def right(self) -> RawClient:
        return self.clients[RIGHT]

    def services(self, node_id: int) -> Services:
        return self.brokers[node_id].broker.services

    def __enter__(self) -> "Pair":
        for node_id, controlled in self.brokers.items():
            controlled.__enter__()
            self.clients[node_id] = RawClient(controlled.bootstrap_servers)
        self._make_one_cluster()
        for node_id in self.brokers:
            self.introduce(node_id, to=LEFT)
            self.introduce(node_id, to=RIGHT)
        self.create(TRANSACTION_STATE, COMPACTED)
        self.create(CONSUMER_OFFSETS, COMPACTED)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for client in self.clients.values():
            client.socket.close()
        for controlled in self.brokers.values():
            controlled.__exit__(kind, error, trace)

    def _make_one_cluster(self) -> None:
        """Each has a store of its own, and so a secret and a cluster id: both get the left one's."""
        left, right = (self.services(node_id).cluster.peer_credentials for node_id in (LEFT, RIGHT))
        right._secret, right.cluster_id = left._secret, left.cluster_id

    def introduce(self, node_id: int, *, to: int, port: int | None = None, fenced: bool = False) -> None:
        """Tell a broker where another one, or it itself, is; or was, with another port; or that it has gone."""
        listener = self.brokers[node_id].broker.listeners[0]
        addresses = {listener.name: (listener.host, port or listener.port)}
        known = BrokerMetadata(
            node_id, None, addresses, fenced=fenced, peer_listener=listener.name, features=SUPPORTED
        )

        async def apply() -> None:
            self.services(to).cluster.image.apply_broker(known)
            self.services(to).transactions.brokers_changed()

        self.brokers[to].run(apply)

    def create(self, name: str, configs: dict[str, str] | None = None, *, only: int | None = None) -> Topic:
        """A topic with one partition on each broker; with `only` the metadata reaches one of them for now."""
        partitions = tuple(_state(leader) for leader in (LEFT, RIGHT))
        topic = Topic(name, TopicId(next(_ids).to_bytes(16, "big")), partitions, configs or {})
        self.topics[name] = topic
        for node_id in self.brokers:
            if only in (None, node_id):
                self._apply(node_id, topic)
        return topic

    def lead(self, name: str, index: int, leader: int, *, only: int | None = None) -> None:
        """Give a partition another leader; with `only` the metadata reaches one broker for now."""
        self._change(name, index, leader)
        for node_id in self.brokers:
            if only in (None, node_id):
                self._apply(node_id, self.topics[name])

    def hand_over(self, name: str, index: int) -> None:
        """Have the other broker lead a partition, with all that is in the log of the one that does."""
        leader = self.topics[name].partitions[index].leader
        log = self._batches(leader, name, index)
        self._change(name, index, RIGHT if leader == LEFT else LEFT)
        for node_id in self.brokers:
            self._apply(node_id, self.topics[name], copied={} if node_id == leader else {index: log})

    def _change(self, name: str, index: int, leader: int) -> None:
        before = self.topics[name]
        states = list(before.partitions)
        states[index] = _state(leader, states[index].leader_epoch + 1)
        self.topics[name] = Topic(name, before.topic_id, tuple(states), before.configs)

    def tell(self, node_id: int, name: str) -> None:
        """Apply the newest metadata of a topic to a broker."""
        self._apply(node_id, self.topics[name])

    def delete(self, name: str, *, only: int | None = None) -> None:
        """Delete a topic; with `only` the deletion reaches one broker."""
        topic = self.topics.pop(name)
        for node_id in self.brokers:
            if only in (None, node_id):
                self._forget(node_id, topic)

    def _forget(self, node_id: int, topic: Topic) -> None:
        services = self.services(node_id)

        async def apply() -> None:
            await services.logs.replicas.topic_deleted(topic)
            services.cluster.image.apply_topic_deleted(topic.name)
            services.coordinators.leadership_changed(topic)

        self.brokers[node_id].run(apply)

    def _apply(
        self,
        node_id: int,
        topic: Topic,
        *,
        copied: Mapping[int, Sequence[bytes]] | None = None,
    ) -> None:
        services = self.services(node_id)

        async def apply() -> None:
            if services.cluster.image.topic(topic.name) is None:
                await services.logs.replicas.topic_created(topic)
            else:
                await services.logs.replicas.topic_changed(topic)
            for index, batches in (copied or {}).items():
                _append(services, topic.name, index, batches)
            services.cluster.image.apply_topic(topic)
            services.coordinators.leadership_changed(topic)

        self.brokers[node_id].run(apply)

    def _batches(self, node_id: int, name: str, index: int) -> list[bytes]:
        """What a leader's log has."""

        async def read() -> list[bytes]:
            partition = self.services(node_id).logs.replicas.find_replica(name, index)
            assert not isinstance(partition, ErrorCode)
            log = partition.log
            data = log.read(
                log.start_offset,
                max_bytes=1 << 20,
                upto_offset=log.end_offset,
                whole_first_batch=True,
                cached_only=False,
            )
            assert data is not None
            return [bytes(data[at : at + header.size]) for at, header in headers(data)]

        return self.brokers[node_id].run(read)


def _append(services: Services, name: str, index: int, batches: Sequence[bytes]) -> None:
    """Put what an earlier leader had into the log of the next."""
    partition = services.logs.replicas.find_replica(name, index)
    assert not isinstance(partition, ErrorCode)
    for batch in batches:
        if read_header(batch).base_offset >= partition.log.end_offset:
            assert partition.leader is not None
            partition.leader.append_own(batch, now_ms=0)


def _state(leader: int, epoch: int = 0) -> PartitionState:
    isr = (LEFT,) if leader == NO_LEADER else (leader,)
    return PartitionState(leader, epoch, (LEFT, RIGHT), isr, epoch)
