"""Answers to Fetch, compared field by field with Apache Kafka's: the same bytes, limits, sessions and errors."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from penstock.base.errors import ErrorCode
from penstock.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from penstock.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from tests.foreign.asking import NOW_MS, UNKNOWN_ID, batch, create, produce
from tests.foreign.wire_peer import Pair, Peer

pytestmark = [pytest.mark.foreign, pytest.mark.xdist_group("kafka")]

VERSIONS = range(4, 19)


@pytest.fixture(scope="module")
def written(pair: Pair) -> str:
    """Four batches of one, two, three and four records of a hundred bytes; one batch in partition 1."""
    topic = create(pair, f"fetched-{time.monotonic_ns()}", partitions=3)
    for count in (1, 2, 3, 4):
        produce(pair, topic, batch(*[b"x" * 100] * count, timestamp=NOW_MS + count))
    produce(pair, topic, batch(b"elsewhere"), partition=1)
    return topic


def fetching(
    topic: str,
    version: int,
    *wanted: tuple[int, int],
    max_bytes: int = 1_000_000,
    partition_max_bytes: int = 1_000_000,
    epoch: int = -1,
    last_epoch: int = -1,
    session: tuple[int, int] = (0, -1),
    forgotten: tuple[int, ...] = (),
    **options: Any,
) -> Callable[[Peer], FetchRequest]:
    """A fetch of (partition, offset) pairs, by name before version 13 and by id from there on."""

    def request(peer: Peer) -> FetchRequest:
        partitions = [
            FetchPartition(
                partition=partition,
                fetch_offset=offset,
                partition_max_bytes=partition_max_bytes,
                current_leader_epoch=epoch,
                last_fetched_epoch=last_epoch if version >= 12 else -1,
            )
            for partition, offset in wanted
        ]
        named = {"topic_id": peer.topic_id(topic)} if version >= 13 else {"topic": topic}
        topics = [FetchTopic(partitions=partitions, **named)] if partitions else []
        dropped = [ForgottenTopic(partitions=list(forgotten), **named)] if forgotten else []
        return FetchRequest(
            max_wait_ms=options.get("max_wait_ms", 0),
            min_bytes=options.get("min_bytes", 1),
            max_bytes=max_bytes,
            isolation_level=options.get("isolation", 0),
            session_id=session[0],
            session_epoch=session[1],
            topics=topics,
            forgotten_topics_data=dropped,
        )

    return request


def partitions_of(answer: dict[str, Any]) -> list[dict[str, Any]]:
    return [partition for topic in answer["responses"] for partition in topic["partitions"]]


@pytest.mark.parametrize("version", VERSIONS)
def test_fetching_from_every_offset_gives_the_same_bytes(pair: Pair, written: str, version: int) -> None:
    for offset in range(11):
        answer = pair.same(fetching(written, version, (0, offset)), version)
        assert bool(partitions_of(answer)[0]["records"]) == (offset < 10)


@pytest.mark.parametrize("version", VERSIONS)
def test_fetching_several_partitions(pair: Pair, written: str, version: int) -> None:
    answer = pair.same(fetching(written, version, (0, 3), (1, 0), (2, 0)), version)
    assert [bool(each["records"]) for each in partitions_of(answer)] == [True, True, False]


@pytest.mark.parametrize("version", VERSIONS)
def test_fetching_what_is_not_there(pair: Pair, written: str, version: int) -> None:
    for wanted in ((0, 11), (0, -1), (0, 10_000), (9, 0), (-1, 0)):
        pair.same(fetching(written, version, wanted), version)
    if version < 13:
        pair.same(fetching("no-such-topic", version, (0, 0)), version)


@pytest.mark.parametrize("version", [13, 18])
def test_fetching_an_unknown_id(pair: Pair, version: int) -> None:
    partitions = [FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)]
    topics = [FetchTopic(topic_id=UNKNOWN_ID, partitions=partitions)]
    answer = pair.same(FetchRequest(max_wait_ms=0, min_bytes=1, topics=topics), version)
    assert partitions_of(answer)[0]["error_code"] == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize("version", [4, 12, 18])
@pytest.mark.parametrize("partition_max_bytes", [0, 1, 170, 400, 700])
@pytest.mark.parametrize("max_bytes", [0, 1, 170, 400, 700])
def test_limits_and_the_oversized_first_batch(
    pair: Pair, written: str, version: int, max_bytes: int, partition_max_bytes: int
) -> None:
    request = fetching(
        written,
        version,
        (0, 0),
        (1, 0),
        max_bytes=max_bytes,
        partition_max_bytes=partition_max_bytes,
    )
    answer = pair.same(request, version)
    assert partitions_of(answer)[0]["records"], "the first batch comes whole, whatever the limit"


@pytest.mark.parametrize("version", [9, 12, 13, 18])
def test_leader_epochs_that_do_not_fit(pair: Pair, written: str, version: int) -> None:
    pair.same(fetching(written, version, (0, 0), epoch=0), version)
    ahead = pair.same(fetching(written, version, (0, 0), epoch=3), version)
    assert partitions_of(ahead)[0]["error_code"] == ErrorCode.UNKNOWN_LEADER_EPOCH


@pytest.mark.parametrize("version", [12, 18])
def test_a_last_fetched_epoch(pair: Pair, written: str, version: int) -> None:
    for last_epoch in (0, 1):
        pair.same(fetching(written, version, (0, 2), last_epoch=last_epoch), version)


@pytest.mark.parametrize("version", [4, 12, 18])
def test_reading_committed(pair: Pair, written: str, version: int) -> None:
    pair.same(fetching(written, version, (0, 0), isolation=1), version)


@pytest.mark.parametrize("version", [7, 12, 13, 18])
def test_a_session_from_its_beginning_to_its_end(pair: Pair, written: str, version: int) -> None:
    sessions: dict[Peer, int] = {}

    def ask(epoch: int, *wanted: tuple[int, int], forgotten: tuple[int, ...] = ()) -> Any:
        def request(peer: Peer) -> FetchRequest:
            session = (sessions.get(peer, 0), epoch)
            return fetching(written, version, *wanted, session=session, forgotten=forgotten)(peer)

        return pair.same(request, version)

    for peer in (pair.kafka, pair.broker):
        opened = peer.ask(fetching(written, version, (0, 0), (1, 0), session=(0, 0))(peer), version)
        sessions[peer] = opened.session_id
        assert opened.session_id > 0

    assert ask(1, (0, 10), (1, 1))["responses"] == [], "nothing new, nothing said"
    assert len(partitions_of(ask(2, (0, 6)))) == 1
    assert len(partitions_of(ask(3, (2, 0)))) == 2, "partition 2 is added, and what is left of 0 comes again"
    ask(4, forgotten=(0,))
    wrong = ask(9)
    assert wrong["error_code"] == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    unknown = pair.same(fetching(written, version, session=(123456789, 5)), version)
    assert unknown["error_code"] == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert ask(-1, (0, 0))["session_id"] == 0, "closed"
    assert ask(5)["error_code"] == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.parametrize("version", [13, 18])
def test_a_topic_deleted_and_made_again_is_another_one(pair: Pair, topic: str, version: int) -> None:
    create(pair, topic)
    produce(pair, topic, batch(b"of the old one"))
    old = {peer: peer.ids.pop(topic) for peer in (pair.kafka, pair.broker)}
    pair.same(DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=10_000), 6)
    create(pair, topic)
    produce(pair, topic, batch(b"of the new one"))

    def by_old_id(peer: Peer) -> FetchRequest:
        request = fetching(topic, version, (0, 0))(peer)
        request.topics[0].topic_id = old[peer]
        return request

    assert partitions_of(pair.same(by_old_id, version))[0]["error_code"] == ErrorCode.UNKNOWN_TOPIC_ID
    assert partitions_of(pair.same(fetching(topic, version, (0, 0)), version))[0]["error_code"] == 0


def test_a_fetch_that_waits_is_answered_when_its_time_is_over(pair: Pair, written: str) -> None:
    for peer in (pair.kafka, pair.broker):
        started_s = time.monotonic()
        peer.ask(fetching(written, 12, (0, 10), max_wait_ms=300)(peer), 12)
        assert 0.25 < time.monotonic() - started_s < 3
        started_s = time.monotonic()
        peer.ask(fetching(written, 12, (0, 0), max_wait_ms=300, min_bytes=1_000_000)(peer), 12)
        assert 0.25 < time.monotonic() - started_s < 3
