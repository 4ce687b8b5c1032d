"""`/metrics` for Prometheus and `/healthz` for supervisors: HTTP/1.1, GET only, one response per connection.

Leaves out the rest of HTTP; the console has a web server of its own. A connection that takes longer than `PATIENCE_S`
is closed, and so is the oldest one when there are more than `CONNECTIONS_MAX`: so clients that send nothing do not
prevent health checks.
"""

import asyncio
from collections.abc import Callable
from typing import cast

from penstock.services.metrics import Metrics
from penstock.world import Loop
from penstock.world.loop import Timer

REQUEST_BYTES_MAX = 8192
CONNECTIONS_MAX = 64
PATIENCE_S = 10


class HttpConnections:
    """Creates the connections and limits their number."""

    def __init__(self, loop: Loop, metrics: Metrics, health: Callable[[], str | None]) -> None:
        self._loop = loop
        self._metrics = metrics
        self._health = health
        self.open: dict[asyncio.Transport, Timer] = {}

    def make(self) -> "HttpConnection":
        return HttpConnection(self, self._metrics, self._health)

    def admit(self, transport: asyncio.Transport) -> None:
        self.open[transport] = self._loop.call_later(PATIENCE_S, transport.abort)
        if len(self.open) > CONNECTIONS_MAX:
            oldest = next(iter(self.open))
            self.forget(oldest)
            oldest.abort()

    def forget(self, transport: asyncio.Transport) -> None:
        timer = self.open.pop(transport, None)
        if timer is not None:
            timer.cancel()

    def close(self) -> None:
        for transport in list(self.open):
            transport.abort()


class HttpConnection(asyncio.Protocol):
    """Reads one request head, writes one response, and closes."""

    def __init__(
        self, connections: HttpConnections, metrics: Metrics, health: Callable[[], str | None]
    ) -> None:
        self._connections = connections
        self._metrics = metrics
        self._health = health
        self._head = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transport is no subclass of asyncio's
        self._connections.admit(self._transport)

    def connection_lost(self, _error: Exception | None) -> None:
        assert self._transport is not None
        self._connections.forget(self._transport)

    def data_received(self, data: bytes) -> None:
        self._head += data
        if b"\r\n\r\n" in self._head:
            self._answer(*self._route(bytes(self._head)))
        elif len(self._head) > REQUEST_BYTES_MAX:
            self._answer(431, "request header too large\n")

    def _route(self, head: bytes) -> tuple[int, str]:
        words = head.split(b"\r\n", 1)[0].split(b" ")
        if len(words) != 3:
            return 400, "not an HTTP request\n"
        method, target, _ = words
        path = target.split(b"?", 1)[0]
        if path not in (b"/metrics", b"/healthz"):
            return 404, "here are /metrics and /healthz\n"
        if method != b"GET":
            return 405, "only GET is answered here\n"
        if path == b"/metrics":
            return 200, self._metrics.render()
        problem = self._health()
        return (200, "ok\n") if problem is None else (503, problem + "\n")

    def _answer(self, status: int, body: str) -> None:
        assert self._transport is not None
        content = body.encode()
        head = (
            f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
            f"Content-Length: {len(content)}\r\nConnection: close\r\n\r\n"
        )
        self._transport.write(head.encode() + content)
        self._transport.close()


_REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}
