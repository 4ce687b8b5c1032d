"""A proxy that loses answers: it passes a request on, takes the answer, and hangs up on the client instead.

That is what a client sees of a network that fails at the worst moment. Which answers are lost is decided for each by a
function of the request's key.
"""

import asyncio
import contextlib
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self

Loses = Callable[[int], bool]


class LossyProxy:
    """In front of a broker that listens at `target` and tells its clients the `address` of the proxy."""

    def __init__(self, loses: Loses) -> None:
        self.target = f"127.0.0.1:{_free_port()}"
        self.lost: Counter[int] = Counter()  # answers, by the key of their request
        self._loses = loses
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="lossy proxy", daemon=True)
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = self._run(asyncio.start_server(self._accept, "127.0.0.1", 0))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def address(self) -> str:
        assert self._server is not None
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"{host}:{port}"

    @property
    def advertised(self) -> dict[str, object]:
        """The settings of the broker behind it."""
        return {"advertised.listeners": f"PLAINTEXT://{self.address}"}

    def lose_nothing_more(self) -> None:
        self._loses = lambda key: False

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _close(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            with contextlib.suppress(asyncio.CancelledError):  # only `_close` cancels
                await self._serve(reader, writer)
        finally:
            self._connections.discard(task)
            await _hang_up(writer)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, port = self.target.split(":")
        try:
            broker_reader, broker_writer = await asyncio.open_connection(host, int(port))
        except OSError:
            return  # the broker is away: so are we
        keys: dict[int, int] = {}  # of requests not answered yet, by correlation id
        both = [
            asyncio.ensure_future(self._pass_requests(reader, broker_writer, keys)),
            asyncio.ensure_future(self._pass_answers(broker_reader, writer, keys)),
        ]
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in both:
                each.cancel()
            await asyncio.gather(*both, return_exceptions=True)
            await _hang_up(broker_writer)

    async def _pass_requests(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, keys: dict[int, int]
    ) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                frame = await _frame(reader)
                key, _, correlation_id = struct.unpack_from(">hhi", frame, 4)
                keys[correlation_id] = key
                writer.write(frame)
                await writer.drain()

    async def _pass_answers(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, keys: dict[int, int]
    ) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                frame = await _frame(reader)
                key = keys.pop(struct.unpack_from(">i", frame, 4)[0], -1)
                if self._loses(key):
                    self.lost[key] += 1
                    return
                writer.write(frame)
                await writer.drain()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


async def _frame(reader: asyncio.StreamReader) -> bytes:
    size = await reader.readexactly(4)
    return size + await reader.readexactly(struct.unpack(">i", size)[0])


async def _hang_up(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
