"""How much and how long: the full run, and a quick look that shows the same rows with more noise."""

from typing import NamedTuple

_GIB = 1 << 30


class Scale(NamedTuple):
    """The sizes of all measures."""

    rounds: int
    small_message_count: int  # of 100 B, per case of the throughput measure
    large_message_count: int  # of 1 KiB
    codecs: tuple[str, ...]
    load_seconds: float  # of each measure that sends for a time
    latency_seconds: float
    backlog_bytes: int
    partition_counts: tuple[int, ...]
    idle_connections: int
    busy_connections: int
    start_rounds: int
    warm_up_seconds: float
    joins: int  # of a member that is alone
    joins_beside_others: int
    group_members: int  # restarted one after the other
    heartbeat_ms: int  # of members of the classic protocol; in the new one the broker decides
    rebalanced_members: int
    rebalanced_partitions: int
    failovers: int  # leaders that are killed, one after the other
    cluster_partitions: int  # of three replicas each
    idle_seconds: float
    pushed_seconds: float  # how long a replicated leader is given 100 MB/s
    joined_seconds: float  # of each look at a cluster before and after a broker joins
    joined_bytes: int  # that it has before


FULL = Scale(
    rounds=3,
    small_message_count=2_000_000,
    large_message_count=500_000,
    codecs=("none", "lz4"),
    load_seconds=5,
    latency_seconds=20,
    backlog_bytes=10 * _GIB,
    partition_counts=(10, 1_000, 10_000),
    idle_connections=5_000,
    busy_connections=500,
    start_rounds=5,
    warm_up_seconds=8,
    joins=15,
    joins_beside_others=5,
    group_members=10,
    heartbeat_ms=3_000,
    rebalanced_members=1_000,
    rebalanced_partitions=10_000,
    failovers=5,
    cluster_partitions=3_000,
    idle_seconds=20,
    pushed_seconds=15,
    joined_seconds=15,
    joined_bytes=400_000_000,
)

QUICK = FULL._replace(
    rounds=1,
    small_message_count=500_000,
    large_message_count=150_000,
    load_seconds=2,
    latency_seconds=6,
    backlog_bytes=_GIB,
    partition_counts=(10, 1_000),
    idle_connections=1_000,
    busy_connections=100,
    start_rounds=1,
    warm_up_seconds=4,
    joins=5,
    joins_beside_others=2,
    group_members=3,
    rebalanced_members=200,
    rebalanced_partitions=1_000,
    failovers=2,
    idle_seconds=10,
    pushed_seconds=5,
    joined_seconds=8,
    joined_bytes=200_000_000,
)

TINY = QUICK._replace(
    small_message_count=2_000,
    large_message_count=1_000,
    load_seconds=0.2,
    latency_seconds=0.5,
    backlog_bytes=4 << 20,
    partition_counts=(10,),
    idle_connections=10,
    busy_connections=5,
    warm_up_seconds=0.1,
    joins=2,
    joins_beside_others=1,
    group_members=2,
    heartbeat_ms=100,
    rebalanced_members=20,
    rebalanced_partitions=40,
    failovers=1,
    cluster_partitions=20,
    idle_seconds=0.5,
    pushed_seconds=1,
    joined_seconds=2,
    joined_bytes=5_000_000,
)
