"""Cuts a stream of bytes into frames: a length of four bytes, then that many bytes.

Sans-I/O. `FrameReader` is a client's side: bytes go in as they arrive, whole frames come out. `PartialFrame` is one
frame of which only a part has arrived; the broker's side (`broker.channel`) uses it directly, since it decides when
a request gets its memory.
"""

from collections.abc import Callable
from struct import Struct
from typing import Final

from penstock.base.errors import PeerError

LENGTH: Final = Struct(">i")
NO_BYTES: Final = memoryview(b"")

# The memory of a frame: this much at first, then a multiple of what has arrived, up to the whole frame.
_ROOM_FIRST: Final = 4 << 10
_ROOM_GROWTH: Final = 16
_ROOM_BEFORE_ALL: Final = 1 << 20


class PartialFrame:
    """A frame of which a part has arrived; the rest is written to `room`, where it stays.

    Memory grows with what has arrived, not with what the peer announced: only when a megabyte has arrived is all of
    the frame allocated at once.
    """

    __slots__ = ("_allocate", "_arrived", "_memory", "room", "size")

    def __init__(
        self,
        size: int,
        head: memoryview,
        *,
        allocate: Callable[[int], bytearray | memoryview] = bytearray,
    ) -> None:
        self.size = size  # of the whole frame
        self._allocate = allocate
        self._arrived = len(head)
        first = min(_ROOM_BEFORE_ALL, max(_ROOM_FIRST, _ROOM_GROWTH * len(head)))
        self._memory: bytearray | memoryview = bytearray(min(size, max(first, len(head))))
        self._memory[: len(head)] = head
        self.room: memoryview | None = None  # where the next bytes belong; None when the frame is whole
        self._make_room()

    @property
    def missing_bytes(self) -> int:
        """How many bytes have not arrived."""
        return self.size - self._arrived

    @property
    def allocated_bytes(self) -> int:
        """How much memory the frame takes now."""
        return len(self._memory)

    @property
    def whole(self) -> memoryview:
        """All of the frame, once `room` is None."""
        assert self.room is None
        return memoryview(self._memory)

    def filled(self, count: int) -> None:
        """Note that `count` bytes were written to `room`."""
        self._arrived += count
        self._make_room()

    def put(self, data: bytes) -> bytes:
        """Add what belongs to the frame; return what is left of `data`."""
        position = 0
        while self.room is not None and position < len(data):
            count = min(len(self.room), len(data) - position)
            self.room[:count] = data[position : position + count]
            position += count
            self.filled(count)
        return data[position:]

    def _make_room(self) -> None:
        arrived, memory = self._arrived, self._memory
        if arrived == self.size:
            self.room = None
            return
        if arrived == len(memory):
            wanted = min(self.size, _ROOM_GROWTH * arrived)
            larger = bytearray(wanted) if wanted <= _ROOM_BEFORE_ALL else self._allocate(self.size)
            larger[:arrived] = memory
            memory = self._memory = larger
        self.room = memoryview(memory)[arrived:]


class FrameReader:
    """The frames of one direction of one connection. After a PeerError it must not be used again."""

    __slots__ = ("_allocate", "_partial", "_size_max", "_unread")

    def __init__(
        self, size_max: int, *, allocate: Callable[[int], bytearray | memoryview] = bytearray
    ) -> None:
        self._size_max = size_max
        self._allocate = allocate
        self._unread = b""  # less than a length
        self._partial: PartialFrame | None = None

    @property
    def room(self) -> memoryview | None:
        """Where the next bytes may be written instead of being put; None between frames."""
        return None if self._partial is None else self._partial.room

    @property
    def held_bytes(self) -> int:
        """The memory that the next frame takes so far."""
        return len(self._unread) if self._partial is None else LENGTH.size + self._partial.allocated_bytes

    def filled(self, count: int) -> list[memoryview]:
        """Note that `count` bytes were written to `room`; returns the frame if they complete it."""
        partial = self._partial
        assert partial is not None
        partial.filled(count)
        if partial.room is not None:
            return []
        self._partial = None
        return [partial.whole]

    def put(self, data: bytes) -> list[memoryview]:
        """The frames that `data` completes. They are views of `data` where possible: it must not change afterwards."""
        frames: list[memoryview] = []
        partial = self._partial
        if partial is not None:
            data = partial.put(data)
            if partial.room is not None:
                return frames
            frames.append(partial.whole)
            self._partial = None
        elif self._unread:
            data = self._unread + data
        self._unread = self._cut(memoryview(data), frames)
        return frames

    def _cut(self, data: memoryview, frames: list[memoryview]) -> bytes:
        """Append the whole frames in `data`, and begin the last one; the rest, if it is too short for a length."""
        position = 0
        while len(data) - position >= LENGTH.size:
            size: int = LENGTH.unpack_from(data, position)[0]
            check_size(size, self._size_max)
            start = position + LENGTH.size
            position = start + size
            if position > len(data):
                self._partial = PartialFrame(size, data[start:], allocate=self._allocate)
                return b""
            frames.append(data[start:position])
        return bytes(data[position:])


def check_size(size: int, size_max: int) -> None:
    """PeerError for a frame that is too large."""
    if not 0 <= size <= size_max:
        raise PeerError(f"a frame of {size} bytes was announced; at most {size_max} are allowed")
