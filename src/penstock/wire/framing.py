"""Cuts a stream of bytes into frames: a length of four bytes, then that many bytes.

Sans-I/O: bytes go in as they come, whole frames come out. What is kept in between is at most the beginning of
one frame, and it grows with what has arrived, never with what was announced.
"""

from struct import Struct
from typing import Final

from penstock.base.errors import PeerError

_LENGTH: Final = Struct(">i")


class FrameReader:
    """One direction of one connection. After a PeerError it must not be fed again."""

    def __init__(self, size_max: int) -> None:
        self.size_max = size_max
        self._partial = bytearray()  # the length and what has come of the frame; empty between frames
        self._partial_size = 0  # of the whole frame with its length; 0 while the length itself is incomplete

    @property
    def buffered(self) -> int:
        """How many bytes wait for the rest of their frame."""
        return len(self._partial)

    def feed(self, data: bytes) -> list[memoryview]:
        """The frames that are complete with `data`, without their lengths.

        They are views of `data` where possible, so it must not change afterwards.
        """
        view = memoryview(data)
        if not self._partial:
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
        self._partial += view[position:]
        return frames

    def _fill(self, view: memoryview, frames: list[memoryview]) -> int:
        """Adds to the frame that is under way; returns how much of `view` that took."""
        taken = 0
        if not self._partial_size:
            taken = min(4 - len(self._partial), len(view))
            self._partial += view[:taken]
            if len(self._partial) < 4:
                return taken
            self._partial_size = self._frame_size(self._partial, 0)
        more = min(self._partial_size - len(self._partial), len(view) - taken)
        self._partial += view[taken : taken + more]
        if len(self._partial) == self._partial_size:
            frames.append(memoryview(self._partial)[4:])
            self._partial = bytearray()
            self._partial_size = 0
        return taken + more
