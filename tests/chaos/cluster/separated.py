"""The cluster where one is root: every broker and every ZooKeeper server in a network namespace of its own."""

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from peers.penstock import PenstockProcess
from tests.chaos.cluster.faulty import BROKERS, ZOOKEEPERS, FaultyCluster, zookeeper_name
from tests.chaos.cluster.namespaces import Namespaces

_PORT = 9092


class SeparatedCluster(FaultyCluster):
    cuts_everything = True

    def __init__(self) -> None:
        """NoNamespacesError if there are none to be had. They are there from now on: enter it, to leave it."""
        servers = [zookeeper_name(number) for number in range(ZOOKEEPERS)]
        brokers = [str(node_id) for node_id in range(1, BROKERS + 1)]
        self._namespaces = Namespaces([*brokers, *servers])
        super().__init__(zookeeper_homes=[self._namespaces.home(name) for name in servers])

    def broker(
        self, node_id: int, data: Path | None = None, *, settings: Mapping[str, object] | None = None
    ) -> PenstockProcess:
        home = self._namespaces.home(str(node_id))
        return PenstockProcess(
            data,
            listen=f"{home.host}:{_PORT}",
            settings={**self._settings, **(settings or {})},
            arguments=["--zookeeper", self.zookeeper.addresses, "--node-id", str(node_id)],
            prefix=home.prefix,
        )

    def _surround(self, stack: ExitStack) -> None:
        stack.callback(self._namespaces.close)

    def cut(self, one: str, other: str) -> None:
        self._namespaces.cut(one, other)

    def mend(self) -> None:
        self._namespaces.mend()
