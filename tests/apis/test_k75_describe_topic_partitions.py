from penstock.base.errors import ErrorCode
from penstock.testing import EmbeddedBroker
from penstock.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from tests.raw_client import RawClient


def ask(client: RawClient, *names: str, limit: int = 2000, cursor: Cursor | None = None):
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names], response_partition_limit=limit, cursor=cursor
    )
    return client.ask(request, 0)


def pages(client: RawClient, *names: str, limit: int):
    """What each page brings, as (topic, partition) pairs."""
    cursor = None
    while True:
        answer = ask(client, *names, limit=limit, cursor=cursor)
        yield [(topic.name, p.partition_index) for topic in answer.topics for p in topic.partitions]
        cursor = answer.next_cursor
        if cursor is None:
            return


def test_topics_are_sorted_by_name(client: RawClient, topic: str):
    for suffix in ("b", "a"):
        client.create_topic(topic + suffix, partitions=2)
    answer = ask(client, topic + "b", topic + "a")
    assert [t.name for t in answer.topics] == [topic + "a", topic + "b"]
    assert answer.next_cursor is None
    partition = answer.topics[0].partitions[1]
    assert (partition.partition_index, partition.leader_id, partition.isr_nodes) == (1, 1, [1])


def test_paging_returns_every_partition_once_across_topics(client: RawClient, topic: str):
    names = [topic + "a", topic + "b", topic + "c"]
    for name, count in zip(names, (3, 1, 4), strict=True):
        client.create_topic(name, partitions=count)
    seen = list(pages(client, *names, limit=3))
    assert all(len(page) <= 3 for page in seen)
    assert [pair for page in seen for pair in page] == (
        [(names[0], 0), (names[0], 1), (names[0], 2), (names[1], 0)] + [(names[2], i) for i in range(4)]
    )


def test_without_names_all_topics_are_described(client: RawClient, topic: str):
    client.create_topic(topic)
    assert topic in {t.name for t in ask(client).topics}


def test_a_cursor_in_a_deleted_topic_continues_with_the_next_one(client: RawClient, topic: str):
    client.create_topic(topic + "z")
    gone = Cursor(topic_name=topic + "a", partition_index=7)
    answer = ask(client, topic + "a", topic + "z", cursor=gone)
    assert [(t.name, t.error_code, len(t.partitions)) for t in answer.topics] == [
        (topic + "a", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0),
        (topic + "z", 0, 1),
    ]


def test_a_cursor_outside_of_the_requested_topics_is_rejected(client: RawClient, topic: str):
    client.create_topic(topic)
    for wrong in (
        Cursor(topic_name="another", partition_index=0),
        Cursor(topic_name=topic, partition_index=-1),
    ):
        (refused,) = ask(client, topic, cursor=wrong).topics
        assert (refused.error_code, refused.partitions) == (ErrorCode.INVALID_REQUEST, [])


def test_an_unknown_topic_gets_an_error_code_and_is_not_created(client: RawClient, topic: str):
    for _ in range(2):
        (found,) = ask(client, topic).topics
        assert found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_the_broker_has_a_limit_of_its_own(topic: str):
    settings = {"max.request.partition.size.limit": 2}
    with EmbeddedBroker(settings=settings) as broker, RawClient(broker.bootstrap_servers) as client:
        client.create_topic(topic, partitions=5)
        assert [len(page) for page in pages(client, topic, limit=1000)] == [2, 2, 1]
