"""Three brokers, three replicas, acks=all: how fast librdkafka gets its records in, and what that costs the brokers.

And a broker that leads everything and is given a little more than 100 MB/s with acks=1: whether its followers keep up.
That topic keeps the last of it only, as all topics do after a while: the files' memory is used again then. Where a
machine gets memory from its host when it needs it, a new gigabyte costs 5 s of CPU, more than what is measured here.
Brokers and client share the machine: on two cores that is what limits all of it.
"""

import contextlib
from collections.abc import Iterator

from confluent_kafka.admin import NewTopic

from bench.clusters import PATIENCE_S, Cluster, admin_of, cluster_of, cpu_seconds, until_whole
from bench.contestants import KAFKA, Contestant
from bench.load.pushed import push
from bench.load.throughput import Case, produce
from bench.rows import Better, Goal, Row
from bench.scale import Scale
from bench.usage import Usage

NAME = "replication"
TITLE = "three brokers, three replicas"
WARM = False

_SMALL, _LARGE = 100, 1024
_PARTITIONS = 6
_CODEC = "none"
_LED = 3  # partitions of the leader that is pushed
_KEPT = {"segment.bytes": "16777216", "retention.bytes": "33554432", "file.delete.delay.ms": "100"}
_LOOKS_MS = 500  # how often brokers look for what need not be kept
_WANTED = 100e6  # bytes a second
_GIVEN = 1.05 * _WANTED
_START_S = 15
_PER_SECOND = 100_000  # records, about, while three brokers and a client share two cores


def rounds(scale: Scale) -> int:
    return min(scale.rounds, 2)


def seconds(scale: Scale) -> float:
    sent = 1.5 * (scale.small_message_count + scale.large_message_count)  # the warm-up included
    return _START_S + sent / _PER_SECOND + 2 * scale.pushed_seconds


def rows(_scale: Scale) -> list[Row]:
    half = Goal(ratio=0.5)
    return [
        Row(f"{NAME}.{_SMALL}.rate", "acks=all, 3 replicas, 100 B", "k msg/s", Better.MORE, Goal(ratio=1)),
        Row(
            f"{NAME}.{_SMALL}.cpu", "acks=all, 3 replicas, 100 B: CPU of 3 brokers", "s/GB", Better.LESS, half
        ),
        Row(f"{NAME}.{_LARGE}.rate", "acks=all, 3 replicas, 1 KiB", "MB/s", Better.MORE, Goal(ratio=1)),
        Row(
            f"{NAME}.{_LARGE}.cpu", "acks=all, 3 replicas, 1 KiB: CPU of 3 brokers", "s/GB", Better.LESS, half
        ),
        Row(
            f"{NAME}.pushed.rate",
            "a leader given 105 MB/s, acks=1: taken",
            "MB/s",
            Better.MORE,
            Goal(limit=_WANTED / 1e6),
        ),
        Row(
            f"{NAME}.pushed.after",
            "the same: followers have all, after the last",
            "s",
            Better.LESS,
            Goal(limit=1),
        ),
        Row(f"{NAME}.pushed.behind", "the same: followers behind, at most", "MB", Better.LESS),
        Row(f"{NAME}.pushed.cpu", "the same: CPU of 3 brokers", "s/GB", Better.LESS, half),
    ]


def turn(contestant: Contestant, scale: Scale) -> dict[str, float]:
    counts = {_SMALL: scale.small_message_count, _LARGE: scale.large_message_count}
    figures: dict[str, float] = {}
    with cluster_of(contestant.name, _settings(contestant)) as cluster:
        for size, count in counts.items():  # a fresh virtual machine interprets, and then compiles
            with _topic(cluster, f"warm-{size}") as name:
                produce(cluster.bootstrap, name, Case(size, _CODEC, _PARTITIONS, count // 2))
        for size, count in counts.items():
            case = Case(size, _CODEC, _PARTITIONS, count)
            with _topic(cluster, f"measured-{size}") as name:
                figures |= _produced(cluster, name, case)
        with _topic(cluster, "pushed", leader=1) as name:
            figures |= _pushed(cluster, name, scale.pushed_seconds)
    return figures


def _settings(contestant: Contestant) -> dict[str, int]:
    settings = {"log.retention.check.interval.ms": _LOOKS_MS}
    if contestant.name == KAFKA:  # which looks for the first time after half a minute, unless told otherwise
        settings["log.initial.task.delay.ms"] = _LOOKS_MS
    return settings


def _produced(cluster: Cluster, topic: str, case: Case) -> dict[str, float]:
    cpu_before = cpu_seconds(cluster)
    flow = produce(cluster.bootstrap, topic, case)
    used = cpu_seconds(cluster) - cpu_before
    amount = case.message_count / 1e3 if case.value_bytes == _SMALL else case.total_bytes / 1e6
    key = f"{NAME}.{case.value_bytes}"
    return {
        f"{key}.rate": amount / flow.seconds,
        f"{key}.cpu": used / (case.total_bytes / 1e9),
        f"{key}.client": flow.client_cpu_seconds / flow.seconds,
    }


def _pushed(cluster: Cluster, topic: str, seconds: float) -> dict[str, float]:
    usages = [Usage(broker.pid) for broker in cluster.brokers.values()]
    pushed = push(cluster.bootstrap, topic, usages, partitions=_LED, bytes_per_second=_GIVEN, seconds=seconds)
    key = f"{NAME}.pushed"
    return {
        f"{key}.rate": pushed.bytes_per_second / 1e6,
        f"{key}.after": pushed.behind_seconds,
        f"{key}.behind": pushed.behind_bytes_max / 1e6,
        f"{key}.cpu": pushed.cpu_seconds / (pushed.total_bytes / 1e9),
    }


@contextlib.contextmanager
def _topic(cluster: Cluster, name: str, *, leader: int | None = None) -> Iterator[str]:
    """A topic of three replicas; `leader` leads all of it, or else each broker a third."""
    admin = admin_of(cluster.bootstrap)
    if leader is None:
        new = NewTopic(name, _PARTITIONS, 3, config={"min.insync.replicas": "2"})
    else:
        others = [node_id for node_id in cluster.brokers if node_id != leader]
        new = NewTopic(name, _LED, replica_assignment=[[leader, *others]] * _LED, config=_KEPT)
    admin.create_topics([new])[name].result(PATIENCE_S)
    until_whole(admin, name, _PARTITIONS if leader is None else _LED)
    yield name
    admin.delete_topics([name])[name].result(PATIENCE_S)
