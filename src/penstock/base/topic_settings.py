"""The topic configs: all that Apache Kafka 4.3 knows, and Penstock's own.

Each is honoured or refused. A refused one is known, described and accepted at its default, so that tools that
write every config back keep working; any other value is a SettingError that says why.

A topic's value comes from the topic itself, else from the broker settings named as its synonyms, else from
the default here. The docs table and the broker settings of the same meaning are made from these declarations.
"""

import re
from collections.abc import Mapping
from typing import Any

from penstock.base.allowed import Between, EachOneOf, Matching, OneOf
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
    "What happens to old segments: `delete` drops them once retention is over, `compact` keeps the newest "
    "record of each key, both together do both, and an empty list keeps everything.",
    allowed=EachOneOf(("compact", "delete")),
    synonyms=_same("log.cleanup.policy"),
)
COMPRESSION_TYPE = text(
    "compression.type",
    "producer",
    "How batches lie on disk: `producer` leaves them as they came; any other value makes the broker "
    "recompress batches that came differently, which costs it time.",
    allowed=OneOf(("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")),
    synonyms=_same("compression.type"),
)
COMPRESSION_GZIP_LEVEL = integer(
    "compression.gzip.level",
    -1,
    "Effort when the broker recompresses with gzip; -1 is the library's own choice.",
    allowed=Between(1, 9, also=(-1,)),
    synonyms=_same("compression.gzip.level"),
)
COMPRESSION_LZ4_LEVEL = integer(
    "compression.lz4.level",
    9,
    "Effort when the broker recompresses with lz4.",
    allowed=Between(1, 17),
    synonyms=_same("compression.lz4.level"),
)
COMPRESSION_ZSTD_LEVEL = integer(
    "compression.zstd.level",
    3,
    "Effort when the broker recompresses with zstd; negative levels trade size for speed.",
    allowed=Between(-131072, 22),
    synonyms=_same("compression.zstd.level"),
)
DELETE_RETENTION_MS = long(
    "delete.retention.ms",
    DAY_MS,
    "How long a compacted topic still shows a tombstone after compaction first passed it. A reader that "
    "needs longer than this from start to end may miss that a key was deleted.",
    allowed=_NOT_NEGATIVE,
    synonyms=_same("log.cleaner.delete.retention.ms"),
)
FILE_DELETE_DELAY_MS = long(
    "file.delete.delay.ms",
    MINUTE_MS,
    "How long the files of a dropped segment stay, so that reads under way can finish.",
    allowed=_NOT_NEGATIVE,
    synonyms=_same("log.segment.delete.delay.ms"),
)
FLUSH_MESSAGES = long(
    "flush.messages",
    LONG_MAX,
    "Sync to the device once this many records are unsynced. With 1 a record counts as written, for "
    "`acks` and for consumers, only when it is on the device; waiting batches share one sync.",
    allowed=_POSITIVE,
    synonyms=_same("log.flush.interval.messages"),
)
FLUSH_MS = long(
    "flush.ms",
    LONG_MAX,
    "Sync to the device when the oldest unsynced record has waited this long.",
    allowed=_NOT_NEGATIVE,
    synonyms=(Synonym("log.flush.interval.ms"), Synonym("log.flush.scheduler.interval.ms")),
)
FOLLOWER_REPLICATION_THROTTLED_REPLICAS = words(
    "follower.replication.throttled.replicas",
    (),
    "Replicas whose copying is slowed down on the follower's side, to `follower.replication.throttled.rate`: "
    "PARTITION:BROKER with commas, or `*` for all. Those in sync are not slowed down.",
    allowed=_REPLICAS,
)
INDEX_INTERVAL_BYTES = integer(
    "index.interval.bytes",
    4096,
    "An index entry is written after at least this many bytes of batches: less makes look-ups shorter and "
    "indexes larger.",
    allowed=_NOT_NEGATIVE,
    synonyms=_same("log.index.interval.bytes"),
)
LEADER_REPLICATION_THROTTLED_REPLICAS = words(
    "leader.replication.throttled.replicas",
    (),
    "Leaders from which copying is slowed down, to `leader.replication.throttled.rate`: PARTITION:BROKER with "
    "commas, or `*` for all. Those in sync are not slowed down.",
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
    "A record that has waited this long for compaction makes its partition due, whatever the dirty ratio.",
    allowed=_POSITIVE,
    synonyms=_same("log.cleaner.max.compaction.lag.ms"),
)
MAX_MESSAGE_BYTES = integer(
    "max.message.bytes",
    1048588,
    "The largest batch taken, as it is sent (compressed, if the producer compresses).",
    allowed=_NOT_NEGATIVE,
    synonyms=_same("message.max.bytes"),
)
MESSAGE_TIMESTAMP_AFTER_MAX_MS = long(
    "message.timestamp.after.max.ms",
    HOUR_MS,
    "How far ahead of the broker's clock a producer's timestamp may be. Not looked at with LogAppendTime.",
    allowed=_NOT_NEGATIVE,
    synonyms=_same("log.message.timestamp.after.max.ms"),
)
MESSAGE_TIMESTAMP_BEFORE_MAX_MS = long(
    "message.timestamp.before.max.ms",
    LONG_MAX,
    "How far behind the broker's clock a producer's timestamp may be. Not looked at with LogAppendTime.",
    allowed=_NOT_NEGATIVE,
    synonyms=_same("log.message.timestamp.before.max.ms"),
)
MESSAGE_TIMESTAMP_TYPE = text(
    "message.timestamp.type",
    "CreateTime",
    "Whose clock dates the records: the producer's (`CreateTime`) or the broker's (`LogAppendTime`).",
    allowed=OneOf(("CreateTime", "LogAppendTime")),
    synonyms=_same("log.message.timestamp.type"),
)
MIN_CLEANABLE_DIRTY_RATIO = double(
    "min.cleanable.dirty.ratio",
    0.5,
    "A partition is due for compaction when this share of it, in bytes, has not been compacted yet.",
    allowed=Between(0, 1),
    synonyms=_same("log.cleaner.min.cleanable.ratio"),
)
MIN_COMPACTION_LAG_MS = long(
    "min.compaction.lag.ms",
    0,
    "A record younger than this is left alone by compaction.",
    allowed=_NOT_NEGATIVE,
    synonyms=_same("log.cleaner.min.compaction.lag.ms"),
)
MIN_INSYNC_REPLICAS = integer(
    "min.insync.replicas",
    1,
    "With fewer in-sync replicas than this (or than all there are), `acks=all` is answered with NOT_ENOUGH_REPLICAS, "
    "and nothing is committed.",
    allowed=_POSITIVE,
    synonyms=_same("min.insync.replicas"),
)
PREALLOCATE = boolean(
    "preallocate",
    False,
    "Whether a new segment's file takes its full size at once.",
    refused="segment files grow as they are written, and recovery relies on it",
    synonyms=_same("log.preallocate"),
)
REMOTE_LOG_COPY_DISABLE = boolean(
    "remote.log.copy.disable", False, "Stops copying to tiered storage.", refused=_NO_TIERS
)
REMOTE_LOG_DELETE_ON_DISABLE = boolean(
    "remote.log.delete.on.disable",
    False,
    "Deletes what tiered storage holds when it is switched off.",
    refused=_NO_TIERS,
)
REMOTE_STORAGE_ENABLE = boolean(
    "remote.storage.enable", False, "Moves closed segments to tiered storage.", refused=_NO_TIERS
)
RETENTION_BYTES = long(
    "retention.bytes",
    -1,
    "The oldest segments of a partition go while the rest is still at least this large; negative is no "
    "limit. Needs `delete` in `cleanup.policy`.",
    synonyms=_same("log.retention.bytes"),
)
RETENTION_MS = long(
    "retention.ms",
    7 * DAY_MS,
    "How long a segment is kept after its newest record; -1 is forever. Needs `delete` in `cleanup.policy`.",
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
    "A segment is closed and a new one begun before it would grow beyond this. Retention and compaction "
    "work on closed segments.",
    allowed=Between(1024**2),
    synonyms=_same("log.segment.bytes"),
)
SEGMENT_INDEX_BYTES = integer(
    "segment.index.bytes",
    10 * 1024**2,
    "The largest index of a segment; when it is full, a new segment is begun.",
    allowed=Between(4),
    synonyms=_same("log.index.size.max.bytes"),
)
SEGMENT_JITTER_MS = long(
    "segment.jitter.ms",
    0,
    "Up to this much, at random, is taken off `segment.ms`, so that many segments do not close at once.",
    allowed=_NOT_NEGATIVE,
    synonyms=(Synonym("log.roll.jitter.ms"), Synonym("log.roll.jitter.hours", HOUR_MS)),
)
SEGMENT_MS = long(
    "segment.ms",
    7 * DAY_MS,
    "A segment whose first record is this old is closed by the next append, full or not.",
    allowed=_POSITIVE,
    synonyms=(Synonym("log.roll.ms"), Synonym("log.roll.hours", HOUR_MS)),
)
UNCLEAN_LEADER_ELECTION_ENABLE = boolean(
    "unclean.leader.election.enable",
    False,
    "Whether a replica that was not in sync may lead when no other is left, at the price of lost records.",
    synonyms=_same("unclean.leader.election.enable"),
)
INTERNAL_SEGMENT_BYTES = optional_integer(
    "internal.segment.bytes",
    "Stands in for `segment.bytes` without its lower bound, for experiments with small segments.",
    internal=True,
)
PENSTOCK_STORAGE = text(
    "penstock.storage",
    "disk",
    "Where the partitions live: `disk`, or `memory`, which is gone with the process.",
    allowed=OneOf(("disk", "memory")),
    synonyms=_same("penstock.storage"),
    fixed=True,
)
PENSTOCK_PRODUCE_VALIDATION = text(
    "penstock.produce.validation",
    "header",
    "How closely a produced batch is looked at: its `header` and checksum, or also each of its `records`. "
    "Compacted topics and recompression look at the records in any case.",
    allowed=OneOf(("header", "records")),
    synonyms=_same("penstock.produce.validation"),
)
PENSTOCK_ACK_QUORUM = text(
    "penstock.ack.quorum",
    "all",
    "Who has to have a batch before it counts as written, for `acks=all` and for consumers: `all` in-sync replicas, or "
    "a `majority` of the assigned ones, whichever they are. With `majority`, `min.insync.replicas` means nothing.",
    allowed=OneOf(("all", "majority")),
    fixed=True,
)

TOPIC_SETTINGS = Catalogue(
    "topic", tuple(member for member in list(globals().values()) if isinstance(member, Setting))
)


def read_topic_config(name: str, raw: object) -> Given:
    """One config of a topic, checked by itself."""
    return TOPIC_SETTINGS.give(name, raw, source=Source.TOPIC, origin="topic")


def topic_settings(configs: Mapping[str, str], broker: Settings) -> Settings:
    """The settings of a topic with these configs on that broker; SettingError if they make no sense."""
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
    """The configs to keep for a new topic: those asked for, and the broker's choice of the fixed ones.

    Without the latter, a broker restarted with other defaults would take a topic in memory for one on disk.
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
    """SettingError if a topic that has the one set cannot be given the other."""
    for setting in TOPIC_SETTINGS:
        if setting.fixed and before[setting] != after[setting]:
            raise setting.error(
                after[setting], f"it is {before[setting]!r} since the topic was created and cannot be changed"
            )


def synonyms(settings: Settings, setting: Setting[Any]) -> list[Shown]:
    """What could decide a topic's value, what does first: for DescribeConfigs.

    The default stands under the broker's name for it. Where several broker settings stand in, the first of
    them has no default, and none is shown.
    """
    default_name = setting.synonyms[0].name if len(setting.synonyms) == 1 else None
    return settings.behind(setting, default_name)


def segment_bytes(settings: Settings) -> int:
    """The size at which segments roll."""
    internal = settings[INTERNAL_SEGMENT_BYTES]
    return settings[SEGMENT_BYTES] if internal is None else internal
