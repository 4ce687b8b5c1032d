"""The cluster under test: brokers and ZooKeeper servers that reach each other through links. Clients need none."""

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from peers.cluster import PenstockCluster
from peers.penstock import PenstockProcess
from peers.ports import free_ports
from tests.chaos.cluster.links import Links

BROKERS = 3
ZOOKEEPERS = 3
SESSION_S = 6.0
SETTINGS = {
    "zookeeper.session.timeout.ms": int(SESSION_S * 1000),
    "replica.lag.time.max.ms": 4_000,
    "replica.socket.timeout.ms": 3_000,
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 1_000,
    "group.consumer.min.session.timeout.ms": 6_000,
    "group.consumer.session.timeout.ms": 6_000,
    "group.consumer.min.heartbeat.interval.ms": 500,
    "group.consumer.heartbeat.interval.ms": 500,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1_000,
    # Fewer of them are spread over three brokers as well, and are there sooner.
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.num.partitions": 3,
}


class LinkedCluster(PenstockCluster):
    """Brokers 1 to 3 are named "1" to "3", ZooKeeper servers "zookeeper-0" to "zookeeper-2"."""

    def __init__(self) -> None:
        self.links = Links()
        self._zookeeper_links: str | None = None
        super().__init__(brokers=BROKERS, zookeepers=ZOOKEEPERS, settings=SETTINGS)

    def broker(
        self, node_id: int, data: Path | None = None, *, settings: Mapping[str, object] | None = None
    ) -> PenstockProcess:
        clients, peers = free_ports(2)
        link = self.links.add(str(node_id), port=peers)
        own = {
            "listeners": f"PLAINTEXT://127.0.0.1:{clients},PEERS://127.0.0.1:{peers}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{clients},PEERS://127.0.0.1:{link}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,PEERS:PLAINTEXT",
            "inter.broker.listener.name": "PEERS",
        }
        broker = PenstockProcess(
            data,
            listen="",
            settings={**self._settings, **own, **(settings or {})},
            arguments=["--zookeeper", self._linked_zookeeper(), "--node-id", str(node_id)],
        )
        self.links.know(str(node_id), lambda: broker.pid if broker.running else None)
        return broker

    def _linked_zookeeper(self) -> str:
        if self._zookeeper_links is None:
            ports = [
                self.links.add(zookeeper_name(number), port=int(server.address.rpartition(":")[2]))
                for number, server in enumerate(self.zookeeper.servers)
            ]
            self._zookeeper_links = ",".join(f"127.0.0.1:{port}" for port in ports)
        return self._zookeeper_links

    def __enter__(self) -> Self:
        self.links.__enter__()
        try:
            return super().__enter__()
        except BaseException:
            self.links.__exit__(None, None, None)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            super().__exit__(kind, error, trace)
        finally:
            self.links.__exit__(kind, error, trace)

    def kill(self, node_id: int) -> None:
        self.brokers[node_id].kill()
        self.links.refuse(str(node_id))

    def start(self, node_id: int) -> None:
        self.links.listen(str(node_id))
        self.brokers[node_id].start()

    def cut_off(self, node_id: int, *, from_brokers: bool, from_zookeeper: bool) -> None:
        others = [str(each) for each in self.brokers if each != node_id] if from_brokers else []
        servers = map(zookeeper_name, range(ZOOKEEPERS)) if from_zookeeper else ()
        for other in (*others, *servers):
            self.links.cut(str(node_id), other)


def zookeeper_name(number: int) -> str:
    return f"zookeeper-{number}"
