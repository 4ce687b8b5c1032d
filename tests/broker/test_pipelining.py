"""Many pipelined requests of one connection do not delay others: connections are served in turns."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.broker.channel import READ_BYTES_PER_TURN_MAX, REQUESTS_PER_TURN_MAX
from penstock.broker.channel_states import ChannelState
from penstock.wire.messages.produce import ProduceResponse
from tests.broker.controlled import ControlledBroker
from tests.broker.test_time_sliced_queue import Wire, count_looks_at_the_clock, ping, wires
from tests.raw_client import RawClient, batch_of, produce_request

MANY = 1_000


@pytest.fixture
def controlled() -> Iterator[ControlledBroker]:
    with ControlledBroker() as broker:
        yield broker


def pings(count: int) -> bytes:
    return b"".join(ping(number) for number in range(count))


def stand_still(controlled: ControlledBroker) -> None:
    """No time passes: only requests are counted."""
    now = controlled._shifted.time()
    controlled._shifted.time = lambda: now


def test_only_a_few_requests_of_one_read_are_served_before_other_connections(
    controlled: ControlledBroker,
) -> None:
    async def story() -> None:
        stand_still(controlled)
        busy, other = wires(controlled, 2)
        busy.connection.data_received(pings(MANY))
        assert len(busy.answered()) == REQUESTS_PER_TURN_MAX
        other.connection.data_received(ping(1))
        assert other.answered() == [1]
        while len(busy.answered()) < MANY:
            await asyncio.sleep(0)
        assert busy.answered() == list(range(MANY))
        for wire in (busy, other):
            wire.abort()

    controlled.run(story)


def test_a_turn_has_fewer_slow_requests(controlled: ControlledBroker) -> None:
    async def story() -> None:
        busy, other = wires(controlled, 2)
        count_looks_at_the_clock(controlled)  # a millisecond each
        busy.connection.data_received(pings(MANY))
        assert 1 <= len(busy.answered()) <= 3
        other.connection.data_received(ping(1))
        assert other.answered() == [1]
        for wire in (busy, other):
            wire.abort()

    controlled.run(story)


def test_busy_connections_take_turns_and_do_not_delay_a_quiet_one(
    controlled: ControlledBroker,
) -> None:
    async def story() -> None:
        count_looks_at_the_clock(controlled)
        busy = wires(controlled, 20)
        (other,) = wires(controlled, 1)
        for wire in busy:
            wire.connection.data_received(pings(MANY))
        for turn in range(60):
            before = sum(len(wire.answered()) for wire in busy)
            await asyncio.sleep(0)
            other.connection.data_received(ping(turn))
            assert len(other.answered()) == turn + 1
            assert sum(len(wire.answered()) for wire in busy) - before <= REQUESTS_PER_TURN_MAX
        answered = [len(wire.answered()) for wire in busy]
        assert max(answered) - min(answered) <= REQUESTS_PER_TURN_MAX
        for wire in (*busy, other):
            wire.abort()

    controlled.run(story)


def test_no_more_requests_are_served_for_a_client_that_reads_no_responses(
    controlled: ControlledBroker,
) -> None:
    async def story() -> None:
        (busy,) = wires(controlled, 1)
        busy.connection.data_received(pings(MANY))
        busy.connection.pause_writing()
        answered = len(busy.answered())
        for _ in range(50):
            await asyncio.sleep(0)
        assert len(busy.answered()) == answered
        busy.connection.resume_writing()
        while len(busy.answered()) < MANY:
            await asyncio.sleep(0)
        busy.abort()

    controlled.run(story)


def test_answers_that_come_late_give_a_busy_connection_no_turn_out_of_order(
    controlled: ControlledBroker,
) -> None:
    async def story() -> None:
        stand_still(controlled)
        (busy,) = wires(controlled, 1)
        busy.connection.data_received(pings(MANY))
        for _ in range(10):
            busy.connection.resume_writing()  # one of the moments at which held back requests are looked at
        assert len(busy.answered()) == REQUESTS_PER_TURN_MAX
        busy.abort()

    controlled.run(story)


class PausableWire(Wire):
    """Knows whether it is read."""

    is_read = True

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True


def test_a_large_request_is_read_a_part_at_a_time(controlled: ControlledBroker) -> None:
    async def story() -> None:
        connections = controlled.broker._connections
        assert connections is not None
        wire = PausableWire(connections.make("PLAINTEXT"))
        size = 20 * READ_BYTES_PER_TURN_MAX
        wire.connection.data_received(size.to_bytes(4, "big") + bytes(60_000))
        missing, turns = size - 60_000, 0
        while missing:
            read_in_turn = 0
            while wire.is_read and missing:
                count = min(missing, len(wire.connection.get_buffer(-1)), 100_000)
                wire.connection.buffer_updated(count)
                missing -= count
                read_in_turn += count
            assert read_in_turn <= READ_BYTES_PER_TURN_MAX + 100_000
            turns += 1
            while not wire.is_read and wire.connection.channel.state is not ChannelState.CLOSED:
                await asyncio.sleep(0)
        assert turns >= size // (READ_BYTES_PER_TURN_MAX + 100_000)

    controlled.run(story)


def test_large_requests_of_several_connections_are_read_one_after_the_other(
    controlled: ControlledBroker,
) -> None:
    async def story() -> None:
        connections = controlled.broker._connections
        assert connections is not None
        wires = [PausableWire(connections.make("PLAINTEXT")) for _ in range(5)]
        for wire in wires:
            wire.connection.data_received((64 * READ_BYTES_PER_TURN_MAX).to_bytes(4, "big") + bytes(60_000))
        turns_of: dict[int, int] = dict.fromkeys(range(5), 0)
        for wire in wires:
            read_for_one_turn(wire)
        for _ in range(20):
            await asyncio.sleep(0)
            readers = [number for number, wire in enumerate(wires) if wire.is_read]
            assert len(readers) <= 1
            for number in readers:
                read_for_one_turn(wires[number])
                turns_of[number] += 1
        assert min(turns_of.values()) >= 3

    controlled.run(story)


def read_for_one_turn(wire: PausableWire) -> None:
    while wire.is_read:
        wire.connection.buffer_updated(len(wire.connection.get_buffer(-1)))


def test_a_pipeline_of_produce_requests_is_written_in_order_over_many_turns() -> None:
    with ControlledBroker() as broker, RawClient(broker.bootstrap_servers) as client:
        client.create_topic("t")
        count = 10 * REQUESTS_PER_TURN_MAX
        for number in range(count):
            client.send(produce_request("t", batch_of(b"%d" % number)), 12)
        offsets: list[Any] = [
            client.receive(0, 12, ProduceResponse).responses[0].partition_responses[0].base_offset
            for _ in range(count)
        ]
        assert offsets == list(range(count))
