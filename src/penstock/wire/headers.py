"""The bytes before a body: the frame's length, request headers v1 and v2, response headers v0 and v1.

A flexible version of an API has the newer header, which ends with tagged fields. The protocol defines none so far:
they are skipped when read and written as none. One exception: the response to ApiVersions always has the old
header, because the client does not know yet which versions the broker has. A broker reads request headers in
`broker.request`.
"""

from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple

from penstock.base.buffers import Buffer
from penstock.base.errors import PeerError
from penstock.schema.primitives import skip_tags
from penstock.wire.apis import APIS
from penstock.wire.private import PRIVATE_APIS

_API_VERSIONS: Final = 18
NEVER_FLEXIBLE: Final = 32768
FLEXIBLE_SINCE: Final[dict[int, int]] = {
    key: NEVER_FLEXIBLE if api.flexible_since is None else api.flexible_since
    for key, api in {**APIS, **PRIVATE_APIS}.items()
}

_FRAMED_REQUEST: Final = Struct(">ihhih")
_RESPONSE: Final = Struct(">i")
_FRAMED_RESPONSE: Final = Struct(">ii")
_FRAMED_FLEXIBLE_RESPONSE: Final = Struct(">iix")

TAGS_MAX: Final = 100

# Below this, one buffer and one copy are cheaper than one more buffer for the transport to handle.
JOIN_SIZE_MAX: Final = 16384


class RequestHeader(NamedTuple):
    """API key, API version, correlation id and client id of a request."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def is_known(api_key: int, api_version: int) -> bool:
    """Whether the protocol has this version of this API, served or not."""
    api = APIS.get(api_key)
    return api is not None and api.versions is not None and api.versions[0] <= api_version <= api.versions[1]


def frame_request(header: RequestHeader, chunks: list[Buffer]) -> list[Buffer]:
    """A whole frame: the length, the header, the body's chunks."""
    name = b"" if header.client_id is None else header.client_id.encode()
    tags = b"\0" if header.api_version >= FLEXIBLE_SINCE.get(header.api_key, NEVER_FLEXIBLE) else b""
    start = _FRAMED_REQUEST.pack(
        10 + len(name) + len(tags) + sum(map(len, chunks)),
        header.api_key,
        header.api_version,
        header.correlation_id,
        -1 if header.client_id is None else len(name),
    )
    return _joined(start + name + tags, chunks)


def response_header(api_key: int, api_version: int) -> Struct:
    """The struct that packs a frame's length and the response header, from a length and a correlation id."""
    is_flexible = api_version >= FLEXIBLE_SINCE.get(api_key, NEVER_FLEXIBLE) and api_key != _API_VERSIONS
    return _FRAMED_FLEXIBLE_RESPONSE if is_flexible else _FRAMED_RESPONSE


def frame_response(
    *, api_key: int, api_version: int, correlation_id: int, chunks: list[Buffer]
) -> list[Buffer]:
    """A whole frame: the length, the header, the body's chunks."""
    header = response_header(api_key, api_version)
    return _joined(header.pack(sum(map(len, chunks)) + header.size - 4, correlation_id), chunks)


def read_response_header(api_key: int, api_version: int, frame: Buffer) -> tuple[int, int]:
    """The correlation id, and the position of the body."""
    try:
        (correlation_id,) = _RESPONSE.unpack_from(frame, 0)
        if response_header(api_key, api_version) is _FRAMED_FLEXIBLE_RESPONSE:
            position, _ = skip_tags(frame, 4, len(frame), TAGS_MAX)
            return correlation_id, position
    except (StructError, IndexError):
        raise PeerError(f"a response of {len(frame)} bytes ends within its header") from None
    return correlation_id, 4


def _joined(start: bytes, chunks: list[Buffer]) -> list[Buffer]:
    if chunks and len(chunks[0]) <= JOIN_SIZE_MAX:
        return [start + chunks[0], *chunks[1:]]
    return [start, *chunks]
