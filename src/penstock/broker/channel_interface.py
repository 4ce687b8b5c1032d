"""What a connection asks of a channel of any protocol: bytes go in, requests to start and bytes to send come out.

`broker.connection` drives any `Channel`: it moves bytes, calls handlers and keeps the turns among connections. A
channel cuts its protocol's requests out of the bytes, decides which may start, and frames the responses. It does no
I/O. `broker.channel` is Kafka's; a gateway for another protocol brings its own.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from penstock.apis.context import Call
from penstock.base.buffers import Buffer
from penstock.base.errors import PeerError
from penstock.broker.channel_states import ChannelState
from penstock.broker.request_memory import Holder

# Responses are gathered up to this size, so that the small ones of one turn are sent in one write.
GATHERED_BYTES_MAX: Final = 1 << 16


class ChannelLimits(NamedTuple):
    """What one connection may have."""

    request_bytes_max: int
    in_flight_max: int  # requests that were started and are not answered
    unsent_bytes_max: int  # response bytes that the client has not read
    elements_max: int  # array elements of one request


class RequestKind(Protocol):
    """What all requests of one kind share: how they are read, and what serves them."""

    @property
    def read(self) -> Callable[[Buffer, int, int], Any]:
        """Decodes a frame, from a position on, with a limit of elements. It may raise `schema.codec.UNREADABLE`."""
        ...

    @property
    def handle(self) -> Callable[[Call, Any], Any]:
        """Returns the response, None where nothing is sent, or a `Reply` (`apis.reply`)."""
        ...

    @property
    def low_priority(self) -> bool:
        """No records wait for these requests: they share a few milliseconds of each iteration of the event loop."""
        ...

    @property
    def cancel_on_disconnect(self) -> bool:
        """Their coroutines only wait, and are cancelled when the client disconnects."""
        ...

    @property
    def observe_seconds(self) -> Callable[[float], None]:
        """Takes the time from a request's start to its response."""
        ...

    def unreadable(self, error: Exception) -> PeerError:
        """What to raise if `read` failed."""
        ...


class StartedRequest(Protocol):
    """A request that may start."""

    frame: Buffer
    body_position: int
    client_id: str | None
    api_version: int
    started_at: float
    blocks_next: bool

    @property
    def served(self) -> RequestKind: ...


# A request that `next_request` of the same channel has returned.
OwnRequest: TypeAlias = Any


class Channel(Protocol):
    """The requests and responses of one connection. After a PeerError, or `close`, nothing comes out of it."""

    state: ChannelState
    memory: Holder  # of the requests; the connection sets its `wake`, and then calls `got_memory`
    is_congested: bool  # set by the connection: the client does not read its responses, so no request starts

    # Bytes in. A part of a large request is written to `room` by the event loop, and `filled`; all else is `received`.

    def received(self, data: bytes) -> None: ...

    @property
    def partial(self) -> object | None:
        """A request whose rest may go to `room`; None if there is surely none."""
        ...

    @property
    def room(self) -> memoryview | None: ...

    def filled(self, count: int) -> None: ...

    @property
    def awaits_reading_turn(self) -> bool:
        """`filled` has used up this turn's budget; `reading_turn_came` ends that."""
        ...

    def reading_turn_came(self) -> None: ...

    # Requests out.

    def next_request(self, now: float) -> StartedRequest | None:
        """The next request to start, if one may. In state YIELDED none does before `turn_came`."""
        ...

    def turn_came(self) -> None: ...

    # Responses in, bytes out.

    def block(self, request: OwnRequest) -> None:
        """No request starts before this one is answered, or let through by `unblock`."""
        ...

    def unblock(self, request: OwnRequest) -> None: ...

    def keep(self, request: OwnRequest) -> None:
        """Count the request's memory until `respond` or `discard`."""
        ...

    def defer(self, request: OwnRequest, *, only_waits: bool, release: Callable[[], None] | None) -> None:
        """The response comes later; it has its place in the order. The next request calls `release`."""
        ...

    def respond(self, request: OwnRequest, response: Any) -> None: ...

    def discard(self, request: OwnRequest) -> None:
        """The request will not be answered."""
        ...

    outgoing_chunks: list[Buffer]  # to send now, in order; the connection takes them out
    outgoing_bytes: int

    # Whether to read on.

    def may_read(self) -> bool:
        """End a turn: whether more may be received. If memory is missing, `memory.wake` is called when it is there."""
        ...

    def got_memory(self) -> None: ...

    @property
    def is_full(self) -> bool:
        """Whether no request may start, however many arrive."""
        ...

    @property
    def has_unfinished_request(self) -> bool:
        """Whether a part of a request has arrived."""
        ...

    @property
    def progress(self) -> str:
        """How far a request has arrived that has memory and does not come to its end."""
        ...

    # Endings.

    @property
    def is_idle(self) -> bool:
        """Whether no request is in flight or waits to start."""
        ...

    @property
    def owes_responses(self) -> bool: ...

    def drain(self) -> None:
        """Start no further request. Those that were received and not started are dropped."""
        ...

    def close(self) -> None:
        """Receive and send nothing more."""
        ...
