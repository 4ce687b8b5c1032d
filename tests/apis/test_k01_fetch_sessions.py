"""Fetch sessions: a client names its partitions once, and responses have only partitions with changes."""

import pytest

from penstock.base.errors import ErrorCode
from penstock.testing import EmbeddedBroker
from penstock.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
)
from tests.apis.requests import delete_topic, topic_id, values_in
from tests.raw_client import RawClient, batch_of

LONG_MS = 60_000
NONE = 0
CLOSE = -1


class Session:
    """A consumer that keeps a fetch session, by name (v12) or by id (v13)."""

    def __init__(self, client: RawClient, topic: str, *, version: int = 12) -> None:
        self.client = client
        self.version = version
        self.topic = topic
        self.topic_id = topic_id(client, topic)
        self.id = 0
        self.epoch = 0

    def ask(
        self,
        wanted: dict[int, int] | None = None,
        *,
        forget: list[int] | None = None,
        max_wait_ms: int = 0,
    ) -> FetchResponse:
        """The whole answer; `wanted` has offsets by partition."""
        self.send(wanted, forget=forget, max_wait_ms=max_wait_ms)
        return self.receive()

    def send(
        self,
        wanted: dict[int, int] | None = None,
        *,
        forget: list[int] | None = None,
        max_wait_ms: int = 0,
    ) -> None:
        asked = [
            FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
            for index, offset in (wanted or {}).items()
        ]
        names = {"topic": self.topic, "topic_id": self.topic_id}
        request = FetchRequest(
            min_bytes=1,
            max_wait_ms=max_wait_ms,
            session_id=self.id,
            session_epoch=self.epoch,
            topics=[FetchTopic(partitions=asked, **names)] if asked else [],
            forgotten_topics_data=[ForgottenTopic(partitions=forget, **names)] if forget else [],
        )
        self.client.send(request, self.version)

    def receive(self) -> FetchResponse:
        answer = self.client.receive(1, self.version, FetchResponse)
        if answer.error_code == NONE:
            self.id = answer.session_id
            self.epoch += 1
        return answer

    def told(self, *args, **kwargs) -> dict[int, list[bytes | None]]:
        """The values of each partition that the answer mentions."""
        return mentioned(self.ask(*args, **kwargs))


def mentioned(answer: FetchResponse) -> dict[int, list[bytes | None]]:
    assert answer.error_code == NONE
    return {p.partition_index: values_in(p.records) for topic in answer.responses for p in topic.partitions}


@pytest.fixture(params=[12, 13], ids=["by name", "by id"])
def session(request: pytest.FixtureRequest, client: RawClient, topic: str) -> Session:
    client.create_topic(topic, partitions=3)
    return Session(client, topic, version=request.param)


def test_the_first_response_of_a_session_has_all_partitions_and_the_next_only_changes(session: Session):
    assert session.told({0: 0, 1: 0, 2: 0}) == {0: [], 1: [], 2: []}
    assert session.id != 0
    assert session.told() == {}
    session.client.produce(session.topic, batch_of(b"new"), partition=1)
    assert session.told() == {1: [b"new"]}
    assert session.told({1: 1}) == {}


def test_a_long_poll_in_a_session_is_answered_by_new_records(session: Session, another_client: RawClient):
    session.ask({0: 0, 1: 0})
    session.send(max_wait_ms=LONG_MS)
    another_client.produce(session.topic, batch_of(b"came"), partition=1)
    assert mentioned(session.receive()) == {1: [b"came"]}


def test_partitions_are_added_changed_and_forgotten(session: Session):
    for partition in range(3):
        session.client.produce(session.topic, batch_of(b"%d" % partition), partition=partition)
    assert session.told({0: 0}) == {0: [b"0"]}
    assert session.told({0: 1, 2: 0}) == {2: [b"2"]}
    assert session.told({0: 0, 2: 1}) == {0: [b"0"]}
    assert session.told({1: 0}, forget=[0, 2]) == {1: [b"1"]}
    session.client.produce(session.topic, batch_of(b"more"), partition=0)
    assert session.told({1: 1}) == {}, "a forgotten partition is not mentioned"


def test_a_wrong_epoch_is_refused_and_the_session_stays(session: Session):
    session.ask({0: 0})
    session.epoch = 7
    assert session.ask().error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    session.epoch = 1
    assert session.ask().error_code == NONE


def test_an_unknown_session_is_refused(session: Session):
    session.id, session.epoch = 123456, 1
    answer = session.ask()
    assert answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert answer.responses == []


def test_a_session_can_be_closed(session: Session):
    session.ask({0: 0})
    opened = session.id
    session.epoch = CLOSE
    answer = session.ask({0: 0})
    assert (answer.error_code, answer.session_id) == (NONE, 0)
    session.id, session.epoch = opened, 1
    assert session.ask().error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_epoch_0_in_a_session_opens_a_new_one_in_its_place(session: Session):
    session.ask({0: 0})
    first = session.id
    session.epoch = 0
    assert set(session.told({0: 0, 1: 0})) == {0, 1}
    assert session.id not in (0, first)
    session.id, session.epoch = first, 1
    assert session.ask().error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_outlives_its_connection(session: Session, another_client: RawClient):
    session.ask({0: 0})
    session.client.socket.close()
    session.client = another_client
    assert session.told() == {}


def test_a_session_by_id_never_sees_the_successor_of_its_topic(client: RawClient, topic: str):
    client.create_topic(topic)
    session = Session(client, topic, version=13)
    session.ask({0: 0})
    delete_topic(client, topic)
    client.create_topic(topic)
    client.produce(topic, batch_of(b"another topic's"))
    for _ in range(2):
        (told,) = session.ask().responses
        assert told.topic_id == session.topic_id
        assert [p.error_code for p in told.partitions] == [ErrorCode.UNKNOWN_TOPIC_ID]
        assert values_in(told.partitions[0].records) == []


def test_a_session_by_name_cannot_go_on_by_id(client: RawClient, topic: str):
    client.create_topic(topic)
    session = Session(client, topic, version=12)
    session.ask({0: 0})
    session.version = 13
    assert session.ask({0: 0}).error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_an_error_is_in_every_response_until_it_is_over(session: Session):
    assert session.ask({0: 5}).responses[0].partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert session.ask().responses[0].partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    session.ask({0: 0})
    assert session.told() == {}


def test_beyond_the_limit_of_sessions_a_client_is_served_without_one(topic: str):
    settings = {"max.incremental.fetch.session.cache.slots": 1}
    with EmbeddedBroker(settings=settings) as broker, RawClient(broker.bootstrap_servers) as client:
        client.create_topic(topic, partitions=2)
        client.produce(topic, batch_of(b"x"))
        first, second = Session(client, topic), Session(client, topic)
        assert first.told({0: 0, 1: 0}) == {0: [b"x"], 1: []}
        assert second.told({0: 0}) == {0: [b"x"]}
        assert first.id != 0
        assert second.id == 0
        assert first.ask().error_code == NONE


def test_sessions_can_be_switched_off(topic: str):
    settings = {"max.incremental.fetch.session.cache.slots": 0}
    with EmbeddedBroker(settings=settings) as broker, RawClient(broker.bootstrap_servers) as client:
        client.create_topic(topic)
        session = Session(client, topic)
        assert session.told({0: 0}) == {0: []}
        assert session.id == 0


def test_sessions_have_a_limit_of_partitions_together(topic: str):
    settings = {"penstock.fetch.session.partitions.max": 3}
    with EmbeddedBroker(settings=settings) as broker, RawClient(broker.bootstrap_servers) as client:
        client.create_topic(topic, partitions=2)
        first, second = Session(client, topic), Session(client, topic)
        first.ask({0: 0, 1: 0})
        second.ask({0: 0, 1: 0})
        assert first.id != 0
        assert second.id == 0
