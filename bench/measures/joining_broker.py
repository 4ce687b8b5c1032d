"""A fourth Penstock broker joins three that are at work: how even it gets by itself, how much producers feel of it, and
how much more the cluster then takes.

Producers have acks=all. For the last part links between clients and brokers have a limit that is one for all brokers;
then what the cluster takes is decided by how many brokers lead, and how evenly, and not by this machine's cores. Kafka
is left out: it does not balance itself.
"""

import contextlib
import re
import time
from collections import Counter
from collections.abc import Iterable

from confluent_kafka.admin import AdminClient, NewTopic

from bench.clusters import PATIENCE_S, SESSION_MS, admin_of, until, until_whole
from bench.contestants import PENSTOCK, Contestant
from bench.load.capped import CappedCluster
from bench.load.flooding import fill, flood
from bench.load.steady import steady_records
from bench.load.writing import Writing
from bench.rows import Better, Goal, Row, percentile
from bench.scale import Scale
from peers.penstock import PenstockProcess

NAME = "joining_broker"
TITLE = "a fourth broker joins"
WARM = False

_TOPIC = "joined"
_PARTITIONS = 24
_LIMIT = 3e6  # bytes a second, of clients to each broker
_SETTINGS = {"zookeeper.session.timeout.ms": SESSION_MS, "penstock.balance.interval.ms": 1_000}
_FOURTH = 4
_LOADED_EVERY_S = 0.04  # a record to every partition
_LOADED_BYTES = 4096
_SETTLING_S = 2.0
_UNEVEN_MAX = 10.0  # per cent
_EVEN_FOR_S = 2.0
_EXPECTED_S = 35


def rounds(_scale: Scale) -> int:
    return 1


def seconds(scale: Scale) -> float:
    """Of one turn; there is one for two brokers."""
    return (_EXPECTED_S + 3 * scale.joined_seconds + scale.joined_bytes / 20e6) / 2


def rows(_scale: Scale) -> list[Row]:
    quiet, before = f"{NAME}.quiet", f"{NAME}.before"
    even = Goal(limit=_UNEVEN_MAX)
    return [
        Row(f"{NAME}.took", "a fourth broker joins: until shares are even", "s", Better.LESS),
        Row(f"{NAME}.leaders", "the same: leaders, furthest from even", "%", Better.LESS, even),
        Row(f"{NAME}.bytes", "the same: bytes on disk, furthest from even", "%", Better.LESS, even),
        Row(quiet, "the same: p99 of a write before", "ms", Better.LESS_AT_THE_TAIL),
        Row(
            f"{NAME}.moving",
            "the same: p99 of a write meanwhile",
            "ms",
            Better.LESS_AT_THE_TAIL,
            Goal(ratio=2, of_row=quiet),
        ),
        Row(before, "three brokers, each given 3 MB/s: taken", "MB/s", Better.MORE),
        Row(
            f"{NAME}.after",
            "with the fourth: taken",
            "MB/s",
            Better.MORE,
            Goal(ratio=1.25, of_row=before),
        ),
    ]


def turn(contestant: Contestant, scale: Scale) -> dict[str, float]:
    if contestant.name != PENSTOCK:
        return {}
    with CappedCluster(joining=1, settings=_SETTINGS) as cluster:
        admin = admin_of(cluster.bootstrap)
        topic = NewTopic(_TOPIC, _PARTITIONS, 3, config={"min.insync.replicas": "2"})
        admin.create_topics([topic])[_TOPIC].result(PATIENCE_S)
        until_whole(admin, _TOPIC, _PARTITIONS)
        fill(cluster.bootstrap, _TOPIC, partitions=_PARTITIONS, total_bytes=scale.joined_bytes)
        before = _taken(cluster, scale)
        with contextlib.ExitStack() as stack:
            fourth = cluster.broker(_FOURTH)
            stack.push(fourth)
            figures = _join(cluster, fourth, admin, scale)
            after = _taken(cluster, scale)
    return {**figures, f"{NAME}.before": before, f"{NAME}.after": after}


def _taken(cluster: CappedCluster, scale: Scale) -> float:
    """MB a second, when each broker is given no more than the limit."""
    cluster.limit(_LIMIT)
    taken = flood(cluster.bootstrap, _TOPIC, partitions=_PARTITIONS, seconds=scale.joined_seconds)
    cluster.limit(0)
    return taken / 1e6


def _join(
    cluster: CappedCluster, fourth: PenstockProcess, admin: AdminClient, scale: Scale
) -> dict[str, float]:
    bootstrap = cluster.bootstrap
    loaded = steady_records(
        bootstrap, _TOPIC, partitions=_PARTITIONS, every_s=_LOADED_EVERY_S, value_bytes=_LOADED_BYTES
    )
    with loaded, Writing(bootstrap, _TOPIC, {}, partitions=_PARTITIONS) as writing:
        writing.acknowledged_after(time.monotonic())
        time.sleep(_SETTLING_S)  # the load itself, as is the next: connections are made
        began_s = time.monotonic()
        time.sleep(scale.joined_seconds)
        joined_s = time.monotonic()
        fourth.start()
        moving_s = time.monotonic()  # the start of another process on the same cores is no part of the move
        even_s = max(moving_s, _until_even(admin, [*cluster.brokers, _FOURTH]))
        waits = writing.waits_s(began_s, joined_s), writing.waits_s(moving_s, even_s)
    shares = Counter(leader for leader, _ in _partitions(admin))
    sizes = [_bytes_on_disk(broker) for broker in (*cluster.brokers.values(), fourth)]
    quiet, moving = (1000 * percentile(found, 0.99) for found in waits)
    return {
        f"{NAME}.took": even_s - joined_s,
        f"{NAME}.leaders": _unevenness([shares[node_id] for node_id in (*cluster.brokers, _FOURTH)]),
        f"{NAME}.bytes": _unevenness(sizes),
        f"{NAME}.quiet": quiet,
        f"{NAME}.moving": moving,
    }


def _until_even(admin: AdminClient, node_ids: list[int]) -> float:
    """When all brokers had the same numbers of leaders and replicas, and no replica was missing, to stay so."""
    even_since_s: float | None = None

    def is_even() -> bool:
        nonlocal even_since_s
        found = _partitions(admin)
        leads = Counter(leader for leader, _ in found)
        holds = Counter(each for _, isr in found for each in isr)
        spreads = [
            max(counts) - min(counts)
            for counts in ([leads[node_id] for node_id in node_ids], [holds[node_id] for node_id in node_ids])
        ]
        if max(spreads) > 1 or holds.total() != 3 * _PARTITIONS:
            even_since_s = None
        elif even_since_s is None:
            even_since_s = time.monotonic()
        return even_since_s is not None and time.monotonic() - even_since_s >= _EVEN_FOR_S

    until(is_even, every_s=0.2)
    assert even_since_s is not None
    return even_since_s


def _partitions(admin: AdminClient) -> list[tuple[int, list[int]]]:
    """Leader and in-sync replicas of each."""
    found = admin.list_topics(_TOPIC, timeout=10).topics[_TOPIC].partitions.values()
    return [(partition.leader, list(partition.isrs)) for partition in found]


def _bytes_on_disk(broker: PenstockProcess) -> int:
    """What a broker's segments of the topic take."""
    return sum(
        segment.stat().st_size
        for directory in broker.data.iterdir()
        if re.fullmatch(rf"{_TOPIC}-\d+", directory.name)
        for segment in directory.glob("*.log")
    )


def _unevenness(shares: Iterable[float]) -> float:
    """How far the share furthest from the mean is from it, in per cent."""
    found = list(shares)
    mean = sum(found) / len(found)
    return 100 * max(abs(share - mean) for share in found) / mean
