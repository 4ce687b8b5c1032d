"""The broker's settings, under Kafka's names where Kafka has them.

The settings that give topic configs their defaults (`log.segment.bytes`, `message.max.bytes`, …) are made
from the declarations in `topic_settings`; those of groups and transactions are in `coordinator_settings`, those of
clusters in `cluster_settings`. `load_settings` reads the values.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from penstock.base.allowed_values import Between, Matching
from penstock.base.cluster_settings import CLUSTER_SETTINGS
from penstock.base.coordinator_settings import COORDINATOR_SETTINGS
from penstock.base.errors import SettingError
from penstock.base.listeners import (
    PLAINTEXT,
    Listener,
    advertised_listeners,
    bound_listeners,
    parse_address,
)
from penstock.base.settings import (
    DAY_MS,
    DOUBLE_MAX,
    LONG_MAX,
    MINUTE_MS,
    SECOND_MS,
    Catalogue,
    Setting,
    Settings,
    Shown,
    boolean,
    double,
    integer,
    long,
    optional_integer,
    optional_long,
    optional_text,
    text,
    words,
)
from penstock.base.topic_settings import TOPIC_SETTINGS, topic_settings

_MIB = 1024**2
_POSITIVE = Between(1)
_NOT_NEGATIVE = Between(0)


def _is_address_or_empty(value: str) -> bool:
    if not value:
        return True
    try:
        parse_address(value)
    except SettingError:
        return False
    return True


# Identity and addresses.

NODE_ID = integer(
    "node.id", 1, "This broker's id in the cluster. No other broker may have the same.", allowed=_NOT_NEGATIVE
)
BROKER_RACK = optional_text(
    "broker.rack", "The rack or availability zone of this broker, as metadata responses show it."
)
LISTENERS = words(
    "listeners",
    ("PLAINTEXT://127.0.0.1:9092",),
    "Addresses to accept connections on: NAME://HOST:PORT, several with commas. Port 0 takes a free port. "
    "`--listen` sets a single PLAINTEXT listener.",
)
ADVERTISED_LISTENERS = words(
    "advertised.listeners",
    (),
    "Addresses that clients are told to connect to, by listener name; empty: those of `listeners`. Required when a "
    "listener binds every address, since no client can connect to 0.0.0.0.",
)
LISTENER_SECURITY_PROTOCOL_MAP = text(
    "listener.security.protocol.map",
    f"{PLAINTEXT}:{PLAINTEXT}",
    "The security protocol of each listener name: NAME:PROTOCOL, several with commas. Only PLAINTEXT is "
    "supported yet.",
)
LOG_DIR = words("log.dir", ("penstock-data",), "The data directory, unless `log.dirs` names it.")
LOG_DIRS = words("log.dirs", (), "The data directory; a broker has exactly one. `--data-dir` sets it.")

# Topics.

AUTO_CREATE_TOPICS_ENABLE = boolean(
    "auto.create.topics.enable", True, "Whether a metadata request for an unknown topic creates it."
)
DELETE_TOPIC_ENABLE = boolean("delete.topic.enable", True, "Whether topics can be deleted.")
NUM_PARTITIONS = integer(
    "num.partitions", 1, "Partitions of a new topic if the request does not say how many.", allowed=_POSITIVE
)
DEFAULT_REPLICATION_FACTOR = integer(
    "default.replication.factor",
    1,
    "Replicas of each partition of a new topic if the request does not say how many.",
    allowed=Between(1, 32767),
)
PENSTOCK_PARTITIONS_MAX = integer(
    "penstock.partitions.max",
    15_000,
    "Replicas per broker, on average over the cluster; requests that would create more fail with POLICY_VIOLATION. "
    "Each takes about 6 KB of memory and, after an unclean shutdown, 0.3 ms of the next start.",
    allowed=_POSITIVE,
)

# Defaults of topic configs that have more than one name; the others follow from `topic_settings`.

LOG_RETENTION_MS = optional_long(
    "log.retention.ms", "Default of the topic config `retention.ms`.", allowed=Between(-1), dynamic=True
)
LOG_RETENTION_MINUTES = optional_integer(
    "log.retention.minutes",
    "Default of the topic config `retention.ms`, in minutes, unless `log.retention.ms` is given.",
    allowed=Between(-1),
)
LOG_RETENTION_HOURS = integer(
    "log.retention.hours",
    168,
    "Default of the topic config `retention.ms`, in hours, unless a finer unit is given.",
    allowed=Between(-1),
)
LOG_ROLL_MS = optional_long(
    "log.roll.ms", "Default of the topic config `segment.ms`.", allowed=_POSITIVE, dynamic=True
)
LOG_ROLL_HOURS = integer(
    "log.roll.hours",
    168,
    "Default of the topic config `segment.ms`, in hours, unless `log.roll.ms` is given.",
    allowed=_POSITIVE,
)
LOG_ROLL_JITTER_MS = optional_long(
    "log.roll.jitter.ms",
    "Default of the topic config `segment.jitter.ms`.",
    allowed=_NOT_NEGATIVE,
    dynamic=True,
)
LOG_ROLL_JITTER_HOURS = integer(
    "log.roll.jitter.hours",
    0,
    "Default of the topic config `segment.jitter.ms`, in hours, unless `log.roll.jitter.ms` is given.",
    allowed=_NOT_NEGATIVE,
)
LOG_FLUSH_INTERVAL_MS = optional_long(
    "log.flush.interval.ms", "Default of the topic config `flush.ms`.", allowed=_NOT_NEGATIVE, dynamic=True
)
LOG_FLUSH_SCHEDULER_INTERVAL_MS = long(
    "log.flush.scheduler.interval.ms",
    LONG_MAX,
    "Default of the topic config `flush.ms`, unless `log.flush.interval.ms` is given.",
    allowed=_NOT_NEGATIVE,
)

# Background work on the log.

LOG_RETENTION_CHECK_INTERVAL_MS = long(
    "log.retention.check.interval.ms",
    5 * MINUTE_MS,
    "How often the broker checks for segments to delete.",
    allowed=_POSITIVE,
)
LOG_FLUSH_OFFSET_CHECKPOINT_INTERVAL_MS = integer(
    "log.flush.offset.checkpoint.interval.ms",
    MINUTE_MS,
    "How often the recovery points (up to where each log is synced) are checkpointed. After a crash, the logs are "
    "scanned from there.",
    allowed=_NOT_NEGATIVE,
)
LOG_CLEANER_ENABLE = boolean(
    "log.cleaner.enable",
    True,
    "Whether the log cleaner compacts topics with `cleanup.policy=compact`. If not, their logs grow without limit.",
)
LOG_CLEANER_BACKOFF_MS = long(
    "log.cleaner.backoff.ms",
    15 * SECOND_MS,
    "How long the log cleaner sleeps when no partition needs compaction.",
    allowed=_NOT_NEGATIVE,
    dynamic=True,
)
LOG_CLEANER_DEDUPE_BUFFER_SIZE = long(
    "log.cleaner.dedupe.buffer.size",
    128 * _MIB,
    "Memory for the map of keys in one compaction run; a partition with more keys takes several runs.",
    allowed=Between(_MIB),
    dynamic=True,
)
LOG_CLEANER_IO_MAX_BYTES_PER_SECOND = double(
    "log.cleaner.io.max.bytes.per.second",
    DOUBLE_MAX,
    "Bytes per second that the log cleaner may read and write, both together.",
    allowed=_POSITIVE,
    dynamic=True,
)

# Idempotent producers.

PRODUCER_ID_EXPIRATION_MS = integer(
    "producer.id.expiration.ms",
    DAY_MS,
    "How long a partition keeps the state of an idempotent producer that has stopped writing. Later retries of its "
    "batches are not recognised as duplicates.",
    allowed=_POSITIVE,
    dynamic=True,
)
PRODUCER_ID_EXPIRATION_CHECK_INTERVAL_MS = integer(
    "producer.id.expiration.check.interval.ms",
    10 * MINUTE_MS,
    "How often expired producer state is removed.",
    allowed=_POSITIVE,
    internal=True,
)
PENSTOCK_PARTITION_PRODUCERS_MAX = integer(
    "penstock.partition.producers.max",
    10_000,
    "Idempotent producers that a partition keeps state of; beyond that, the state of the one that has not written for "
    "longest is removed.",
    allowed=_POSITIVE,
)

# Limits. A client that reaches one is slowed down or gets an error.

SOCKET_REQUEST_MAX_BYTES = integer(
    "socket.request.max.bytes",
    100 * _MIB,
    "The largest request; a client that sends a larger one is disconnected.",
    allowed=_POSITIVE,
)
MAX_CONNECTIONS = integer(
    "max.connections",
    10_000,
    "Connections to the broker; further ones are closed at once.",
    allowed=_NOT_NEGATIVE,
    dynamic=True,
)
MAX_CONNECTIONS_PER_IP = integer(
    "max.connections.per.ip",
    10_000,
    "Connections from one IP address; further ones are closed at once.",
    allowed=_NOT_NEGATIVE,
    dynamic=True,
)
CONNECTIONS_MAX_IDLE_MS = long(
    "connections.max.idle.ms",
    10 * MINUTE_MS,
    "A connection without a request for this long is closed; -1: never.",
    allowed=Between(1, also=(-1,)),
)
PENSTOCK_REQUEST_ARRIVAL_TIMEOUT_MS = integer(
    "penstock.request.arrival.timeout.ms",
    30 * SECOND_MS,
    "A connection that stops sending in the middle of a request for this long is closed, to free the memory of the "
    "partial request.",
    allowed=_POSITIVE,
)
PENSTOCK_REQUEST_PROGRESS_TIMEOUT_MS = integer(
    "penstock.request.progress.timeout.ms",
    10 * SECOND_MS,
    "While requests wait for memory (`queued.max.request.bytes`), a connection is closed if its partial request would "
    "take longer than this to arrive at its current rate, or if it keeps complete requests unprocessed for this long.",
    allowed=_POSITIVE,
)
QUEUED_MAX_REQUEST_BYTES = long(
    "queued.max.request.bytes",
    512 * _MIB,
    "Memory for all requests that are being received or handled. When it is used up, large requests are not read from "
    "their sockets until there is memory for all of one; small requests always have some. One request may use about "
    "two thirds. -1: no limit.",
    allowed=Between(1, also=(-1,)),
)
PENSTOCK_REQUEST_ELEMENTS_MAX = integer(
    "penstock.request.elements.max",
    250_000,
    "Elements of all arrays in one request (partitions, topics, configs); a client that sends more is disconnected.",
    allowed=_POSITIVE,
)
PENSTOCK_CONNECTION_INFLIGHT_REQUESTS_MAX = integer(
    "penstock.connection.inflight.requests.max",
    64,
    "In-flight requests per connection: received and not yet answered. At the limit, no more are read from the "
    "connection.",
    allowed=_POSITIVE,
)
PENSTOCK_CONNECTION_UNSENT_BYTES_MAX = integer(
    "penstock.connection.unsent.bytes.max",
    _MIB,
    "Response bytes of one connection that the client has not read; above the limit, no more requests are read "
    "from the connection.",
    allowed=_POSITIVE,
)
PENSTOCK_UNSENT_BYTES_MAX = long(
    "penstock.unsent.bytes.max",
    512 * _MIB,
    "Response bytes of all connections that clients have not read; above the limit, connections are closed, those "
    "first whose clients have read nothing for longest. -1: no limit.",
    allowed=Between(1, also=(-1,)),
)
FETCH_MAX_BYTES = integer(
    "fetch.max.bytes",
    55 * _MIB,
    "Record bytes in one fetch response, whatever the client asks for.",
    allowed=Between(1024),
)
PENSTOCK_FETCH_ANSWER_BYTES = integer(
    "penstock.fetch.answer.bytes",
    _MIB,
    "A fetch response includes no further partition once it has this many record bytes, unless the request's "
    "min_bytes is larger. Short responses let other clients have their turn.",
    allowed=_POSITIVE,
)
MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS = integer(
    "max.incremental.fetch.session.cache.slots",
    1000,
    "Fetch sessions that the broker keeps; a client without one sends all its partitions with every fetch.",
    allowed=_NOT_NEGATIVE,
)
PENSTOCK_FETCH_SESSION_PARTITIONS_MAX = integer(
    "penstock.fetch.session.partitions.max",
    500_000,
    "Partitions of all fetch sessions together; a session that would exceed it is not created.",
    allowed=_NOT_NEGATIVE,
)
MAX_REQUEST_PARTITION_SIZE_LIMIT = integer(
    "max.request.partition.size.limit",
    2000,
    "Partitions in one DescribeTopicPartitions response; clients request the rest with the next one.",
    allowed=_POSITIVE,
)
PENSTOCK_DECOMPRESSED_BYTES_MAX = integer(
    "penstock.decompressed.bytes.max",
    100 * _MIB,
    "Uncompressed size of a batch that the broker has to decompress; a larger one is rejected with "
    "MESSAGE_TOO_LARGE.",
    allowed=_POSITIVE,
)
PENSTOCK_QUEUED_SYNCS_MAX = integer(
    "penstock.queued.syncs.max",
    10_000,
    "Produce requests that wait for an fsync (`flush.messages`); at the limit, further ones are delayed.",
    allowed=_POSITIVE,
)
PENSTOCK_SYNC_WHOLE_FILE_SYSTEM_FROM = integer(
    "penstock.sync.whole.file.system.from",
    8,
    "If at least this many partitions wait for an fsync, the whole file system is synced with one syncfs call (Linux "
    "5.8 and later); 0: always file by file. Lower is faster, unless other programs write to the same file system.",
    allowed=_NOT_NEGATIVE,
)
PENSTOCK_MEMORY_BYTES_MAX = long(
    "penstock.memory.bytes.max",
    2048 * _MIB,
    "Bytes of all topics with `penstock.storage=memory`; when it is used up, produce requests to them fail with "
    "KAFKA_STORAGE_ERROR.",
    allowed=_POSITIVE,
)
PENSTOCK_OPEN_FILES_MAX = integer(
    "penstock.open.files.max",
    0,
    "Open file descriptors for segments and indexes, however many partitions there are; 0: half of the process's "
    "limit (ulimit -n).",
    allowed=Between(16, also=(0,)),
)

# The process.

PENSTOCK_WORK_THREADS = integer(
    "penstock.work.threads",
    4,
    "Worker threads for fsync, reads that miss the page cache, and decompression.",
    allowed=Between(1, 256),
)
PENSTOCK_LOOP_SLICE_MS = integer(
    "penstock.loop.slice.ms",
    5,
    "How long background work may occupy the event loop at a time; requests wait meanwhile.",
    allowed=Between(1, 1000),
)
PENSTOCK_METRICS_LISTEN = text(
    "penstock.metrics.listen",
    "",
    "HOST:PORT that serves `/metrics` and `/healthz` over HTTP. Port 0 takes a free port; empty: not served.",
    allowed=Matching(_is_address_or_empty, "HOST:PORT, or empty"),
)
PENSTOCK_DRAIN_TIMEOUT_MS = integer(
    "penstock.drain.timeout.ms",
    10 * SECOND_MS,
    "How long a stopping broker waits for in-flight requests before it closes their connections.",
    allowed=_NOT_NEGATIVE,
)


def _topic_defaults() -> Iterator[Setting[Any]]:
    """The broker settings that give the default of one topic config; all but the name is taken from the config."""
    for config in TOPIC_SETTINGS:
        if len(config.synonyms) == 1:
            yield replace(
                config,
                name=config.synonyms[0].name,
                doc=f"Default of the topic config `{config.name}`.",
                synonyms=(),
                fixed=False,
                # A fixed config is decided when a topic is created, so changing the default later has no effect.
                dynamic=not config.fixed,
            )


BROKER_SETTINGS = Catalogue(
    "broker",
    (
        *(member for member in list(globals().values()) if isinstance(member, Setting)),
        *CLUSTER_SETTINGS,
        *COORDINATOR_SETTINGS,
        *_topic_defaults(),
    ),
)


def synonyms(settings: Settings, setting: Setting[Any]) -> list[Shown]:
    """The candidates for a broker setting's value, the effective one first, as DescribeConfigs lists them."""
    return settings.behind(setting, setting.name)


def data_directory(settings: Settings) -> str:
    """The broker's data directory."""
    directories = settings[LOG_DIRS] or settings[LOG_DIR]
    if len(directories) != 1 or not directories[0]:
        raise SettingError(
            f"log.dirs has {len(directories)} directories: a broker has exactly one data directory"
        )
    return directories[0]


def bound(settings: Settings) -> tuple[Listener, ...]:
    """The endpoints to bind."""
    return bound_listeners(settings[LISTENERS], settings[LISTENER_SECURITY_PROTOCOL_MAP].split(","))


def advertised(settings: Settings) -> tuple[Listener, ...]:
    """The addresses for clients. A port of 0 stands for the one that was bound."""
    return advertised_listeners(settings[ADVERTISED_LISTENERS], bound(settings))


def check_together(settings: Settings) -> Settings:
    """The same settings, checked against each other."""
    data_directory(settings)
    advertised(settings)
    # Derives every topic config from the broker's defaults, and checks them against each other.
    topic_settings({}, settings)
    return settings
