"""What has come on one connection and is no request under way: requests that wait to be begun, the beginning of the
next, and the memory for both.

Sans-I/O: bytes go in, requests come out one by one, and `may_read_on` says whether more bytes may come.
"""

from collections.abc import Callable

from penstock.base.buffers import Buffer
from penstock.broker.request_memory import RequestMemory
from penstock.wire.framing import FrameReader
from penstock.world.large_buffers import LargeBuffers

# How much of a large request is read in one turn of the loop: a busy machine takes up to 3 ms to map a megabyte.
TURN_READ_BYTES_MAX = 128 << 10


class Arrivals:
    """The requests of one connection, up to the moment at which they are begun."""

    def __init__(
        self,
        memory: RequestMemory,
        *,
        request_bytes_max: int,
        buffers: LargeBuffers,
        wake: Callable[[], None],
    ) -> None:
        self._all_memory = memory
        self.memory = memory.join(wake)
        size_max = min(request_bytes_max, memory.size_max or request_bytes_max)
        self._reader = FrameReader(size_max, allocate=buffers.allocate)
        self._next: Buffer | None = None  # a whole request
        self._next_was_granted = False  # its memory was asked for; else it came with one read
        self._is_filling = False  # memory was asked for, and the rest of a request is read into it
        self._kept_bytes = 0  # what is here, beyond what was asked for, as far as `memory` knows

    # Bytes in.

    def buffer(self, scratch: memoryview) -> memoryview:
        """Where to write what comes next: where it stays, or in `scratch`."""
        if self._reader.room is not None:
            return self._reader.room[:TURN_READ_BYTES_MAX]
        return scratch[: self.memory.room(len(scratch))] if self._all_memory.is_tight else scratch

    @property
    def is_filled_in_place(self) -> bool:
        """Whether what comes next is written where it stays."""
        return self._reader.room is not None

    def filled(self, count: int) -> None:
        """So much was written there."""
        self._reader.filled(count)
        if self._is_filling:
            self.memory.arrived += count

    def put(self, data: bytes) -> None:
        self._reader.put(data)

    # Requests out.

    @property
    def has_unfinished(self) -> bool:
        """Whether something has come that is not whole."""
        return self._reader.held > 0

    def next(self) -> Buffer | None:
        """The next whole request: the same one until it is taken."""
        frame = self._next
        if frame is None:
            frame = self._next = self._reader.take()
            if self._is_filling and frame is not None:
                self._is_filling, self._next_was_granted = False, True
                self.memory.arriving = 0
        return frame

    def take(self) -> bool:
        """The next request is begun. Whether its memory was asked for: then it is to be given back."""
        was_granted, self._next_was_granted = self._next_was_granted, False
        self._next = None
        self.memory.holds_back = False
        return was_granted

    @property
    def is_held_back(self) -> bool:
        """Whether a whole request was found and not taken."""
        return self._next is not None

    # Memory.

    def hold_back(self, *, progressed: bool, is_clients_fault: bool) -> None:
        """The next request has to wait: whether one before it was begun just now, and whose fault it is."""
        self.memory.holds_back = is_clients_fault
        if progressed:
            self.memory.seen_s = None

    def count(self) -> None:
        """Tell how much is kept."""
        kept = self._reader.unread_bytes
        if not self._is_filling:
            kept += self._reader.begun_bytes
        if self._next is not None and not self._next_was_granted:
            kept += len(self._next)
        if kept != self._kept_bytes:
            change, self._kept_bytes = kept - self._kept_bytes, kept
            self.memory.keep(change)

    def may_read_on(self) -> bool:
        """Whether there is memory for what would be read; if not, the connection is woken when there is."""
        memory, size = self.memory, self._reader.announced
        if memory.asked:
            return False
        if not size:
            return (
                not self._all_memory.is_tight
                or self._reader.room is not None
                or memory.may_be_read
                or memory.ask_to_read()
            )
        missing = size - self._reader.unread_bytes
        if memory.keep_own(missing):
            self._kept_bytes += missing
            self._reader.begin()
            return True
        if memory.ask(size):
            self._begin_to_fill()
            return True
        return False

    def woken(self) -> None:
        """What was asked for is there."""
        if self.memory.arriving and not self._is_filling:
            if self._reader.announced == self.memory.arriving:
                self._begin_to_fill()
            else:  # the rest came all the same
                self.memory.give_up()

    def _begin_to_fill(self) -> None:
        self._reader.begin()
        self._is_filling = True
        self.memory.arrived = self.memory.arriving - self._reader.missing_bytes
        self.count()

    def drop(self) -> None:
        """Nothing of it will be begun."""
        if self._next is not None and self._next_was_granted:
            self.memory.give_back(len(self._next))
        self._next, self._next_was_granted, self._is_filling = None, False, False
        self._reader.forget()
        self.memory.give_up()
        self.memory.keep(-self._kept_bytes)
        self._kept_bytes = 0

    @property
    def progress(self) -> str:
        """How far a request has come that has memory and does not come to its end."""
        memory = self.memory
        if memory.arriving:
            return f"of a request of {memory.arriving} bytes {memory.arrived} have come"
        held_back = self._kept_bytes + memory.granted
        return f"{held_back} bytes of requests are held back by a request that waits, or by answers not read"
