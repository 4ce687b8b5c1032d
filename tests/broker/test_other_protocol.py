"""A connection serves a protocol that is not Kafka's: requests are lines of text, and so are the responses."""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from penstock.apis.context import Call
from penstock.apis.reply import Reply
from penstock.base.buffers import Buffer
from penstock.base.errors import PeerError
from penstock.broker.channel_interface import Channel, ChannelLimits
from penstock.broker.channel_states import TRANSITIONS, ChannelEvent, ChannelState
from penstock.broker.connection import ServerConnection
from penstock.broker.request_memory import RequestMemory
from tests.broker.controlled import ControlledBroker
from tests.broker.test_time_sliced_queue import Wire

LIMITS = ChannelLimits(request_bytes_max=1000, in_flight_max=1, unsent_bytes_max=1000, elements_max=1)


class Lines:
    """All lines: `topics` is answered with the number of topics, `later` by a task, all else with itself."""

    low_priority = False
    cancel_on_disconnect = True

    def __init__(self) -> None:
        self.observed: list[float] = []
        self.observe_seconds = self.observed.append

    def read(self, frame: Buffer, position: int, _elements_max: int) -> str:
        return str(frame[position:], "ascii")

    def handle(self, call: Call, line: str) -> Any:
        if line == "topics":
            return str(len(list(call.services.cluster.image.topics())))
        return Reply(_later()) if line == "later" else line

    def unreadable(self, error: Exception) -> PeerError:
        return PeerError(f"a line is not text: {error}")


async def _later() -> str:
    return "now"


class LineRequest:
    """One line."""

    def __init__(self, frame: Buffer, served: Lines, started_at: float) -> None:
        self.frame, self.served, self.started_at = frame, served, started_at
        self.body_position = self.api_version = 0
        self.client_id: str | None = None
        self.blocks_next = False


class LineChannel:
    """Cuts lines, and starts one after the other."""

    partial = room = None  # no line is so large that it is received in place
    awaits_reading_turn = is_full = False
    progress = "lines arrive whole"

    def __init__(self, kind: Lines) -> None:
        self.kind = kind
        self.state = ChannelState.READY
        self.memory = RequestMemory(-1).join(lambda: None)
        self.is_congested = False
        self.outgoing_chunks: list[Buffer] = []
        self.outgoing_bytes = 0
        self._lines: deque[bytes] = deque()
        self._rest = b""
        self.owes_responses = False

    def received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._lines += lines

    def filled(self, count: int) -> None:
        raise AssertionError("there is no room to fill")

    def reading_turn_came(self) -> None: ...
    def turn_came(self) -> None: ...
    def got_memory(self) -> None: ...
    def keep(self, request: LineRequest) -> None: ...

    def next_request(self, now: float) -> LineRequest | None:
        if self.state is not ChannelState.READY or not self._lines:
            return None
        return LineRequest(self._lines.popleft(), self.kind, now)

    def block(self, request: LineRequest) -> None:
        request.blocks_next = True
        self.state = TRANSITIONS[self.state][ChannelEvent.BLOCKING_REQUEST_STARTED]

    def unblock(self, request: LineRequest) -> None:
        if request.blocks_next:
            request.blocks_next = False
            self.state = TRANSITIONS[self.state][ChannelEvent.BLOCKING_REQUEST_ENDED]

    def defer(self, request: LineRequest, *, only_waits: bool, release: Callable[[], None] | None) -> None:
        self.owes_responses = True

    def respond(self, request: LineRequest, response: str) -> None:
        self.discard(request)
        self.outgoing_chunks.append(response.encode() + b"\n")
        self.outgoing_bytes += len(response) + 1

    def discard(self, request: LineRequest) -> None:
        self.owes_responses = False
        self.unblock(request)

    def may_read(self) -> bool:
        return not self._lines

    @property
    def has_unfinished_request(self) -> bool:
        return bool(self._rest)

    @property
    def is_idle(self) -> bool:
        return self.state is ChannelState.READY and not self._lines

    def drain(self) -> None:
        self.state = TRANSITIONS[self.state][ChannelEvent.DRAIN]
        self._lines.clear()

    def close(self) -> None:
        self.state = TRANSITIONS[self.state][ChannelEvent.CLOSE]
        self._lines.clear()


@pytest.fixture
def broker() -> Iterator[ControlledBroker]:
    with ControlledBroker() as broker:
        yield broker


def connect(broker: ControlledBroker, kind: Lines) -> Wire:
    connections = broker.broker._connections
    assert connections is not None
    channel: Channel = LineChannel(kind)
    services, shared = broker.broker.services, connections._shared
    return Wire(ServerConnection(channel, services, shared, connections, listener="LINES", limits=LIMITS))


def test_lines_are_answered_in_order_wherever_they_are_cut(broker: ControlledBroker) -> None:
    kind = Lines()

    async def story() -> None:
        wire = connect(broker, kind)
        wire.connection.data_received(b"one\ntop")
        wire.connection.data_received(b"ics\nlater\nlast\n")
        assert wire.sent == b"one\n0\n", "the last line waits for the one before"
        await wire.connection.drain()
        assert wire.sent == b"one\n0\nnow\n", "a line that was not started is dropped"

    broker.run(story)
    assert len(kind.observed) == 3


def test_what_a_handler_awaits_is_sent_before_what_follows(broker: ControlledBroker) -> None:
    async def story() -> bytes:
        wire = connect(broker, Lines())
        wire.connection.data_received(b"later\nlast\n")
        while not wire.sent.endswith(b"last\n"):
            await broker.broker.services.node.world.loop.sleep(0)
        wire.abort()
        return bytes(wire.sent)

    assert broker.run(story) == b"now\nlast\n"


def test_bytes_that_are_no_text_close_the_connection(
    broker: ControlledBroker, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> ChannelState:
        wire = connect(broker, Lines())
        wire.connection.data_received(b"\xff\n")
        return wire.connection.channel.state

    assert broker.run(story) is ChannelState.CLOSED
    assert "a line is not text" in caplog.text
