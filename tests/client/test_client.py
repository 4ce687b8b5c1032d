"""The client among several brokers, some of them wrong, late or gone."""

import asyncio
import gc
from collections.abc import Coroutine
from typing import Any

import pytest

from penstock.base.errors import ErrorCode, Refusal
from penstock.base.ids import TopicPartition
from penstock.client.errors import AnsweredError, ConnectionLostError, UnreachableError
from penstock.client.fetcher import Fetcher
from penstock.client.offsets import LATEST, find_offsets
from penstock.client.produce import ProduceResult, produce
from penstock.client.topics import Created, NewTopic, create_topics
from penstock.records.builder import build_batch
from penstock.records.record import Record
from penstock.schema.words import Message
from penstock.wire.headers import RequestHeader
from penstock.wire.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from penstock.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from penstock.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from penstock.wire.messages.metadata import MetadataRequest
from penstock.wire.messages.produce import (
    LeaderIdAndEpoch,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from tests.client.scripted import HANG_UP, Answer, ScriptedBroker, metadata, new_client

BATCH = build_batch([Record(0, 1, b"k", b"v")])
FIRST = TopicPartition("t", 0)
SECOND = TopicPartition("t", 1)


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(story)


def produced(
    code: ErrorCode = ErrorCode.NONE, *, offset: int = 0, leader: LeaderIdAndEpoch | None = None
) -> ProduceResponse:
    partition = PartitionProduceResponse(index=0, error_code=code, base_offset=offset, current_leader=leader)
    return ProduceResponse(
        responses=[TopicProduceResponse(topic_id=b"i" * 16, partition_responses=[partition])]
    )


def kinds(broker: ScriptedBroker) -> list[type[Message]]:
    return [type(request) for _, request in broker.asked]


def test_a_refused_first_connection_fails_at_once() -> None:
    async def story() -> None:
        async with ScriptedBroker(lambda _header, _request: HANG_UP) as gone:
            client = new_client(gone, patience_ms=60_000)
        with pytest.raises(UnreachableError, match="connection refused"):
            await client.retry(lambda: client.refresh())

    run(story())


def test_a_bootstrap_address_that_is_down_is_passed_over() -> None:
    async def story() -> None:
        async with ScriptedBroker(lambda _header, _request: HANG_UP) as gone:
            pass

        def script(_header: RequestHeader, _request: Message) -> Answer:
            return metadata([alive], leaders=[0])

        async with ScriptedBroker(script) as alive, new_client(gone, alive) as client:
            assert (await client.topic("t")).name == "t"

    run(story())


def test_callers_who_ask_at_the_same_time_share_one_connection() -> None:
    async def story() -> None:
        async with ScriptedBroker(lambda _header, _request: metadata([broker])) as broker:
            async with new_client(broker) as client:
                await asyncio.gather(*(client.refresh() for _ in range(10)))
            assert broker.connection_count == 1

    run(story())


@pytest.mark.parametrize("left", [[SECOND], [FIRST, SECOND]], ids=["one", "all"])
def test_partitions_may_be_left_while_their_leaders_are_looked_for(left: list[TopicPartition]) -> None:
    async def story() -> None:
        def script(_header: RequestHeader, request: Message) -> Answer:
            if isinstance(request, MetadataRequest):
                for partition in left:
                    fetcher.leave(partition)
                return metadata([broker], leaders=[0, 0])
            return FetchResponse(responses=[_fetched(ErrorCode.NONE)])

        async with ScriptedBroker(script) as broker, new_client(broker) as client:
            fetcher = Fetcher(client, {FIRST: 0, SECOND: 0})
            answers = await fetcher.poll()
            assert [each.partition for each in answers] == list(fetcher.positions)
            await fetcher.close()

    run(story())


def test_a_batch_follows_its_partition_to_the_new_leader() -> None:
    async def story() -> None:
        leaders = [0]

        def old(_header: RequestHeader, request: Message) -> Answer:
            if isinstance(request, MetadataRequest):
                return metadata([first, second], leaders=leaders, leader_epoch=leaders[0])
            leaders[0] = 1
            return produced(ErrorCode.NOT_LEADER_OR_FOLLOWER)

        async with (
            ScriptedBroker(old) as first,
            ScriptedBroker(lambda _header, _request: produced(offset=42)) as second,
            new_client(first) as client,
        ):
            results = await produce(client, {FIRST: BATCH})
        assert results == {FIRST: ProduceResult(42)}
        assert kinds(first) == [MetadataRequest, ProduceRequest, MetadataRequest]
        assert kinds(second) == [ProduceRequest]

    run(story())


def test_a_connection_lost_under_way_is_made_again_and_the_batch_sent_again() -> None:
    async def story() -> None:
        failures = [HANG_UP, HANG_UP]

        def flaky(_header: RequestHeader, request: Message) -> Answer:
            if isinstance(request, MetadataRequest):
                return metadata([broker], leaders=[0])
            return failures.pop() if failures else produced(offset=7)

        async with ScriptedBroker(flaky) as broker:
            async with new_client(broker) as client:
                assert await produce(client, {FIRST: BATCH}) == {FIRST: ProduceResult(7)}
            assert broker.connection_count == 3

    run(story())


def test_an_answer_that_no_retry_can_help_is_a_refusal_in_the_result() -> None:
    async def story() -> None:
        def strict(_header: RequestHeader, request: Message) -> Answer:
            if isinstance(request, MetadataRequest):
                return metadata([broker], leaders=[0])
            return produced(ErrorCode.MESSAGE_TOO_LARGE)

        async with ScriptedBroker(strict) as broker:
            async with new_client(broker) as client:
                results = await produce(client, {FIRST: BATCH})
            assert results == {FIRST: Refusal(ErrorCode.MESSAGE_TOO_LARGE)}
            assert kinds(broker).count(ProduceRequest) == 1

    run(story())


def test_patience_ends_with_the_last_answer() -> None:
    async def story() -> None:
        def busy(_header: RequestHeader, request: Message) -> Answer:
            if isinstance(request, MetadataRequest):
                return metadata([broker], leaders=[0])
            return produced(ErrorCode.NOT_ENOUGH_REPLICAS)

        async with ScriptedBroker(busy) as broker:
            async with new_client(broker, patience_ms=1_000) as client:
                results = await produce(client, {FIRST: BATCH})
            assert results == {FIRST: Refusal(ErrorCode.NOT_ENOUGH_REPLICAS)}
            assert kinds(broker).count(ProduceRequest) > 1

    run(story())


def test_only_what_was_refused_is_asked_again() -> None:
    async def story() -> None:
        asked: list[list[int]] = []

        def half(_header: RequestHeader, request: Message) -> Answer:
            if isinstance(request, MetadataRequest):
                return metadata([broker], leaders=[0, 0])
            assert isinstance(request, ListOffsetsRequest)
            partitions = [each.partition_index for each in request.topics[0].partitions]
            asked.append(partitions)
            first_time = len(asked) == 1
            return ListOffsetsResponse(
                topics=[
                    ListOffsetsTopicResponse(
                        name="t",
                        partitions=[
                            ListOffsetsPartitionResponse(
                                partition_index=index,
                                offset=10 + index,
                                error_code=ErrorCode.OFFSET_NOT_AVAILABLE if first_time and index else 0,
                            )
                            for index in partitions
                        ],
                    )
                ]
            )

        async with ScriptedBroker(half) as broker, new_client(broker) as client:
            second = TopicPartition("t", 1)
            assert await find_offsets(client, {FIRST: LATEST, second: LATEST}) == {FIRST: 10, second: 11}
        assert asked == [[0, 1], [1]]

    run(story())


def test_a_controller_that_moved_is_looked_up_again() -> None:
    async def story() -> None:
        controller = [0]

        def answers(node_id: int) -> Any:
            def script(_header: RequestHeader, request: Message) -> Answer:
                if isinstance(request, MetadataRequest):
                    return metadata([first, second], leaders=[0], controller_id=controller[0])
                assert isinstance(request, CreateTopicsRequest)
                controller[0] = 1
                code = ErrorCode.NONE if node_id == 1 else ErrorCode.NOT_CONTROLLER
                result = CreatableTopicResult(
                    name="t", error_code=code, num_partitions=1, replication_factor=1
                )
                return CreateTopicsResponse(topics=[result])

            return script

        async with (
            ScriptedBroker(answers(0)) as first,
            ScriptedBroker(answers(1)) as second,
            new_client(first) as client,
        ):
            results = await create_topics(client, [NewTopic("t")])
        assert isinstance(results["t"], Created)
        assert CreateTopicsRequest in kinds(second)

    run(story())


def test_a_leader_that_an_answer_names_is_asked_without_new_metadata() -> None:
    async def story() -> None:
        def old(_header: RequestHeader, request: Message) -> Answer:
            if isinstance(request, MetadataRequest):
                return metadata([first, second], leaders=[0])
            return FetchResponse(responses=[_fetched(ErrorCode.NONE)])

        async with ScriptedBroker(old) as first, ScriptedBroker(old) as second:
            async with new_client(first) as client:
                await client.topic("t")
                assert client.cluster.learn_leader("t", 0, leader=1, leader_epoch=1)
                fetcher = Fetcher(client, {FIRST: 0})
                await fetcher.poll()
                await fetcher.close()
            assert kinds(first) == [MetadataRequest]
            assert kinds(second) == [FetchRequest]

    run(story())


def test_a_fetcher_waits_for_a_leader_and_reports_an_offset_that_is_gone() -> None:
    async def story() -> None:
        codes = [ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.NOT_LEADER_OR_FOLLOWER]

        def script(_header: RequestHeader, request: Message) -> Answer:
            if isinstance(request, MetadataRequest):
                return metadata([broker], leaders=[0])
            return FetchResponse(responses=[_fetched(codes.pop())])

        async with ScriptedBroker(script) as broker, new_client(broker) as client:
            fetcher = Fetcher(client, {FIRST: 5})
            assert await fetcher.poll() == []
            (fetched,) = await fetcher.poll()
            assert fetched.refusal == Refusal(ErrorCode.OFFSET_OUT_OF_RANGE)
            await fetcher.close()

    run(story())


def test_a_fetcher_drops_an_answer_for_a_partition_that_was_set_elsewhere_meanwhile() -> None:
    async def story() -> None:
        asked: list[int] = []
        moved = asyncio.Event()

        async def answer(request: FetchRequest) -> Answer:
            asked.append(request.topics[0].partitions[0].fetch_offset)
            await moved.wait()
            return FetchResponse(responses=[_fetched(ErrorCode.NONE)])

        def script(_header: RequestHeader, request: Message) -> Any:
            if isinstance(request, MetadataRequest):
                return metadata([broker], leaders=[0])
            assert isinstance(request, FetchRequest)
            return answer(request)

        async with ScriptedBroker(script) as broker, new_client(broker) as client:
            fetcher = Fetcher(client, {FIRST: 5})
            polling = asyncio.create_task(fetcher.poll())
            while not asked:
                await asyncio.sleep(0)
            fetcher.leave(FIRST)
            fetcher.advance(FIRST, 2)
            moved.set()
            assert await polling == []
            assert [fetched.partition for fetched in await fetcher.poll()] == [FIRST]
            assert asked == [5, 2]
            await fetcher.close()

    run(story())


def test_a_fetcher_gives_up_on_a_topic_that_was_deleted() -> None:
    async def story() -> None:
        def script(_header: RequestHeader, request: Message) -> Answer:
            if isinstance(request, MetadataRequest):
                return metadata([broker], leaders=[0])
            return FetchResponse(responses=[_fetched(ErrorCode.UNKNOWN_TOPIC_ID)])

        async with ScriptedBroker(script) as broker, new_client(broker, patience_ms=60_000) as client:
            fetcher = Fetcher(client, {FIRST: 5})

            async def poll_on() -> None:
                while True:
                    await fetcher.poll()

            with pytest.raises(AnsweredError, match="UNKNOWN_TOPIC_ID"):
                await poll_on()
            await fetcher.close()

    run(story())


def test_closing_a_client_fails_its_pending_requests() -> None:
    async def story() -> None:
        async with ScriptedBroker(lambda _header, _request: None) as broker:
            client = new_client(broker)
            asking = asyncio.create_task(client.refresh())
            while not broker.asked:
                await asyncio.sleep(0)
            await client.close()
            with pytest.raises((ConnectionLostError, UnreachableError)):
                await asking

    run(story())


def test_a_failed_connection_attempt_that_no_task_awaits_is_not_logged_as_an_unhandled_exception() -> None:
    async def story() -> None:
        problems: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
        async with ScriptedBroker(lambda _header, _request: HANG_UP) as broker:
            client = new_client(broker)
        asking = asyncio.create_task(client.any_connection())
        while not client._opening:
            await asyncio.sleep(0)
        (opening,) = client._opening.values()
        asking.cancel()
        await asyncio.wait([asking, opening])
        del opening, asking
        gc.collect()
        await client.close()
        assert problems == []

    run(story())


def _fetched(code: ErrorCode) -> FetchableTopicResponse:
    partition = PartitionData(partition_index=0, error_code=code, high_watermark=9, records=b"")
    return FetchableTopicResponse(topic_id=b"i" * 16, partitions=[partition])
