"""Connections between simulated hosts: what TCP promises holds, what it does not promise happens."""

import asyncio
import socket
from collections.abc import Iterator
from typing import Any, cast

import pytest

from penstock.sim import Simulation
from penstock.sim.loop import SimLoop
from penstock.sim.process import SimProcess
from penstock.sim.transport import UNCONFIRMED_S_MAX, WINDOW_BYTES
from penstock.world.tls import Tls, TlsError

PORT = 7


@pytest.fixture
def simulation() -> Iterator[Simulation]:
    with Simulation(1) as simulation:
        yield simulation


class Peer(asyncio.Protocol):
    """Keeps what it hears."""

    def __init__(self) -> None:
        self.transport = cast(asyncio.Transport, None)
        self.pieces: list[bytes] = []
        self.events: list[str] = []
        self.lost: Exception | None = None

    @property
    def heard(self) -> bytes:
        return b"".join(self.pieces)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.events.append("made")

    def data_received(self, data: bytes) -> None:
        self.pieces.append(data)

    def eof_received(self) -> None:
        self.events.append("end")

    def connection_lost(self, error: Exception | None) -> None:
        self.events.append("lost")
        self.lost = error

    def pause_writing(self) -> None:
        self.events.append("pause")

    def resume_writing(self) -> None:
        self.events.append("resume")


class Pair:
    """A host that listens, one that calls, and their connections."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.network = simulation.network
        self.far_place = simulation.new_process("far")
        self.near_place = simulation.new_process("near")
        self.accepted: list[Peer] = []

    async def listen(self) -> None:
        def accept() -> Peer:
            peer = Peer()
            self.accepted.append(peer)
            return peer

        await self.go(self.far_place, self.simulation.loop.create_server(accept, "far", PORT))

    async def go(self, process: SimProcess, coroutine: Any) -> Any:
        return await self.simulation.loop.spawn(process, coroutine)

    async def call(self) -> Peer:
        _, peer = await self.go(self.near_place, self.simulation.loop.create_connection(Peer, "far", PORT))
        return peer

    async def connect(self) -> tuple[Peer, Peer]:
        await self.listen()
        near = await self.call()
        await asyncio.sleep(1)
        return near, self.accepted[-1]


def test_what_is_written_arrives_once_in_order_and_in_pieces(simulation: Simulation) -> None:
    async def story() -> None:
        near, far = await Pair(simulation).connect()
        sent = b""
        for number in range(200):
            piece = b"%d," % number
            near.transport.write(piece)
            sent += piece
            await asyncio.sleep(0.001)
        near.transport.writelines([b"the", memoryview(b"end")])
        await asyncio.sleep(1)
        assert far.heard == sent + b"theend"
        assert len(far.pieces) > 100
        assert any(piece.count(b",") != 1 for piece in far.pieces)  # some were split, some came together

    simulation.run(story())


def test_both_ends_know_the_address_of_their_peer(simulation: Simulation) -> None:
    async def story() -> None:
        near, far = await Pair(simulation).connect()
        assert near.transport.get_extra_info("peername") == ("far", PORT)
        assert far.transport.get_extra_info("sockname") == ("far", PORT)
        assert far.transport.get_extra_info("peername") == near.transport.get_extra_info("sockname")
        assert near.transport.get_extra_info("socket") is None

    simulation.run(story())


def test_two_connections_overtake_each_other(simulation: Simulation) -> None:
    async def story() -> list[bytes]:
        pair = Pair(simulation)
        simulation.network.delay("near", "far", low_s=0.1, high_s=1.0)
        await pair.listen()
        first, second = await pair.call(), await pair.call()
        await asyncio.sleep(5)
        arrivals: list[bytes] = []
        for peer in pair.accepted:
            peer.data_received = arrivals.append  # type: ignore[method-assign]
        for _ in range(20):
            first.transport.write(b"1")
            second.transport.write(b"2")
            await asyncio.sleep(5)
        return arrivals

    arrivals = simulation.run(story())
    assert {*zip(arrivals[::2], arrivals[1::2], strict=True)} == {(b"1", b"2"), (b"2", b"1")}


def test_a_close_comes_after_all_that_was_written(simulation: Simulation) -> None:
    async def story() -> None:
        near, far = await Pair(simulation).connect()
        near.transport.write(b"x" * (3 * WINDOW_BYTES))
        near.transport.close()
        near.transport.write(b"too late")
        assert near.transport.is_closing()
        await asyncio.sleep(10)
        assert far.heard == b"x" * (3 * WINDOW_BYTES)
        assert far.events == ["made", "end", "lost"]
        assert near.events[-1] == "lost"
        assert near.lost is None
        assert far.lost is None

    simulation.run(story())


def test_an_abort_drops_what_was_not_sent(simulation: Simulation) -> None:
    async def story() -> None:
        near, far = await Pair(simulation).connect()
        far.transport.pause_reading()
        near.transport.write(b"x" * (3 * WINDOW_BYTES))
        near.transport.abort()
        await asyncio.sleep(1)
        far.transport.resume_reading()
        await asyncio.sleep(10)
        assert len(far.heard) <= WINDOW_BYTES
        assert far.events[-1] == near.events[-1] == "lost"

    simulation.run(story())


def test_a_reader_that_pauses_stops_the_writer(simulation: Simulation) -> None:
    async def story() -> None:
        near, far = await Pair(simulation).connect()
        far.transport.pause_reading()
        near.transport.set_write_buffer_limits(high=1000)
        near.transport.write(b"x" * (WINDOW_BYTES + 5000))
        await asyncio.sleep(10)
        assert far.heard == b""
        assert near.events == ["made", "pause"]
        assert near.transport.get_write_buffer_size() == 5000
        far.transport.resume_reading()
        await asyncio.sleep(10)
        assert len(far.heard) == WINDOW_BYTES + 5000
        assert near.events == ["made", "pause", "resume"]

    simulation.run(story())


def test_a_half_closed_connection_still_brings_the_answer(simulation: Simulation) -> None:
    async def story() -> None:
        near, far = await Pair(simulation).connect()
        far.eof_received = lambda: True  # type: ignore[method-assign]
        near.transport.write(b"question")
        near.transport.write_eof()
        await asyncio.sleep(1)
        far.transport.write(b"answer")
        await asyncio.sleep(1)
        assert (far.heard, near.heard) == (b"question", b"answer")

    simulation.run(story())


def test_a_write_to_a_closed_peer_resets_the_connection(simulation: Simulation) -> None:
    async def story() -> None:
        near, far = await Pair(simulation).connect()
        near.eof_received = lambda: True  # type: ignore[method-assign]
        far.transport.close()
        await asyncio.sleep(1)
        near.transport.write(b"anybody there?")
        await asyncio.sleep(1)
        assert isinstance(near.lost, ConnectionResetError)

    simulation.run(story())


def test_a_connection_to_a_port_without_a_listener_is_refused(simulation: Simulation) -> None:
    async def story() -> None:
        with pytest.raises(ConnectionRefusedError):
            await Pair(simulation).call()

    simulation.run(story())


def test_an_unknown_host_name_is_not_resolved(simulation: Simulation) -> None:
    with pytest.raises(socket.gaierror):
        simulation.run(simulation.loop.create_connection(Peer, "elsewhere", PORT))


def test_a_port_is_taken_once(simulation: Simulation) -> None:
    async def story() -> None:
        pair = Pair(simulation)
        await pair.listen()
        with pytest.raises(OSError, match="taken"):
            await pair.listen()
        with pytest.raises(OSError, match="not an address of near"):
            await pair.go(pair.near_place, simulation.loop.create_server(Peer, "far", PORT))

    simulation.run(story())


def test_a_server_that_was_closed_refuses_and_keeps_what_it_has(simulation: Simulation) -> None:
    async def story() -> None:
        pair = Pair(simulation)
        server = await pair.go(pair.far_place, simulation.loop.create_server(Peer, "", PORT))
        near = await pair.call()
        server.close()
        assert not server.is_serving()
        with pytest.raises(ConnectionRefusedError):
            await pair.call()
        await asyncio.sleep(1)
        assert near.events == ["made"]

    simulation.run(story())


def test_what_is_sent_over_a_cut_link_arrives_when_it_is_healed(simulation: Simulation) -> None:
    async def story() -> None:
        near, far = await Pair(simulation).connect()
        simulation.network.cut("near", "far")
        near.transport.write(b"one ")
        far.transport.write(b"uno")
        await asyncio.sleep(60)
        near.transport.write(b"two")
        assert (far.heard, near.heard) == (b"", b"")
        simulation.network.heal("near", "far")
        await asyncio.sleep(1)
        assert (far.heard, near.heard) == (b"one two", b"uno")

    simulation.run(story())


def test_a_link_may_be_cut_in_one_direction(simulation: Simulation) -> None:
    async def story() -> None:
        near, far = await Pair(simulation).connect()
        simulation.network.cut("near", "far", one_way=True)
        near.transport.write(b"one")
        far.transport.write(b"uno")
        await asyncio.sleep(60)
        assert (far.heard, near.heard) == (b"", b"uno")

    simulation.run(story())


def test_a_link_that_stays_cut_is_given_up(simulation: Simulation) -> None:
    async def story() -> None:
        near, far = await Pair(simulation).connect()
        simulation.network.cut("near", "far")
        near.transport.write(b"one")
        await asyncio.sleep(UNCONFIRMED_S_MAX + 1)
        assert isinstance(near.lost, TimeoutError)
        assert far.lost is None

    simulation.run(story())


def test_a_connect_over_a_cut_link_waits_until_it_is_healed_or_times_out(simulation: Simulation) -> None:
    async def story() -> None:
        pair = Pair(simulation)
        await pair.listen()
        simulation.network.cut("near", "far")
        call = asyncio.ensure_future(pair.call())
        await asyncio.sleep(10)
        assert not call.done()
        simulation.network.heal("near", "far")
        assert (await call).events == ["made"]
        simulation.network.cut("near", "far")
        with pytest.raises(TimeoutError):
            await pair.call()

    simulation.run(story())


def test_a_cancelled_connect_leaves_no_connection_behind(simulation: Simulation) -> None:
    async def story() -> None:
        pair = Pair(simulation)
        await pair.listen()
        simulation.network.delay("near", "far", low_s=1.0, high_s=1.0)
        call = asyncio.ensure_future(pair.call())
        await asyncio.sleep(1.5)
        call.cancel()
        await asyncio.sleep(10)
        assert pair.accepted[0].events[-1] == "lost"
        assert simulation.network.connection_count("near", "far") == 0

    simulation.run(story())


def test_a_slow_link_takes_its_time(simulation: Simulation) -> None:
    async def story() -> None:
        near, far = await Pair(simulation).connect()
        simulation.network.slow("near", "far", bytes_per_s=1000)
        for _ in range(100):
            near.transport.write(b"x" * 100)
        await asyncio.sleep(5)
        assert 4500 <= len(far.heard) <= 5000
        await asyncio.sleep(6)
        assert len(far.heard) == 10_000

    simulation.run(story())


def test_restoring_the_network_heals_everything(simulation: Simulation) -> None:
    async def story() -> None:
        near, far = await Pair(simulation).connect()
        simulation.network.cut("near", "far")
        simulation.network.slow("near", "far", bytes_per_s=1)
        simulation.network.delay("near", "far", low_s=50, high_s=100)
        simulation.network.restore()
        near.transport.write(b"quick")
        await asyncio.sleep(1)
        assert far.heard == b"quick"

    simulation.run(story())


def test_a_reset_ends_the_connection_at_both_ends(simulation: Simulation) -> None:
    async def story() -> None:
        near, far = await Pair(simulation).connect()
        assert simulation.network.reset("near", "far") == 1
        await asyncio.sleep(1)
        assert isinstance(near.lost, ConnectionResetError)
        assert isinstance(far.lost, ConnectionResetError)
        assert simulation.network.connection_count("near", "far") == 0

    simulation.run(story())


def test_a_half_open_connection_is_reset_at_one_end_and_times_out_at_the_other(
    simulation: Simulation,
) -> None:
    async def story() -> None:
        near, far = await Pair(simulation).connect()
        assert simulation.network.half_open("near", "far") == 1
        await asyncio.sleep(1)
        near.transport.write(b"are you there?")
        await asyncio.sleep(100)
        assert isinstance(far.lost, ConnectionResetError)
        assert near.events == ["made"]
        assert far.heard == b""
        await asyncio.sleep(UNCONFIRMED_S_MAX)
        assert isinstance(near.lost, TimeoutError)

    simulation.run(story())


def test_the_peers_of_a_killed_process_hear_of_it(simulation: Simulation) -> None:
    async def story() -> None:
        pair = Pair(simulation)
        near, _ = await pair.connect()
        simulation.loop.kill(pair.far_place)
        simulation.network.lose_process(pair.far_place)
        await asyncio.sleep(1)
        assert near.events[-1] == "lost"
        with pytest.raises(ConnectionRefusedError):
            await pair.call()

    simulation.run(story())


def test_the_peers_of_a_machine_without_power_hear_nothing_until_it_is_back(simulation: Simulation) -> None:
    async def story() -> None:
        pair = Pair(simulation)
        near, _ = await pair.connect()
        simulation.loop.kill(pair.far_place)
        simulation.network.lose_machine("far")
        near.transport.write(b"hello?")
        await asyncio.sleep(100)
        assert near.events == ["made"]
        simulation.network.return_machine("far")
        near.transport.write(b"hello?")
        await asyncio.sleep(1)
        assert isinstance(near.lost, ConnectionResetError)

    simulation.run(story())


def test_a_killed_process_hears_nothing_of_its_own_end(simulation: Simulation) -> None:
    async def story() -> None:
        pair = Pair(simulation)
        near, far = await pair.connect()
        near.transport.write(b"on its way")
        simulation.loop.kill(pair.far_place)
        simulation.network.lose_process(pair.far_place, silently=True)
        far.transport.write(b"from the grave")
        await asyncio.sleep(1)
        assert far.events == ["made"]
        assert far.heard == b""
        assert near.events == ["made"]
        assert near.heard == b""

    simulation.run(story())


def test_the_simulated_network_speaks_no_tls_and_says_so(simulation: Simulation) -> None:
    async def story() -> None:
        loop = SimLoop(simulation.loop, simulation.new_process("near"))
        with pytest.raises(TlsError, match="the simulated network does not speak TLS"):
            await loop.connect(Peer, "far", PORT, tls=Tls())

    simulation.run(story())
