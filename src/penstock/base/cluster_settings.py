"""The broker's settings of clusters: where agreement is found, replication, and what brokers ask of each other."""

from typing import Final

from penstock.base.allowed import Between, Matching
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
    "share them: zk1:2181,zk2:2181/orders. Empty: this broker is alone and keeps its metadata itself. "
    "`--zookeeper` sets it.",
)
ZOOKEEPER_SESSION_TIMEOUT_MS = integer(
    "zookeeper.session.timeout.ms",
    9_000,
    "How long a broker may be silent before ZooKeeper tells the others that it is gone.",
    allowed=Between(100),
)
ZOOKEEPER_CONNECTION_TIMEOUT_MS = integer(
    "zookeeper.connection.timeout.ms",
    18_000,
    "How long a start waits for a ZooKeeper server to answer first; then it ends with an error.",
    allowed=_POSITIVE,
)
INITIAL_BROKER_REGISTRATION_TIMEOUT_MS = integer(
    "initial.broker.registration.timeout.ms",
    60_000,
    "How long a start goes on trying when ZooKeeper stops answering before the broker has registered, and how long it "
    "then waits for the controller to admit the broker. After that it ends with an error.",
    allowed=_POSITIVE,
)
PENSTOCK_FEATURE_LEVELS_MAX = words(
    "penstock.feature.levels.max",
    (),
    "For tests of rolling upgrades: levels of features above which this broker behaves as an older program that does "
    "not support them, as penstock.version=1,transaction.version=1.",
    allowed=Matching(
        are_limits,
        "NAME=LEVEL with commas: " + ", ".join(f"{name} {range_}" for name, range_ in SUPPORTED.items()),
    ),
)
INTER_BROKER_LISTENER_NAME = optional_text(
    "inter.broker.listener.name", "Which listener other brokers connect to; the first one if empty."
)
REPLICA_LAG_TIME_MAX_MS = long(
    "replica.lag.time.max.ms",
    30_000,
    "A follower that has not caught up for so long leaves the in-sync set.",
    allowed=_POSITIVE,
)
REPLICA_HIGH_WATERMARK_CHECKPOINT_INTERVAL_MS = long(
    "replica.high.watermark.checkpoint.interval.ms",
    5_000,
    "How often it is written down up to where each replica knows everything to be committed. A broker that was killed "
    "begins with that, and shows no more until enough of the others are there.",
    allowed=_POSITIVE,
)
REPLICA_FETCH_WAIT_MAX_MS = integer(
    "replica.fetch.wait.max.ms", 500, "How long a leader may hold a follower's fetch.", allowed=_NOT_NEGATIVE
)
REPLICA_FETCH_MIN_BYTES = integer(
    "replica.fetch.min.bytes", 1, "How many bytes a follower's fetch waits for.", allowed=_NOT_NEGATIVE
)
REPLICA_FETCH_MAX_BYTES = integer(
    "replica.fetch.max.bytes",
    _MIB,
    "Bytes that a follower fetches of one partition at a time; a larger batch comes whole.",
    allowed=_POSITIVE,
)
REPLICA_FETCH_RESPONSE_MAX_BYTES = integer(
    "replica.fetch.response.max.bytes",
    10 * _MIB,
    "Bytes that a follower fetches at a time.",
    allowed=_POSITIVE,
)
REPLICA_FETCH_BACKOFF_MS = integer(
    "replica.fetch.backoff.ms",
    100,
    "How long a follower waits when a leader did not answer, or not well.",
    allowed=_NOT_NEGATIVE,
)
REPLICA_SOCKET_TIMEOUT_MS = integer(
    "replica.socket.timeout.ms", 30_000, "How long a follower waits for an answer.", allowed=_POSITIVE
)
LEADER_REPLICATION_THROTTLED_RATE = long(
    "leader.replication.throttled.rate",
    LONG_MAX,
    "Bytes a second that this broker sends to replicas that are being copied, of the partitions that "
    "`leader.replication.throttled.replicas` of their topics name.",
    allowed=_POSITIVE,
    dynamic=True,
)
FOLLOWER_REPLICATION_THROTTLED_RATE = long(
    "follower.replication.throttled.rate",
    LONG_MAX,
    "Bytes a second that this broker copies of the replicas that `follower.replication.throttled.replicas` of their "
    "topics name.",
    allowed=_POSITIVE,
    dynamic=True,
)
REPLICA_SELECTOR_CLASS = optional_text(
    "replica.selector.class",
    "Which replica consumers that say their rack are sent to: a name that ends in RackAwareReplicaSelector sends "
    "them to one in their rack; empty: to the leader.",
)
PENSTOCK_MOVE_MAX_BYTES_PER_SECOND = long(
    "penstock.move.max.bytes.per.second",
    32 * _MIB,
    "Bytes a second that this broker copies of replicas that are being moved to it, whoever moves them.",
    allowed=_POSITIVE,
    dynamic=True,
)
AUTO_LEADER_REBALANCE_ENABLE = boolean(
    "auto.leader.rebalance.enable",
    True,
    "Whether preferred leaders lead again when they are back; only while `penstock.balance.enable` is on.",
)
PENSTOCK_BALANCE_ENABLE = boolean(
    "penstock.balance.enable",
    True,
    "Whether the controller moves leaders and replicas itself: to brokers that joined, off those that are drained or "
    "gone, and off those that have more than their share. Set it for all brokers alike.",
    dynamic=True,
)
PENSTOCK_BALANCE_INTERVAL_MS = long(
    "penstock.balance.interval.ms",
    10_000,
    "How often the controller looks whether brokers have equal shares; more often while it moves something.",
    allowed=_POSITIVE,
    dynamic=True,
)
PENSTOCK_BALANCE_MOVES_MAX = integer(
    "penstock.balance.moves.max",
    5,
    "Partitions whose replicas the balancer exchanges at a time.",
    allowed=_POSITIVE,
    dynamic=True,
)
PENSTOCK_BALANCE_REPLACE_AFTER_MS = long(
    "penstock.balance.replace.after.ms",
    30 * MINUTE_MS,
    "A broker that has been away for so long has its replicas rebuilt elsewhere. A new controller counts from when it "
    "was elected.",
    allowed=_NOT_NEGATIVE,
    dynamic=True,
)
PENSTOCK_BROKER_DRAIN = boolean(
    "penstock.broker.drain",
    False,
    "Whether this broker is being emptied: others lead, its replicas go elsewhere, and it gets no new ones. Set for a "
    "broker while it runs; `penstock broker drain N` does.",
    dynamic=True,
)
CONTROLLED_SHUTDOWN_ENABLE = boolean(
    "controlled.shutdown.enable", True, "Whether a broker that stops hands its leaders over first."
)
PENSTOCK_SHUTDOWN_NOTICE_MS = integer(
    "penstock.shutdown.notice.ms",
    250,
    "How long a broker that stops goes on answering when others lead what it led: clients that ask hear who does.",
    allowed=_NOT_NEGATIVE,
)
PENSTOCK_SHUTDOWN_TIMEOUT_MS = integer(
    "penstock.shutdown.timeout.ms",
    15_000,
    "How long a broker that stops waits for ZooKeeper and the controller, to hand its leaders over and to leave the "
    "cluster. After that it stops without: it closes its logs cleanly, other brokers take over when its session "
    "ends, and the exit code is 1.",
    allowed=_POSITIVE,
)

CLUSTER_SETTINGS: Final = tuple(member for member in list(globals().values()) if isinstance(member, Setting))
