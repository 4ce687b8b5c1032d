"""Limits the bytes of requests in memory to `queued.max.request.bytes`, over all connections.

Memory is granted before it is used. A request that arrives in several pieces asks for all of its size when its length
is known, and is not read further before that is granted: so every request that was begun can be completed. Bytes of one
read that cannot be served at once are kept without asking: no read is larger than the memory that is left.

Small requests always have room:

- Each connection has `OWN_BYTES` of its own, reserved when it is made. At most an eighth of the limit is reserved;
  further connections share the rest.
- Requests of more than `SMALL_BYTES_MAX` get no more than three quarters of the rest.
- While one of those waits, small ones take no more than the remaining quarter.

Otherwise requests get their memory in the order in which they asked. While any waits, connections are closed that hold
memory and make too little progress: with a request that would take longer than the timeout to arrive at its present
rate, or with requests that waited as long for a reason that is the client's (a long poll before them, responses that
it does not read). Time in which the broker itself is busy does not count.

Pure: time is an argument, and a holder's `wake` is the only call out.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

OWN_BYTES: Final = 4 << 10
SMALL_BYTES_MAX: Final = 2 << 20
# The bytes that may be read from a connection that has used up its own, if memory has run out since the last check.
READ_BYTES_MIN: Final = 512
# A request's rate is measured since the last check, which was at least this long ago.
PACE_SEEN_S: Final = 1.0

_SET_ASIDE: Final = OWN_BYTES + READ_BYTES_MIN
# With this much left, and no request waiting, no read is too large.
_PLENTY: Final = 128 << 10


class RequestMemory:
    """The memory of all connections' requests, and the queues of those that wait for more."""

    def __init__(self, limit: int, *, progress_timeout_s: float = 10.0) -> None:
        self.is_limited = limit >= 0  # -1: no limit
        self.held = 0  # bytes of all requests
        self.is_tight = self.is_limited  # else a read needs no check
        self._progress_timeout_s = progress_timeout_s
        self._limit = limit
        self._set_aside_max = limit // 8
        self._small_max = min(SMALL_BYTES_MAX, limit // 16)
        self._large_limit = (limit - self._set_aside_max) * 3 // 4
        self._set_aside = 0  # reserved for connections
        self._given = 0  # granted beyond that, to requests of any size
        self._large = 0  # of that, to large ones
        self._small_waiting: deque[Holder] = deque()
        self._large_waiting: deque[Holder] = deque()
        self._holders: dict[Holder, None] = {}

    @property
    def size_max(self) -> int | None:
        """The largest request that can ever get its memory; None: any."""
        return self._large_limit if self.is_limited else None

    @property
    def waiting_count(self) -> int:
        return len(self._small_waiting) + len(self._large_waiting)

    def join(self, wake: Callable[[], None]) -> "Holder":
        """The share of a new connection; `wake` is called when it gets what it waited for."""
        holder = Holder(self, wake)
        if self._set_aside + _SET_ASIDE <= self._set_aside_max and self.room >= _SET_ASIDE:
            self._set_aside += _SET_ASIDE
            holder.own = OWN_BYTES
        self._holders[holder] = None
        self._update_is_tight()
        return holder

    def without_progress(self, now_s: float) -> "list[Holder]":
        """The connections to close: others wait for the memory they hold, and they make too little progress."""
        timeout_s = self._progress_timeout_s
        if self.waiting_count:
            return [holder for holder in self._holders if holder.is_without_progress(now_s, timeout_s)]
        for holder in self._holders:
            holder.seen_s = None
        return []

    # For holders.

    @property
    def room(self) -> int:
        return self._limit - self._set_aside - self._given

    def room_for_small(self) -> int:
        room = self.room
        if self._large_waiting:
            theirs = self._limit - self._set_aside_max - self._large_limit
            room = min(room, theirs - (self._given - self._large))
        return room

    def room_for_reading(self) -> int:
        """The bytes that may be read without asking; 0 while requests wait."""
        return 0 if self._small_waiting else max(0, self.room_for_small())

    def count(self, size: int) -> None:
        """Count bytes that are kept without having been asked for; negative ones are given back."""
        self._given += size
        self._update_is_tight()
        if size < 0:
            self._serve_waiting()

    def ask(self, holder: "Holder") -> bool:
        waiting = self._large_waiting if holder.asked > self._small_max else self._small_waiting
        if not waiting and self._fits(holder.asked):
            self._give(holder)
            return True
        waiting.append(holder)
        self._update_is_tight()
        return False

    def give_back(self, size: int) -> None:
        self._given -= size
        if size > self._small_max:
            self._large -= size
        self._serve_waiting()

    def leave(self, holder: "Holder", *, was_set_aside: bool) -> None:
        for waiting in (self._small_waiting, self._large_waiting):
            if holder in waiting:
                waiting.remove(holder)
        del self._holders[holder]
        if was_set_aside:
            self._set_aside -= _SET_ASIDE
        self._serve_waiting()

    def _fits(self, size: int) -> bool:
        if not self.is_limited:
            return True
        if size > self._small_max:
            return size <= self.room and self._large + size <= self._large_limit
        return size <= self.room_for_small()

    def _give(self, holder: "Holder") -> None:
        size = holder.asked
        self._given += size
        if size > self._small_max:
            self._large += size
        self._update_is_tight()
        holder.get()

    def _update_is_tight(self) -> None:
        self.is_tight = self.is_limited and (self.room < _PLENTY or self.waiting_count > 0)

    def _serve_waiting(self) -> None:
        # Small requests once more at the end: they may take more when no large one waits.
        for waiting in (self._small_waiting, self._large_waiting, self._small_waiting):
            while waiting and self._fits(waiting[0].asked):
                holder = waiting.popleft()
                self._give(holder)
                holder.wake()
        self._update_is_tight()


class Holder:
    """The memory of one connection's requests."""

    __slots__ = (
        "_asks_to_read",
        "_counted",
        "_kept",
        "_lent",
        "_memory",
        "arrived",
        "arriving",
        "asked",
        "granted",
        "holds_back",
        "is_excused",
        "own",
        "seen_arrived",
        "seen_s",
        "wake",
    )

    def __init__(self, memory: RequestMemory, wake: Callable[[], None]) -> None:
        self._memory = memory
        self.wake = wake
        self.own = 0  # reserved for the connection
        self._kept = 0  # kept without asking
        self._lent = 0  # granted to read on, when its own was used up
        self._counted = 0  # kept beyond both
        self._asks_to_read = False
        self.asked = 0  # what the connection waits for
        self.granted = 0  # granted to requests
        self.arriving = 0  # of that, the size of the request that is still arriving
        self.arrived = 0  # bytes of it
        self.holds_back = False  # whole requests are held back for a reason that is the client's
        self.is_excused = False  # reading is paused for a reason that is the broker's
        self.seen_s: float | None = None  # when its progress was checked
        self.seen_arrived = 0

    # What is kept of one read.

    @property
    def may_be_read(self) -> bool:
        memory = self._memory
        return not memory.is_tight or self._kept < self.own + self._lent or memory.room_for_reading() > 0

    def room(self, most: int) -> int:
        """How much one read may bring, if at most `most` can come."""
        memory = self._memory
        if not memory.is_tight and most <= _PLENTY:
            return most
        room = memory.room_for_reading() + max(0, self.own + self._lent - self._kept)
        return max(READ_BYTES_MIN, min(most, room))

    def keep(self, count: int) -> None:
        """Count `count` more kept bytes, or fewer if negative. A read must not bring more than there was `room` for."""
        memory = self._memory
        self._kept += count
        memory.held += count
        counted = max(0, self._kept - self.own - self._lent)
        if counted != self._counted:
            change, self._counted = counted - self._counted, counted
            memory.count(change)
        if self._lent and self._kept <= self.own:
            lent, self._lent = self._lent, 0
            memory.give_back(lent)

    def keep_own(self, count: int) -> bool:
        """Keep `count` more bytes if they fit into the connection's own; if not, the request has to ask."""
        if self._kept + count > self.own:
            return False
        self.keep(count)
        return True

    def ask_to_read(self) -> bool:
        """Whether the connection may be read on, now that its own is used up; if not, `wake` is called when it may."""
        self._asks_to_read, self.asked = True, OWN_BYTES
        return self._memory.ask(self)

    # Requests that arrive in several pieces.

    def ask(self, size: int) -> bool:
        """Whether a request of this size may be read on; if not, `wake` is called when it may."""
        self._asks_to_read, self.asked = False, size
        return self._memory.ask(self)

    def get(self) -> None:
        """Get the memory that was asked for: it is granted."""
        size, self.asked = self.asked, 0
        if self._asks_to_read:
            self._lent += size
            return
        self._memory.held += size
        self.granted += size
        self.arriving, self.arrived, self.seen_s = size, 0, None

    def give_back(self, size: int) -> None:
        """Give back the granted memory of a request that is done."""
        self.granted -= size
        self._memory.held -= size
        self._memory.give_back(size)

    def give_up(self) -> None:
        """Give back the memory of a request that will not arrive completely."""
        arriving, self.arriving = self.arriving, 0
        if arriving:
            self.give_back(arriving)

    def leave(self) -> None:
        """Give back the memory of a closed connection. Requests in flight give back theirs when they are done."""
        had_own, self.own = bool(self.own), 0
        self.keep(0)
        self._memory.leave(self, was_set_aside=had_own)
        self.asked = 0
        self.give_up()

    # Progress.

    def is_without_progress(self, now_s: float, timeout_s: float) -> bool:
        has_something = self.granted or self._counted or self._lent
        if self.is_excused or not has_something or not (self.arriving or self.holds_back):
            self.seen_s = None
            return False
        if self.seen_s is None:
            self.seen_s, self.seen_arrived = now_s, self.arrived
            return False
        seconds = now_s - self.seen_s
        if not self.arriving:
            return seconds >= timeout_s
        if seconds < PACE_SEEN_S:
            return False
        if (self.arrived - self.seen_arrived) * timeout_s < self.arriving * seconds:
            return True
        self.seen_s, self.seen_arrived = now_s, self.arrived
        return False
