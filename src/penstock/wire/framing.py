"""Cuts a stream of bytes into frames: a length of four bytes, then that many bytes.

Sans-I/O: bytes go in as they come, whole frames come out. What is kept in between is at most the beginning of
one frame, and it grows with what has arrived, never with what was announced. A frame that comes in pieces is put
together once, when it is whole: a large answer is copied once, not whenever there is more of it.
"""

from struct import Struct
from typing import Final

from penstock.base.buffers import Buffer
from penstock.base.errors import PeerError

_LENGTH: Final = Struct(">i")

# Pieces below the first size are gathered up to the second: who sends byte by byte must not cost an object for each.
_PIECE_SMALL: Final = 4 << 10
_GATHERED_MAX: Final = 64 << 10


class FrameReader:
    """One direction of one connection. After a PeerError it must not be fed again."""

    def __init__(self, size_max: int) -> None:
        self.size_max = size_max
        self._pieces: list[
            Buffer
        ] = []  # of the frame that is under way, its length first; none between frames
        self._buffered = 0
        self._partial_size = 0  # of the whole frame with its length; 0 while the length itself is incomplete

    @property
    def buffered(self) -> int:
        """How many bytes wait for the rest of their frame."""
        return self._buffered

    def feed(self, data: bytes) -> list[memoryview]:
        """The frames that are complete with `data`, without their lengths.

        They are views of `data` where possible, so it must not change afterwards.
        """
        view = memoryview(data)
        if not self._buffered:
            # The common case first: a client that waits for answers sends one frame at a time.
            if len(data) >= 4 and self._frame_size(data, 0) == len(data):
                return [view[4:]]
            return self._cut(view, 0, [])
        frames: list[memoryview] = []
        position = self._fill(view, frames)
        return self._cut(view, position, frames)

    def _frame_size(self, data: bytes | bytearray | memoryview, position: int) -> int:
        (size,) = _LENGTH.unpack_from(data, position)
        if not 0 <= size <= self.size_max:
            raise PeerError(f"a frame of {size} bytes was announced; at most {self.size_max} are allowed")
        return 4 + int(size)

    def _cut(self, view: memoryview, position: int, frames: list[memoryview]) -> list[memoryview]:
        """Takes whole frames from `view` and keeps what is left of it."""
        end = len(view)
        while end - position >= 4:
            size = self._frame_size(view, position)
            if size > end - position:
                self._partial_size = size
                break
            frames.append(view[position + 4 : position + size])
            position += size
        self._keep(view, position, end)
        return frames

    def _fill(self, view: memoryview, frames: list[memoryview]) -> int:
        """Adds to the frame that is under way; returns how much of `view` that took."""
        taken = 0
        if not self._partial_size:
            taken = min(4 - self._buffered, len(view))
            self._keep(view, 0, taken)
            if self._buffered < 4:
                return taken
            self._partial_size = self._frame_size(b"".join(self._pieces), 0)
        end = min(taken + self._partial_size - self._buffered, len(view))
        self._keep(view, taken, end)
        if self._buffered == self._partial_size:
            frames.append(memoryview(b"".join(self._pieces))[4:])
            self._pieces = []
            self._buffered = 0
            self._partial_size = 0
        return end

    def _keep(self, view: memoryview, start: int, end: int) -> None:
        size = end - start
        if not size:
            return
        self._buffered += size
        piece = view[start:end]
        if size >= _PIECE_SMALL:
            # A view keeps all of what it is a part of.
            self._pieces.append(piece if 2 * size >= len(view) else bytes(piece))
            return
        last = self._pieces[-1] if self._pieces else None
        if isinstance(last, bytearray) and len(last) < _GATHERED_MAX:
            last += piece
        else:
            self._pieces.append(bytearray(piece))
