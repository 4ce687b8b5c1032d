"""What stands before a body: request headers v1 and v2, response headers v0 and v1, and the frame's length.

A flexible version of an API has the newer header, which ends with tagged fields. Nobody has defined one yet:
they are skipped when read and written as none. One exception: the response to ApiVersions always has the old
header, because the client does not know yet which versions the broker has.
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
_NEVER: Final = 32768
_FLEXIBLE_SINCE: Final[dict[int, int]] = {
    key: _NEVER if api.flexible_since is None else api.flexible_since
    for key, api in {**APIS, **PRIVATE_APIS}.items()
}

_REQUEST: Final = Struct(">hhih")  # key, version, correlation id, length of the client id
_REQUEST_IDS: Final = Struct(">hhi")
_FRAMED_REQUEST: Final = Struct(">ihhih")
_RESPONSE: Final = Struct(">i")
_FRAMED_RESPONSE: Final = Struct(">ii")
_FRAMED_FLEXIBLE_RESPONSE: Final = Struct(">iix")

_TAGS_MAX: Final = 100

# Below this, one buffer and one copy are cheaper than one more buffer for the transport to handle.
_JOIN_SIZE_MAX: Final = 16384


class RequestHeader(NamedTuple):
    """Which API in which version, the number the answer has to carry, and who asks."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def is_known(api_key: int, api_version: int) -> bool:
    """Whether the protocol has this version of this API, served or not."""
    api = APIS.get(api_key)
    return api is not None and api.versions is not None and api.versions[0] <= api_version <= api.versions[1]


def read_request_header(frame: Buffer) -> tuple[RequestHeader, int]:
    """The header, and the position of the body.

    Of an API or a version that the protocol does not have, only the first eight bytes are certain: what
    cannot be read after them is left out, so that the caller can still answer.
    """
    try:
        api_key, api_version, correlation_id, size = _REQUEST.unpack_from(frame, 0)
        position = 10
        client_id = None
        if size >= 0:
            position += size
            if position > len(frame):
                raise PeerError(f"a client id of {size} bytes in a frame of {len(frame)}")
            client_id = str(frame[10:position], "utf-8")
        elif size != -1:
            raise PeerError(f"a client id of {size} bytes")
        if api_version >= _FLEXIBLE_SINCE.get(api_key, _NEVER):
            if frame[position]:
                position, _ = skip_tags(frame, position, len(frame), _TAGS_MAX)
            else:
                position += 1
    except (PeerError, StructError, IndexError, UnicodeDecodeError) as error:
        return _read_unknown_header(frame, error)
    return RequestHeader(api_key, api_version, correlation_id, client_id), position


def _read_unknown_header(frame: Buffer, problem: Exception) -> tuple[RequestHeader, int]:
    """What is certain about a header that cannot be read as a whole."""
    if len(frame) >= _REQUEST_IDS.size:
        api_key, api_version, correlation_id = _REQUEST_IDS.unpack_from(frame, 0)
        if not is_known(api_key, api_version):
            return RequestHeader(api_key, api_version, correlation_id, None), len(frame)
    raise PeerError(f"the request's header is broken: {problem}") from None


def frame_request(header: RequestHeader, chunks: list[Buffer]) -> list[Buffer]:
    """A whole frame: the length, the header, the body's chunks."""
    name = b"" if header.client_id is None else header.client_id.encode()
    tags = b"\0" if header.api_version >= _FLEXIBLE_SINCE.get(header.api_key, _NEVER) else b""
    start = _FRAMED_REQUEST.pack(
        10 + len(name) + len(tags) + sum(map(len, chunks)),
        header.api_key,
        header.api_version,
        header.correlation_id,
        -1 if header.client_id is None else len(name),
    )
    return _joined(start + name + tags, chunks)


def frame_response(
    *, api_key: int, api_version: int, correlation_id: int, chunks: list[Buffer]
) -> list[Buffer]:
    """A whole frame: the length, the header, the body's chunks."""
    size = sum(map(len, chunks))
    if _has_flexible_response(api_key, api_version):
        return _joined(_FRAMED_FLEXIBLE_RESPONSE.pack(size + 5, correlation_id), chunks)
    return _joined(_FRAMED_RESPONSE.pack(size + 4, correlation_id), chunks)


def read_response_header(api_key: int, api_version: int, frame: Buffer) -> tuple[int, int]:
    """The correlation id, and the position of the body."""
    try:
        (correlation_id,) = _RESPONSE.unpack_from(frame, 0)
        if _has_flexible_response(api_key, api_version):
            position, _ = skip_tags(frame, 4, len(frame), _TAGS_MAX)
            return correlation_id, position
    except (StructError, IndexError):
        raise PeerError(f"a response of {len(frame)} bytes ends within its header") from None
    return correlation_id, 4


def _has_flexible_response(api_key: int, api_version: int) -> bool:
    return api_version >= _FLEXIBLE_SINCE.get(api_key, _NEVER) and api_key != _API_VERSIONS


def _joined(start: bytes, chunks: list[Buffer]) -> list[Buffer]:
    if chunks and len(chunks[0]) <= _JOIN_SIZE_MAX:
        return [start + chunks[0], *chunks[1:]]
    return [start, *chunks]
