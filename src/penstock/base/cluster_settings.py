"""The broker's settings for clusters: ZooKeeper, replication, balancing and controlled shutdown."""

from typing import Final

from penstock.base.allowed_values import Between, Matching
from penstock.base.features import SUPPORTED, are_limits
from penstock.base.settings import (
    LONG_MAX,
    MINUTE_MS,
    Setting,
    boolean,
    integer,
    long,
    optional_text,
    text,
    words,
)

_MIB = 1024**2
_POSITIVE = Between(1)
_NOT_NEGATIVE = Between(0)

ZOOKEEPER_CONNECT = text(
    "zookeeper.connect",
    "",
    "The ZooKeeper servers of the cluster, HOST:PORT with commas, and a path behind the last one if several clusters "
    "share them: zk1:2181,zk2:2181/orders. Empty: a broker without a cluster, which stores its metadata itself. "
    "`--zookeeper` sets it.",
)
ZOOKEEPER_SESSION_TIMEOUT_MS = integer(
    "zookeeper.session.timeout.ms",
    9_000,
    "The broker's session expires if ZooKeeper does not hear from it for this long; its partitions then get other "
    "leaders.",
    allowed=Between(100),
)
ZOOKEEPER_CONNECTION_TIMEOUT_MS = integer(
    "zookeeper.connection.timeout.ms",
    18_000,
    "How long a starting broker waits for its first connection to ZooKeeper before it exits with an error.",
    allowed=_POSITIVE,
)
INITIAL_BROKER_REGISTRATION_TIMEOUT_MS = integer(
    "initial.broker.registration.timeout.ms",
    60_000,
    "How long a starting broker retries its registration when ZooKeeper does not answer, and how long it then waits "
    "for the controller to unfence it, before it exits with an error.",
    allowed=_POSITIVE,
)
PENSTOCK_FEATURE_LEVELS_MAX = words(
    "penstock.feature.levels.max",
    (),
    "For tests of rolling upgrades: the highest feature levels that this broker claims to support, as an older version "
    "would: penstock.version=1,transaction.version=1.",
    allowed=Matching(
        are_limits,
        "NAME=LEVEL with commas: " + ", ".join(f"{name} {range_}" for name, range_ in SUPPORTED.items()),
    ),
)
INTER_BROKER_LISTENER_NAME = optional_text(
    "inter.broker.listener.name", "The listener that other brokers connect to; empty: the first one."
)
REPLICA_LAG_TIME_MAX_MS = long(
    "replica.lag.time.max.ms",
    30_000,
    "A follower that has not caught up with the leader for this long is removed from the ISR.",
    allowed=_POSITIVE,
)
REPLICA_HIGH_WATERMARK_CHECKPOINT_INTERVAL_MS = long(
    "replica.high.watermark.checkpoint.interval.ms",
    5_000,
    "How often the high watermarks are checkpointed. After a crash a replica starts with the checkpointed value, and "
    "consumers see no later records until it advances again.",
    allowed=_POSITIVE,
)
REPLICA_FETCH_WAIT_MAX_MS = integer(
    "replica.fetch.wait.max.ms",
    500,
    "How long a leader may delay the response to a follower's fetch until there are new records.",
    allowed=_NOT_NEGATIVE,
)
REPLICA_FETCH_MIN_BYTES = integer(
    "replica.fetch.min.bytes",
    1,
    "A leader delays the response to a follower's fetch until it has at least this many bytes.",
    allowed=_NOT_NEGATIVE,
)
REPLICA_FETCH_MAX_BYTES = integer(
    "replica.fetch.max.bytes",
    _MIB,
    "Bytes of one partition in the response to a follower's fetch; a larger first batch is returned whole.",
    allowed=_POSITIVE,
)
REPLICA_FETCH_RESPONSE_MAX_BYTES = integer(
    "replica.fetch.response.max.bytes",
    10 * _MIB,
    "Bytes in the response to a follower's fetch.",
    allowed=_POSITIVE,
)
REPLICA_FETCH_BACKOFF_MS = integer(
    "replica.fetch.backoff.ms",
    100,
    "How long a follower waits before it fetches again after an error or a lost connection.",
    allowed=_NOT_NEGATIVE,
)
REPLICA_SOCKET_TIMEOUT_MS = integer(
    "replica.socket.timeout.ms",
    30_000,
    "How long a follower waits for the response to a fetch before it closes the connection.",
    allowed=_POSITIVE,
)
LEADER_REPLICATION_THROTTLED_RATE = long(
    "leader.replication.throttled.rate",
    LONG_MAX,
    "Bytes per second that this broker sends, as a leader, to followers that are not in sync, for the replicas in the "
    "topic config `leader.replication.throttled.replicas`.",
    allowed=_POSITIVE,
    dynamic=True,
)
FOLLOWER_REPLICATION_THROTTLED_RATE = long(
    "follower.replication.throttled.rate",
    LONG_MAX,
    "Bytes per second that this broker fetches, as a follower that is not in sync, for the replicas in the topic "
    "config `follower.replication.throttled.replicas`.",
    allowed=_POSITIVE,
    dynamic=True,
)
REPLICA_SELECTOR_CLASS = optional_text(
    "replica.selector.class",
    "The replica that consumers with a `client.rack` fetch from: a name that ends in RackAwareReplicaSelector selects "
    "one in their rack; empty: always the leader.",
)
PENSTOCK_MOVE_MAX_BYTES_PER_SECOND = long(
    "penstock.move.max.bytes.per.second",
    32 * _MIB,
    "Bytes per second that this broker fetches for replicas that a reassignment adds to it, whether the balancer or an "
    "administrator started it.",
    allowed=_POSITIVE,
    dynamic=True,
)
AUTO_LEADER_REBALANCE_ENABLE = boolean(
    "auto.leader.rebalance.enable",
    True,
    "Whether leadership returns to preferred leaders that are back in the ISR; needs `penstock.balance.enable`.",
)
PENSTOCK_BALANCE_ENABLE = boolean(
    "penstock.balance.enable",
    True,
    "Whether the controller reassigns leaders and replicas by itself: to brokers that joined, away from brokers that "
    "are drained or gone, and away from brokers with more than their share. Set it to the same value on all brokers.",
    dynamic=True,
)
PENSTOCK_BALANCE_INTERVAL_MS = long(
    "penstock.balance.interval.ms",
    10_000,
    "How often the balancer compares the brokers' shares; more often while it reassigns partitions.",
    allowed=_POSITIVE,
    dynamic=True,
)
PENSTOCK_BALANCE_MOVES_MAX = integer(
    "penstock.balance.moves.max",
    5,
    "Partitions that the balancer reassigns at the same time.",
    allowed=_POSITIVE,
    dynamic=True,
)
PENSTOCK_BALANCE_REPLACE_AFTER_MS = long(
    "penstock.balance.replace.after.ms",
    30 * MINUTE_MS,
    "The replicas of a broker that has been gone for this long are rebuilt on other brokers. A new controller counts "
    "from its election.",
    allowed=_NOT_NEGATIVE,
    dynamic=True,
)
PENSTOCK_BROKER_DRAIN = boolean(
    "penstock.broker.drain",
    False,
    "Whether this broker is being drained: it leads nothing, its replicas are reassigned to other brokers, and it gets "
    "no new ones. `penstock broker drain N` sets it on a running broker.",
    dynamic=True,
)
CONTROLLED_SHUTDOWN_ENABLE = boolean(
    "controlled.shutdown.enable",
    True,
    "Whether a stopping broker transfers leadership of its partitions first. If not, they have no leader until its "
    "session ends.",
)
PENSTOCK_SHUTDOWN_NOTICE_MS = integer(
    "penstock.shutdown.notice.ms",
    250,
    "How long a stopping broker continues to answer after it has transferred leadership, so that clients learn the new "
    "leaders from it.",
    allowed=_NOT_NEGATIVE,
)
PENSTOCK_SHUTDOWN_TIMEOUT_MS = integer(
    "penstock.shutdown.timeout.ms",
    15_000,
    "How long a stopping broker waits for ZooKeeper and the controller to transfer leadership and to deregister. After "
    "that it closes its logs cleanly and exits with code 1; other brokers take over when its session expires.",
    allowed=_POSITIVE,
)

CLUSTER_SETTINGS: Final = tuple(member for member in list(globals().values()) if isinstance(member, Setting))
