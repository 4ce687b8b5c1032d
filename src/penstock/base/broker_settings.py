"""The broker's settings, under Kafka's names where Kafka has them.

The settings that give topic configs their defaults (`log.segment.bytes`, `message.max.bytes`, …) are made
from the declarations in `topic_settings`; those of groups and transactions are in `coordinator_settings`, those of
clusters in `cluster_settings`. Security brings its own when it comes. Where the values are read from is
`load_settings`.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from penstock.base.allowed import Between, Matching
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


# Who this broker is, and where.

NODE_ID = integer("node.id", 1, "This broker's number in the cluster.", allowed=_NOT_NEGATIVE)
BROKER_RACK = optional_text("broker.rack", "Which rack or zone this broker stands in, as clients are told.")
LISTENERS = words(
    "listeners",
    ("PLAINTEXT://127.0.0.1:9092",),
    "Where to accept connections: NAME://HOST:PORT, several with commas. Port 0 takes a free one. "
    "`--listen` sets a single PLAINTEXT one.",
)
ADVERTISED_LISTENERS = words(
    "advertised.listeners",
    (),
    "Where clients are told to connect, by listener name; as `listeners` if empty. Must be given when a "
    "listener binds every address, as nobody can connect to 0.0.0.0.",
)
LISTENER_SECURITY_PROTOCOL_MAP = text(
    "listener.security.protocol.map",
    f"{PLAINTEXT}:{PLAINTEXT}",
    "Which protocol each listener name speaks: NAME:PROTOCOL, several with commas. PLAINTEXT is the only "
    "one yet.",
)
LOG_DIR = words("log.dir", ("penstock-data",), "The data directory, unless `log.dirs` names it.")
LOG_DIRS = words("log.dirs", (), "The data directory; exactly one is taken. `--data-dir` sets it.")

# Topics.

AUTO_CREATE_TOPICS_ENABLE = boolean(
    "auto.create.topics.enable", True, "Whether asking for an unknown topic's metadata creates it."
)
DELETE_TOPIC_ENABLE = boolean("delete.topic.enable", True, "Whether topics can be deleted.")
NUM_PARTITIONS = integer(
    "num.partitions", 1, "Partitions of a topic whose creator left the number open.", allowed=_POSITIVE
)
DEFAULT_REPLICATION_FACTOR = integer(
    "default.replication.factor",
    1,
    "Replicas of each partition of a topic whose creator left the number open.",
    allowed=Between(1, 32767),
)
PENSTOCK_PARTITIONS_MAX = integer(
    "penstock.partitions.max",
    15_000,
    "Partitions that a broker holds, replicas included, on average over all brokers of a cluster; creating more is "
    "refused. Each takes about 6 KB of memory and, after an unclean stop, 0.3 ms of the next start.",
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
    "How often expired segments are looked for.",
    allowed=_POSITIVE,
)
LOG_FLUSH_OFFSET_CHECKPOINT_INTERVAL_MS = integer(
    "log.flush.offset.checkpoint.interval.ms",
    MINUTE_MS,
    "How often it is written down up to where each log is synced; what lies beyond is scanned after a crash.",
    allowed=_NOT_NEGATIVE,
)
LOG_CLEANER_ENABLE = boolean("log.cleaner.enable", True, "Whether compacted topics are compacted.")
LOG_CLEANER_BACKOFF_MS = long(
    "log.cleaner.backoff.ms",
    15 * SECOND_MS,
    "How long compaction rests when no partition is due.",
    allowed=_NOT_NEGATIVE,
    dynamic=True,
)
LOG_CLEANER_DEDUPE_BUFFER_SIZE = long(
    "log.cleaner.dedupe.buffer.size",
    128 * _MIB,
    "Memory for the keys that one round of compaction tells apart; a partition with more is done in several.",
    allowed=Between(_MIB),
    dynamic=True,
)
LOG_CLEANER_IO_MAX_BYTES_PER_SECOND = double(
    "log.cleaner.io.max.bytes.per.second",
    DOUBLE_MAX,
    "How fast compaction may read and write, both together.",
    allowed=_POSITIVE,
    dynamic=True,
)

# Idempotent producers.

PRODUCER_ID_EXPIRATION_MS = integer(
    "producer.id.expiration.ms",
    DAY_MS,
    "How long a partition remembers an idempotent producer that writes no more.",
    allowed=_POSITIVE,
    dynamic=True,
)
PRODUCER_ID_EXPIRATION_CHECK_INTERVAL_MS = integer(
    "producer.id.expiration.check.interval.ms",
    10 * MINUTE_MS,
    "How often forgotten producers are looked for.",
    allowed=_POSITIVE,
    internal=True,
)
PENSTOCK_PARTITION_PRODUCERS_MAX = integer(
    "penstock.partition.producers.max",
    10_000,
    "How many idempotent producers a partition remembers; beyond, the one that has been silent longest is "
    "forgotten.",
    allowed=_POSITIVE,
)

# Limits. Reaching one slows the client down or answers it with an error.

SOCKET_REQUEST_MAX_BYTES = integer(
    "socket.request.max.bytes",
    100 * _MIB,
    "The largest request; a client that announces more is disconnected.",
    allowed=_POSITIVE,
)
MAX_CONNECTIONS = integer(
    "max.connections",
    10_000,
    "Connections in all; one more is closed at once.",
    allowed=_NOT_NEGATIVE,
    dynamic=True,
)
MAX_CONNECTIONS_PER_IP = integer(
    "max.connections.per.ip",
    10_000,
    "Connections from one address; one more is closed at once.",
    allowed=_NOT_NEGATIVE,
    dynamic=True,
)
CONNECTIONS_MAX_IDLE_MS = long(
    "connections.max.idle.ms",
    10 * MINUTE_MS,
    "A connection with no request for this long is closed; -1 is never.",
    allowed=Between(1, also=(-1,)),
)
PENSTOCK_REQUEST_ARRIVAL_TIMEOUT_MS = integer(
    "penstock.request.arrival.timeout.ms",
    30 * SECOND_MS,
    "A connection that stops sending in the middle of a request for this long is closed: what has come of it "
    "takes memory that others may be waiting for.",
    allowed=_POSITIVE,
)
PENSTOCK_REQUEST_PROGRESS_TIMEOUT_MS = integer(
    "penstock.request.progress.timeout.ms",
    10 * SECOND_MS,
    "While requests wait for memory (`queued.max.request.bytes`), a connection is closed whose request has some and "
    "would take longer than this to arrive at its present pace, or that holds requests back for this long.",
    allowed=_POSITIVE,
)
QUEUED_MAX_REQUEST_BYTES = long(
    "queued.max.request.bytes",
    512 * _MIB,
    "Bytes of all requests that arrive or are handled. A request that comes in pieces is read on when there is memory "
    "for all of it; small requests always have some. One request may have about two thirds of it. -1 is no limit.",
    allowed=Between(1, also=(-1,)),
)
PENSTOCK_REQUEST_ELEMENTS_MAX = integer(
    "penstock.request.elements.max",
    250_000,
    "Elements of all lists in one request together (partitions, topics, configs); a client that sends more is "
    "disconnected.",
    allowed=_POSITIVE,
)
PENSTOCK_CONNECTION_INFLIGHT_REQUESTS_MAX = integer(
    "penstock.connection.inflight.requests.max",
    64,
    "Requests of one connection that wait for their answer; while there are as many, no more are read "
    "from it.",
    allowed=_POSITIVE,
)
PENSTOCK_CONNECTION_UNSENT_BYTES_MAX = integer(
    "penstock.connection.unsent.bytes.max",
    _MIB,
    "Answer bytes a client has not taken off a connection; while there are more, no more requests are "
    "read from it.",
    allowed=_POSITIVE,
)
PENSTOCK_UNSENT_BYTES_MAX = long(
    "penstock.unsent.bytes.max",
    512 * _MIB,
    "Answer bytes that clients have not taken off their connections, in all; beyond that, connections are closed, "
    "those first that have taken none for longest. -1 is no limit.",
    allowed=Between(1, also=(-1,)),
)
FETCH_MAX_BYTES = integer(
    "fetch.max.bytes",
    55 * _MIB,
    "The most record bytes in one answer to a fetch, whatever the client asks for.",
    allowed=Between(1024),
)
PENSTOCK_FETCH_ANSWER_BYTES = integer(
    "penstock.fetch.answer.bytes",
    _MIB,
    "An answer to a fetch takes no further partition once it has as many record bytes, unless the client's min_bytes "
    "asks for more: short answers let other clients have their turn.",
    allowed=_POSITIVE,
)
MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS = integer(
    "max.incremental.fetch.session.cache.slots",
    1000,
    "How many fetch sessions are kept; a client without one names all its partitions in every fetch.",
    allowed=_NOT_NEGATIVE,
)
PENSTOCK_FETCH_SESSION_PARTITIONS_MAX = integer(
    "penstock.fetch.session.partitions.max",
    500_000,
    "Partitions in all fetch sessions together; a session that would go beyond is not opened.",
    allowed=_NOT_NEGATIVE,
)
MAX_REQUEST_PARTITION_SIZE_LIMIT = integer(
    "max.request.partition.size.limit",
    2000,
    "The most partitions in one answer to DescribeTopicPartitions; clients ask on for the rest.",
    allowed=_POSITIVE,
)
PENSTOCK_DECOMPRESSED_BYTES_MAX = integer(
    "penstock.decompressed.bytes.max",
    100 * _MIB,
    "What one batch may grow to when the broker has to decompress it; more is refused as too large.",
    allowed=_POSITIVE,
)
PENSTOCK_QUEUED_SYNCS_MAX = integer(
    "penstock.queued.syncs.max",
    10_000,
    "Produce requests that wait for a sync to the device; while there are as many, further ones are held "
    "back.",
    allowed=_POSITIVE,
)
PENSTOCK_SYNC_WHOLE_FILE_SYSTEM_FROM = integer(
    "penstock.sync.whole.file.system.from",
    8,
    "Partitions that wait for a sync at once from which on the whole file system is synced in one call, where the "
    "system has such a call; 0 syncs file by file. Lower is faster, unless others write to the same file system.",
    allowed=_NOT_NEGATIVE,
)
PENSTOCK_MEMORY_BYTES_MAX = long(
    "penstock.memory.bytes.max",
    2048 * _MIB,
    "Bytes of all topics with `penstock.storage=memory` together; what would need more is refused.",
    allowed=_POSITIVE,
)
PENSTOCK_OPEN_FILES_MAX = integer(
    "penstock.open.files.max",
    0,
    "Descriptors for segment and index files, however many partitions there are; 0 takes half of what the "
    "system allows the process.",
    allowed=Between(16, also=(0,)),
)

# The process.

PENSTOCK_WORK_THREADS = integer(
    "penstock.work.threads",
    4,
    "Threads for what may block: syncs, reads that miss the page cache, decompression.",
    allowed=Between(1, 256),
)
PENSTOCK_LOOP_SLICE_MS = integer(
    "penstock.loop.slice.ms",
    5,
    "How long background work may hold the loop before others get their turn.",
    allowed=Between(1, 1000),
)
PENSTOCK_METRICS_LISTEN = text(
    "penstock.metrics.listen",
    "",
    "HOST:PORT that serves `/metrics` and `/healthz` over HTTP; port 0 takes a free one, empty serves "
    "neither.",
    allowed=Matching(_is_address_or_empty, "HOST:PORT, or empty"),
)
PENSTOCK_DRAIN_TIMEOUT_MS = integer(
    "penstock.drain.timeout.ms",
    10 * SECOND_MS,
    "How long a stopping broker waits for requests under way before it closes their connections.",
    allowed=_NOT_NEGATIVE,
)


def _topic_defaults() -> Iterator[Setting[Any]]:
    """The broker settings that stand in for a single topic config, with all but the name taken from there."""
    for config in TOPIC_SETTINGS:
        if len(config.synonyms) == 1:
            yield replace(
                config,
                name=config.synonyms[0].name,
                doc=f"Default of the topic config `{config.name}`.",
                synonyms=(),
                fixed=False,
                # A fixed config is decided when a topic is created; a default that moves would only confuse.
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
    """What could decide a broker's value, what does first: for DescribeConfigs."""
    return settings.behind(setting, setting.name)


def data_directory(settings: Settings) -> str:
    """The one directory the broker keeps its data in."""
    directories = settings[LOG_DIRS] or settings[LOG_DIR]
    if len(directories) != 1 or not directories[0]:
        raise SettingError(
            f"log.dirs has {len(directories)} directories: a broker keeps its data in exactly one"
        )
    return directories[0]


def bound(settings: Settings) -> tuple[Listener, ...]:
    """The endpoints to bind."""
    return bound_listeners(settings[LISTENERS], settings[LISTENER_SECURITY_PROTOCOL_MAP].split(","))


def advertised(settings: Settings) -> tuple[Listener, ...]:
    """What clients are told to connect to. A port of 0 stands for the one that was bound."""
    return advertised_listeners(settings[ADVERTISED_LISTENERS], bound(settings))


def check_together(settings: Settings) -> Settings:
    """The same settings, once it is sure that they fit each other."""
    data_directory(settings)
    advertised(settings)
    # Settles every topic config from the broker's defaults, and checks them against each other.
    topic_settings({}, settings)
    return settings
