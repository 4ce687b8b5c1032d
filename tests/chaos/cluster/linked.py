"""The cluster for users other than root: its processes reach each other through TCP links. Clients need none."""

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from peers.penstock import PenstockProcess
from peers.ports import free_ports
from tests.chaos.cluster.faulty import FaultyCluster, zookeeper_name
from tests.chaos.cluster.links import Links


class LinkedCluster(FaultyCluster):
    def __init__(self) -> None:
        self._links = Links()
        self._zookeeper_links: str | None = None
        super().__init__()

    def broker(
        self, node_id: int, data: Path | None = None, *, settings: Mapping[str, object] | None = None
    ) -> PenstockProcess:
        clients, peers = free_ports(2)
        link = self._links.add(str(node_id), port=peers)
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
        self._links.know(str(node_id), lambda: broker.pid if broker.running else None)
        return broker

    def _linked_zookeeper(self) -> str:
        if self._zookeeper_links is None:
            ports = [
                self._links.add(zookeeper_name(number), port=int(server.address.rpartition(":")[2]))
                for number, server in enumerate(self.zookeeper.servers)
            ]
            self._zookeeper_links = ",".join(f"127.0.0.1:{port}" for port in ports)
        return self._zookeeper_links

    def _surround(self, stack: ExitStack) -> None:
        stack.enter_context(self._links)

    def cut(self, one: str, other: str) -> None:
        self._links.cut(one, other)

    def mend(self) -> None:
        self._links.mend()

    def kill(self, node_id: int) -> None:
        super().kill(node_id)
        self._links.refuse(str(node_id))

    def stop(self, node_id: int) -> None:
        super().stop(node_id)
        self._links.refuse(str(node_id))

    def start(self, node_id: int) -> None:
        self._links.listen(str(node_id))
        super().start(node_id)
