"""The cluster under test: what can befall its brokers, however they are joined. Clients connect from outside."""

import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path

from peers.cluster import PenstockCluster
from peers.home import Home

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


class FaultyCluster(PenstockCluster, ABC):
    """Brokers 1 to 3 are named "1" to "3", ZooKeeper servers "zookeeper-0" to "zookeeper-2"."""

    # Whether clients, and ZooKeeper servers among each other, can be cut off too.
    cuts_everything = False

    def __init__(self, *, zookeeper_homes: Sequence[Home] = ()) -> None:
        self._said: list[tuple[int, str]] = []  # by brokers, in lives that are over
        super().__init__(
            brokers=BROKERS, zookeepers=ZOOKEEPERS, settings=SETTINGS, zookeeper_homes=zookeeper_homes
        )

    @abstractmethod
    def cut(self, one: str, other: str) -> None:
        """Let nothing pass between two, in silence."""

    @abstractmethod
    def mend(self) -> None:
        """All that was cut."""

    def kill(self, node_id: int) -> None:
        self.brokers[node_id].kill()

    def stop(self, node_id: int) -> None:
        self.brokers[node_id].stop()

    def start(self, node_id: int) -> None:
        broker = self.brokers[node_id]
        self._said.append((node_id, broker.output))
        broker.start()

    def cut_off(self, name: str, *, brokers: bool = False, zookeeper: bool = False) -> None:
        """From all brokers, or all ZooKeeper servers, or both, that are not itself."""
        others = [*map(str, self.brokers)] if brokers else []
        others += [zookeeper_name(number) for number in range(ZOOKEEPERS)] if zookeeper else []
        for other in others:
            if other != name:
                self.cut(name, other)

    def said(self) -> Iterator[tuple[int, str]]:
        """What brokers wrote, life by life."""
        yield from self._said
        for node_id, broker in self.brokers.items():
            yield node_id, broker.output

    def keep_logs(self, folder: Path) -> None:
        """Write down what brokers said, one file for each of their lives, and what they have."""
        for number, (node_id, output) in enumerate(self.said()):
            (folder / f"broker-{node_id}-{number:03}.log").write_text(output)
        for node_id, broker in self.brokers.items():
            shutil.copytree(broker.data, folder / f"data-{node_id}", dirs_exist_ok=True)


def zookeeper_name(number: int) -> str:
    return f"zookeeper-{number}"
