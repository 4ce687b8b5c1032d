from penstock.base.errors import ErrorCode
from penstock.wire.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
)
from tests.apis.requests import BROKER, TOPIC, config
from tests.raw_client import RawClient

DEFAULT_RETENTION_MS = "604800000"


def replace(
    client: RawClient, resource_type: int, name: str, configs: dict[str, str | None], *, validate_only=False
):
    resource = AlterConfigsResource(
        resource_type=resource_type,
        resource_name=name,
        configs=[AlterableConfig(name=key, value=value) for key, value in configs.items()],
    )
    request = AlterConfigsRequest(resources=[resource], validate_only=validate_only)
    return client.ask(request, 2).responses[0]


def test_all_configs_of_a_topic_are_replaced(client: RawClient, topic: str):
    client.create_topic(topic, retention_ms="1000", cleanup_policy="compact")
    assert replace(client, TOPIC, topic, {"retention.ms": "2000"}).error_code == 0
    assert config(client, TOPIC, topic, "retention.ms").value == "2000"
    assert config(client, TOPIC, topic, "cleanup.policy").value == "delete", "back to the default"


def test_validating_changes_nothing(client: RawClient, topic: str):
    client.create_topic(topic)
    assert replace(client, TOPIC, topic, {"retention.ms": "2"}, validate_only=True).error_code == 0
    assert config(client, TOPIC, topic, "retention.ms").value == DEFAULT_RETENTION_MS


def test_an_invalid_config_is_rejected_and_nothing_is_changed(client: RawClient, topic: str):
    client.create_topic(topic)
    for configs, code in (
        ({"retention.ms": "2", "no.such": "1"}, ErrorCode.INVALID_CONFIG),
        ({"retention.ms": "2", "segment.bytes": "many"}, ErrorCode.INVALID_CONFIG),
        ({"retention.ms": None}, ErrorCode.INVALID_REQUEST),
    ):
        refused = replace(client, TOPIC, topic, configs)
        assert refused.error_code == code
        assert refused.error_message
    assert config(client, TOPIC, topic, "retention.ms").value == DEFAULT_RETENTION_MS
    assert replace(client, TOPIC, "nobody", {}).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_the_brokers_dynamic_configs_are_replaced(client: RawClient):
    assert replace(client, BROKER, "1", {"log.retention.ms": "9"}).error_code == 0
    assert config(client, BROKER, "1", "log.retention.ms").value == "9"
    assert replace(client, BROKER, "1", {}).error_code == 0
    assert config(client, BROKER, "1", "log.retention.ms").value is None
