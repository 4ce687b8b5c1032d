"""Several brokers in one process, without a store: real partitions, connections and replication, on disks in memory.

The metadata is fed by hand: `Controller` is what remains of a controller when only the test decides. It keeps the
rules of AlterPartition, as the real one does, and tells every broker what is so, one after the other.
"""

import asyncio
import errno
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, cast

from penstock.apis import ApiTable
from penstock.apis.context import ClusterServices
from penstock.base.errors import ErrorCode, Refusal
from penstock.base.features import SUPPORTED
from penstock.base.ids import TopicIdPartition
from penstock.base.load_settings import load_broker_settings
from penstock.base.secret import Secret
from penstock.broker.connections import Connections
from penstock.broker.service_groups import build_controller, build_logs, build_node, build_services
from penstock.client.addresses import Address
from penstock.client.connection import Connection, ConnectionLimits, open_connection
from penstock.cluster.handshake import PeerCredentials
from penstock.cluster.metadata import BrokerRegistration, MetadataImage, PartitionState, Topic
from penstock.cluster.peers import Peers
from penstock.controller.controller_link import ControllerLink
from penstock.core.isr_proposals import Proposal, Proposals, Verdict, Verdicts
from penstock.records.batch import headers
from penstock.services.replicas.follower import FollowerRole
from penstock.services.replicas.leader import LeaderRole
from penstock.services.replicas.replica import Replica
from penstock.services.replication.replication import Replication
from penstock.storage.data_directory import DataDirectory
from penstock.wire.messages.fetch import FetchRequest, FetchResponse
from penstock.wire.messages.produce import ProduceRequest, ProduceResponse
from penstock.world import World
from penstock.world.memory_disk import MemoryDisk
from penstock.world.real_entropy import RealEntropy
from penstock.world.real_loop import RealLoop
from penstock.world.real_work import RealWork
from tests.raw_client import produce_request

LISTENER = "PLAINTEXT"
TOPIC = "orders"
TOPIC_ID = b"orders' topic id"
# A slow machine may need long; what takes so long has failed.
PATIENCE_S = 60.0


class HeldDisk(MemoryDisk):
    """A disk whose syncs can be held up, and that can be full."""

    def __init__(self) -> None:
        super().__init__(size_max=1 << 30)
        self.may_sync = threading.Event()
        self.may_sync.set()
        self.is_full = False
        self.full_for = ""  # what the paths have in common for which there is no room then

    def claim(self, count: int, *, path: str) -> None:
        if self.is_full and self.full_for in path:
            raise OSError(errno.ENOSPC, "no space left", path)
        super().claim(count, path=path)

    def sync_dir(self, path: str) -> None:
        assert self.may_sync.wait(PATIENCE_S)
        super().sync_dir(path)


class Node:
    """One broker."""

    def __init__(
        self, node_id: int, controller: "Controller", disk: HeldDisk, settings: Mapping[str, object]
    ) -> None:
        self.node_id = node_id
        self.disk = disk
        self.loop = RealLoop()
        self.work = RealWork(threads=2)
        self.controller = controller
        self._settings = load_broker_settings(file={"node.id": node_id, **settings}, file_name="settings")
        self.image = MetadataImage("a-cluster")
        entropy = RealEntropy()
        self.directory = DataDirectory.open(disk, node_id=node_id, entropy=entropy)
        self.world = World(self.loop, disk, cast(Any, None), self.work, entropy)
        node = build_node(self.world, self._settings, self.image, log_dir="memory")
        logs = build_logs(node, self.directory, self._settings, self.image)
        self.configs, self.flusher, self.replicas = node.configs, logs.flusher, logs.replicas
        self.credentials = PeerCredentials(
            Secret("of the cluster"), entropy, cluster_id="a-cluster", node_id=node_id
        )
        self.peers = Peers(self.world, self.image, self.credentials)
        own_controller = build_controller(node, self._settings, self.image)  # never active
        cluster = ClusterServices(
            image=self.image,
            peer_credentials=self.credentials,
            supported_features=SUPPORTED,
            controller=own_controller,
            controller_link=ControllerLink(self.image, own_controller, self.peers, node_id=node_id),
            broker_registry=None,
        )
        self.services = build_services(node, logs, cluster, self._settings)
        apis = ApiTable(node.metrics, node.authorizer)
        self.services.node.api_versions.update(apis.advertised(self._settings))
        self.services.node.broker_api_versions.update(apis.between_brokers)
        self.connections = Connections(self.services, apis)
        self.replication = Replication(
            self.world, self.image, self.replicas, self.peers, self.configs, controller, node_id=node_id
        )
        self._server: Any = None
        self._connections: list[Connection] = []

    async def start(self, topics: list[Topic]) -> None:
        await self.replicas.load(topics)
        for topic in topics:
            self.image.apply_topic(topic)
        self._server = await self.loop.listen(lambda: self.connections.make(LISTENER), "127.0.0.1", 0)
        self.replication.start()

    @property
    def address(self) -> tuple[str, int]:
        return "127.0.0.1", self._server.port

    async def stop(self) -> None:
        """Stop cleanly; the disk can be started from again."""
        await self.replication.stop()
        self.peers.close()
        for connection in self._connections:
            connection.close()
        self._server.close()
        await self.connections.drain(timeout_ms=1000)
        await self.flusher.settle()
        await self.replicas.close_cleanly()
        self.work.close()

    def replica(self, index: int = 0) -> Replica:
        found = self.replicas.find_replica(TOPIC, index)
        assert isinstance(found, Replica), found
        return found

    def leader(self, index: int = 0) -> LeaderRole:
        found = self.replica(index).leader
        assert found is not None
        return found

    def follower(self, index: int = 0) -> FollowerRole:
        found = self.replica(index).follower
        assert found is not None
        return found

    async def connection(self) -> Connection:
        opened = await open_connection(
            self.loop,
            Address(*self.address),
            client_id="test",
            limits=ConnectionLimits(request_timeout_ms=int(PATIENCE_S * 1000)),
        )
        self._connections.append(opened)
        return opened

    async def produce(self, batch: bytes, *, acks: int = -1, index: int = 0) -> Any:
        """The answer to one batch."""
        return await self.produce_on(await self.connection(), batch, acks=acks, index=index)

    async def produce_on(
        self, connection: Connection, batch: bytes, *, acks: int = -1, index: int = 0
    ) -> Any:
        request: ProduceRequest = produce_request(TOPIC, batch, partition=index, acks=acks)
        request.timeout_ms = int(PATIENCE_S * 1000)
        answer = await connection.ask(request, ProduceResponse, version_max=12)
        return answer.responses[0].partition_responses[0]

    async def fetch(self, request: FetchRequest, *, version: int = 12) -> FetchResponse:
        return await (await self.connection()).ask(request, FetchResponse, version_max=version)

    def log_bytes(self, index: int = 0) -> bytes:
        """All batches of a partition, as they lie in the log."""
        log = self.replica(index).log
        found, offset = b"", log.start_offset
        while offset < log.end_offset:
            piece = log.read(offset, max_bytes=1 << 20, upto_offset=log.end_offset)
            assert piece
            found += bytes(piece)
            offset = _end(bytes(piece))
        return found


def _end(piece: bytes) -> int:
    *_, (_, last) = headers(piece)
    return last.next_offset


class Controller:
    """Decides what the test says, and what leaders ask for."""

    def __init__(self) -> None:
        self.topics: dict[str, Topic] = {}
        self.nodes: dict[int, Node] = {}
        self.brokers: dict[int, BrokerRegistration] = {}
        self.asked: list[Proposals] = []
        self.reachable = asyncio.Event()
        self.reachable.set()
        self.loses_next_answer = False
        self._one_at_a_time = asyncio.Lock()

    async def alter_partitions(self, proposals: Proposals) -> Verdicts | Refusal:
        if not self.reachable.is_set():
            return Refusal(ErrorCode.NOT_CONTROLLER, "there is no controller")
        self.asked.append(proposals)
        verdicts = {where: await self._judge(where, proposal) for where, proposal in proposals.items()}
        if self.loses_next_answer:
            self.loses_next_answer = False
            return Refusal(ErrorCode.NOT_CONTROLLER, "the answer is lost")
        return verdicts

    async def _judge(self, where: TopicIdPartition, proposal: Proposal) -> Verdict:
        topic_id, index = where
        topic = next(topic for topic in self.topics.values() if topic.topic_id == topic_id)
        state = topic.partitions[index]
        code = ErrorCode.NONE
        if proposal.leader_epoch != state.leader_epoch:
            code = ErrorCode.FENCED_LEADER_EPOCH
        elif proposal.partition_epoch != state.partition_epoch:
            code = ErrorCode.INVALID_UPDATE_VERSION
        for node_id, epoch in zip(proposal.isr, proposal.broker_epochs, strict=True):
            broker = self.brokers[node_id]
            if broker.fenced or epoch not in (-1, broker.epoch):
                code = ErrorCode.INELIGIBLE_REPLICA
        if code is ErrorCode.NONE:
            least = int(topic.configs.get("min.insync.replicas", "1"))
            elr = state.elr_after(proposal.isr, min_isr=least)
            await self.change(topic.name, index, isr=proposal.isr, elr=elr)
            state = self.topics[topic.name].partitions[index]
        return Verdict(code, state.leader, state.leader_epoch, state.isr, state.partition_epoch)

    async def create(self, *states: PartitionState, name: str = TOPIC, **configs: str) -> None:
        """A topic; configs with '_' for '.'."""
        named = {config.replace("_", "."): value for config, value in configs.items()}
        topic = self.topics[name] = Topic(name, TOPIC_ID, states, named)
        async with self._one_at_a_time:
            for node in self.nodes.values():
                await node.replicas.topic_created(topic)
                node.image.apply_topic(topic)

    async def change(
        self, name: str = TOPIC, index: int = 0, *, to: tuple[int, ...] = (), **fields: Any
    ) -> None:
        """Write a new state of a partition and tell all brokers, or only those in `to`, of it."""
        topic = self.topics[name]
        state = topic.partitions[index]
        changed = state._replace(partition_epoch=state.partition_epoch + 1, **fields)
        partitions = (*topic.partitions[:index], changed, *topic.partitions[index + 1 :])
        topic = self.topics[name] = Topic(name, topic.topic_id, partitions, topic.configs)
        await self.tell(*(to or tuple(self.nodes)), name=name)

    async def elect(self, leader: int, *, index: int = 0, to: tuple[int, ...] = (), **fields: Any) -> None:
        epoch = self.topics[TOPIC].partitions[index].leader_epoch + 1
        await self.change(index=index, to=to, leader=leader, leader_epoch=epoch, **fields)

    async def tell(self, *node_ids: int, name: str = TOPIC) -> None:
        """Tell brokers what is so."""
        async with self._one_at_a_time:
            topic = self.topics[name]
            for node_id in node_ids:
                node = self.nodes[node_id]
                await node.replicas.topic_changed(topic)
                node.image.apply_topic(topic)

    def register(self, node: Node, *, epoch: int, rack: str | None = None) -> None:
        self.nodes[node.node_id] = node
        broker = BrokerRegistration(
            node.node_id,
            rack,
            {LISTENER: node.address},
            epoch=epoch,
            peer_listener=LISTENER,
            features=SUPPORTED,
        )
        self.tell_of(broker)
        for known in self.brokers.values():
            node.image.apply_broker(known)

    def tell_of(self, broker: BrokerRegistration) -> None:
        self.brokers[broker.node_id] = broker
        if broker.node_id in self.nodes:
            self.nodes[broker.node_id].credentials.epoch = broker.epoch
        for node in self.nodes.values():
            node.image.apply_broker(broker)


class Cluster:
    """The brokers 1 to n and their controller."""

    def __init__(self, settings: Mapping[str, object]) -> None:
        self.controller = Controller()
        self._settings = settings
        self._disks: dict[int, HeldDisk] = {}
        self._epochs: dict[int, int] = {}

    def __getitem__(self, node_id: int) -> Node:
        return self.controller.nodes[node_id]

    async def start(self, node_id: int) -> Node:
        """Start a broker, on the disk that it had if it was there before."""
        disk = self._disks.setdefault(node_id, HeldDisk())
        rack = f"rack-{node_id}"
        node = Node(node_id, self.controller, disk, {**self._settings, "broker.rack": rack})
        await node.start(list(self.controller.topics.values()))
        self._epochs[node_id] = self._epochs.get(node_id, 100 * node_id) + 1
        self.controller.register(node, epoch=self._epochs[node_id], rack=rack)
        return node

    async def stop(self, node_id: int) -> None:
        await self.controller.nodes.pop(node_id).stop()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Return when something holds that other tasks bring about."""
        async with asyncio.timeout(PATIENCE_S):
            while not holds():
                await asyncio.sleep(0.005)

    async def until_same(self, *node_ids: int, index: int = 0) -> None:
        """Return when the logs of brokers are the same and all of it is below their high watermarks."""
        partitions = [self[node_id].replica(index) for node_id in node_ids]

        def are_same() -> bool:
            end_offset = partitions[0].log.end_offset
            return all(
                partition.log.end_offset == end_offset == partition.high_watermark for partition in partitions
            )

        await self.until(are_same)


@asynccontextmanager
async def cluster_of(count: int, **settings: object) -> AsyncIterator[Cluster]:
    """So many brokers; their settings with '_' for '.'."""
    named = {name.replace("_", "."): value for name, value in settings.items()}
    cluster = Cluster({"replica.fetch.backoff.ms": "20", **named})
    try:
        for node_id in range(1, count + 1):
            await cluster.start(node_id)
        yield cluster
    finally:
        for node_id in list(cluster.controller.nodes):
            await cluster.stop(node_id)


def led_by(leader: int, *followers: int, isr: tuple[int, ...] | None = None) -> PartitionState:
    replicas = (leader, *followers)
    return PartitionState(leader, 0, replicas, replicas if isr is None else isr, 0)
