"""A connection in the simulated network: two ends, and a pipe of ordered bytes in each direction.

As with TCP: bytes arrive in order and in pieces, a reader that pauses fills the writer's buffer, an end that closes
with unread data resets the connection, and so does a machine that receives data for a process that has ended.
"""

import asyncio
import errno
import zlib
from collections import deque
from collections.abc import Iterable
from enum import Enum
from typing import TYPE_CHECKING, Any, cast

from penstock.base.buffers import Buffer
from penstock.sim.kernel import StepKind
from penstock.sim.link import Link
from penstock.sim.process import SimProcess

if TYPE_CHECKING:
    from penstock.sim.network import Network

# The TCP window: bytes in flight or unread, beyond which the sender has to buffer.
WINDOW_BYTES = 256 << 10

# The most bytes that are passed to the protocol at once, as in asyncio.
READ_BYTES_MAX = 256 << 10

# One write in so many arrives in two pieces.
SPLIT_ONE_IN = 8

# A connection fails if the peer has acknowledged nothing for this long.
UNCONFIRMED_S_MAX = 900.0

# asyncio's defaults for the buffer of a transport.
HIGH_WATER_BYTES = 64 << 10


class Signal(Enum):
    """What a pipe carries besides bytes: FIN or RST."""

    END = "end"
    RESET = "reset"


Segment = bytes | Signal


class Pipe:
    """One direction of a connection."""

    def __init__(self, network: "Network", link: Link, name: str) -> None:
        self._network = network
        self._link = link
        self._name = name
        self._segments: deque[tuple[float, Segment]] = deque()
        self._last_arrival = 0.0
        self._moving = False
        self._lost_since: float | None = None
        self.sender: SimTransport
        self.receiver: SimTransport
        self.unread = 0  # bytes that were sent and not read
        self.is_silent = False  # all packets are dropped, and neither end notices

    def send(self, segment: Segment) -> None:
        size = len(segment) if isinstance(segment, bytes) else 0
        checksum = zlib.crc32(segment) if isinstance(segment, bytes) else segment.value
        self._network.kernel.note(StepKind.SEND, self._name, size, checksum)
        self.unread += size
        arrival = max(self._last_arrival, self._network.kernel.now + self._link.transit_s())
        self._last_arrival = arrival + self._link.passage_s(size)
        self._segments.append((self._last_arrival, segment))
        if not self._moving:
            self._move()

    def _move(self) -> None:
        self._moving = bool(self._segments)
        if self._segments:
            self._network.at(self._segments[0][0], self._arrive)

    def _arrive(self) -> None:
        if self.is_silent or not self._network.is_up(self.receiver.process.host):
            self._segments.clear()
            self._moving = False
            self._start_retransmission_timeout()
        elif self._link.is_cut:
            self._link.when_healed(self._arrive_again)
            self._start_retransmission_timeout()
        else:
            self._lost_since = None
            _, segment = self._segments.popleft()
            self.receiver.receive(segment)
            self._move()

    def _arrive_again(self) -> None:
        self._network.at(self._network.kernel.now + self._link.transit_s(), self._arrive)

    def _start_retransmission_timeout(self) -> None:
        if self._lost_since is None:
            since = self._lost_since = self._network.kernel.now
            self._network.at(since + UNCONFIRMED_S_MAX, lambda: self._give_up(since))

    def _give_up(self, since: float) -> None:
        if self._lost_since == since:
            self.sender.fail(TimeoutError(errno.ETIMEDOUT, "the peer has not confirmed what was sent"))


class SimTransport(asyncio.Transport):
    """One end of a connection."""

    def __init__(
        self,
        network: "Network",
        process: SimProcess,
        *,
        local: tuple[str, int],
        peer: tuple[str, int],
        outgoing: Pipe,
        incoming: Pipe,
    ) -> None:
        super().__init__()
        self.process = process
        self.peer_host = peer[0]
        self.is_silent = False  # this end sends nothing more, not even RST in response to data
        self._network = network
        self._extra = {"sockname": local, "peername": peer}
        self._outgoing = outgoing
        self._incoming = incoming
        outgoing.sender = self
        incoming.receiver = self
        self._protocol: asyncio.Protocol | None = None
        self._inbox: deque[Segment] = deque()
        self._reading_scheduled = False
        self._reading_paused = False
        self._reading_ended = False
        self._buffer: deque[bytes] = deque()
        self._buffer_size = 0
        self._flushing_scheduled = False
        self._high_water, self._low_water = HIGH_WATER_BYTES, HIGH_WATER_BYTES // 4
        self._writing_paused = False
        self._closing = False
        self._end_asked = False
        self._end_sent = False
        self._over = False

    @property
    def is_over(self) -> bool:
        """Whether this end is closed or its process killed; the other end may not know it yet."""
        return self._over or self.process.killed

    def begin(self, protocol: asyncio.BaseProtocol) -> None:
        """Call `connection_made`, and pass on the bytes that have arrived meanwhile."""
        self._protocol = cast(asyncio.Protocol, protocol)
        protocol.connection_made(self)
        self._schedule_reading()

    # Called by the network.

    def receive(self, segment: Segment) -> None:
        """A segment has arrived at this end's machine."""
        if self.is_over:
            if isinstance(segment, bytes) and not self.is_silent:
                self._outgoing.send(Signal.RESET)
            return
        self._inbox.append(segment)
        self._schedule_reading()

    def fail(self, error: Exception) -> None:
        """The connection has broken."""
        if not self.is_over and self._protocol is not None:
            self._network.soon(self.process, self._end, error)

    def silence(self) -> None:
        """Drop all segments of both directions from now on."""
        self.is_silent = True
        self._outgoing.is_silent = True
        self._incoming.is_silent = True

    def vanish(self, signal: Signal | None) -> None:
        """The process has ended. The system sends `signal` to the other end; None if it cannot."""
        self._over = True
        self._inbox.clear()
        self._drop_buffer()
        if signal is None:
            self.is_silent = True
        elif not self._end_sent:
            self._outgoing.send(signal)

    # Reading.

    def pause_reading(self) -> None:
        self._reading_paused = True

    def resume_reading(self) -> None:
        self._reading_paused = False
        self._schedule_reading()

    def is_reading(self) -> bool:
        return not self._reading_paused and not self._closing

    def _schedule_reading(self) -> None:
        if self._inbox and not self._reading_scheduled and self._protocol is not None:
            self._reading_scheduled = True
            self._network.soon(self.process, self._read)

    def _read(self) -> None:
        self._reading_scheduled = False
        if self._over or not self._inbox:
            return
        if self._inbox[0] is Signal.RESET:  # even if reading is paused: a write would find out
            self._end(ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))
        elif not self._reading_paused and not self._closing:
            self._hand_over()
            self._schedule_reading()
        elif self._closing or Signal.RESET in self._inbox:
            self._inbox.popleft()
            self._schedule_reading()

    def _hand_over(self) -> None:
        assert self._protocol is not None
        if self._inbox[0] is Signal.END:
            self._inbox.popleft()
            if not self._reading_ended:
                self._reading_ended = True
                if not self._protocol.eof_received():
                    self.close()
            return
        pieces: list[bytes] = []
        size = 0
        while self._inbox and isinstance(piece := self._inbox[0], bytes) and size < READ_BYTES_MAX:
            pieces.append(piece)
            size += len(piece)
            self._inbox.popleft()
        self._confirm(size)
        if self.process.watcher is not None:
            self.process.watcher.on_received()
        self._protocol.data_received(b"".join(pieces) if len(pieces) > 1 else pieces[0])

    def _confirm(self, size: int) -> None:
        self._incoming.unread -= size
        self._incoming.sender.schedule_flush()

    # Writing.

    def write(self, data: Buffer) -> None:
        if self._closing or self.is_over or self._end_asked or not data:
            return
        if self.process.watcher is not None:
            self.process.watcher.on_sent()
        self._buffer.append(bytes(data))
        self._buffer_size += len(data)
        self._flush()
        if self._buffer_size > self._high_water and not self._writing_paused:
            self._writing_paused = True
            assert self._protocol is not None
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Iterable[Buffer]) -> None:
        self.write(b"".join(list_of_data))

    def write_eof(self) -> None:
        self._end_asked = True
        self._flush()

    def can_write_eof(self) -> bool:
        return True

    def schedule_flush(self) -> None:
        if self._buffer and not self._flushing_scheduled and not self.is_over:
            self._flushing_scheduled = True
            self._network.soon(self.process, self._flush_later)

    def _flush_later(self) -> None:
        self._flushing_scheduled = False
        if self._over:
            return
        self._flush()
        if self._writing_paused and self._buffer_size <= self._low_water:
            self._writing_paused = False
            assert self._protocol is not None
            self._protocol.resume_writing()

    def _flush(self) -> None:
        while self._buffer and (room := WINDOW_BYTES - self._outgoing.unread) > 0:
            data = self._buffer.popleft()
            size = self._network.piece(min(room, len(data)))
            if size < len(data):
                self._buffer.appendleft(data[size:])
            self._buffer_size -= size
            self._outgoing.send(data[:size])
        if self._buffer:
            return
        if self._end_asked or self._closing:
            self._send_end(Signal.END)
        if self._closing:
            self._lose(None)

    def _send_end(self, signal: Signal) -> None:
        if not self._end_sent:
            self._end_sent = True
            self._outgoing.send(signal)

    # Endings.

    def close(self) -> None:
        if self._closing or self.is_over:
            return
        self._closing = True
        if any(isinstance(segment, bytes) for segment in self._inbox):
            self._drop_buffer()
            self._send_end(Signal.RESET)  # what the peer sent will never be read
        self._flush()

    def abort(self) -> None:
        if self.is_over:
            return
        self._closing = True
        self._drop_buffer()
        self._send_end(self._network.parting_signal())
        self._lose(None)

    def is_closing(self) -> bool:
        return self._closing or self.is_over or self._network.kernel.is_over

    def _end(self, error: Exception) -> None:
        """The connection broke: nothing more can be sent."""
        if not self._over:
            self._closing = True
            self._end_sent = True
            self._drop_buffer()
            self._lose(error)

    def _drop_buffer(self) -> None:
        self._buffer.clear()
        self._buffer_size = 0

    def _lose(self, error: Exception | None) -> None:
        if self._over:
            return
        self._over = True
        self._inbox.clear()
        self._network.forget(self)
        if self._protocol is not None:
            self._network.soon(self.process, self._protocol.connection_lost, error)

    # The rest of asyncio's transport interface.

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._extra.get(name, default)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = cast(asyncio.Protocol, protocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        assert self._protocol is not None
        return self._protocol

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if high is None:
            high = HIGH_WATER_BYTES if low is None else 4 * low
        self._high_water, self._low_water = high, high // 4 if low is None else low

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low_water, self._high_water

    def get_write_buffer_size(self) -> int:
        return self._buffer_size
