"""One request in flight: what its header says, where its body is, and its place in the order of responses."""

from struct import Struct
from struct import error as StructError
from typing import TYPE_CHECKING, Final

from penstock.base.buffers import Buffer
from penstock.base.errors import PeerError
from penstock.schema.primitives import skip_tags
from penstock.wire.headers import FLEXIBLE_SINCE, NEVER_FLEXIBLE, TAGS_MAX, is_known

if TYPE_CHECKING:
    from penstock.apis import ServedVersion

_HEADER: Final = Struct(">hhih")  # API key, version, correlation id, length of the client id
_HEADER_START: Final = Struct(">hhi")


class Request:
    """A request that was received whole. PeerError if its header cannot be read.

    If the protocol does not have its API or version, only the first eight bytes have a known format: the rest of the
    header is left out if it cannot be read, so that the request can still be answered.
    """

    __slots__ = (
        "api_key",
        "api_version",
        "blocks_next",
        "body_position",
        "chunks",
        "client_id",
        "correlation_id",
        "frame",
        "has_place",
        "is_answered",
        "is_kept",
        "only_waits",
        "served",
        "started_at",
        "was_granted",
    )

    def __init__(self, frame: Buffer, started_at: float) -> None:
        self.frame = frame
        self.started_at = started_at
        self.was_granted = False  # its memory was asked for, and is to be given back
        self.is_kept = False  # its memory is counted until it is answered
        self.has_place = False  # in the order of responses
        self.is_answered = False
        self.served: ServedVersion  # what handles it; the channel finds it
        self.blocks_next = False  # no request starts before it is answered
        self.only_waits = False  # a long poll: the client's next request completes it
        self.chunks: list[Buffer] | None = None  # its response's frame, while an earlier one is awaited
        self.client_id: str | None = None
        try:
            self.api_key, self.api_version, self.correlation_id, size = _HEADER.unpack_from(frame, 0)
            position = 10
            if size >= 0:
                position += size
                if position > len(frame):
                    raise PeerError(f"a client id of {size} bytes in a frame of {len(frame)}")
                self.client_id = str(frame[10:position], "utf-8")
            elif size != -1:
                raise PeerError(f"a client id of {size} bytes")
            if self.api_version >= FLEXIBLE_SINCE.get(self.api_key, NEVER_FLEXIBLE):
                if frame[position]:
                    position, _ = skip_tags(frame, position, len(frame), TAGS_MAX)
                else:
                    position += 1
            self.body_position = position
        except (PeerError, StructError, IndexError, UnicodeDecodeError) as error:
            self._read_unknown_header(error)

    def _read_unknown_header(self, problem: Exception) -> None:
        frame = self.frame
        if len(frame) >= _HEADER_START.size:
            self.api_key, self.api_version, self.correlation_id = _HEADER_START.unpack_from(frame, 0)
            if not is_known(self.api_key, self.api_version):
                self.client_id, self.body_position = None, len(frame)
                return
        raise PeerError(f"the request's header is broken: {problem}") from None
