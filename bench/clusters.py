"""Three brokers of either kind, and looking at them from outside until they are as they should be."""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from bench.contestants import JAVA_OPTIONS, PENSTOCK
from bench.usage import Usage
from peers.cluster import PenstockCluster
from peers.kafka import ApacheKafkaCluster

Cluster: TypeAlias = PenstockCluster | ApacheKafkaCluster

SESSION_MS = 9_000  # of brokers: Kafka's default
PATIENCE_S = 180.0
_LOOK_S = 10.0


@contextlib.contextmanager
def cluster_of(contestant: str, settings: Mapping[str, object] | None = None) -> Iterator[Cluster]:
    """Three brokers with the defaults of their kind, but for `settings`."""
    cluster: Cluster
    if contestant == PENSTOCK:
        cluster = PenstockCluster(settings={"zookeeper.session.timeout.ms": SESSION_MS, **(settings or {})})
    else:
        cluster = ApacheKafkaCluster(
            settings={"broker.session.timeout.ms": SESSION_MS, **(settings or {})}, java_options=JAVA_OPTIONS
        )
    with cluster:
        yield cluster


def admin_of(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "socket.timeout.ms": 60_000, "log_level": 0})


def cpu_seconds(cluster: Cluster) -> float:
    """What all brokers together have used."""
    return sum(Usage(broker.pid).cpu_seconds() for broker in cluster.brokers.values())


class View(NamedTuple):
    """What a broker says of topics: whom partitions are led by, and how many of each set are in sync."""

    leaders: list[int]
    isr: list[int]  # how many

    def is_whole(self, *, partitions: int, replicas: int = 3) -> bool:
        return self.isr == [replicas] * partitions and self.is_led(partitions=partitions)

    def is_led(self, *, partitions: int) -> bool:
        return len(self.leaders) == partitions and min(self.leaders) >= 0


def view(admin: AdminClient, prefix: str) -> View | None:
    """All topics whose names begin so; None while they are unknown."""
    try:
        # Not for longer: a request may be in the queue of a broker that is gone.
        found = admin.list_topics(timeout=_LOOK_S)
    except KafkaException:
        return None
    partitions = [
        partition
        for name, topic in found.topics.items()
        if name.startswith(prefix)
        for partition in topic.partitions.values()
    ]
    return View(
        [partition.leader for partition in partitions],
        [len(partition.isrs) for partition in partitions],
    )


def until_whole(admin: AdminClient, prefix: str, partitions: int) -> None:
    """Return when all replicas of all those partitions are in sync."""

    def is_whole() -> bool:
        found = view(admin, prefix)
        return found is not None and found.is_whole(partitions=partitions)

    until(is_whole)


def until(look: Callable[[], bool], *, every_s: float = 0.1) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not look():
        assert time.monotonic() < deadline_s, "the cluster is not as it should be, after minutes"
        time.sleep(every_s)  # other processes: nothing here could be told
