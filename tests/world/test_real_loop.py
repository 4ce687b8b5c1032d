"""The loops of production, uvloop and asyncio's own, through the seam."""

import asyncio
import socket
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from penstock.world.pacing import Pacer
from penstock.world.real_loop import RealLoop, run

Main = Callable[[], Coroutine[Any, Any, None]]


def run_on_asyncio(main: Main) -> None:
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        runner.run(main())


@pytest.fixture(params=[run, run_on_asyncio], ids=["fastest", "asyncio"])
def run_main(request: pytest.FixtureRequest) -> Callable[[Main], None]:
    return request.param


class Echo(asyncio.Protocol):
    """Sends back what it gets, and keeps its transport for inspection."""

    def __init__(self) -> None:
        self.transport: Any  # uvloop's transports are not instances of asyncio.Transport
        self.received = b""
        self.closed = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += data
        if data != b"bye":
            self.transport.write(b"bye")
        else:
            self.transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        self.closed.set_result(None)


def test_production_runs_on_uvloop_where_it_is_installed() -> None:
    uvloop = pytest.importorskip("uvloop")

    async def main() -> None:
        assert isinstance(asyncio.get_running_loop(), uvloop.Loop)

    run(main)


def test_without_uvloop_asyncio_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)  # as if it were not installed

    async def main() -> str:
        return type(asyncio.get_running_loop()).__module__

    assert run(main).startswith("asyncio")


def test_a_client_talks_to_a_server(run_main: Callable[[Main], None]) -> None:
    async def main() -> None:
        loop = RealLoop()
        accepted: list[Echo] = []

        def accept() -> Echo:
            accepted.append(Echo())
            return accepted[-1]

        server = await loop.listen(accept, "127.0.0.1", 0)
        _, client = await loop.connect(Echo, "127.0.0.1", server.port)
        assert isinstance(client, Echo)
        client.transport.write(b"hello")
        await client.closed
        assert accepted[0].received == b"hello"
        await accepted[0].closed
        server.close()

    run_main(main)


def test_small_answers_are_not_held_back(run_main: Callable[[Main], None]) -> None:
    async def main() -> None:
        loop = RealLoop()
        nodelay = loop.create_future()

        class Inspect(Echo):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                super().connection_made(transport)
                connection = transport.get_extra_info("socket")
                option = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
                nodelay.set_result(option)

        server = await loop.listen(Inspect, "127.0.0.1", 0)
        transport, client = await loop.connect(Echo, "127.0.0.1", server.port)
        connection = transport.get_extra_info("socket")
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
        assert await nodelay != 0
        transport.close()
        await client.closed  # type: ignore[attr-defined]
        server.close()

    run_main(main)


def test_a_port_is_free_again_right_after_its_server_is_gone(run_main: Callable[[Main], None]) -> None:
    async def main() -> None:
        loop = RealLoop()
        port = 0
        for _ in range(2):
            server = await loop.listen(Echo, "127.0.0.1", port)
            port = server.port
            _, client = await loop.connect(Echo, "127.0.0.1", port)
            client.transport.write(b"x")  # type: ignore[attr-defined]
            await client.closed  # type: ignore[attr-defined]
            server.close()

    run_main(main)


def test_a_port_in_use_is_refused(run_main: Callable[[Main], None]) -> None:
    async def main() -> None:
        loop = RealLoop()
        server = await loop.listen(Echo, "127.0.0.1", 0)
        with pytest.raises(OSError):
            await loop.listen(Echo, "127.0.0.1", server.port)
        server.close()

    run_main(main)


def test_timers_tasks_and_clocks_are_the_loops_own(run_main: Callable[[Main], None]) -> None:
    async def main() -> None:
        loop = RealLoop()
        heard: list[str] = []
        fired = loop.create_future()
        loop.call_soon(heard.append, "soon")
        loop.call_later(3600, heard.append, "never").cancel()
        loop.call_later(0.001, fired.set_result, "later")

        async def double(number: int) -> int:
            await loop.sleep(0)
            return 2 * number

        task = loop.create_task(double(21), name="double")
        assert task.get_name() == "double"
        assert await task == 42
        started = loop.time()
        assert await fired == "later"
        assert loop.time() >= started
        assert heard == ["soon"]
        assert abs(loop.now_ms() - time.time() * 1000) < 1000

    run_main(main)


def test_the_clock_moves_while_a_callback_runs(run_main: Callable[[Main], None]) -> None:
    async def main() -> None:
        loop = RealLoop()
        started, finish = loop.time(), time.perf_counter() + 0.005
        while time.perf_counter() < finish:
            pass
        assert loop.time() - started >= 0.004

    run_main(main)


class SteppedLoop:
    """A loop whose clock the test moves, and which counts how often a task yielded to it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.yields = 0

    def time(self) -> float:
        return self.now

    async def sleep(self, delay_s: float) -> None:
        assert delay_s == 0
        self.yields += 1


def test_long_work_gives_way_once_its_slice_is_used_up() -> None:
    async def main() -> None:
        loop = SteppedLoop()
        pacer = Pacer(loop)  # type: ignore[arg-type]
        for _ in range(10):
            loop.now += 0.001
            await pacer.pause()
        assert loop.yields == 2
        loop.now += 0.004
        pacer.begin()
        loop.now += 0.004
        await pacer.pause()
        assert loop.yields == 2

    asyncio.run(main())


def test_others_run_between_two_slices(run_main: Callable[[Main], None]) -> None:
    async def main() -> None:
        loop = RealLoop()
        pacer = Pacer(loop, slice_ms=0)
        order: list[str] = []
        loop.call_soon(order.append, "other")
        for step in range(2):
            order.append(f"step {step}")
            await pacer.pause()
        assert order == ["step 0", "other", "step 1"]

    run_main(main)


def test_no_timer_fires_before_its_deadline_on_the_loops_clock(
    run_main: Callable[[Main], None],
) -> None:
    async def main() -> None:
        loop = RealLoop()
        early_ms: list[float] = []
        pending = 300
        over = loop.create_future()

        def fired(due: float) -> None:
            nonlocal pending
            early_ms.append((due - loop.time()) * 1000)
            pending -= 1
            if not pending:
                over.set_result(None)

        for number in range(pending):
            until = time.monotonic() + 0.0001  # so that they begin anywhere within a millisecond
            while time.monotonic() < until:
                pass
            delay_s = (1 + number / 10) / 1000
            due = loop.time() + delay_s
            loop.call_later(delay_s, fired, due)
        await over
        assert max(early_ms) <= 0

    run_main(main)


def test_no_sleep_is_short(run_main: Callable[[Main], None]) -> None:
    async def main() -> None:
        loop = RealLoop()
        for number in range(20):
            due = loop.time() + (1 + number / 10) / 1000
            await loop.sleep((1 + number / 10) / 1000)
            assert loop.time() >= due

    run_main(main)
