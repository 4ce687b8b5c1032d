import asyncio
import time
from collections.abc import Coroutine
from typing import Any

import pytest

from penstock.client.addresses import Address
from penstock.client.connection import Connection, ConnectionLimits, open_connection
from penstock.client.errors import ConnectionLostError, NoAnswerError, UnreachableError, UnsupportedError
from penstock.schema.words import Message
from penstock.wire.headers import RequestHeader
from penstock.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from penstock.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from penstock.world.real_loop import RealLoop
from tests.client.scripted import HANG_UP, ScriptedBroker


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(story)


async def connect(broker: ScriptedBroker, **limits: int) -> Connection:
    return await open_connection(
        RealLoop(), broker.address, client_id="test", limits=ConnectionLimits(**limits)
    )


def empty_metadata(_header: RequestHeader, _request: Message) -> MetadataResponse:
    return MetadataResponse()


def test_a_connection_knows_the_versions_of_its_broker() -> None:
    async def story() -> None:
        async with ScriptedBroker(empty_metadata, versions={18: (0, 4), 3: (2, 6)}) as broker:
            connection = await connect(broker)
            await connection.ask(MetadataRequest(topics=[]), MetadataResponse)
            assert [header.api_version for header, _ in broker.asked] == [6]
            connection.close()

    run(story())


def test_the_handshake_falls_back_to_what_an_old_broker_knows() -> None:
    async def story() -> None:
        async with ScriptedBroker(empty_metadata, versions={18: (0, 0), 3: (0, 1)}) as broker:
            connection = await connect(broker)
            await connection.ask(MetadataRequest(topics=[]), MetadataResponse)
            assert [header.api_version for header, _ in broker.asked] == [1]
            connection.close()

    run(story())


def test_requests_are_in_flight_together_up_to_the_limit() -> None:
    async def story() -> None:
        release = asyncio.Event()

        async def when_released(_header: RequestHeader, _request: Message) -> MetadataResponse:
            await release.wait()
            return MetadataResponse()

        async with ScriptedBroker(when_released) as broker:
            connection = await connect(broker, in_flight_max=2)
            asking = [
                asyncio.create_task(connection.ask(MetadataRequest(topics=[]), MetadataResponse))
                for _ in range(5)
            ]
            while not broker.asked:
                await asyncio.sleep(0)
            assert connection.in_flight == 2
            release.set()
            assert len(await asyncio.gather(*asking)) == 5
            assert connection.in_flight == 0
            connection.close()

    run(story())


def test_a_broker_that_hangs_up_fails_everything_that_waits() -> None:
    async def story() -> None:
        async with ScriptedBroker(lambda _header, _request: HANG_UP) as broker:
            connection = await connect(broker, in_flight_max=1)
            asking = [
                asyncio.create_task(connection.ask(MetadataRequest(topics=[]), MetadataResponse))
                for _ in range(3)
            ]
            for outcome in await asyncio.gather(*asking, return_exceptions=True):
                assert isinstance(outcome, ConnectionLostError)
            assert not connection.is_open
            with pytest.raises(ConnectionLostError, match="closed the connection"):
                await connection.ask(MetadataRequest(topics=[]), MetadataResponse)

    run(story())


def test_a_broker_that_stays_silent_is_given_up_on() -> None:
    async def story() -> None:
        async with ScriptedBroker(lambda _header, _request: None) as broker:
            connection = await connect(broker)
            with pytest.raises(NoAnswerError, match=r"did not answer Metadata within 0\.05 s"):
                await connection.ask(MetadataRequest(topics=[]), MetadataResponse, timeout_ms=50)
            assert not connection.is_open

    run(story())


def test_an_answer_that_came_while_the_loop_stood_still_is_no_silence() -> None:
    async def story() -> None:
        async with ScriptedBroker(empty_metadata) as broker:
            connection = await connect(broker)
            asking = asyncio.create_task(
                connection.ask(MetadataRequest(topics=[]), MetadataResponse, timeout_ms=1000)
            )
            while not connection.in_flight:
                await asyncio.sleep(0)
            time.sleep(1.5)  # what this is about: the program does something else, and the loop stands still
            assert await asking == MetadataResponse()
            connection.close()

    run(story())


def test_garbage_from_the_broker_ends_the_connection_and_says_so() -> None:
    async def story() -> None:
        async with ScriptedBroker(lambda _header, _request: b"HTTP/1.1 400 Bad Request") as broker:
            connection = await connect(broker)
            with pytest.raises(ConnectionLostError, match="does not speak Kafka's protocol"):
                await connection.ask(MetadataRequest(topics=[]), MetadataResponse)

    run(story())


def test_one_who_gives_up_waiting_leaves_the_connection_usable() -> None:
    async def story() -> None:
        release = asyncio.Event()

        async def when_released(_header: RequestHeader, _request: Message) -> MetadataResponse:
            await release.wait()
            return MetadataResponse()

        async with ScriptedBroker(when_released) as broker:
            connection = await connect(broker)
            impatient = asyncio.create_task(connection.ask(MetadataRequest(topics=[]), MetadataResponse))
            while not broker.asked:
                await asyncio.sleep(0)
            impatient.cancel()
            release.set()
            assert await connection.ask(MetadataRequest(topics=[]), MetadataResponse) == MetadataResponse()
            connection.close()

    run(story())


def test_an_api_that_the_broker_lacks_and_a_field_its_version_lacks_are_said_before_sending() -> None:
    async def story() -> None:
        async with ScriptedBroker(empty_metadata, versions={18: (0, 4), 3: (0, 8)}) as broker:
            connection = await connect(broker)
            with pytest.raises(UnsupportedError, match="does not know DescribeCluster"):
                await connection.ask(DescribeClusterRequest(), DescribeClusterResponse)
            unnamed = MetadataRequest(topics=[MetadataRequestTopic(topic_id=b"i" * 16, name=None)])
            with pytest.raises(UnsupportedError, match="too old"):
                await connection.ask(unnamed, MetadataResponse)
            assert await connection.ask(MetadataRequest(topics=[]), MetadataResponse)
            assert len(broker.asked) == 1
            connection.close()

    run(story())


def test_a_refused_connection_is_reported_with_the_address() -> None:
    async def story() -> None:
        with pytest.raises(UnreachableError, match=r"cannot reach 127\.0\.0\.1:1: connection refused"):
            await open_connection(
                RealLoop(), Address("127.0.0.1", 1), client_id=None, limits=ConnectionLimits()
            )

    run(story())


def test_a_server_that_accepts_and_says_nothing_is_given_up_on() -> None:
    async def story() -> None:
        ended = asyncio.Event()

        async def silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while await reader.read(1000):
                pass
            writer.close()
            ended.set()

        server = await asyncio.start_server(silence, "127.0.0.1", 0)
        address = Address(*server.sockets[0].getsockname())
        with pytest.raises(UnreachableError, match=r"did not answer ApiVersions within 1 s"):
            await open_connection(
                RealLoop(), address, client_id=None, limits=ConnectionLimits(connect_timeout_ms=1000)
            )
        await ended.wait()
        server.close()

    run(story())


def test_a_host_that_swallows_packets_is_given_up_on() -> None:
    class SwallowingLoop(RealLoop):
        async def connect(self, factory: Any, host: str, port: int, *, tls: Any = None) -> Any:
            await self.create_future()

    async def story() -> None:
        with pytest.raises(UnreachableError, match=r"cannot reach h:1: no answer within 0\.05 s"):
            await open_connection(
                SwallowingLoop(),
                Address("h", 1),
                client_id=None,
                limits=ConnectionLimits(connect_timeout_ms=50),
            )

    run(story())
