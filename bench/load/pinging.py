"""A process with one connection that asks one small question after the other: how long a broker keeps a client waiting.

It asks from a process of its own, so that what else this side does is not taken for the broker's silence. Between
two questions it waits a moment: it is to see pauses, not to be load.
"""

import contextlib
import multiprocessing
import socket
import time
from collections.abc import Iterator
from multiprocessing.synchronize import Event

from bench.load.raw import connect, parse_address
from penstock.schema.codec import encode
from penstock.wire.headers import RequestHeader, frame_request
from penstock.wire.messages.api_versions import ApiVersionsRequest

_BETWEEN_S = 0.001
_PATIENCE_S = 30
_READ_BYTES = 1 << 16
_PROCESSES = multiprocessing.get_context("spawn")


class Pings:
    """What was seen of the broker until the pinging ended."""

    def __init__(self) -> None:
        self.longest = _PROCESSES.Value("d", 0.0)

    @property
    def longest_ms(self) -> float:
        return self.longest.value * 1000


@contextlib.contextmanager
def pinging(bootstrap: str) -> Iterator[Pings]:
    """Ping from now on, the first answer included, until the block ends; the figures are whole afterwards."""
    found, asked, stop = Pings(), _PROCESSES.Event(), _PROCESSES.Event()
    process = _PROCESSES.Process(target=_ping, args=(bootstrap, found.longest, asked, stop))
    process.start()
    try:
        assert asked.wait(_PATIENCE_S), "the broker does not answer"
        yield found
    finally:
        stop.set()
        process.join(_PATIENCE_S)
        if process.is_alive():
            process.kill()


def _ping(
    bootstrap: str, longest: "multiprocessing.sharedctypes.Synchronized[float]", asked: Event, stop: Event
) -> None:
    header = RequestHeader(ApiVersionsRequest.API_KEY, 0, 1, "ping")
    question = b"".join(frame_request(header, encode(ApiVersionsRequest(), 0)))
    with connect(parse_address(bootstrap)) as connection:
        while not stop.wait(_BETWEEN_S):
            began = time.perf_counter()
            connection.sendall(question)
            _receive_frame(connection)
            longest.value = max(longest.value, time.perf_counter() - began)
            asked.set()


def _receive_frame(connection: socket.socket) -> None:
    received = b""
    while len(received) < 4 or len(received) < 4 + int.from_bytes(received[:4], "big"):
        data = connection.recv(_READ_BYTES)
        assert data, "the broker closed a connection"
        received += data
