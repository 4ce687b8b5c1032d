import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.base.errors import ErrorCode
from penstock.base.topic_settings import TOPIC_SETTINGS
from penstock.testing import EmbeddedBroker
from tests.apis.requests import BROKER, DELETE, TOPIC, alter, config, describe
from tests.raw_client import RawClient

# The numbers of the protocol.
TOPIC_SOURCE = 1
DYNAMIC_BROKER = 2
DYNAMIC_DEFAULT_BROKER = 3
STATIC_BROKER = 4
DEFAULT = 5

KAFKA_CONFIGS = Path(__file__).parent.parent / "base" / "kafka_topic_configs.json"


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    """One with a topic default of its own."""
    with EmbeddedBroker(settings={"log.segment.bytes": 5_000_000}) as broker:
        yield broker


def shown(entry) -> list[tuple[str, str | None, int]]:
    return [(synonym.name, synonym.value, synonym.source) for synonym in entry.synonyms]


def test_every_topic_config_of_kafka_is_described_with_documentation(client: RawClient, topic: str):
    client.create_topic(topic)
    described = {entry.name: entry for entry in describe(client, TOPIC, topic).configs}
    kafka = json.loads(KAFKA_CONFIGS.read_text())
    names = set(kafka) if isinstance(kafka, dict) else {entry["name"] for entry in kafka}
    assert len(names) > 30
    assert names <= set(described)
    assert all(entry.documentation for entry in described.values())
    assert all(entry.config_type for entry in described.values())
    assert not any(entry.read_only or entry.is_sensitive for entry in described.values())


def test_internal_configs_are_not_shown(client: RawClient, topic: str):
    client.create_topic(topic, internal_segment_bytes="2000")
    names = {entry.name for entry in describe(client, TOPIC, topic).configs}
    assert "internal.segment.bytes" not in names
    assert names == {setting.name for setting in TOPIC_SETTINGS if not setting.internal}


def test_the_config_source_is_that_of_the_effective_value(client: RawClient, topic: str):
    client.create_topic(topic, retention_ms="1000")
    assert config(client, TOPIC, topic, "retention.ms").config_source == TOPIC_SOURCE
    assert config(client, TOPIC, topic, "segment.bytes").config_source == STATIC_BROKER
    assert config(client, TOPIC, topic, "segment.bytes").value == "5000000"
    assert config(client, TOPIC, topic, "max.message.bytes").config_source == DEFAULT


def test_synonyms_are_in_the_order_of_precedence(client: RawClient, topic: str):
    client.create_topic(topic, segment_bytes="2000000")
    assert shown(config(client, TOPIC, topic, "segment.bytes")) == [
        ("segment.bytes", "2000000", TOPIC_SOURCE),
        ("log.segment.bytes", "5000000", STATIC_BROKER),
        ("log.segment.bytes", "1073741824", DEFAULT),
    ]


def test_a_dynamic_broker_config_overrides_the_file_and_not_the_topic(client: RawClient, topic: str):
    client.create_topic(topic)
    assert alter(client, BROKER, "1", "log.segment.bytes", "3000000").error_code == 0
    assert alter(client, BROKER, "", "log.segment.bytes", "4000000").error_code == 0
    entry = config(client, TOPIC, topic, "segment.bytes")
    assert (entry.value, entry.config_source) == ("3000000", DYNAMIC_BROKER)
    assert [source for _, _, source in shown(entry)] == [
        DYNAMIC_BROKER,
        DYNAMIC_DEFAULT_BROKER,
        STATIC_BROKER,
        DEFAULT,
    ]
    for name in ("1", ""):
        alter(client, BROKER, name, "log.segment.bytes", None, operation=1)
    assert config(client, TOPIC, topic, "segment.bytes").config_source == STATIC_BROKER


def test_only_the_configs_asked_for_are_described(client: RawClient, topic: str):
    client.create_topic(topic)
    result = describe(client, TOPIC, topic, ["retention.ms", "no.such.config", "cleanup.policy"])
    assert {entry.name for entry in result.configs} == {"retention.ms", "cleanup.policy"}
    assert (
        describe(client, TOPIC, topic, []).configs == []
        or len(describe(client, TOPIC, topic, []).configs) > 30
    )


def test_the_brokers_configs_are_described(client: RawClient):
    described = {entry.name: entry for entry in describe(client, BROKER, "1").configs}
    assert described["num.partitions"].value == "1"
    assert described["num.partitions"].read_only
    assert not described["max.connections"].read_only
    assert described["log.segment.bytes"].config_source == STATIC_BROKER
    assert all(entry.documentation for entry in described.values())


def test_unknown_resources_get_an_error_code(client: RawClient):
    assert describe(client, TOPIC, "nobody").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert describe(client, TOPIC, "a b").error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert describe(client, BROKER, "77").error_code == ErrorCode.INVALID_REQUEST
    assert describe(client, 99, "x").error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_older_versions_have_no_documentation(client: RawClient, topic: str, version: int):
    client.create_topic(topic)
    entry = describe(client, TOPIC, topic, ["retention.ms"], version=version).configs[0]
    assert entry.value == "604800000"
    assert bool(entry.documentation) == (version >= 3)


def sources(client: RawClient, kind: int, name: str) -> list[tuple[int, str]]:
    """What `min.insync.replicas` of a resource comes from, and what could decide it, by source."""
    found = config(client, kind, name, "min.insync.replicas")
    assert found.config_source == found.synonyms[0].source
    return [(synonym.source, synonym.value) for synonym in found.synonyms]


def test_the_in_sync_replicas_are_a_default_of_all_brokers_as_in_kafka(client: RawClient, topic: str):
    client.create_topic(topic)
    assert sources(client, TOPIC, topic) == [(3, "1"), (5, "1")]
    assert sources(client, BROKER, "1") == [(3, "1"), (5, "1")]
    assert sources(client, BROKER, "") == [(3, "1")]


def test_the_default_of_all_brokers_begins_with_what_the_broker_was_started_with(topic: str):
    settings = {"min.insync.replicas": "2"}
    with EmbeddedBroker(settings=settings) as broker, RawClient(broker.bootstrap_servers) as client:
        client.create_topic(topic)
        assert sources(client, TOPIC, topic) == [(3, "2"), (4, "2"), (5, "1")]
        assert alter(client, BROKER, "", "min.insync.replicas", "1").error_code == 0
        assert sources(client, TOPIC, topic) == [(3, "1"), (4, "2"), (5, "1")]
        assert alter(client, BROKER, "", "min.insync.replicas", None, DELETE).error_code == 0
        assert sources(client, TOPIC, topic) == [(3, "2"), (4, "2"), (5, "1")]
