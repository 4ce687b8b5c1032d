"""Cuts a stream of bytes into frames: a length of four bytes, then that many bytes.

Sans-I/O: bytes go in as they come, whole frames come out. What is kept in between is at most the beginning of one
frame, and the room for it grows with what has arrived, never with what was announced. Whoever receives is shown that
room: the rest of a large frame is then written where it stays, and never copied.
"""

from struct import Struct
from typing import Final

from penstock.base.errors import PeerError

_LENGTH: Final = Struct(">i")

# Room for a frame: this much at first, and then so many times what has arrived, up to the whole of it.
_ROOM_FIRST: Final = 4 << 10
_ROOM_GROWTH: Final = 16


class FrameReader:
    """One direction of one connection. After a PeerError it must not be fed again."""

    __slots__ = ("_arrived", "_frame", "_length", "_size", "room", "size_max")

    def __init__(self, size_max: int) -> None:
        self.size_max = size_max
        self._length = b""  # what has arrived of a length
        self._frame: bytearray | None = None  # the one that is under way: as much room as there is for it now
        self._arrived = 0  # of it
        self._size = 0  # of it, once it is whole
        # Where what comes next may be written instead of being fed, all or a part of it; None between frames.
        self.room: memoryview | None = None

    @property
    def held(self) -> int:
        """How much memory a frame takes that is under way."""
        return len(self._length) if self._frame is None else _LENGTH.size + len(self._frame)

    def feed(self, data: bytes) -> list[memoryview]:
        """The frames that are complete with `data`, without their lengths.

        They are views of `data` where possible, so it must not change afterwards.
        """
        if self._length:
            data, self._length = self._length + data, b""
        view = memoryview(data)
        if self._frame is not None:
            frames: list[memoryview] = []
            return self._cut(view, self._go_on(view, frames), frames)
        # The common case first: a client that waits for answers sends one frame at a time.
        if len(data) >= _LENGTH.size and _LENGTH.size + self._announced(data, 0) == len(data):
            return [view[_LENGTH.size :]]
        return self._cut(view, 0, [])

    def filled(self, count: int) -> list[memoryview]:
        """So many bytes were written to `room`: the frame, if it is complete now."""
        assert self._frame is not None
        self._arrived += count
        if self._arrived < self._size:
            self._make_room()
            return []
        frame = memoryview(self._frame)
        self._frame = self.room = None
        return [frame]

    def _announced(self, data: bytes | memoryview, position: int) -> int:
        size: int = _LENGTH.unpack_from(data, position)[0]
        if not 0 <= size <= self.size_max:
            raise PeerError(f"a frame of {size} bytes was announced; at most {self.size_max} are allowed")
        return size

    def _cut(self, view: memoryview, position: int, frames: list[memoryview]) -> list[memoryview]:
        """Takes whole frames from `view` and keeps what is left of it."""
        end = len(view)
        while end - position >= _LENGTH.size:
            size = self._announced(view, position)
            position += _LENGTH.size
            if size > end - position:
                self._begin(size, view[position:])
                return frames
            frames.append(view[position : position + size])
            position += size
        self._length = bytes(view[position:])
        return frames

    def _go_on(self, view: memoryview, frames: list[memoryview]) -> int:
        """Adds to the frame that is under way; returns how much of `view` that took."""
        position = 0
        while self.room is not None and position < len(view):
            count = min(len(self.room), len(view) - position)
            self.room[:count] = view[position : position + count]
            position += count
            frames += self.filled(count)
        return position

    def _begin(self, size: int, arrived: memoryview) -> None:
        self._size, self._arrived = size, len(arrived)
        self._frame = bytearray(min(size, max(_ROOM_FIRST, _ROOM_GROWTH * len(arrived))))
        self._frame[: len(arrived)] = arrived
        self._make_room()

    def _make_room(self) -> None:
        frame, arrived = self._frame, self._arrived
        assert frame is not None
        if arrived == len(frame):
            larger = bytearray(min(self._size, _ROOM_GROWTH * arrived))
            larger[:arrived] = frame
            frame = self._frame = larger
        self.room = memoryview(frame)[arrived:]
