from collections.abc import Iterator

import pytest

from penstock.base.errors import ErrorCode
from penstock.base.ids import ZERO_ID
from penstock.testing import EmbeddedBroker
from penstock.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.apis.requests import exists, topic_id
from tests.broker.controlled import ControlledBroker
from tests.raw_client import RawClient

NOT_ASKED_FOR = -(2**31)


@pytest.fixture(scope="module")
def strict_broker() -> Iterator[EmbeddedBroker]:
    """One that creates nothing by itself."""
    with EmbeddedBroker(settings={"auto.create.topics.enable": False, "broker.rack": "r1"}) as broker:
        yield broker


def ask(client: RawClient, *names: str, version: int = 12, **fields: object):
    topics = [MetadataRequestTopic(name=name) for name in names]
    return client.ask(MetadataRequest(topics=topics, **fields), version)


def test_a_topic_is_described_with_its_partitions_leader_and_replicas(client: RawClient, topic: str):
    client.create_topic(topic, partitions=3)
    (found,) = ask(client, topic).topics
    assert found.error_code == 0
    assert found.topic_id != ZERO_ID
    assert [p.partition_index for p in found.partitions] == [0, 1, 2]
    for partition in found.partitions:
        assert (partition.leader_id, partition.leader_epoch) == (1, 0)
        assert partition.replica_nodes == partition.isr_nodes == [1]
        assert partition.offline_replicas == []


def test_metadata_has_the_brokers_address_and_the_controller(client: RawClient, broker: EmbeddedBroker):
    answer = ask(client)
    (node,) = answer.brokers
    assert f"{node.host}:{node.port}" == broker.bootstrap_servers
    assert answer.controller_id == node.node_id == 1
    assert answer.cluster_id


def test_metadata_has_the_rack(strict_broker: EmbeddedBroker):
    with RawClient(strict_broker.bootstrap_servers) as client:
        assert ask(client).brokers[0].rack == "r1"


def test_null_asks_for_all_topics_and_an_empty_list_for_none(client: RawClient, topic: str):
    client.create_topic(topic)
    assert topic in {t.name for t in client.ask(MetadataRequest(topics=None), 12).topics}
    assert client.ask(MetadataRequest(topics=[]), 12).topics == []


def test_in_version_0_an_empty_list_asks_for_all_topics(client: RawClient, topic: str):
    client.create_topic(topic)
    assert topic in {t.name for t in client.ask(MetadataRequest(topics=[]), 0).topics}


def test_asking_for_an_unknown_topic_creates_it(client: RawClient, topic: str):
    (found,) = ask(client, topic).topics
    # Either it is there at once, or the error is retriable.
    assert found.error_code in (0, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert exists(client, topic)


def test_two_clients_that_ask_at_once_get_the_same_new_topic(
    client: RawClient, another_client: RawClient, topic: str
):
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
    client.send(request, 12)
    another_client.send(request, 12)
    for one in (client, another_client):
        one.receive_frame()
    assert topic_id(client, topic) == topic_id(another_client, topic) != ZERO_ID


def test_a_client_can_ask_without_creating(client: RawClient, topic: str):
    (found,) = ask(client, topic, allow_auto_topic_creation=False).topics
    assert found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert not exists(client, topic)


def test_auto_creation_can_be_switched_off(strict_broker: EmbeddedBroker, topic: str):
    with RawClient(strict_broker.bootstrap_servers) as client:
        for _ in range(2):
            (found,) = ask(client, topic).topics
            assert found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("name", ["", ".", "..", "with space", "ümlaut", "x" * 250])
def test_an_invalid_topic_name_is_rejected_and_not_created(client: RawClient, name: str):
    (found,) = ask(client, name).topics
    assert found.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert found.name == name


def test_topics_are_found_by_id(client: RawClient, topic: str):
    client.create_topic(topic)
    wanted = MetadataRequestTopic(topic_id=topic_id(client, topic), name=None)
    (found,) = client.ask(MetadataRequest(topics=[wanted]), 12).topics
    assert (found.error_code, found.name) == (0, topic)


def test_an_unknown_id_creates_nothing(client: RawClient):
    wanted = MetadataRequestTopic(topic_id=b"sixteen bytes...", name=None)
    (found,) = client.ask(MetadataRequest(topics=[wanted]), 12).topics
    assert found.error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert found.name is None


def test_authorised_operations_are_returned_only_when_requested(client: RawClient, topic: str):
    client.create_topic(topic)
    silent = ask(client, topic, version=10)
    assert silent.topics[0].topic_authorized_operations == NOT_ASKED_FOR
    assert silent.cluster_authorized_operations == NOT_ASKED_FOR
    told = ask(
        client,
        topic,
        version=10,
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    read, write, create, delete, alter, describe, describe_configs, alter_configs = 3, 4, 5, 6, 7, 8, 10, 11
    everything = (read, write, create, delete, alter, describe, describe_configs, alter_configs)
    assert told.topics[0].topic_authorized_operations == sum(1 << operation for operation in everything)
    assert told.cluster_authorized_operations > 0


def test_metadata_omits_a_suspected_leader_so_that_clients_ask_again_soon():
    with ControlledBroker() as controlled, RawClient(controlled.broker.bootstrap_servers) as client:
        client.create_topic("orders")
        broker_view = controlled.broker.services.cluster.broker_view

        broker_view.doubt(1, now=controlled.broker.services.node.world.loop.time())
        (partition,) = ask(client, "orders").topics[0].partitions
        assert (partition.error_code, partition.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
        assert partition.replica_nodes == [1]

        broker_view.answers(1)
        (partition,) = ask(client, "orders").topics[0].partitions
        assert (partition.error_code, partition.leader_id) == (ErrorCode.NONE, 1)
