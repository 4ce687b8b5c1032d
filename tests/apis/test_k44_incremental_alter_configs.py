from pathlib import Path

import pytest

from penstock.base.errors import ErrorCode
from penstock.testing import EmbeddedBroker
from penstock.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tests.apis.requests import APPEND, BROKER, DELETE, SET, SUBTRACT, TOPIC, alter, config
from tests.raw_client import RawClient, batch_of


def test_one_config_is_set_and_the_others_stay(client: RawClient, topic: str):
    client.create_topic(topic, cleanup_policy="compact")
    assert alter(client, TOPIC, topic, "retention.ms", "5").error_code == 0
    assert config(client, TOPIC, topic, "retention.ms").value == "5"
    assert config(client, TOPIC, topic, "cleanup.policy").value == "compact"


def test_deleting_a_config_restores_the_default(client: RawClient, topic: str):
    client.create_topic(topic, retention_ms="5")
    assert alter(client, TOPIC, topic, "retention.ms", None, DELETE).error_code == 0
    assert config(client, TOPIC, topic, "retention.ms").value == "604800000"


def test_lists_are_appended_to_and_subtracted_from(client: RawClient, topic: str):
    client.create_topic(topic)
    assert alter(client, TOPIC, topic, "cleanup.policy", "compact", APPEND).error_code == 0
    assert set(config(client, TOPIC, topic, "cleanup.policy").value.split(",")) == {"compact", "delete"}
    assert alter(client, TOPIC, topic, "cleanup.policy", "delete", SUBTRACT).error_code == 0
    assert config(client, TOPIC, topic, "cleanup.policy").value == "compact"
    assert alter(client, TOPIC, topic, "cleanup.policy", "compact", APPEND).error_code == 0
    assert config(client, TOPIC, topic, "cleanup.policy").value == "compact"


def test_only_lists_can_be_appended_to(client: RawClient, topic: str):
    client.create_topic(topic)
    assert alter(client, TOPIC, topic, "retention.ms", "5", APPEND).error_code == ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize(
    ("key", "value", "operation", "code"),
    [
        ("no.such.config", "1", SET, ErrorCode.INVALID_CONFIG),
        ("retention.ms", "soon", SET, ErrorCode.INVALID_CONFIG),
        ("retention.ms", None, SET, ErrorCode.INVALID_REQUEST),
        ("retention.ms", "1", 9, ErrorCode.INVALID_REQUEST),
        ("remote.storage.enable", "true", SET, ErrorCode.INVALID_CONFIG),
        ("penstock.storage", "memory", SET, ErrorCode.INVALID_CONFIG),
    ],
)
def test_an_invalid_config_is_rejected_with_a_reason(
    client: RawClient, topic: str, key: str, value: str | None, operation: int, code: ErrorCode
):
    client.create_topic(topic)
    refused = alter(client, TOPIC, topic, key, value, operation)
    assert refused.error_code == code
    assert refused.error_message


def test_a_refused_config_is_accepted_at_its_default(client: RawClient, topic: str):
    client.create_topic(topic)
    assert alter(client, TOPIC, topic, "remote.storage.enable", "false").error_code == 0


def test_validating_changes_nothing(client: RawClient, topic: str):
    client.create_topic(topic)
    assert alter(client, TOPIC, topic, "retention.ms", "5", validate_only=True).error_code == 0
    assert config(client, TOPIC, topic, "retention.ms").value == "604800000"


def test_a_resource_or_config_named_twice_is_refused(client: RawClient, topic: str):
    client.create_topic(topic)
    once = AlterableConfig(name="retention.ms", config_operation=SET, value="5")
    twice_config = AlterConfigsResource(resource_type=TOPIC, resource_name=topic, configs=[once, once])
    answer = client.ask(IncrementalAlterConfigsRequest(resources=[twice_config]), 1)
    assert [r.error_code for r in answer.responses] == [ErrorCode.INVALID_REQUEST]
    single = AlterConfigsResource(resource_type=TOPIC, resource_name=topic, configs=[once])
    answer = client.ask(IncrementalAlterConfigsRequest(resources=[single, single]), 1)
    assert {r.error_code for r in answer.responses} == {ErrorCode.INVALID_REQUEST}
    assert config(client, TOPIC, topic, "retention.ms").value == "604800000"


def test_concurrent_changes_do_not_undo_each_other(broker: EmbeddedBroker, topic: str):
    wanted = {
        "retention.ms": "1",
        "retention.bytes": "2",
        "segment.ms": "3",
        "flush.ms": "4",
        "index.interval.bytes": "5",
        "max.message.bytes": "6",
        "file.delete.delay.ms": "7",
        "delete.retention.ms": "8",
    }
    clients = [RawClient(broker.bootstrap_servers) for _ in wanted]
    try:
        clients[0].create_topic(topic)
        for client, (key, value) in zip(clients, wanted.items(), strict=True):
            change = AlterableConfig(name=key, config_operation=SET, value=value)
            resource = AlterConfigsResource(resource_type=TOPIC, resource_name=topic, configs=[change])
            client.send(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        for client in clients:
            client.receive(44, 1, IncrementalAlterConfigsResponse)
        assert {key: config(clients[0], TOPIC, topic, key).value for key in wanted} == wanted
    finally:
        for client in clients:
            client.socket.close()


def test_a_changed_config_takes_effect_at_once(client: RawClient, topic: str):
    client.create_topic(topic)
    batch = batch_of(b"x" * 500)
    assert client.produce(topic, batch).error_code == 0
    alter(client, TOPIC, topic, "max.message.bytes", "100")
    assert client.produce(topic, batch).error_code == ErrorCode.MESSAGE_TOO_LARGE
    alter(client, TOPIC, topic, "max.message.bytes", None, DELETE)
    assert client.produce(topic, batch).error_code == 0


def test_a_changed_broker_default_takes_effect_on_topics_that_follow_it(client: RawClient, topic: str):
    client.create_topic(topic)
    client.create_topic(topic + "own", max_message_bytes="1000")
    batch = batch_of(b"x" * 500)
    for name in ("1", ""):
        assert alter(client, BROKER, name, "message.max.bytes", "100").error_code == 0
        assert client.produce(topic, batch).error_code == ErrorCode.MESSAGE_TOO_LARGE
        assert client.produce(topic + "own", batch).error_code == 0
        assert alter(client, BROKER, name, "message.max.bytes", None, DELETE).error_code == 0
        assert client.produce(topic, batch).error_code == 0


def test_a_broker_default_that_contradicts_a_topics_configs_is_rejected(client: RawClient, topic: str):
    client.create_topic(topic, max_compaction_lag_ms="5")
    refused = alter(client, BROKER, "1", "log.cleaner.min.compaction.lag.ms", "10")
    assert refused.error_code == ErrorCode.INVALID_CONFIG
    assert config(client, TOPIC, topic, "min.compaction.lag.ms").value == "0"


def test_read_only_settings_cannot_be_changed_while_the_broker_runs(client: RawClient):
    assert alter(client, BROKER, "1", "num.partitions", "3").error_code == ErrorCode.INVALID_REQUEST
    assert alter(client, BROKER, "1", "no.such", "3").error_code == ErrorCode.INVALID_CONFIG
    assert alter(client, BROKER, "1", "max.connections", "many").error_code == ErrorCode.INVALID_CONFIG
    assert alter(client, BROKER, "9", "max.connections", "3").error_code == ErrorCode.INVALID_REQUEST


def test_dynamic_configs_survive_a_restart_and_stay_in_effect(tmp_path: Path):
    batch = batch_of(b"x" * 500)
    with EmbeddedBroker(data_dir=tmp_path) as broker, RawClient(broker.bootstrap_servers) as client:
        client.create_topic("followed")
        alter(client, BROKER, "", "message.max.bytes", "100")
        alter(client, BROKER, "1", "log.retention.ms", "77")
        alter(client, TOPIC, "followed", "flush.ms", "9")
    with EmbeddedBroker(data_dir=tmp_path) as broker, RawClient(broker.bootstrap_servers) as client:
        assert client.produce("followed", batch).error_code == ErrorCode.MESSAGE_TOO_LARGE
        assert config(client, TOPIC, "followed", "retention.ms").value == "77"
        assert config(client, TOPIC, "followed", "flush.ms").value == "9"


def test_other_resources_have_no_configs_here(client: RawClient):
    for resource_type in (8, 16, 99):
        assert alter(client, resource_type, "x", "a", "b").error_code == ErrorCode.INVALID_REQUEST
