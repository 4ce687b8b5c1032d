from penstock.base.errors import ErrorCode
from penstock.wire.messages.list_config_resources import ListConfigResourcesRequest
from tests.apis.requests import BROKER, DELETE, TOPIC, alter
from tests.raw_client import RawClient

BROKER_LOGGER = 8
CLIENT_METRICS = 16
GROUP = 32


def ask(client: RawClient, *resource_types: int, version: int = 1):
    return client.ask(ListConfigResourcesRequest(resource_types=list(resource_types)), version)


def test_topics_and_brokers_are_listed_by_name(client: RawClient, topic: str):
    client.create_topic(topic)
    everything = {(r.resource_type, r.resource_name) for r in ask(client).config_resources}
    assert {(TOPIC, topic), (BROKER, "1"), (BROKER_LOGGER, "1")} <= everything


def test_only_the_kinds_asked_for_are_listed(client: RawClient, topic: str):
    client.create_topic(topic)
    assert {r.resource_type for r in ask(client, TOPIC).config_resources} == {TOPIC}
    assert [r.resource_name for r in ask(client, BROKER).config_resources] == ["1"]
    assert ask(client, CLIENT_METRICS).config_resources == []


def test_groups_with_configs_of_their_own_are_listed(client: RawClient):
    alter(client, GROUP, "listed", "consumer.session.timeout.ms", "50000")
    assert [r.resource_name for r in ask(client, GROUP).config_resources] == ["listed"]
    alter(client, GROUP, "listed", "consumer.session.timeout.ms", None, DELETE)
    assert ask(client, GROUP).config_resources == []


def test_an_unknown_kind_is_refused(client: RawClient):
    assert ask(client, 99).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_version_0_asks_for_client_metrics_of_which_there_are_none(client: RawClient):
    assert ask(client, version=0).config_resources == []
