"""The options of `format("penstock")`, declared once as data. Names are those of Spark's own Kafka source where it has
the option, so that a program changes one word; what is Penstock's own begins with `penstock.`.

Spark hands options over with their names in lower case; they are known here whatever their case.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from penstock.base.allowed import Between, OneOf
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
    "Brokers to begin with, as host:port with commas between; needed unless path is given.",
)
PATH = optional_text(
    "path", "Read closed segments straight from this log directory, or a copy of it; no broker is asked."
)
INCLUDE_ACTIVE_SEGMENT = boolean(
    "penstock.include.active.segment",
    False,
    "With path, read the newest segment of each partition too, up to its last valid batch; for copies, and for brokers "
    "that do not run.",
)
SUBSCRIBE = optional_text("subscribe", "Topics to read, with commas between.")
SUBSCRIBE_PATTERN = optional_text(
    "subscribePattern", "Read the topics whose whole name matches this regular expression, new ones included."
)
ASSIGN = optional_text("assign", 'Partitions to read, as JSON: {"topic": [0, 1]}.')

# From where to where.

STARTING_OFFSETS = optional_text(
    "startingOffsets",
    'Where to begin: earliest, latest, or JSON: {"topic": {"0": 23, "1": -2}}; -2 is earliest, -1 latest. '
    "By default earliest for batches, latest for streams. A stream begins there only once: then its checkpoint counts.",
)
ENDING_OFFSETS = text(
    "endingOffsets", "latest", "Where a batch ends: latest, or JSON as for startingOffsets, without -2."
)
STARTING_TIMESTAMP = optional_text(
    "startingTimestamp", "Begin with the first records of this time or later, in milliseconds since 1970."
)
ENDING_TIMESTAMP = optional_text(
    "endingTimestamp", "End a batch before the first records of this time, in milliseconds since 1970."
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
    "What to do for a partition that has no record of a starting time or later: error, or latest.",
    allowed=OneOf(("error", "latest")),
)

# How much at a time.

MAX_OFFSETS_PER_TRIGGER = long(
    "maxOffsetsPerTrigger",
    0,
    "How many offsets a micro-batch reads at most, shared by backlog among partitions; 0 means no limit.",
    allowed=Between(0),
)
MIN_OFFSETS_PER_TRIGGER = long(
    "minOffsetsPerTrigger",
    0,
    "Wait with the next micro-batch until that many offsets are there, or maxTriggerDelay has passed.",
    allowed=Between(0),
)
MAX_TRIGGER_DELAY = text(
    "maxTriggerDelay", "15m", "How long minOffsetsPerTrigger may wait: a number and ms, s, m or h."
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

# What is read, and how.

INCLUDE_HEADERS = boolean("includeHeaders", False, "Add the column headers, a list of key and value.")
FAIL_ON_DATA_LOSS = boolean(
    "failOnDataLoss",
    True,
    "Whether to fail when offsets that should be read do not exist any more; else a warning says what is missing.",
)
FILTER_PUSHDOWN = boolean(
    "penstock.filter.pushdown",
    False,
    "Let filters on topic, partition, offset and timestamp make a batch read smaller; needs "
    "spark.sql.python.filterPushdown.enabled. Spark keeps what one query's filters left for all queries of the same "
    "DataFrame: load a DataFrame of its own for each query, or rows are missing.",
)
ISOLATION_LEVEL = text(
    "kafka.isolation.level",
    READ_COMMITTED,
    "read_committed shows no record of a transaction that is open or was aborted; read_uncommitted shows all.",
    allowed=OneOf((READ_COMMITTED, READ_UNCOMMITTED)),
)
FETCH_BYTES = integer(
    "kafka.max.partition.fetch.bytes",
    8 << 20,
    "How much one request brings at most; a batch that is larger is still brought.",
    allowed=Between(1, INT_MAX),
)
COMMIT_GROUP = optional_text(
    "penstock.commit.group",
    "The consumer group that shows how far a stream has come: a name, or false for none. By default "
    "groupIdPrefix and a number that stays with the checkpoint.",
)
GROUP_ID_PREFIX = text(
    "groupIdPrefix", "penstock-spark", "What the default of penstock.commit.group begins with."
)
GROUP_ID = optional_text(
    "kafka.group.id", "The same as penstock.commit.group, as Spark's own source calls it."
)

# The client.

CLIENT_ID = text("kafka.client.id", "penstock-spark", "What the client calls itself; brokers show it.")
PATIENCE_MS = integer(
    "penstock.patience.ms",
    60_000,
    "For how long a broker that is away is asked again before a query or a task fails.",
    allowed=Between(0, INT_MAX),
)
REQUEST_TIMEOUT_MS = integer(
    "kafka.request.timeout.ms", 30_000, "How long a request may take.", allowed=Between(1, INT_MAX)
)
DECOMPRESSED_BYTES_MAX = long(
    "penstock.decompressed.bytes.max",
    256 << 20,
    "How large the records of one batch may be once they are decompressed.",
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

TOPIC = optional_text("topic", "The topic all rows go to; without it each row's column topic says.")
EXACTLY_ONCE: Final = "exactly-once"
AT_LEAST_ONCE: Final = "at-least-once"
GUARANTEE = text(
    "penstock.guarantee",
    EXACTLY_ONCE,
    "exactly-once: readers of committed records see every row once, whatever is killed and repeated meanwhile. "
    "at-least-once: rows of a task or batch that is repeated are there again, and no transaction is used.",
    allowed=OneOf((EXACTLY_ONCE, AT_LEAST_ONCE)),
)
COMPRESSION = text(
    "kafka.compression.type",
    "none",
    "How batches of records are compressed.",
    allowed=OneOf(("none", "gzip", "snappy", "lz4", "zstd")),
)
ACKS = text(
    "kafka.acks",
    "all",
    "Which replicas must have a record before it counts as written: all, 1 (the leader) or 0 (none). "
    "Exactly once needs all.",
    allowed=OneOf(("all", "-1", "1", "0")),
)
BATCH_BYTES = integer(
    "kafka.batch.size",
    512 << 10,
    "How large a batch of records becomes before compression; a larger record has a batch of its own.",
    allowed=Between(1, INT_MAX),
)
RECORD_BYTES_MAX = integer(
    "kafka.max.request.size",
    1 << 20,
    "How large a record may be, before compression; topics have a limit of their own (max.message.bytes).",
    allowed=Between(1, INT_MAX),
)
BUFFER_BYTES = long(
    "kafka.buffer.memory",
    32 << 20,
    "How many bytes a task holds that are not sent, or not answered; more has to wait.",
    allowed=Between(1 << 20, LONG_MAX),
)
TRANSACTION_TIMEOUT_MS = integer(
    "kafka.transaction.timeout.ms",
    600_000,
    "When a broker aborts a transaction that was not ended: longer than a batch takes, and a restart of the query "
    "after a crash. Brokers refuse more than they allow. Streams on brokers with prepared transactions have none.",
    allowed=Between(1, INT_MAX),
)
TRANSACTION_PREFIX = text(
    "penstock.transaction.prefix",
    "penstock-spark",
    "What transactional ids and the group that shows decisions begin with; to grant rights by.",
)
DECISIONS_TOPIC = text(
    "penstock.decisions.topic",
    "__penstock_spark_decisions",
    "The compacted topic that says which batches count; made if it is missing.",
)
SKIP_LOST_BATCH = long(
    "penstock.skip.lost.batch",
    -1,
    "Go on although a transaction of this batch was aborted by a timeout after the batch was decided: its rows are "
    "missing. The error that names the batch says more.",
    allowed=Between(-1),
)
FOREACH_BATCH = optional_text(
    "penstock.foreach.batch",
    "For a batch write inside foreachBatch: a name for it, its own among the writes of that function. The rows then "
    "count once, however often Spark repeats the batch.",
)
FOREACH_QUERY_ID = optional_text(
    "penstock.foreach.query.id",
    "With penstock.foreach.batch, where Spark does not tell a write whose batch it is, as through Spark Connect: the "
    "id of the streaming query.",
)
FOREACH_BATCH_ID = long(
    "penstock.foreach.batch.id",
    -1,
    "With penstock.foreach.query.id: the number of the batch, as foreachBatch was called with it.",
    allowed=Between(-1),
)

# Options of Spark's source, or of the Java client behind it, that are taken and mean nothing here.
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

# Options of the Java client that Spark's source refuses as well, and what to do instead.
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


# Configs of the Java producer, and options of Spark's sink, that are taken and mean nothing here.
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
    """The settings of a write; SettingError for what is misspelt, not allowed, or contradicts itself."""
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
    """The settings of a read; SettingError for what is misspelt, not allowed, or contradicts itself."""
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
    """The security that the options ask for; SettingError for what is missing, or contradicts itself."""
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
