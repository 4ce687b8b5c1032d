"""A cluster of Penstock brokers on this machine: ZooKeeper, and several broker processes that find each other there."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from peers.home import Home
from peers.penstock import PenstockProcess
from peers.zookeeper import ZooKeeper
from penstock.client.blocking import BlockingClient
from penstock.client.topics import describe_cluster

SESSION_TIMEOUT_MS = 6_000


def controller_of(bootstrap: str) -> int:
    """As DescribeCluster has it; what metadata say, and librdkafka with them, is only where to send requests."""
    with BlockingClient(bootstrap) as blocking:
        return blocking.run(describe_cluster(blocking.client)).controller_id


class PenstockCluster:
    """Brokers 1 to `brokers`, ready when the `with` block begins. `settings` are of each.

    ZooKeeper runs here, unless `zookeeper_homes` says where its servers run.
    """

    def __init__(
        self,
        *,
        brokers: int = 3,
        zookeepers: int = 1,
        settings: Mapping[str, object] | None = None,
        zookeeper_homes: Sequence[Home] = (),
    ) -> None:
        self.zookeeper = ZooKeeper(servers=zookeepers, homes=zookeeper_homes)
        self._settings = {"zookeeper.session.timeout.ms": SESSION_TIMEOUT_MS, **(settings or {})}
        self._stack = ExitStack()
        self.brokers = {node_id: self.broker(node_id) for node_id in range(1, brokers + 1)}

    def broker(
        self, node_id: int, data: Path | None = None, *, settings: Mapping[str, object] | None = None
    ) -> PenstockProcess:
        """A broker of this cluster, not started."""
        return PenstockProcess(
            data,
            settings={**self._settings, **(settings or {})},
            arguments=["--zookeeper", self.zookeeper.addresses, "--node-id", str(node_id)],
        )

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.bootstrap for broker in self.brokers.values())

    def start_missing(self) -> None:
        """Start the brokers that do not run."""
        for broker in self.brokers.values():
            if not broker.running:
                broker.start()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._surround(stack)
            stack.enter_context(self.zookeeper)
            for broker in self.brokers.values():
                stack.enter_context(broker)
            self._stack = stack.pop_all()
        return self

    def _surround(self, stack: ExitStack) -> None:
        """For clusters that need something around them: what is there before all others and goes after them."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()
