import pytest

from penstock.base.errors import ErrorCode
from penstock.testing import EmbeddedBroker
from penstock.wire.messages.find_coordinator import FindCoordinatorRequest
from penstock.wire.messages.metadata import MetadataRequest
from tests.apis.requests import TOPIC, config, exists
from tests.raw_client import RawClient

GROUP = 0
TRANSACTION = 1
SHARE = 2
INTERNAL = {GROUP: "__consumer_offsets", TRANSACTION: "__transaction_state"}


def find(client: RawClient, key: str, key_type: int, version: int = 3):
    return client.ask(FindCoordinatorRequest(key=key, key_type=key_type), version)


@pytest.mark.parametrize("key_type", [GROUP, TRANSACTION])
def test_this_broker_is_the_coordinator(broker: EmbeddedBroker, client: RawClient, key_type: int):
    answer = find(client, "me", key_type)
    assert (answer.error_code, answer.node_id) == (0, 1)
    assert f"{answer.host}:{answer.port}" == broker.bootstrap_servers


def test_each_of_several_keys_is_answered(client: RawClient):
    request = FindCoordinatorRequest(key_type=GROUP, coordinator_keys=["one", "two"])
    coordinators = client.ask(request, 6).coordinators
    assert [(c.key, c.error_code, c.node_id) for c in coordinators] == [("one", 0, 1), ("two", 0, 1)]


def test_version_0_asks_for_groups(client: RawClient):
    assert client.ask(FindCoordinatorRequest(key="me"), 0).node_id == 1


@pytest.mark.parametrize("key_type", [GROUP, TRANSACTION])
def test_the_internal_topic_is_created_by_the_first_find_coordinator(key_type: int):
    name = INTERNAL[key_type]
    with EmbeddedBroker() as broker, RawClient(broker.bootstrap_servers) as client:
        assert not exists(client, name)
        assert find(client, "me", key_type).error_code == 0
        (topic,) = [one for one in client.ask(MetadataRequest(topics=None), 12).topics if one.name == name]
        assert topic.is_internal
        assert len(topic.partitions) == 50
        assert config(client, TOPIC, name, "cleanup.policy").value == "compact"
        assert config(client, TOPIC, name, "segment.bytes").value == str(100 * 1024**2)


def test_the_internal_topic_has_as_many_partitions_as_the_setting_says():
    settings = {"offsets.topic.num.partitions": "3"}
    with EmbeddedBroker(settings=settings) as broker, RawClient(broker.bootstrap_servers) as client:
        find(client, "me", GROUP)
        topics = client.ask(MetadataRequest(topics=None), 12).topics
        assert [(topic.name, len(topic.partitions)) for topic in topics] == [("__consumer_offsets", 3)]


def test_an_internal_topic_that_cannot_be_created_leaves_no_coordinator():
    settings = {"penstock.partitions.max": "10"}
    with EmbeddedBroker(settings=settings) as broker, RawClient(broker.bootstrap_servers) as client:
        assert find(client, "me", GROUP).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_share_groups_have_no_coordinator_yet(client: RawClient):
    key = f"group:{'A' * 22}:0"
    assert find(client, key, SHARE).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert find(client, "group", SHARE).error_code == ErrorCode.INVALID_REQUEST


def test_a_key_of_an_unknown_kind_is_refused(client: RawClient):
    assert find(client, "me", 9).error_code == ErrorCode.INVALID_REQUEST
