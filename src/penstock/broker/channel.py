"""One client's connection without I/O: bytes and responses go in, requests to start and bytes to send come out.

`KafkaChannel` cuts requests out of what was received, decides which may start, keeps the responses in the order of the
requests, and says whether more may be read. It knows no transport, no clock and no handler: `broker.connection` moves
the bytes, runs the handlers and passes in the time.

- Requests start one after the other. One whose reply blocks the next (`apis.reply`) holds it back until it is answered.
  Behind a request that is held back, no more than one read is taken from the socket, so that TCP slows the client down.
- Of what one read brought, a few requests start at once (`REQUESTS_PER_TURN_MAX`, `TURN_MS_MAX`). The channel then
  yields until it is its turn among all connections that have as many, so that no client waits for all that another
  one has sent. Large requests are read a part at a time (`READ_BYTES_PER_TURN_MAX`).
- Memory is counted in `broker.request_memory`, which bounds it for all connections together. A request that arrives in
  several pieces gets all of its memory before it is read on.
"""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from penstock.base.buffers import Buffer
from penstock.broker.channel_interface import ChannelLimits
from penstock.broker.channel_states import TRANSITIONS, ChannelEvent, ChannelState
from penstock.broker.request import Request
from penstock.broker.request_memory import RequestMemory
from penstock.wire.framing import LENGTH, NO_BYTES, PartialFrame, check_size
from penstock.wire.headers import JOIN_SIZE_MAX, frame_response

if TYPE_CHECKING:
    from penstock.apis import ApiTable

# The budget of one turn: a number of requests, or a time.
REQUESTS_PER_TURN_MAX: Final = 64
TURN_MS_MAX: Final = 0.3
# How much of a large request is read in one turn: a busy machine takes up to 3 ms to map a megabyte.
READ_BYTES_PER_TURN_MAX: Final = 128 << 10

_READY: Final = ChannelState.READY
_YIELDED: Final = ChannelState.YIELDED
_CLOSED: Final = ChannelState.CLOSED


class KafkaChannel:
    """The requests and responses of one connection. After a PeerError, or `close`, it yields no requests or bytes."""

    __slots__ = (
        "_all_memory",
        "_allocate",
        "_announced",
        "_apis",
        "_filled_bytes",
        "_found_versions",
        "_held",
        "_held_was_granted",
        "_in_flight",
        "_in_flight_max",
        "_is_filling",
        "_kept_bytes",
        "_position",
        "_release",
        "_size_max",
        "_started_in_turn",
        "_turn_ends_at",
        "_unread",
        "awaits_reading_turn",
        "is_congested",
        "memory",
        "outgoing_bytes",
        "outgoing_chunks",
        "partial",
        "state",
    )

    def __init__(
        self,
        limits: ChannelLimits,
        memory: RequestMemory,
        apis: "ApiTable",
        *,
        allocate: Callable[[int], bytearray | memoryview] = bytearray,
    ) -> None:
        self.state = _READY
        self.is_congested = False  # the client does not read its responses: no request starts
        self.awaits_reading_turn = False  # the turn's budget for reading a large request is used up
        # Received bytes.
        self._all_memory = memory
        self.memory = memory.join(_sleep)
        self._size_max = min(limits.request_bytes_max, memory.size_max or limits.request_bytes_max)
        self._allocate = allocate
        self._unread: memoryview = NO_BYTES  # what was received and not cut out yet begins at the position
        self._position = 0
        self._announced = (
            0  # size of a request whose length has arrived, while it has no memory of its own; else 0
        )
        self.partial: PartialFrame | None = None  # the request that is being received, with its own memory
        self._is_filling = False  # that memory was asked for (and is not counted as kept)
        self._filled_bytes = 0  # of large requests, in this turn
        self._held: Buffer | None = None  # a whole request that may not start yet
        self._held_was_granted = False  # its memory was asked for
        self._kept_bytes = 0  # what is here beyond what was asked for, as far as `memory` knows
        # Requests in flight, and responses.
        self._apis = apis
        self._found_versions = apis.by_key_and_version
        self._in_flight_max = limits.in_flight_max
        self._in_flight: deque[Request] = deque()  # in order: those not answered, and those behind them
        self._release: Callable[[], None] | None = None  # completes the response of a long poll
        self._started_in_turn = 0
        self._turn_ends_at = 0.0
        self.outgoing_chunks: list[
            Buffer
        ] = []  # responses to send now, in order; the connection takes them out
        self.outgoing_bytes = 0

    # Bytes in.

    @property
    def room(self) -> memoryview | None:
        """Where the rest of a large request is to be written; None where bytes are to be `received`."""
        partial = self.partial
        if partial is None or partial.room is None:
            return None
        return partial.room[:READ_BYTES_PER_TURN_MAX]

    def received(self, data: bytes) -> None:
        """Requests will be views of `data` where possible: it must not change afterwards."""
        if self.partial is not None and self.partial.room is not None:
            data = self.partial.put(data)
        if self._position < len(self._unread):
            data = bytes(self._unread[self._position :]) + data
        self._unread = memoryview(data)
        self._position = self._announced = 0

    def filled(self, count: int) -> None:
        """Note that `count` bytes were written to `room`."""
        assert self.partial is not None
        self.partial.filled(count)
        if self._is_filling:
            self.memory.arrived += count
        self._filled_bytes += count
        if self._filled_bytes >= READ_BYTES_PER_TURN_MAX:
            self._filled_bytes = 0
            self.awaits_reading_turn = True

    # Requests out.

    def next_request(self, now: float) -> Request | None:
        """The next request to start; None if no whole one has arrived, or if it has to wait.

        Raises PeerError for what is no request: the connection has to be closed.
        """
        state = self.state
        if state is _YIELDED or self.awaits_reading_turn or state is _CLOSED:
            return None
        frame = self._held
        if frame is None:
            if self.partial is None:
                unread, start = self._unread, self._position + 4
                if start > len(unread):
                    if start > 4:
                        self._copy_rest()
                    return None
                size: int = LENGTH.unpack_from(unread, start - 4)[0]
                end = start + size
                if not start <= end <= len(unread) or size > self._size_max:
                    check_size(size, self._size_max)
                    self._announced = size
                    return None
                frame = unread[start:end]
                if end == len(unread):
                    self._unread, self._position = NO_BYTES, 0
                else:
                    self._position = end
            elif not self._take_partial():
                return None
            else:
                frame = self._held
                assert frame is not None
        if self._release is not None:
            self._release_reply()
        if (
            state is not _READY
            or self.is_congested
            or len(self._in_flight) >= self._in_flight_max
            or (self._started_in_turn and self._is_turn_over(now))
        ):
            self._held = frame
            return None
        request = Request(frame, now)
        key_and_version = request.api_key, request.api_version
        request.served = self._found_versions.get(key_and_version) or self._apis.find(*key_and_version)
        if self._held is not None:
            request.was_granted = self._held_was_granted
            self._held, self._held_was_granted, self.memory.holds_back = None, False, False
        self._started_in_turn += 1
        return request

    def _copy_rest(self) -> None:
        """Keep the few bytes of a length without all that was received with them."""
        self._unread, self._position = memoryview(bytes(self._unread[self._position :])), 0

    def _take_partial(self) -> bool:
        """Hold the request that was received in pieces, if it is whole."""
        partial = self.partial
        assert partial is not None
        if partial.room is not None:
            return False
        self._held, self._held_was_granted, self.partial = partial.whole, self._is_filling, None
        if self._is_filling:
            self._is_filling = False
            self.memory.arriving = 0
        return True

    def _release_reply(self) -> None:
        release, self._release = self._release, None
        assert release is not None
        release()

    def _is_turn_over(self, now: float) -> bool:
        """Whether other connections go first, now that a request of this turn was served."""
        if not self._turn_ends_at:
            self._turn_ends_at = now + TURN_MS_MAX / 1000
        if self._started_in_turn < REQUESTS_PER_TURN_MAX and now < self._turn_ends_at:
            return False
        self._change(ChannelEvent.BUDGET_USED_UP)
        return True

    # Responses in, bytes out.

    def block(self, request: Request) -> None:
        """Start no request before this one is answered, or `unblock` is called."""
        request.blocks_next = True
        self._change(ChannelEvent.BLOCKING_REQUEST_STARTED)

    def unblock(self, request: Request) -> None:
        """The next request may start."""
        if request.blocks_next:
            request.blocks_next = False
            self._change(ChannelEvent.BLOCKING_REQUEST_ENDED)

    def keep(self, request: Request) -> None:
        """Count the memory of a request that is not answered at once, until `discard` or `respond`."""
        if not request.is_kept:
            request.is_kept = True
            if not request.was_granted:
                self.memory.keep(len(request.frame))

    def defer(self, request: Request, *, only_waits: bool, release: Callable[[], None] | None) -> None:
        """The response comes later; it has its place in the order. The next request calls `release`."""
        self.keep(request)
        request.only_waits = only_waits
        request.has_place = True
        self._in_flight.append(request)
        if release is not None:
            self._release = release

    def respond(self, request: Request, response: Any) -> None:
        """A request is answered, with nothing to send if `response` is None. Earlier requests' responses go first."""
        chunks: list[Buffer] | None = None
        if response is not None:
            served = request.served
            chunks = served.write(response)
            size = len(chunks[0])
            if len(chunks) == 1 and size <= JOIN_SIZE_MAX:
                header = served.response_header
                chunks[0] = header.pack(size + header.size - 4, request.correlation_id) + chunks[0]
            else:
                chunks = frame_response(
                    api_key=request.api_key,
                    api_version=served.version,
                    correlation_id=request.correlation_id,
                    chunks=chunks,
                )
        if request.is_kept or request.was_granted:
            self.discard(request)
        if self._in_flight:
            self._send_in_order(request, chunks)
        elif chunks is not None:
            self.outgoing_chunks += chunks
            self.outgoing_bytes += len(chunks[0]) if len(chunks) == 1 else sum(map(len, chunks))

    def _send_in_order(self, request: Request, chunks: list[Buffer] | None) -> None:
        in_flight = self._in_flight
        if not request.has_place:
            in_flight.append(request)
        request.chunks, request.is_answered = chunks, True
        while in_flight and in_flight[0].is_answered:
            chunks = in_flight.popleft().chunks
            if chunks is not None:
                self.outgoing_chunks += chunks
                self.outgoing_bytes += sum(map(len, chunks))

    def discard(self, request: Request) -> None:
        """Give back a request's memory: it is answered, or never will be. What is left of it are its records."""
        if request.was_granted:
            request.was_granted = False
            self.memory.give_back(len(request.frame))
        elif request.is_kept:
            self.memory.keep(-len(request.frame))
        request.is_kept = False
        self.unblock(request)

    # Whether to read on.

    @property
    def is_full(self) -> bool:
        """Whether no request may start, however many arrive."""
        # The next request has to be read to release a response that waits for it.
        return (
            self.is_congested
            or (len(self._in_flight) >= self._in_flight_max and self._release is None)
            or self.state is ChannelState.DRAINING
            or self.state is _CLOSED
        )

    def may_read(self) -> bool:
        """End a turn: whether more may be received. If memory is missing, `memory.wake` is called when it is there.

        Behind a request that waits, one more read is allowed: else a client that disconnects would not be noticed.
        """
        progressed = self._started_in_turn > 0
        self._started_in_turn, self._turn_ends_at = 0, 0.0
        if (
            self.state is _READY
            and self._held is None
            and not self._unread
            and self.partial is None
            and not self._kept_bytes
            and not self.is_congested
            and not self._all_memory.is_tight
            and len(self._in_flight) < self._in_flight_max
        ):
            return True
        if self._held is not None:
            self.memory.holds_back = self._client_holds_back()
            if progressed:
                self.memory.seen_s = None
        self._count_kept()
        return not (
            self.state is _YIELDED
            or self.awaits_reading_turn
            or self._held is not None
            or self.is_full
            or not self._has_memory_to_read()
        )

    def _client_holds_back(self) -> bool:
        """Whether the held request waits for a reason that is the client's: it reads no responses, or polls."""
        return self.is_congested or (
            self.state is ChannelState.BLOCKED and any(request.only_waits for request in self._in_flight)
        )

    def _count_kept(self) -> None:
        """Tell `memory` how much is kept."""
        kept = len(self._unread) - self._position
        if self.partial is not None and not self._is_filling:
            kept += self.partial.size
        if self._held is not None and not self._held_was_granted:
            kept += len(self._held)
        if kept != self._kept_bytes:
            change, self._kept_bytes = kept - self._kept_bytes, kept
            self.memory.keep(change)

    def _has_memory_to_read(self) -> bool:
        memory, size = self.memory, self._announced
        if memory.asked:
            return False
        if not size:
            return (
                not self._all_memory.is_tight
                or self.room is not None
                or memory.may_be_read
                or memory.ask_to_read()
            )
        missing = size - (len(self._unread) - self._position)
        if memory.keep_own(missing):
            self._kept_bytes += missing
            self._begin_partial()
            return True
        if memory.ask(size):
            self._begin_to_fill()
            return True
        return False

    def _begin_partial(self) -> PartialFrame:
        head = self._unread[self._position + LENGTH.size :]
        partial = self.partial = PartialFrame(self._announced, head, allocate=self._allocate)
        self._unread, self._position, self._announced = NO_BYTES, 0, 0
        return partial

    def _begin_to_fill(self) -> None:
        partial = self._begin_partial()
        self._is_filling = True
        self.memory.arrived = self.memory.arriving - partial.missing_bytes
        self._count_kept()

    def got_memory(self) -> None:
        """After `memory.wake`: receive the rest of the request that waited for memory."""
        if self.memory.arriving and not self._is_filling:
            if self._announced == self.memory.arriving:
                self._begin_to_fill()
            else:  # the rest has arrived meanwhile
                self.memory.give_up()

    # Turns and endings.

    def _change(self, event: ChannelEvent) -> None:
        self.state = TRANSITIONS[self.state][event]

    def turn_came(self) -> None:
        """Requests may start again after `YIELDED`."""
        self._change(ChannelEvent.TURN_CAME)

    def reading_turn_came(self) -> None:
        """More of a large request may be read."""
        self.awaits_reading_turn = False

    @property
    def has_unfinished_request(self) -> bool:
        """Whether a part of a request has arrived."""
        return self.partial is not None or self._position < len(self._unread)

    @property
    def is_idle(self) -> bool:
        """Whether no request is in flight or waits to start."""
        return not self._in_flight and self._held is None and self.state is not ChannelState.BLOCKED

    @property
    def owes_responses(self) -> bool:
        """Whether responses of started requests are missing."""
        return bool(self._in_flight)

    def drain(self) -> None:
        """Start no further request. Those that were received and not started are dropped."""
        self._change(ChannelEvent.DRAIN)
        self._drop_received()

    def close(self) -> None:
        """Receive and send nothing more. Requests in flight keep their memory until they are discarded."""
        self._change(ChannelEvent.CLOSE)
        self._drop_received()

    def _drop_received(self) -> None:
        if self._held is not None and self._held_was_granted:
            self.memory.give_back(len(self._held))
        self._held, self._held_was_granted, self._is_filling = None, False, False
        self._unread, self._position, self._announced = NO_BYTES, 0, 0
        self.partial = None
        self.memory.give_up()
        self.memory.keep(-self._kept_bytes)
        self._kept_bytes = 0

    @property
    def progress(self) -> str:
        """How much of its request has arrived, or what its requests wait for, for the log."""
        memory = self.memory
        if memory.arriving:
            return f"{memory.arrived} of {memory.arriving} bytes of a request have arrived"
        held_back = self._kept_bytes + memory.granted
        return (
            f"{held_back} bytes of requests wait behind a long poll, or for the client to read its responses"
        )


def _sleep() -> None:
    """The `memory.wake` before the connection sets it: no memory is requested before that."""
