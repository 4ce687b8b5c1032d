from penstock.base.errors import ErrorCode
from penstock.testing import EmbeddedBroker
from penstock.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.apis.requests import exists, topic_id
from tests.raw_client import RawClient, batch_of


def delete(client: RawClient, *topics: DeleteTopicState, version: int = 6):
    return client.ask(DeleteTopicsRequest(topics=list(topics)), version).responses


def test_a_topic_is_deleted_by_name(client: RawClient, topic: str):
    client.create_topic(topic)
    before = topic_id(client, topic)
    (deleted,) = delete(client, DeleteTopicState(name=topic))
    assert (deleted.error_code, deleted.name, deleted.topic_id) == (0, topic, before)
    assert not exists(client, topic)
    assert client.produce(topic, batch_of(b"x")).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert client.fetch(topic, 0).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_older_versions_delete_by_name(client: RawClient, topic: str):
    client.create_topic(topic)
    answer = client.ask(DeleteTopicsRequest(topic_names=[topic, "nobody"]), 5)
    codes = {response.name: response.error_code for response in answer.responses}
    assert codes == {topic: 0, "nobody": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert not exists(client, topic)


def test_a_topic_is_deleted_by_id(client: RawClient, topic: str):
    client.create_topic(topic)
    (deleted,) = delete(client, DeleteTopicState(name=None, topic_id=topic_id(client, topic)))
    assert (deleted.error_code, deleted.name) == (0, topic)
    assert not exists(client, topic)


def test_the_id_of_a_deleted_topic_does_not_delete_its_successor(client: RawClient, topic: str):
    client.create_topic(topic)
    old = topic_id(client, topic)
    delete(client, DeleteTopicState(name=topic))
    client.create_topic(topic)
    (refused,) = delete(client, DeleteTopicState(name=None, topic_id=old))
    assert refused.error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert exists(client, topic)


def test_unknown_names_both_and_neither_are_refused(client: RawClient, topic: str):
    client.create_topic(topic)
    both = DeleteTopicState(name=topic, topic_id=topic_id(client, topic))
    unknown, twice, neither = delete(
        client, DeleteTopicState(name="nobody"), both, DeleteTopicState(name=None)
    )
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert twice.error_code == ErrorCode.INVALID_REQUEST
    assert neither.error_code == ErrorCode.INVALID_REQUEST
    assert exists(client, topic)


def test_a_recreated_topic_starts_empty_under_a_new_id(client: RawClient, topic: str):
    client.create_topic(topic)
    client.produce(topic, batch_of(b"old"))
    old = topic_id(client, topic)
    delete(client, DeleteTopicState(name=topic))
    client.create_topic(topic)
    assert topic_id(client, topic) != old
    assert client.produce(topic, batch_of(b"new")).base_offset == 0


def test_deletion_can_be_switched_off(topic: str):
    settings = {"delete.topic.enable": False}
    with EmbeddedBroker(settings=settings) as broker, RawClient(broker.bootstrap_servers) as client:
        client.create_topic(topic)
        (refused,) = delete(client, DeleteTopicState(name=topic))
        assert refused.error_code == ErrorCode.TOPIC_DELETION_DISABLED
        assert exists(client, topic)
