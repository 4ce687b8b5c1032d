"""Topic configs: known as Apache Kafka 4.3.1 knows them, honoured or refused, given by topic and broker."""

import json
from pathlib import Path

import pytest

from penstock.base.errors import SettingError
from penstock.base.load_settings import load_broker_settings
from penstock.base.settings import SettingKind, Shown, Source
from penstock.base.topic_settings import (
    CLEANUP_POLICY,
    INTERNAL_SEGMENT_BYTES,
    PENSTOCK_STORAGE,
    RETENTION_MS,
    SEGMENT_BYTES,
    SEGMENT_JITTER_MS,
    SEGMENT_MS,
    TOPIC_SETTINGS,
    check_change,
    configs_at_creation,
    read_topic_config,
    segment_bytes,
    synonyms,
    topic_settings,
)

# What a real broker's DescribeConfigs says of a topic without configs of its own.
KAFKA = json.loads(Path(__file__).with_name("kafka_topic_configs.json").read_text())

PLAIN = load_broker_settings()


def test_every_config_of_kafka_is_known_with_its_type_default_and_synonyms():
    settings = topic_settings({}, PLAIN)
    ours = {
        setting.name: {
            "default": settings.rendered(setting),
            "type": setting.kind,
            "synonyms": [line.name for line in synonyms(settings, setting)],
        }
        for setting in TOPIC_SETTINGS
        if not setting.internal and not setting.name.startswith("penstock.")
    }
    assert ours == KAFKA


def test_every_config_is_described_and_takes_its_own_default():
    for setting in TOPIC_SETTINGS:
        assert setting.doc.endswith(".")
        assert setting.kind in SettingKind
        if setting.default is not None:
            assert setting.parse(setting.render(setting.default)) == setting.default


# Asked of a real broker with IncrementalAlterConfigs, validate-only.
TAKEN_BY_KAFKA = {
    "cleanup.policy": ["", "compact", "compact,delete", "delete, compact", " compact "],
    "compression.gzip.level": ["-1", "1", "9", " 5"],
    "compression.lz4.level": ["1", "17"],
    "compression.type": ["uncompressed", "producer", "zstd", "snappy", "lz4", "gzip"],
    "compression.zstd.level": ["-131072", "0", "22"],
    "delete.retention.ms": ["0", "9223372036854775807"],
    "flush.messages": ["1"],
    "flush.ms": ["0"],
    "follower.replication.throttled.replicas": ["", "*", "0:1,3:2"],
    "index.interval.bytes": ["0", "2147483647"],
    "leader.replication.throttled.replicas": ["*", "0:1"],
    "max.compaction.lag.ms": ["1"],
    "max.message.bytes": ["0"],
    "message.timestamp.type": ["LogAppendTime", "CreateTime"],
    "min.cleanable.dirty.ratio": ["0", "1", ".5", "1e-1"],
    "min.insync.replicas": ["1", "100"],
    "retention.bytes": ["-2", "-1", "0"],
    "retention.ms": ["-1", "0", "+5"],
    "segment.bytes": ["1048576", "2147483647"],
    "segment.index.bytes": ["4"],
    "segment.jitter.ms": ["0", "700000000"],
    "segment.ms": ["1"],
    "unclean.leader.election.enable": ["true", "TRUE"],
}
REFUSED_BY_KAFKA = {
    "cleanup.policy": ["none", "Compact", "delete,none"],
    "compression.gzip.level": ["-2", "0", "10", "x"],
    "compression.lz4.level": ["0", "18"],
    "compression.type": ["none", "GZIP", ""],
    "compression.zstd.level": ["-131073", "23"],
    "delete.retention.ms": ["-1", "9223372036854775808"],
    "file.delete.delay.ms": ["-1"],
    "flush.messages": ["0"],
    "flush.ms": ["-1"],
    "follower.replication.throttled.replicas": ["x"],
    "index.interval.bytes": ["-1", "2147483648"],
    "local.retention.bytes": ["-3"],
    "local.retention.ms": ["-3"],
    "max.compaction.lag.ms": ["0"],
    "max.message.bytes": ["-1"],
    "message.timestamp.after.max.ms": ["-1"],
    "message.timestamp.before.max.ms": ["-1"],
    "message.timestamp.type": ["createtime"],
    "min.cleanable.dirty.ratio": ["-0.1", "1.01", "nan"],
    "min.compaction.lag.ms": ["-1"],
    "min.insync.replicas": ["0"],
    "preallocate": ["yes", "1", ""],
    "remote.storage.enable": ["true"],
    "retention.ms": ["-2", "0x10", "1_000"],
    "segment.bytes": ["14", "1048575"],
    "segment.index.bytes": ["3"],
    "segment.jitter.ms": ["-1"],
    "segment.ms": ["0"],
    "unclean.leader.election.enable": ["t"],
    "nosuch": ["1"],
    "message.format.version": ["3.0"],
}


@pytest.mark.parametrize(("name", "raw"), [(n, raw) for n, raws in TAKEN_BY_KAFKA.items() for raw in raws])
def test_what_kafka_takes_is_taken(name, raw):
    assert read_topic_config(name, raw).source is Source.TOPIC


@pytest.mark.parametrize(("name", "raw"), [(n, raw) for n, raws in REFUSED_BY_KAFKA.items() for raw in raws])
def test_what_kafka_refuses_is_refused(name, raw):
    with pytest.raises(SettingError):
        read_topic_config(name, raw)


@pytest.mark.parametrize(
    ("name", "raw", "reason"),
    [
        ("remote.storage.enable", "true", "no tiered storage; only false is taken"),
        ("remote.log.copy.disable", "true", "no tiered storage"),
        ("remote.log.delete.on.disable", "true", "no tiered storage"),
        ("local.retention.ms", "1000", "no tiered storage; only -2 is taken"),
        ("local.retention.bytes", "-1", "no tiered storage; only -2 is taken"),
        ("preallocate", "true", "grow as they are written"),
    ],
)
def test_a_refused_config_says_why_and_still_takes_its_default(name, raw, reason):
    with pytest.raises(SettingError, match=reason):
        read_topic_config(name, raw)
    setting = TOPIC_SETTINGS[name]
    assert read_topic_config(name, setting.render(setting.default)).value == setting.default


def test_the_topic_decides_over_the_broker_and_the_broker_over_the_default():
    broker = load_broker_settings(assignments=["log.cleanup.policy=compact"])
    assert topic_settings({}, PLAIN)[CLEANUP_POLICY] == ("delete",)
    assert topic_settings({}, broker)[CLEANUP_POLICY] == ("compact",)
    own = topic_settings({"cleanup.policy": "compact,delete"}, broker)
    assert own[CLEANUP_POLICY] == ("compact", "delete")
    assert synonyms(own, CLEANUP_POLICY) == [
        Shown("cleanup.policy", "compact,delete", Source.TOPIC),
        Shown("log.cleanup.policy", "compact", Source.STATIC_BROKER),
        Shown("log.cleanup.policy", "delete", Source.DEFAULT),
    ]


@pytest.mark.parametrize(
    ("assignments", "retention_ms", "names"),
    [
        ([], 604_800_000, []),
        (["log.retention.hours=2"], 7_200_000, ["log.retention.hours"]),
        (
            ["log.retention.hours=2", "log.retention.minutes=3"],
            180_000,
            ["log.retention.minutes", "log.retention.hours"],
        ),
        (
            ["log.retention.ms=4", "log.retention.hours=2", "log.retention.minutes=3"],
            4,
            ["log.retention.ms", "log.retention.minutes", "log.retention.hours"],
        ),
        (["log.retention.hours=-1"], -1, ["log.retention.hours"]),
    ],
)
def test_the_finest_unit_decides_and_minus_one_means_for_ever_in_all(assignments, retention_ms, names):
    settings = topic_settings({}, load_broker_settings(assignments=assignments))
    assert settings[RETENTION_MS] == retention_ms
    assert [line.name for line in synonyms(settings, RETENTION_MS)] == names


def test_hours_become_milliseconds_for_rolling_too():
    broker = load_broker_settings(assignments=["log.roll.hours=1", "log.roll.jitter.hours=2"])
    settings = topic_settings({}, broker)
    assert (settings[SEGMENT_MS], settings[SEGMENT_JITTER_MS]) == (3_600_000, 7_200_000)


def test_a_compaction_lag_cannot_be_at_least_more_than_at_most():
    configs = {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"}
    with pytest.raises(SettingError, match=r"\(10\) cannot be more than .* \(5\)"):
        topic_settings(configs, PLAIN)
    # Also where one of the two comes from the broker.
    broker = load_broker_settings(assignments=["log.cleaner.max.compaction.lag.ms=5"])
    with pytest.raises(SettingError, match="cannot be more than"):
        topic_settings({"min.compaction.lag.ms": "10"}, broker)


def test_an_unknown_config_is_answered_with_the_nearest_known_one():
    with pytest.raises(
        SettingError, match=r"unknown topic setting 'retention\.mss'; did you mean retention\.ms\?"
    ):
        topic_settings({"retention.mss": "1"}, PLAIN)


def test_storage_is_chosen_at_creation_and_stays():
    broker = load_broker_settings(assignments=["penstock.storage=memory"])
    assert configs_at_creation({"segment.ms": "5"}, PLAIN) == {"segment.ms": "5"}
    assert configs_at_creation({"segment.ms": "5"}, broker) == {
        "segment.ms": "5",
        "penstock.storage": "memory",
    }
    assert configs_at_creation({"penstock.storage": "disk"}, broker) == {"penstock.storage": "disk"}
    # A topic from before the broker's default changed stays where it is.
    assert topic_settings({}, broker)[PENSTOCK_STORAGE] == "disk"


def test_a_config_fixed_at_creation_cannot_be_changed_but_others_can():
    before = topic_settings({}, PLAIN)
    check_change(before, topic_settings({"retention.ms": "1"}, PLAIN))
    check_change(before, topic_settings({"penstock.storage": "disk"}, PLAIN))
    with pytest.raises(SettingError, match=r"penstock\.storage cannot be 'memory': it is 'disk' since"):
        check_change(before, topic_settings({"penstock.storage": "memory"}, PLAIN))


def test_small_segments_are_for_those_who_ask_for_the_internal_config():
    assert segment_bytes(topic_settings({}, PLAIN)) == topic_settings({}, PLAIN)[SEGMENT_BYTES]
    assert segment_bytes(topic_settings({"internal.segment.bytes": "100"}, PLAIN)) == 100
    assert INTERNAL_SEGMENT_BYTES.name not in TOPIC_SETTINGS.names()
