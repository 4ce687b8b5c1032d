"""Connections that wait: while draining, behind a long poll; and those of the metrics endpoint."""

import asyncio
import contextlib
import socket
from typing import Any

from penstock.broker.http import CONNECTIONS_MAX
from penstock.schema.codec import encode
from penstock.testing import EmbeddedBroker
from penstock.wire.headers import RequestHeader, frame_request
from penstock.wire.messages.produce import ProduceResponse
from tests.broker.controlled import ControlledBroker
from tests.raw_client import RawClient, batch_of, fetch_request, produce_request


def the_connection(broker: ControlledBroker) -> Any:
    assert broker.broker._connections is not None
    (connection,) = broker.broker._connections._open
    return connection


def test_a_connection_that_is_drained_starts_nothing_new_while_answers_are_due():
    with ControlledBroker() as broker, RawClient(broker.bootstrap_servers) as client:
        client.create_topic("slow", flush_messages="1")
        client.create_topic("quick")
        broker.gate.hold("slow-0")
        client.send(produce_request("slow", batch_of(b"x")), 12)
        broker.gate.wait_until_one_is_held()
        connection = the_connection(broker)

        async def begin_to_drain() -> "asyncio.Task[None]":
            task = asyncio.get_running_loop().create_task(connection.drain())
            await asyncio.sleep(0)
            connection.resume_writing()  # one of the moments at which held back requests are looked at
            return task

        draining = broker.run(begin_to_drain)
        client.send(produce_request("quick", batch_of(b"x")), 12)
        broker.gate.release()
        assert client.receive(0, 12, ProduceResponse).responses[0].name == "slow"
        assert client.is_closed_by_broker()

        async def drained() -> None:
            await draining

        broker.run(drained)


def test_half_a_request_behind_a_long_poll_is_not_the_clients_delay():
    settings = {"penstock.request.arrival.timeout.ms": "1000"}
    with ControlledBroker(settings=settings) as broker, RawClient(broker.bootstrap_servers) as client:
        client.create_topic("t")
        poll = encode(fetch_request("t", 0, max_wait_ms=60_000), 12)
        frame = b"".join(frame_request(RequestHeader(1, 12, 1, "raw"), poll))
        client.socket.sendall(frame + frame + frame[:20])  # the second one waits, so we do not listen
        connection = the_connection(broker)

        async def look_for_the_idle() -> int:
            while connection.is_idle:
                await asyncio.sleep(0.001)
            broker.advance(5_000)
            assert broker.broker._connections is not None
            broker.broker._connections.close_idle()
            await asyncio.sleep(0.01)
            return len(broker.broker._connections._open)

        assert broker.run(look_for_the_idle) == 1


def test_a_long_poll_ends_with_its_client():
    with ControlledBroker() as broker:
        with RawClient(broker.bootstrap_servers) as client:
            client.create_topic("t")
            client.send(fetch_request("t", 0, max_wait_ms=600_000), 12)
            connection = the_connection(broker)

            async def until_it_waits() -> None:
                while connection.is_idle:
                    await asyncio.sleep(0.001)

            broker.run(until_it_waits)

        async def until_it_is_gone() -> None:
            assert broker.broker._connections is not None
            while broker.broker._connections._open:
                await asyncio.sleep(0.001)

        broker.run(until_it_is_gone)


def test_clients_of_the_metrics_endpoint_that_say_nothing_keep_no_health_check_out():
    with EmbeddedBroker(settings={"penstock.metrics.listen": "127.0.0.1:0"}) as broker:
        assert broker._life is not None
        assert broker._life.broker.metrics_address is not None
        host, _, port = broker._life.broker.metrics_address.rpartition(":")
        silent = [socket.create_connection((host, int(port)), timeout=10) for _ in range(CONNECTIONS_MAX)]
        with socket.create_connection((host, int(port)), timeout=10) as check:
            check.sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
            assert check.recv(1000).startswith(b"HTTP/1.1 200")
        with silent[0], contextlib.suppress(ConnectionResetError):  # the oldest had to go for it
            assert silent[0].recv(1) == b""
    for connection in silent[1:]:  # the broker's end is theirs
        with contextlib.suppress(ConnectionResetError):
            assert connection.recv(1) == b""
        connection.close()
