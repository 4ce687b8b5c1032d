"""One connection's requests and responses as bytes in and bytes out, without I/O.

A broker answers the requests of a connection in order, so requests in flight are a queue, and a response with another
correlation id than the oldest request's is a protocol error of the broker.
"""

from collections import deque
from struct import Struct
from typing import NamedTuple

from penstock.base.buffers import Buffer
from penstock.base.errors import ErrorCode, PeerError
from penstock.schema.codec import decode, encode
from penstock.schema.words import Message
from penstock.wire.framing import FrameReader
from penstock.wire.headers import RequestHeader, frame_request, read_response_header
from penstock.wire.messages.api_versions import ApiVersionsResponse

_CORRELATION_ID_MAX = 2**31 - 1
_ERROR_CODE = Struct(">h")


class _Pending(NamedTuple):
    correlation_id: int
    version: int
    response: type[Message]


class Conversation:
    """The requests in flight of one connection; encodes requests and decodes responses."""

    def __init__(self, *, client_id: str | None, response_bytes_max: int) -> None:
        self._client_id = client_id
        self._reader = FrameReader(response_bytes_max)
        self._pending: deque[_Pending] = deque()
        self._next_id = 0

    @property
    def pending_count(self) -> int:
        return len(self._pending)

    def ask(self, request: Message, version: int, response: type[Message]) -> list[Buffer]:
        """The bytes of a request that will be answered. ValueError if the version cannot carry it."""
        chunks = encode(request, version)
        correlation_id = self._take_id()
        self._pending.append(_Pending(correlation_id, version, response))
        return self._frame(request, version, correlation_id, chunks)

    def tell(self, request: Message, version: int) -> list[Buffer]:
        """The bytes of a request without a response: Produce with acks=0."""
        return self._frame(request, version, self._take_id(), encode(request, version))

    @property
    def room(self) -> memoryview | None:
        """A buffer for the next received bytes, if they are the rest of a large response; else use `feed`."""
        return self._reader.room

    def feed(self, data: bytes) -> list[Message]:
        """The responses that `data` completes, in the order of their requests; PeerError if they cannot be decoded."""
        return [self._read(frame) for frame in self._reader.put(data)]

    def filled(self, count: int) -> list[Message]:
        """The same, for bytes that were written to `room`."""
        return [self._read(frame) for frame in self._reader.filled(count)]

    def _read(self, frame: Buffer) -> Message:
        if not self._pending:
            raise PeerError("the broker sent a response without a request")
        pending = self._pending.popleft()
        correlation_id, position = read_response_header(pending.response.API_KEY, pending.version, frame)
        if correlation_id != pending.correlation_id:
            raise PeerError(f"answer {correlation_id} came where {pending.correlation_id} was due")
        version = pending.version
        if pending.response is ApiVersionsResponse and _is_refused_version(frame, position):
            version = 0  # a broker that does not know our version answers in the oldest one
        return decode(pending.response, version, frame, position)

    def _take_id(self) -> int:
        correlation_id = self._next_id
        self._next_id = 0 if correlation_id == _CORRELATION_ID_MAX else correlation_id + 1
        return correlation_id

    def _frame(
        self, request: Message, version: int, correlation_id: int, chunks: list[Buffer]
    ) -> list[Buffer]:
        return frame_request(RequestHeader(request.API_KEY, version, correlation_id, self._client_id), chunks)


def _is_refused_version(frame: Buffer, position: int) -> bool:
    if len(frame) < position + _ERROR_CODE.size:
        return False
    (code,) = _ERROR_CODE.unpack_from(frame, position)
    return bool(code == ErrorCode.UNSUPPORTED_VERSION)
