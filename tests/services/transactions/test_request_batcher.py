"""Requests to other brokers: batched per turn of the event loop, and bounded in size and number."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from types import SimpleNamespace

from penstock.base.ids import TopicPartition
from penstock.client.errors import UnreachableError
from penstock.cluster.peer_requests.coordinators import Question, questions_request
from penstock.cluster.peer_requests.markers import RemoteMarker, markers_request
from penstock.core.transactions.transaction import ProducerIdAndEpoch
from penstock.records.control import Marker, MarkerType
from penstock.services.transactions.request_batcher import RequestBatcher
from penstock.world.real_loop import RealLoop

LEFT, RIGHT = 1, 2
UNANSWERED = "unanswered"


class Broker:
    """Notes what it is asked, and answers when the test says so."""

    def __init__(self) -> None:
        self.requests: list[tuple[int, list[str]]] = []
        self.may_answer = asyncio.Event()
        self.is_down = False

    async def ask(self, node_id: int, items: Sequence[str]) -> list[str]:
        self.requests.append((node_id, list(items)))
        await self.may_answer.wait()
        if self.is_down:
            raise UnreachableError("connection refused")
        return [item.upper() for item in items]


def tell(story: Callable[[Broker, "RequestBatcher[str, str]"], Awaitable[None]]) -> None:
    async def run() -> None:
        broker = Broker()
        world = SimpleNamespace(loop=RealLoop())
        batcher: RequestBatcher[str, str] = RequestBatcher(
            world,  # type: ignore[arg-type]
            broker.ask,
            key=lambda item: item[0],
            unanswered=UNANSWERED,
            items_max=3,
            requests_max=2,
        )
        await story(broker, batcher)
        await batcher.stop()

    asyncio.run(run())


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_items_of_one_turn_are_one_request_per_broker() -> None:
    async def story(broker: Broker, batcher: "RequestBatcher[str, str]") -> None:
        broker.may_answer.set()
        answers = [batcher.put(LEFT, "a"), batcher.put(RIGHT, "b"), batcher.put(LEFT, "c")]
        assert await asyncio.gather(*answers) == ["A", "B", "C"]
        assert broker.requests == [(LEFT, ["a", "c"]), (RIGHT, ["b"])]

    tell(story)


def test_a_request_has_a_bounded_number_of_items_and_so_has_a_broker_of_requests() -> None:
    async def story(broker: Broker, batcher: "RequestBatcher[str, str]") -> None:
        answers = [batcher.put(LEFT, item) for item in "abcdefgh"]
        await turns()
        assert broker.requests == [(LEFT, ["a", "b", "c"]), (LEFT, ["d", "e", "f"])]
        broker.may_answer.set()
        assert await asyncio.gather(*answers) == list("ABCDEFGH")
        assert broker.requests[2:] == [(LEFT, ["g", "h"])]

    tell(story)


def test_items_that_a_response_cannot_tell_apart_are_sent_in_two_requests() -> None:
    async def story(broker: Broker, batcher: "RequestBatcher[str, str]") -> None:
        broker.may_answer.set()
        answers = [batcher.put(LEFT, item) for item in ("a1", "b", "a2")]
        assert await asyncio.gather(*answers) == ["A1", "B", "A2"]
        assert broker.requests == [(LEFT, ["a1", "b"]), (LEFT, ["a2"])]

    tell(story)


def test_items_for_an_unreachable_broker_get_no_answer() -> None:
    async def story(broker: Broker, batcher: "RequestBatcher[str, str]") -> None:
        broker.is_down = True
        broker.may_answer.set()
        answers = [batcher.put(LEFT, item) for item in "ab"]
        assert await asyncio.gather(*answers) == [UNANSWERED, UNANSWERED]
        broker.is_down = False
        assert await batcher.put(LEFT, "a") == "A"

    tell(story)


def test_cancelled_items_are_not_sent_and_none_waits_after_close() -> None:
    async def story(broker: Broker, batcher: "RequestBatcher[str, str]") -> None:
        batcher.put(LEFT, "a").cancel()
        under_way = [batcher.put(LEFT, item) for item in "bcdefghij"]
        await turns()
        assert broker.requests[0] == (LEFT, ["b", "c", "d"])
        await batcher.stop()
        assert await asyncio.gather(*under_way, batcher.put(LEFT, "z")) == [UNANSWERED] * 10

    tell(story)


def test_the_markers_of_a_broker_are_one_request_with_every_transactions_version() -> None:
    first, second = Marker(MarkerType.COMMIT, 7, 1, 4), Marker(MarkerType.ABORT, 8, 2, 5)
    request = markers_request(
        [
            RemoteMarker(first, TopicPartition("b", 1), 2),
            RemoteMarker(second, TopicPartition("a", 0), 0),
            RemoteMarker(first, TopicPartition("a", 0), 2),
            RemoteMarker(first, TopicPartition("b", 0), 2),
        ]
    )
    one, other = request.markers
    assert (one.producer_id, one.producer_epoch, one.coordinator_epoch) == (7, 1, 4)
    assert (one.transaction_result, one.transaction_version) == (True, 2)
    assert [(topic.name, topic.partition_indexes) for topic in one.topics] == [("a", [0]), ("b", [0, 1])]
    assert (other.producer_id, other.transaction_result, other.transaction_version) == (8, False, 0)


def test_the_questions_to_a_coordinator_are_one_request() -> None:
    partitions = frozenset({TopicPartition("a", 1), TopicPartition("a", 0)})
    request = questions_request(
        [
            Question("one", ProducerIdAndEpoch(7, 1), partitions, verify_only=False),
            Question("other", ProducerIdAndEpoch(8, 2), partitions, verify_only=True),
        ]
    )
    assert [(each.transactional_id, each.verify_only) for each in request.transactions] == [
        ("one", False),
        ("other", True),
    ]
    (topic,) = request.transactions[0].topics
    assert (topic.name, topic.partitions) == ("a", [0, 1])
