"""The topic configs: all that Apache Kafka 4.3 knows, and Penstock's own.

Each is supported or not. An unsupported one is described and accepted at its default, so that tools that write every
config back keep working; any other value is a SettingError that says why.

A topic's value comes from the topic itself, else from the broker settings named as its synonyms, else from
the default here. The docs table and the broker settings of the same meaning are made from these declarations.
"""

import re
from collections.abc import Mapping
from typing import Any

from penstock.base.allowed_values import Between, EachOneOf, Matching, OneOf
from penstock.base.errors import SettingError
from penstock.base.settings import (
    DAY_MS,
    HOUR_MS,
    LONG_MAX,
    MINUTE_MS,
    Catalogue,
    Given,
    Setting,
    Settings,
    Shown,
    Source,
    Synonym,
    boolean,
    double,
    integer,
    long,
    optional_integer,
    text,
    words,
)

_NO_TIERS = "Penstock keeps every segment on its own disk and has no tiered storage"

_NOT_NEGATIVE = Between(0)
_POSITIVE = Between(1)
_REPLICA = re.compile(r"[0-9]+:[0-9]+\Z")
_REPLICAS = Matching(
    lambda words: words == ("*",) or all(map(_REPLICA.match, words)),
    "a comma-separated list of PARTITION:BROKER, or *",
)


def _same(name: str) -> tuple[Synonym, ...]:
    return (Synonym(name),)


CLEANUP_POLICY = words(
    "cleanup.policy",
    ("delete",),
    "What happens to old segments: `delete` deletes them by time and size, `compact` keeps the newest record of each "
    "key, `compact,delete` does both, and an empty list keeps everything.",
    allowed=EachOneOf(("compact", "delete")),
    synonyms=_same("log.cleanup.policy"),
)
COMPRESSION_TYPE = text(
    "compression.type",
    "producer",
    "The codec of batches on disk: `producer` keeps the producer's; with any other value the broker recompresses "
    "batches that have another codec, which costs CPU time.",
    allowed=OneOf(("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")),
    synonyms=_same("compression.type"),
)
COMPRESSION_GZIP_LEVEL = integer(
    "compression.gzip.level",
    -1,
    "The compression level when the broker recompresses with gzip; -1: the library's default.",
    allowed=Between(1, 9, also=(-1,)),
    synonyms=_same("compression.gzip.level"),
)
COMPRESSION_LZ4_LEVEL = integer(
    "compression.lz4.level",
    9,
    "The compression level when the broker recompresses with lz4.",
    allowed=Between(1, 17),
    synonyms=_same("compression.lz4.level"),
)
COMPRESSION_ZSTD_LEVEL = integer(
    "compression.zstd.level",
    3,
    "The compression level when the broker recompresses with zstd; negative levels are faster and compress less.",
    allowed=Between(-131072, 22),
    synonyms=_same("compression.zstd.level"),
)
DELETE_RETENTION_MS = long(
    "delete.retention.ms",
    DAY_MS,
    "How long a tombstone is kept after compaction first met it. A consumer that takes longer than this from the "
    "beginning of a compacted topic to its end may miss that a key was deleted.",
    allowed=_NOT_NEGATIVE,
    synonyms=_same("log.cleaner.delete.retention.ms"),
)
FILE_DELETE_DELAY_MS = long(
    "file.delete.delay.ms",
    MINUTE_MS,
    "How long the files of a deleted segment are kept, so that reads in progress can finish.",
    allowed=_NOT_NEGATIVE,
    synonyms=_same("log.segment.delete.delay.ms"),
)
FLUSH_MESSAGES = long(
    "flush.messages",
    LONG_MAX,
    "Fsync once this many records are unsynced. With 1, produce requests are answered and consumers see a record only "
    "after the fsync; waiting batches share one.",
    allowed=_POSITIVE,
    synonyms=_same("log.flush.interval.messages"),
)
FLUSH_MS = long(
    "flush.ms",
    LONG_MAX,
    "Fsync when the oldest unsynced record has waited this long.",
    allowed=_NOT_NEGATIVE,
    synonyms=(Synonym("log.flush.interval.ms"), Synonym("log.flush.scheduler.interval.ms")),
)
FOLLOWER_REPLICATION_THROTTLED_REPLICAS = words(
    "follower.replication.throttled.replicas",
    (),
    "Replicas whose replication is throttled on the follower, to `follower.replication.throttled.rate`: "
    "PARTITION:BROKER with commas, or `*` for all. Replicas in the ISR are not throttled.",
    allowed=_REPLICAS,
)
INDEX_INTERVAL_BYTES = integer(
    "index.interval.bytes",
    4096,
    "The offset index gets an entry after at least this many bytes of batches: fewer make lookups faster and indexes "
    "larger.",
    allowed=_NOT_NEGATIVE,
    synonyms=_same("log.index.interval.bytes"),
)
LEADER_REPLICATION_THROTTLED_REPLICAS = words(
    "leader.replication.throttled.replicas",
    (),
    "Replicas whose replication is throttled on the leader, to `leader.replication.throttled.rate`: PARTITION:BROKER "
    "with commas, or `*` for all. Replicas in the ISR are not throttled.",
    allowed=_REPLICAS,
)
LOCAL_RETENTION_BYTES = long(
    "local.retention.bytes",
    -2,
    "How much of a tiered partition stays on the local disk; -2 follows `retention.bytes`.",
    refused=_NO_TIERS,
    synonyms=_same("log.local.retention.bytes"),
)
LOCAL_RETENTION_MS = long(
    "local.retention.ms",
    -2,
    "How long segments of a tiered partition stay on the local disk; -2 follows `retention.ms`.",
    refused=_NO_TIERS,
    synonyms=_same("log.local.retention.ms"),
)
MAX_COMPACTION_LAG_MS = long(
    "max.compaction.lag.ms",
    LONG_MAX,
    "A partition is compacted once a record has waited this long for it, whatever the dirty ratio.",
    allowed=_POSITIVE,
    synonyms=_same("log.cleaner.max.compaction.lag.ms"),
)
MAX_MESSAGE_BYTES = integer(
    "max.message.bytes",
    1048588,
    "The largest batch, as it is sent (compressed, if the producer compresses); a larger one is rejected with "
    "MESSAGE_TOO_LARGE.",
    allowed=_NOT_NEGATIVE,
    synonyms=_same("message.max.bytes"),
)
MESSAGE_TIMESTAMP_AFTER_MAX_MS = long(
    "message.timestamp.after.max.ms",
    HOUR_MS,
    "How far ahead of the broker's clock a producer's timestamp may be; else the batch is rejected with "
    "INVALID_TIMESTAMP. Ignored with LogAppendTime.",
    allowed=_NOT_NEGATIVE,
    synonyms=_same("log.message.timestamp.after.max.ms"),
)
MESSAGE_TIMESTAMP_BEFORE_MAX_MS = long(
    "message.timestamp.before.max.ms",
    LONG_MAX,
    "How far behind the broker's clock a producer's timestamp may be; else the batch is rejected with "
    "INVALID_TIMESTAMP. Ignored with LogAppendTime.",
    allowed=_NOT_NEGATIVE,
    synonyms=_same("log.message.timestamp.before.max.ms"),
)
MESSAGE_TIMESTAMP_TYPE = text(
    "message.timestamp.type",
    "CreateTime",
    "Whose clock gives records their timestamps: the producer's (`CreateTime`) or the broker's (`LogAppendTime`).",
    allowed=OneOf(("CreateTime", "LogAppendTime")),
    synonyms=_same("log.message.timestamp.type"),
)
MIN_CLEANABLE_DIRTY_RATIO = double(
    "min.cleanable.dirty.ratio",
    0.5,
    "A partition is compacted when at least this share of its bytes is dirty: not compacted yet.",
    allowed=Between(0, 1),
    synonyms=_same("log.cleaner.min.cleanable.ratio"),
)
MIN_COMPACTION_LAG_MS = long(
    "min.compaction.lag.ms",
    0,
    "Records younger than this are not compacted.",
    allowed=_NOT_NEGATIVE,
    synonyms=_same("log.cleaner.min.compaction.lag.ms"),
)
MIN_INSYNC_REPLICAS = integer(
    "min.insync.replicas",
    1,
    "With fewer replicas in the ISR than this (or than the replication factor, if that is lower), `acks=all` fails "
    "with NOT_ENOUGH_REPLICAS, and the high watermark does not advance.",
    allowed=_POSITIVE,
    synonyms=_same("min.insync.replicas"),
)
PREALLOCATE = boolean(
    "preallocate",
    False,
    "Whether a new segment's file is allocated at its full size.",
    refused="segment files grow as they are written, and recovery relies on it",
    synonyms=_same("log.preallocate"),
)
REMOTE_LOG_COPY_DISABLE = boolean(
    "remote.log.copy.disable", False, "Whether copying to tiered storage is stopped.", refused=_NO_TIERS
)
REMOTE_LOG_DELETE_ON_DISABLE = boolean(
    "remote.log.delete.on.disable",
    False,
    "Whether segments in tiered storage are deleted when it is disabled.",
    refused=_NO_TIERS,
)
REMOTE_STORAGE_ENABLE = boolean(
    "remote.storage.enable", False, "Whether closed segments are copied to tiered storage.", refused=_NO_TIERS
)
RETENTION_BYTES = long(
    "retention.bytes",
    -1,
    "The oldest segments of a partition are deleted while the others have at least this many bytes; negative: no "
    "limit. Needs `delete` in `cleanup.policy`.",
    synonyms=_same("log.retention.bytes"),
)
RETENTION_MS = long(
    "retention.ms",
    7 * DAY_MS,
    "A segment is deleted when its newest record is this old; -1: never. Needs `delete` in `cleanup.policy`.",
    allowed=Between(-1),
    synonyms=(
        Synonym("log.retention.ms"),
        Synonym("log.retention.minutes", MINUTE_MS),
        Synonym("log.retention.hours", HOUR_MS),
    ),
)
SEGMENT_BYTES = integer(
    "segment.bytes",
    1024**3,
    "The log rolls to a new segment before one exceeds this size. Retention and compaction work on closed segments.",
    allowed=Between(1024**2),
    synonyms=_same("log.segment.bytes"),
)
SEGMENT_INDEX_BYTES = integer(
    "segment.index.bytes",
    10 * 1024**2,
    "The largest index file of a segment; the log rolls to a new segment when it is full.",
    allowed=Between(4),
    synonyms=_same("log.index.size.max.bytes"),
)
SEGMENT_JITTER_MS = long(
    "segment.jitter.ms",
    0,
    "A random time of up to this is subtracted from `segment.ms`, so that many logs do not roll at once.",
    allowed=_NOT_NEGATIVE,
    synonyms=(Synonym("log.roll.jitter.ms"), Synonym("log.roll.jitter.hours", HOUR_MS)),
)
SEGMENT_MS = long(
    "segment.ms",
    7 * DAY_MS,
    "The next append rolls the log to a new segment if the first record of the active one is this old.",
    allowed=_POSITIVE,
    synonyms=(Synonym("log.roll.ms"), Synonym("log.roll.hours", HOUR_MS)),
)
UNCLEAN_LEADER_ELECTION_ENABLE = boolean(
    "unclean.leader.election.enable",
    False,
    "Whether a replica outside the ISR and ELR may become leader if no other is available. Committed records may be "
    "lost.",
    synonyms=_same("unclean.leader.election.enable"),
)
INTERNAL_SEGMENT_BYTES = optional_integer(
    "internal.segment.bytes",
    "Replaces `segment.bytes`, without its lower bound: for tests with small segments.",
    internal=True,
)
PENSTOCK_STORAGE = text(
    "penstock.storage",
    "disk",
    "Where the partitions are stored: `disk`, or `memory`: lost when the broker stops.",
    allowed=OneOf(("disk", "memory")),
    synonyms=_same("penstock.storage"),
    fixed=True,
)
PENSTOCK_PRODUCE_VALIDATION = text(
    "penstock.produce.validation",
    "header",
    "What is validated of a produced batch: its `header` and CRC, or also each of its `records`. The records of "
    "compacted topics and of recompressed batches are always validated.",
    allowed=OneOf(("header", "records")),
    synonyms=_same("penstock.produce.validation"),
)
PENSTOCK_ACK_QUORUM = text(
    "penstock.ack.quorum",
    "all",
    "Which replicas need a batch before the high watermark passes it (for `acks=all` and consumers): `all` replicas of "
    "the ISR, or a `majority` of the assigned ones. With `majority`, `min.insync.replicas` has no effect.",
    allowed=OneOf(("all", "majority")),
    fixed=True,
)

TOPIC_SETTINGS = Catalogue(
    "topic", tuple(member for member in list(globals().values()) if isinstance(member, Setting))
)


def read_topic_config(name: str, raw: object) -> Given:
    """Parse and check one topic config."""
    return TOPIC_SETTINGS.give(name, raw, source=Source.TOPIC, origin="topic")


def topic_settings(configs: Mapping[str, str], broker: Settings) -> Settings:
    """The settings of a topic with these configs on that broker; SettingError if they contradict each other."""
    given: dict[str, tuple[Given, ...]] = {}
    for name, raw in configs.items():
        given[name] = (read_topic_config(name, raw),)
    for setting in TOPIC_SETTINGS:
        # A fixed config was decided when the topic was created: see `configs_at_creation`.
        behind = () if setting.fixed else _from_broker(setting, broker)
        if behind:
            given[setting.name] = (*given.get(setting.name, ()), *behind)
    settings = Settings(TOPIC_SETTINGS, given)
    _check_together(settings)
    return settings


def _from_broker(setting: Setting[Any], broker: Settings) -> tuple[Given, ...]:
    return tuple(given for synonym in setting.synonyms for given in broker.given.get(synonym.name, ()))


def configs_at_creation(configs: Mapping[str, str], broker: Settings) -> dict[str, str]:
    """The configs to store for a new topic: those of the request, and the broker's defaults of the fixed ones.

    Without the latter, a broker restarted with other defaults would look for a topic in memory on disk.
    """
    kept = dict(configs)
    for setting in TOPIC_SETTINGS:
        behind = _from_broker(setting, broker) if setting.fixed else ()
        if behind and setting.name not in kept:
            kept[setting.name] = setting.render(behind[0].value) or ""
    return kept


def _check_together(settings: Settings) -> None:
    shortest, longest = settings[MIN_COMPACTION_LAG_MS], settings[MAX_COMPACTION_LAG_MS]
    if shortest > longest:
        raise SettingError(
            f"min.compaction.lag.ms ({shortest}) cannot be more than max.compaction.lag.ms ({longest})"
        )


def check_change(before: Settings, after: Settings) -> None:
    """SettingError if a topic's settings cannot be changed from `before` to `after`."""
    for setting in TOPIC_SETTINGS:
        if setting.fixed and before[setting] != after[setting]:
            raise setting.error(
                after[setting], f"it is {before[setting]!r} since the topic was created and cannot be changed"
            )


def synonyms(settings: Settings, setting: Setting[Any]) -> list[Shown]:
    """The candidates for a topic config's value, the effective one first, as DescribeConfigs lists them.

    The default is listed under the broker setting's name. If a config has several broker settings, the first of them
    has no default, and none is listed.
    """
    default_name = setting.synonyms[0].name if len(setting.synonyms) == 1 else None
    return settings.behind(setting, default_name)


def segment_bytes(settings: Settings) -> int:
    """The size at which the log rolls."""
    internal = settings[INTERNAL_SEGMENT_BYTES]
    return settings[SEGMENT_BYTES] if internal is None else internal
