"""The options of `format("penstock")`, declared once as data. Names are those of Spark's own Kafka source where it has
the option, so that a program changes one word; what is Penstock's own begins with `penstock.`.

Spark passes option names in lower case, so case does not matter.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from penstock.base.allowed_values import Between, OneOf
from penstock.base.errors import SettingError
from penstock.base.settings import (
    INT_MAX,
    LONG_MAX,
    Catalogue,
    Given,
    Setting,
    Settings,
    Source,
    boolean,
    group_by_name,
    integer,
    long,
    optional_text,
    text,
    unknown_name,
)
from penstock.client.security import Security
from penstock.client.security_settings import SECURITY_SETTINGS, security_of

READ_COMMITTED: Final = "read_committed"
READ_UNCOMMITTED: Final = "read_uncommitted"

# Where the records are.

BOOTSTRAP_SERVERS = optional_text(
    "kafka.bootstrap.servers",
    "Bootstrap brokers, as host:port separated by commas; required unless path is given.",
)
PATH = optional_text(
    "path", "Read closed segments from this log directory, or a copy of it, without a broker."
)
INCLUDE_ACTIVE_SEGMENT = boolean(
    "penstock.include.active.segment",
    False,
    "With path, read the newest segment of each partition too, up to its last valid batch; for copies, and for brokers "
    "that do not run.",
)
SUBSCRIBE = optional_text("subscribe", "Topics to read, separated by commas.")
SUBSCRIBE_PATTERN = optional_text(
    "subscribePattern", "Read the topics whose whole name matches this regular expression, new ones included."
)
ASSIGN = optional_text("assign", 'Partitions to read, as JSON: {"topic": [0, 1]}.')

# From where to where.

STARTING_OFFSETS = optional_text(
    "startingOffsets",
    'Where to begin: earliest, latest, or JSON: {"topic": {"0": 23, "1": -2}}; -2 is earliest, -1 latest. '
    "By default earliest for batches, latest for streams. Once a stream has a checkpoint, it continues from there.",
)
ENDING_OFFSETS = text(
    "endingOffsets", "latest", "Where a batch ends: latest, or JSON as for startingOffsets, without -2."
)
STARTING_TIMESTAMP = optional_text(
    "startingTimestamp", "Begin with the first record of this time or later, in milliseconds since 1970."
)
ENDING_TIMESTAMP = optional_text(
    "endingTimestamp",
    "End a batch before the first record of this time or later, in milliseconds since 1970.",
)
STARTING_OFFSETS_BY_TIMESTAMP = optional_text(
    "startingOffsetsByTimestamp", 'As startingTimestamp, per partition: {"topic": {"0": 1700000000000}}.'
)
ENDING_OFFSETS_BY_TIMESTAMP = optional_text(
    "endingOffsetsByTimestamp", 'As endingTimestamp, per partition: {"topic": {"0": 1700000000000}}.'
)
STARTING_OFFSETS_BY_TIMESTAMP_STRATEGY = text(
    "startingOffsetsByTimestampStrategy",
    "error",
    "For a partition without a record of the starting time or later: fail (error), or read from its end (latest).",
    allowed=OneOf(("error", "latest")),
)

# How much at a time.

MAX_OFFSETS_PER_TRIGGER = long(
    "maxOffsetsPerTrigger",
    0,
    "The most offsets that a micro-batch reads, divided among partitions by their lag; 0: no limit.",
    allowed=Between(0),
)
MIN_OFFSETS_PER_TRIGGER = long(
    "minOffsetsPerTrigger",
    0,
    "Delay the next micro-batch until there are this many new offsets, or maxTriggerDelay has passed.",
    allowed=Between(0),
)
MAX_TRIGGER_DELAY = text(
    "maxTriggerDelay", "15m", "The longest delay by minOffsetsPerTrigger: a number and ms, s, m or h."
)
MIN_PARTITIONS = integer(
    "minPartitions",
    0,
    "Split partitions until there are that many tasks; 0 means that penstock.task.offsets.min decides.",
    allowed=Between(0, 100_000),
)
MAX_RECORDS_PER_PARTITION = long(
    "maxRecordsPerPartition",
    0,
    "Split partitions so that no task has more offsets than this; 0 means no limit.",
    allowed=Between(0),
)

TASK_OFFSETS_MIN = long(
    "penstock.task.offsets.min",
    5_000,
    "Partitions with fewer offsets to read share a task, unless minPartitions is given; 0 means that each has its own.",
    allowed=Between(0),
)

# Records, and how they are read.

INCLUDE_HEADERS = boolean("includeHeaders", False, "Add the column headers, a list of key and value.")
FAIL_ON_DATA_LOSS = boolean(
    "failOnDataLoss",
    True,
    "Whether the query fails if offsets to read do not exist any more; else it logs what is missing as a warning.",
)
FILTER_PUSHDOWN = boolean(
    "penstock.filter.pushdown",
    False,
    "Whether filters on topic, partition, offset and timestamp narrow a batch read; needs "
    "spark.sql.python.filterPushdown.enabled. Spark reuses the narrowed read of one query for all queries of the same "
    "DataFrame: load a separate DataFrame for each query, or rows are missing.",
)
ISOLATION_LEVEL = text(
    "kafka.isolation.level",
    READ_COMMITTED,
    "read_committed reads no records of open or aborted transactions; read_uncommitted reads all.",
    allowed=OneOf((READ_COMMITTED, READ_UNCOMMITTED)),
)
FETCH_BYTES = integer(
    "kafka.max.partition.fetch.bytes",
    8 << 20,
    "The most bytes of one fetch; a larger first batch is fetched whole.",
    allowed=Between(1, INT_MAX),
)
COMMIT_GROUP = optional_text(
    "penstock.commit.group",
    "The consumer group that a stream commits its progress to, or false for none. By default groupIdPrefix and an id "
    "that is kept in the checkpoint.",
)
GROUP_ID_PREFIX = text(
    "groupIdPrefix", "penstock-spark", "The prefix of the default of penstock.commit.group."
)
GROUP_ID = optional_text(
    "kafka.group.id", "The same as penstock.commit.group, under the name of Spark's own source."
)

# The client.

CLIENT_ID = text("kafka.client.id", "penstock-spark", "The client id, which brokers log.")
PATIENCE_MS = integer(
    "penstock.patience.ms",
    60_000,
    "How long requests to an unreachable broker are retried before a query or a task fails.",
    allowed=Between(0, INT_MAX),
)
REQUEST_TIMEOUT_MS = integer(
    "kafka.request.timeout.ms", 30_000, "The timeout of a request.", allowed=Between(1, INT_MAX)
)
DECOMPRESSED_BYTES_MAX = long(
    "penstock.decompressed.bytes.max",
    256 << 20,
    "The most bytes of one batch's records after decompression.",
    allowed=Between(1, LONG_MAX),
)

# TLS and SASL: what `penstock.client.security_settings` declares, with kafka. before the names that are Kafka's.

SECURITY_OPTIONS: Final = {
    setting.name: setting
    if setting.name.startswith("penstock.")
    else replace(setting, name=f"kafka.{setting.name}")
    for setting in SECURITY_SETTINGS
}

CLIENT_OPTIONS: Final = (
    BOOTSTRAP_SERVERS,
    CLIENT_ID,
    PATIENCE_MS,
    REQUEST_TIMEOUT_MS,
    *SECURITY_OPTIONS.values(),
)

# Writing.

TOPIC = optional_text("topic", "The topic of all rows; without it, the column topic of each row.")
EXACTLY_ONCE: Final = "exactly-once"
AT_LEAST_ONCE: Final = "at-least-once"
GUARANTEE = text(
    "penstock.guarantee",
    EXACTLY_ONCE,
    "exactly-once: read_committed consumers see every row once, whatever is killed and repeated. "
    "at-least-once: no transactions; rows of a repeated task or batch are written again.",
    allowed=OneOf((EXACTLY_ONCE, AT_LEAST_ONCE)),
)
COMPRESSION = text(
    "kafka.compression.type",
    "none",
    "The compression of record batches.",
    allowed=OneOf(("none", "gzip", "snappy", "lz4", "zstd")),
)
ACKS = text(
    "kafka.acks",
    "all",
    "Which replicas must have a record before it is acknowledged: all, 1 (the leader) or 0 (none). "
    "Exactly once needs all.",
    allowed=OneOf(("all", "-1", "1", "0")),
)
BATCH_BYTES = integer(
    "kafka.batch.size",
    512 << 10,
    "The size of record batches before compression; a larger record has its own batch.",
    allowed=Between(1, INT_MAX),
)
RECORD_BYTES_MAX = integer(
    "kafka.max.request.size",
    1 << 20,
    "The largest record, before compression; topics have another limit (max.message.bytes).",
    allowed=Between(1, INT_MAX),
)
BUFFER_BYTES = long(
    "kafka.buffer.memory",
    32 << 20,
    "The most bytes of a task that are buffered or in flight; at the limit, the task waits.",
    allowed=Between(1 << 20, LONG_MAX),
)
TRANSACTION_TIMEOUT_MS = integer(
    "kafka.transaction.timeout.ms",
    600_000,
    "When a broker aborts an open transaction: longer than a batch and a restart of the query after a crash take. At "
    "most the broker's transaction.max.timeout.ms. Streams on brokers with prepared transactions have no timeout.",
    allowed=Between(1, INT_MAX),
)
TRANSACTION_PREFIX = text(
    "penstock.transaction.prefix",
    "penstock-spark",
    "The prefix of transactional ids and of the group that tracks decisions, for ACLs.",
)
DECISIONS_TOPIC = text(
    "penstock.decisions.topic",
    "__penstock_spark_decisions",
    "The compacted topic with the decisions which batches are committed; created if it is missing.",
)
SKIP_LOST_BATCH = long(
    "penstock.skip.lost.batch",
    -1,
    "Continue although a transaction of this batch was aborted by a timeout after the batch was decided: its rows are "
    "missing. The error that names the batch explains it.",
    allowed=Between(-1),
)
FOREACH_BATCH = optional_text(
    "penstock.foreach.batch",
    "For a batch write inside foreachBatch: a name that is unique among the writes of that function. The rows are then "
    "written exactly once, even if Spark repeats the batch.",
)
FOREACH_QUERY_ID = optional_text(
    "penstock.foreach.query.id",
    "With penstock.foreach.batch, if a write cannot find out its streaming query, as through Spark Connect: the id of "
    "that query.",
)
FOREACH_BATCH_ID = long(
    "penstock.foreach.batch.id",
    -1,
    "With penstock.foreach.query.id: the batch id that foreachBatch was called with.",
    allowed=Between(-1),
)

# Options of Spark's source, or of its Java client, that are accepted and ignored.
IGNORED_READ: Final = frozenset(
    {
        "kafkaConsumer.pollTimeoutMs",
        "fetchOffset.numRetries",
        "fetchOffset.retryIntervalMs",
        "kafka.fetch.max.bytes",
        "kafka.fetch.max.wait.ms",
        "kafka.fetch.min.bytes",
        "kafka.heartbeat.interval.ms",
        "kafka.max.poll.interval.ms",
        "kafka.max.poll.records",
        "kafka.receive.buffer.bytes",
        "kafka.session.timeout.ms",
    }
)

# Options of the Java client that Spark's source rejects too, and what to do instead.
REFUSED_READ: Final = {
    "kafka.auto.offset.reset": "startingOffsets says where to begin",
    "kafka.enable.auto.commit": "Spark's checkpoint keeps the offsets, and penstock.commit.group shows them",
    "kafka.interceptor.classes": "there is no Java client here that could call them",
    "kafka.key.deserializer": "keys come as bytes; cast or decode the column",
    "kafka.value.deserializer": "values come as bytes; cast or decode the column",
}

READ_OPTIONS: Final = Catalogue(
    "read",
    (
        *CLIENT_OPTIONS,
        PATH,
        INCLUDE_ACTIVE_SEGMENT,
        SUBSCRIBE,
        SUBSCRIBE_PATTERN,
        ASSIGN,
        STARTING_OFFSETS,
        ENDING_OFFSETS,
        STARTING_TIMESTAMP,
        ENDING_TIMESTAMP,
        STARTING_OFFSETS_BY_TIMESTAMP,
        ENDING_OFFSETS_BY_TIMESTAMP,
        STARTING_OFFSETS_BY_TIMESTAMP_STRATEGY,
        MAX_OFFSETS_PER_TRIGGER,
        MIN_OFFSETS_PER_TRIGGER,
        MAX_TRIGGER_DELAY,
        MIN_PARTITIONS,
        MAX_RECORDS_PER_PARTITION,
        TASK_OFFSETS_MIN,
        INCLUDE_HEADERS,
        FAIL_ON_DATA_LOSS,
        FILTER_PUSHDOWN,
        ISOLATION_LEVEL,
        FETCH_BYTES,
        COMMIT_GROUP,
        GROUP_ID_PREFIX,
        GROUP_ID,
        DECOMPRESSED_BYTES_MAX,
    ),
)


# Configs of the Java producer, and options of Spark's sink, that are accepted and ignored.
IGNORED_WRITE: Final = frozenset(
    {
        "includeHeaders",
        "checkpointLocation",
        "queryName",
        "kafka.delivery.timeout.ms",
        "kafka.enable.idempotence",
        "kafka.key.serializer",
        "kafka.linger.ms",
        "kafka.max.block.ms",
        "kafka.max.in.flight.requests.per.connection",
        "kafka.metadata.max.age.ms",
        "kafka.partitioner.class",
        "kafka.receive.buffer.bytes",
        "kafka.reconnect.backoff.max.ms",
        "kafka.reconnect.backoff.ms",
        "kafka.retries",
        "kafka.retry.backoff.max.ms",
        "kafka.retry.backoff.ms",
        "kafka.send.buffer.bytes",
        "kafka.value.serializer",
    }
)

WRITE_OPTIONS: Final = Catalogue(
    "write",
    (
        *CLIENT_OPTIONS,
        TOPIC,
        GUARANTEE,
        COMPRESSION,
        ACKS,
        BATCH_BYTES,
        RECORD_BYTES_MAX,
        BUFFER_BYTES,
        TRANSACTION_TIMEOUT_MS,
        TRANSACTION_PREFIX,
        DECISIONS_TOPIC,
        SKIP_LOST_BATCH,
        FOREACH_BATCH,
        FOREACH_QUERY_ID,
        FOREACH_BATCH_ID,
    ),
)


def write_settings(options: Mapping[str, str]) -> Settings:
    """The settings of a write; SettingError for unknown, invalid or contradictory options."""
    settings = _settings(WRITE_OPTIONS, IGNORED_WRITE, options)
    _require_servers(settings)
    security_in(settings)  # refused here, before anything is asked of a broker
    if settings[GUARANTEE] == EXACTLY_ONCE and settings[ACKS] not in ("all", "-1"):
        raise SettingError(
            f"kafka.acks={settings[ACKS]} cannot hold what exactly once promises: leave it at all, or say "
            '.option("penstock.guarantee", "at-least-once")'
        )
    return settings


def read_settings(options: Mapping[str, str]) -> Settings:
    """The settings of a read; SettingError for unknown, invalid or contradictory options."""
    for name, instead in REFUSED_READ.items():
        if name in {option.lower() for option in options}:
            raise SettingError(f"{name} cannot be set: {instead}")
    settings = _settings(READ_OPTIONS, IGNORED_READ, options)
    chosen = [each.name for each in (SUBSCRIBE, SUBSCRIBE_PATTERN, ASSIGN) if settings[each]]
    if settings[PATH] is None:
        _require_servers(settings)
        security_in(settings)  # refused here, before anything is asked of a broker
        if len(chosen) != 1:
            told = f"{' and '.join(chosen)} are given" if chosen else "none is given"
            raise SettingError(f"one of subscribe, subscribePattern and assign says what to read; {told}")
    elif len(chosen) > 1:
        raise SettingError(f"{' and '.join(chosen)} are given; one of them says what to read")
    return settings


def security_in(settings: Settings) -> Security:
    """The `Security` of the options; SettingError if one is missing, or two contradict each other."""
    given = [
        Given(name, settings[option], Source.STATIC_BROKER, "option")
        for name, option in SECURITY_OPTIONS.items()
        if option.name in settings.given
    ]
    return security_of(Settings(SECURITY_SETTINGS, group_by_name(given)))


def _require_servers(settings: Settings) -> None:
    if not settings[BOOTSTRAP_SERVERS]:
        raise SettingError(
            "kafka.bootstrap.servers is missing: "
            '.option("kafka.bootstrap.servers", "localhost:9092") says where the brokers are'
        )


def _settings(catalogue: Catalogue, ignored: Iterable[str], options: Mapping[str, str]) -> Settings:
    names = {setting.name.lower(): setting.name for setting in catalogue}
    passed_over = {name.lower() for name in ignored}
    given = []
    for option, value in options.items():
        name = names.get(option.lower())
        if name is not None:
            given.append(_given(catalogue[name], value))
        elif option.lower() not in passed_over:
            raise _unknown(catalogue, ignored, option)
    return Settings(catalogue, group_by_name(given))


def _given(setting: Setting[Any], value: str) -> Given:
    return Given(setting.name, setting.parse(value), Source.STATIC_BROKER, "option")


def _unknown(catalogue: Catalogue, ignored: Iterable[str], option: str) -> SettingError:
    # Compared in lower case, since that is how Spark hands the names over, and shown as they are written.
    known = {name.lower(): name for name in (*catalogue.names(), *ignored)}
    message = str(unknown_name(f"{catalogue.noun} option", option, known))
    for lower, name in known.items():
        message = message.replace(f"did you mean {lower}?", f"did you mean {name}?")
    return SettingError(message)
