"""Conversations that depend on their answers: each is a generator with a connection of its own.

A talk yields a question and is handed the answer to it, or yields a pause and is silent for so long. All talks of a
call run side by side in one thread, so a thousand members of a group, or a hundred producers, cost no more than their
messages.
"""

import heapq
import itertools
import selectors
import time
from collections.abc import Generator, Sequence
from typing import Any, NamedTuple, Self, TypeVar

from bench.load.raw import LoadError, connect, parse_address
from penstock.schema.codec import decode, encode
from penstock.schema.words import Message
from penstock.wire.headers import RequestHeader, frame_request, read_response_header

_READ_BYTES = 1 << 18
_SILENCE_MAX_S = 60
_LENGTH_BYTES = 4

T = TypeVar("T")


class Question(NamedTuple):
    """A request in the version it is asked in, and the shape of its answer."""

    request: Message
    version: int
    answer: type[Message]


class Pause(NamedTuple):
    """Say nothing for a while."""

    seconds: float


Talk = Generator[Question | Pause, Any, T]


class _Line:
    """One talk and its connection."""

    def __init__(self, address: tuple[str, int], talk: Talk[Any]) -> None:
        self.socket = connect(address)
        self.result: Any = None
        self.is_over = False
        self._talk = talk
        self._asked: Question | None = None
        self._received = b""

    def go_on(self, answer: Message | None = None) -> Pause | None:
        """Hand the answer over and ask on; the pause, if the talk wants one."""
        try:
            wanted = self._talk.send(answer)
        except StopIteration as end:
            self.result, self.is_over = end.value, True
            return None
        if isinstance(wanted, Pause):
            return wanted
        self._asked = wanted
        header = RequestHeader(wanted.request.API_KEY, wanted.version, 1, "bench")
        # Blocking: there is never more than one request in flight, so the broker has read all before it.
        self.socket.sendall(b"".join(frame_request(header, encode(wanted.request, wanted.version))))
        return None

    def read(self) -> Pause | None:
        """Take what has come; with a whole answer, go on."""
        data = self.socket.recv(_READ_BYTES)
        if not data:
            raise LoadError("the broker closed a connection")
        self._received += data
        end = _LENGTH_BYTES + int.from_bytes(self._received[:_LENGTH_BYTES], "big")
        if len(self._received) < max(end, _LENGTH_BYTES):
            return None
        frame, self._received = self._received[_LENGTH_BYTES:end], self._received[end:]
        assert self._asked is not None
        request, version, shape = self._asked
        _, position = read_response_header(request.API_KEY, version, frame)
        return self.go_on(decode(shape, version, frame, position))


def hold(bootstrap: str, talks: Sequence[Talk[T]]) -> list[T]:
    """Have all the talks to their ends; what each returns."""
    address = parse_address(bootstrap)
    lines: list[_Line] = []
    try:
        for talk in talks:
            lines.append(_Line(address, talk))
        with _Exchange(lines) as exchange:
            exchange.to_the_end()
    finally:
        for line in lines:
            line.socket.close()
    return [line.result for line in lines]


class _Exchange:
    """All lines at once: which are to be read, and which are silent until when."""

    def __init__(self, lines: Sequence[_Line]) -> None:
        self._lines = lines
        self._open = len(lines)
        self._selector = selectors.DefaultSelector()
        self._silent: list[tuple[float, int, _Line]] = []
        self._numbers = itertools.count()  # lines that wake at one moment do so in order

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._selector.close()

    def to_the_end(self) -> None:
        for line in self._lines:
            self._selector.register(line.socket, selectors.EVENT_READ, line)
            self._after(line, line.go_on())
        heard_at = time.monotonic()
        while self._open:
            now = time.monotonic()
            while self._silent and self._silent[0][0] <= now:
                *_, line = heapq.heappop(self._silent)
                self._after(line, line.go_on())
            if not self._open:
                return
            events = self._selector.select(self._next_s(now))
            if events or self._silent:
                heard_at = time.monotonic()
            elif time.monotonic() - heard_at > _SILENCE_MAX_S:
                raise LoadError(f"no answer for {_SILENCE_MAX_S} s")
            for key, _ in events:
                self._after(key.data, key.data.read())

    def _next_s(self, now: float) -> float:
        return max(0.0, self._silent[0][0] - now) if self._silent else _SILENCE_MAX_S

    def _after(self, line: _Line, pause: Pause | None) -> None:
        if line.is_over:
            self._selector.unregister(line.socket)
            self._open -= 1
        elif pause is not None:
            due = time.monotonic() + pause.seconds
            heapq.heappush(self._silent, (due, next(self._numbers), line))
