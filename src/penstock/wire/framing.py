"""Cuts a stream of bytes into frames: a length of four bytes, then that many bytes.

Sans-I/O: bytes go in as they come, whole frames are taken out one by one. A frame that has only begun is `announced`;
whoever reads decides when memory is given to it (`begin`), and nothing should be read before. The memory grows with
what has arrived, not with what was announced; only for a frame of which a megabyte has come all of it is asked for
at once (`allocate`). The rest of the frame is then written to its `room`, where it stays.
"""

from collections.abc import Callable
from struct import Struct
from typing import Final

from penstock.base.errors import PeerError

_LENGTH: Final = Struct(">i")
_NOTHING: Final = memoryview(b"")

# Room for a frame: this much at first, and then so many times what has arrived, up to the whole of it.
_ROOM_FIRST: Final = 4 << 10
_ROOM_GROWTH: Final = 16
_ROOM_BEFORE_ALL: Final = 1 << 20


class FrameReader:
    """One direction of one connection. After a PeerError it must not be used again."""

    __slots__ = (
        "_allocate",
        "_arrived",
        "_frame",
        "_position",
        "_size",
        "_unread",
        "announced",
        "room",
        "size_max",
    )

    def __init__(
        self, size_max: int, *, allocate: Callable[[int], bytearray | memoryview] = bytearray
    ) -> None:
        self.size_max = size_max
        self._allocate = allocate
        self._unread = _NOTHING  # what came and was not taken yet begins here
        self._position = 0
        self._frame: bytearray | memoryview | None = (
            None  # the one that was begun: as much room as there is for it now
        )
        self._arrived = 0  # of it
        self._size = 0  # of it, once it is whole
        # The size of a frame whose length has come and whose end has not, until it is begun; else 0.
        self.announced = 0
        # Where what comes next may be written instead of being put, all or a part of it; None between frames.
        self.room: memoryview | None = None

    @property
    def unread_bytes(self) -> int:
        """What was put here and belongs to no frame that was taken or begun."""
        return len(self._unread) - self._position

    @property
    def missing_bytes(self) -> int:
        """Of the frame that was begun."""
        return 0 if self._frame is None else self._size - self._arrived

    @property
    def begun_bytes(self) -> int:
        """The size of the frame that was begun, what has not come of it included."""
        return 0 if self._frame is None else self._size

    @property
    def held(self) -> int:
        """How much memory is taken by what has not been taken out."""
        return self.unread_bytes + (0 if self._frame is None else _LENGTH.size + len(self._frame))

    def put(self, data: bytes) -> None:
        """More bytes have come. Frames will be views of `data` where possible, so it must not change afterwards."""
        if self._frame is not None and self.room is not None:
            data = self._go_on(data)
        if self._position < len(self._unread):
            data = bytes(self._unread[self._position :]) + data
        self._unread = memoryview(data)
        self._position = self.announced = 0

    def filled(self, count: int) -> None:
        """So many bytes were written to `room`."""
        assert self._frame is not None
        self._arrived += count
        if self._arrived == self._size:
            self.room = None
        else:
            self._make_room()

    def take(self) -> memoryview | None:
        """The next whole frame, without its length."""
        if self._frame is not None:
            if self._arrived < self._size:
                return None
            whole = memoryview(self._frame)
            self._frame = None
            return whole
        position = self._position
        present = len(self._unread) - position - _LENGTH.size
        if present < 0:
            if position:  # else the little that is left would keep all that came with it
                self._unread, self._position = memoryview(bytes(self._unread[position:])), 0
            return None
        size: int = _LENGTH.unpack_from(self._unread, position)[0]
        if size > present:
            self._check(size)
            self.announced = size
            return None
        self._check(size)
        position += _LENGTH.size
        frame = self._unread[position : position + size]
        if size == present:
            self._unread, self._position = _NOTHING, 0
        else:
            self._position = position + size
        return frame

    def begin(self) -> None:
        """Give memory to the frame that was announced: what has come of it is moved there."""
        assert self.announced
        assert self._frame is None
        head = self._unread[self._position + _LENGTH.size :]
        self._size, self._arrived, self.announced = self.announced, len(head), 0
        self._unread, self._position = _NOTHING, 0
        first = min(_ROOM_BEFORE_ALL, max(_ROOM_FIRST, _ROOM_GROWTH * len(head)))
        self._frame = bytearray(min(self._size, max(first, len(head))))
        self._frame[: len(head)] = head
        self._make_room()

    def take_all(self) -> list[memoryview]:
        """All whole frames; one that has only begun is given memory at once."""
        frames = []
        while (frame := self.take()) is not None:
            frames.append(frame)
        if self.announced:
            self.begin()
        return frames

    def forget(self) -> None:
        """Let go of everything: nothing more will be taken."""
        self._unread, self._position, self.announced = _NOTHING, 0, 0
        self._frame = self.room = None

    def _check(self, size: int) -> None:
        if not 0 <= size <= self.size_max:
            raise PeerError(f"a frame of {size} bytes was announced; at most {self.size_max} are allowed")

    def _go_on(self, data: bytes) -> bytes:
        """Adds to the frame that was begun; returns what is left of `data`."""
        position = 0
        while self.room is not None and position < len(data):
            count = min(len(self.room), len(data) - position)
            self.room[:count] = data[position : position + count]
            position += count
            self.filled(count)
        return data[position:]

    def _make_room(self) -> None:
        frame, arrived = self._frame, self._arrived
        assert frame is not None
        if arrived == len(frame):
            wanted = min(self._size, _ROOM_GROWTH * arrived)
            larger = bytearray(wanted) if wanted <= _ROOM_BEFORE_ALL else self._allocate(self._size)
            larger[:arrived] = frame
            frame = self._frame = larger
        self.room = memoryview(frame)[arrived:]
