"""Sends frames over many connections, with several in flight on each, and counts the answers.

Made to cost little, so that on a machine with few cores the broker is what is measured: nothing is encoded or
decoded, and what came in one read is replaced by as many requests in one write. Answers are checked by their size
and their error codes.
"""

import selectors
import socket
import time
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from bench.load.frames import Answer, Frame
from penstock.world.disk import Buffer

_READ_BYTES = 1 << 18
_BUFFERS_PER_WRITE_MAX = 1024
_SILENCE_MAX_S = 60
_NO_END = 1 << 62
_WRONG_SIZE = "an answer that is no plain success (its size is wrong)"


class LoadError(Exception):
    """The broker refused a request, closed a connection, or fell silent."""


class Load(NamedTuple):
    """What a run of load came to."""

    requests: int
    seconds: float
    client_cpu_seconds: float
    latencies_ms: list[float]  # from write to answer; only with one request in flight per connection

    @property
    def rate(self) -> float:
        return self.requests / self.seconds


class _Connection:
    """One socket: which frames it sends next, and what it still waits for."""

    __slots__ = ("_frames", "_left", "_next", "_partial", "_unsent", "awaited", "sent_at", "socket")

    def __init__(self, address: tuple[str, int], frames: Sequence[Frame], *, laps: int | None) -> None:
        self.socket = connect(address)
        self.socket.setblocking(False)
        self.awaited = 0
        self.sent_at = 0.0
        self._frames = frames
        self._next = 0
        self._left = _NO_END if laps is None else laps * len(frames)
        self._partial = b""
        self._unsent: deque[Buffer] = deque()

    def send(self, count: int) -> tuple[int, bool]:
        """Queue the next requests, `count` or as many as are left, and write what the socket takes.

        Tells how many they are, and whether all of them went out.
        """
        count = min(count, self._left)
        frames, size = self._frames, len(self._frames)
        for _ in range(count):
            self._unsent.extend(frames[self._next])
            self._next = (self._next + 1) % size
        self._left -= count
        self.awaited += count
        return count, self.write()

    def write(self) -> bool:
        unsent = self._unsent
        while unsent:
            buffers = [unsent.popleft() for _ in range(min(len(unsent), _BUFFERS_PER_WRITE_MAX))]
            try:
                written = self.socket.sendmsg(buffers)
            except BlockingIOError:
                written = 0
            left = _after(buffers, written)
            if left:
                unsent.extendleft(reversed(left))
                return False
        return True

    def receive(self, answer: Answer) -> int:
        """Read what is there; the number of whole answers in it."""
        data = self.socket.recv(_READ_BYTES)
        if not data:
            raise LoadError("the broker closed a connection")
        if self._partial:
            data = self._partial + data
        count = len(data) // answer.size
        whole = count * answer.size
        self._partial = data[whole:]
        expected = (answer.size - 4).to_bytes(4, "big")
        if data[: whole : answer.size] != expected[:1] * count or (count and data[:4] != expected):
            raise LoadError(_WRONG_SIZE)
        if any(any(data[position : whole : answer.size]) for position in answer.error_positions):
            raise LoadError(f"an answer carries an error: {_first_error(data, answer)}")
        if not count and len(self._partial) >= 4 and self._partial[:4] != expected:
            raise LoadError(_WRONG_SIZE)
        self.awaited -= count
        return count


def _first_error(data: bytes, answer: Answer) -> int:
    for start in range(0, len(data), answer.size):
        code = bytes(data[start + position] for position in answer.error_positions)
        if any(code):
            return int.from_bytes(code, "big", signed=True)
    return 0


def _after(buffers: Sequence[Buffer], written: int) -> list[Buffer]:
    """What is left of `buffers` behind their first `written` bytes."""
    for index, buffer in enumerate(buffers):
        if written < len(buffer):
            return [memoryview(buffer)[written:], *buffers[index + 1 :]]
        written -= len(buffer)
    return []


def connect(address: tuple[str, int]) -> socket.socket:
    made = socket.create_connection(address, timeout=_SILENCE_MAX_S)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def parse_address(bootstrap: str) -> tuple[str, int]:
    host, _, port = bootstrap.rpartition(":")
    return host, int(port)


def _wait_until_taken(address: tuple[str, int], frame: Frame, answer: Answer) -> None:
    """Send one request until it works: a new topic may be shown before it can be written to."""
    deadline = time.monotonic() + _SILENCE_MAX_S
    while True:
        connection = _Connection(address, [frame], laps=1)
        connection.socket.settimeout(_SILENCE_MAX_S)
        try:
            connection.send(1)
            while connection.awaited:
                connection.receive(answer)
            return
        except LoadError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        finally:
            connection.socket.close()


def run_load(
    bootstrap: str,
    frames: Sequence[Frame],
    answer: Answer,
    *,
    connections: int,
    in_flight: int,
    seconds: float,
    laps: int | None = None,
) -> Load:
    """Keep `in_flight` requests in flight on every connection for `seconds`, then wait for the last answers.

    Each connection goes round and round its own share of the frames, or exactly `laps` times if that takes
    no longer than `seconds`.
    """
    address = parse_address(bootstrap)
    for frame in (frames[0], frames[-1]):
        _wait_until_taken(address, frame, answer)
    shares = [frames[first::connections] or frames for first in range(connections)]
    opened = [_Connection(address, share, laps=laps) for share in shares]
    try:
        return _Run(opened, answer, in_flight=in_flight, seconds=seconds).to_the_end()
    finally:
        for connection in opened:
            connection.socket.close()


class _Run:
    """All connections at work."""

    def __init__(
        self, connections: Sequence[_Connection], answer: Answer, *, in_flight: int, seconds: float
    ) -> None:
        self._answer = answer
        self._one_at_a_time = in_flight == 1
        self._latencies_ms: list[float] = []
        self._answered = 0
        self._sent = 0
        self._selector = selectors.DefaultSelector()
        self._cpu_before = time.process_time()
        self._started = self._now = time.perf_counter()
        self._deadline = self._started + seconds
        for connection in connections:
            self._selector.register(connection.socket, selectors.EVENT_READ, connection)
            self._send(connection, in_flight)

    def to_the_end(self) -> Load:
        while self._answered < self._sent:
            events = self._selector.select(_SILENCE_MAX_S)
            if not events:
                raise LoadError(f"no answer for {_SILENCE_MAX_S} s")
            self._now = time.perf_counter()
            for key, event in events:
                if event & selectors.EVENT_READ:
                    self._receive(key.data)
                if event & selectors.EVENT_WRITE and key.data.write():
                    self._selector.modify(key.fileobj, selectors.EVENT_READ, key.data)
        self._selector.close()
        return Load(
            self._answered,
            self._now - self._started,
            time.process_time() - self._cpu_before,
            self._latencies_ms,
        )

    def _receive(self, connection: _Connection) -> None:
        count = connection.receive(self._answer)
        self._answered += count
        if self._one_at_a_time and count:
            self._latencies_ms.append((self._now - connection.sent_at) * 1000)
        if count and self._now < self._deadline:
            self._send(connection, count)

    def _send(self, connection: _Connection, count: int) -> None:
        connection.sent_at = self._now
        sent, complete = connection.send(count)
        self._sent += sent
        if not complete:
            both = selectors.EVENT_READ | selectors.EVENT_WRITE
            self._selector.modify(connection.socket, both, connection)
