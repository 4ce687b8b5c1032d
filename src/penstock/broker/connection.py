"""The asyncio side of one client's connection: moves bytes between a transport and a channel, and runs handlers.

The channel takes all decisions (order, blocking, budgets, memory) without I/O. This module knows no protocol's framing
or headers: it serves any protocol that brings a `Channel` (`broker.channel_interface`).
"""

import asyncio
import logging
from functools import partial
from typing import Any, NamedTuple, Protocol, cast

from penstock.apis.context import Call, ConnectedClient, Services
from penstock.apis.reply import Reply
from penstock.base.errors import PeerError
from penstock.broker.channel_interface import GATHERED_BYTES_MAX, Channel, ChannelLimits, StartedRequest
from penstock.broker.channel_states import ChannelState
from penstock.broker.lease_guard import LeaseGuard
from penstock.broker.rate_limited_log import RateLimitedLog
from penstock.broker.request_memory import RequestMemory
from penstock.broker.time_sliced_queue import TimeSlicedQueue
from penstock.schema.codec import UNREADABLE

log = logging.getLogger("penstock.connection")

_YIELDED = ChannelState.YIELDED
_DRAINING = ChannelState.DRAINING
_CLOSED = ChannelState.CLOSED


class SharedQueues(NamedTuple):
    """The queues in which connections wait for their turn. Each gets a slice of every iteration of the event loop."""

    low_priority: TimeSlicedQueue  # requests and responses of APIs with LOW_PRIORITY
    pipelined: TimeSlicedQueue  # connections that have more requests than fit into one turn
    # Connections that read large requests, or waited for memory: cheap, so it waits for no requests.
    reading: TimeSlicedQueue


class Shared(NamedTuple):
    """What all connections of a broker share."""

    memory: RequestMemory
    queues: SharedQueues
    lease_guard: LeaseGuard
    warnings: RateLimitedLog  # that peers cause


class ConnectionOwner(Protocol):
    """Admits and limits the connections of a broker (`Connections`)."""

    def admit(self, connection: "ServerConnection") -> bool:
        """Whether a connection, whose address is known now, may stay."""
        ...

    def memory_awaited(self) -> None:
        """A connection waits for memory that others hold."""
        ...

    def unsent_changed(self, connection: "ServerConnection") -> None:
        """A connection's `unsent_bytes` have become too many, or few again."""
        ...

    def forget(self, connection: "ServerConnection") -> None:
        """The connection is closed."""
        ...


class ServerConnection(asyncio.BufferedProtocol):
    """The server's side of one connection."""

    __slots__ = (
        "_continues_soon",
        "_drained",
        "_limits",
        "_loop",
        "_lost",
        "_owner",
        "_reading_is_paused",
        "_scratch",
        "_services",
        "_shared",
        "_tasks",
        "_transport",
        "active_at",
        "channel",
        "client",
    )

    def __init__(
        self,
        channel: Channel,
        services: Services,
        shared: Shared,
        owner: ConnectionOwner,
        *,
        listener: str,
        limits: ChannelLimits,
    ) -> None:
        self._services = services
        self._loop = services.node.world.loop
        self._scratch = services.node.world.loop.scratch
        self._shared = shared
        self._owner = owner
        self._limits = limits
        self.channel = channel
        channel.memory.wake = self._got_memory
        self.client = ConnectedClient(listener)
        self.active_at = self._loop.time()
        self._transport: asyncio.Transport | None = None
        self._reading_is_paused = False
        self._continues_soon = False  # `_continue` is scheduled
        # The tasks of handlers, and whether they are cancelled when the client disconnects.
        self._tasks: dict[asyncio.Future[Any], bool] = {}
        self._drained: asyncio.Future[None] | None = None
        self._lost: asyncio.Future[None] = self._loop.create_future()

    # Called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transport is no subclass of asyncio's
        peer = self._transport.get_extra_info("peername")
        if peer:
            self.client.host, self.client.port = peer[:2]
        self._transport.set_write_buffer_limits(high=self._limits.unsent_bytes_max)
        if not self._owner.admit(self):
            self.abort()

    def connection_lost(self, _error: Exception | None) -> None:
        self.channel.close()
        self.channel.memory.leave()
        for task, is_cancelled in list(self._tasks.items()):
            if is_cancelled:
                task.cancel()
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        self._lost.set_result(None)
        self._owner.forget(self)

    def get_buffer(self, _size_hint: int) -> memoryview:
        if self.channel.partial is not None:
            room = self.channel.room
            if room is not None:
                return room
        scratch = self._scratch
        return scratch[: self.channel.memory.room(len(scratch))] if self._shared.memory.is_tight else scratch

    def buffer_updated(self, count: int) -> None:
        if self.channel.partial is None or self.channel.room is None:
            self.data_received(bytes(self._scratch[:count]))
        else:
            self._received_in_place(count)

    def data_received(self, data: bytes) -> None:
        channel = self.channel
        if channel.state is _CLOSED or channel.state is _DRAINING:
            return
        now = self.active_at = self._loop.time()
        if now > self._shared.lease_guard.trusted_until:
            self._stop_serving()
            return
        channel.received(data)
        self._serve(now)

    def _received_in_place(self, count: int) -> None:
        channel = self.channel
        if channel.state is _CLOSED or channel.state is _DRAINING:
            return
        now = self.active_at = self._loop.time()
        if now > self._shared.lease_guard.trusted_until:
            self._stop_serving()
            return
        was_waiting = channel.awaits_reading_turn
        channel.filled(count)
        if channel.awaits_reading_turn and not was_waiting:
            self._shared.queues.reading.wait(self._take_reading_turn)
        if channel.awaits_reading_turn or channel.room is None:
            self._serve(now)

    def _stop_serving(self) -> None:
        """This process was paused for so long that another broker may have replaced it."""
        self._shared.lease_guard.check()
        self.abort()

    def pause_writing(self) -> None:
        self.channel.is_congested = True
        self._owner.unsent_changed(self)

    def resume_writing(self) -> None:
        self.channel.is_congested = False
        self._owner.unsent_changed(self)
        self._continue()

    # Requests in, responses out.

    def _serve(self, now: float) -> None:
        """One turn: start the requests that may start, send what was answered, and read on or pause reading."""
        channel = self.channel
        state_before = channel.state
        try:
            while (request := channel.next_request(now)) is not None:
                if request.served.low_priority:
                    self._handle_later(request)
                else:
                    now = self._handle(request)
                    if channel.outgoing_bytes > GATHERED_BYTES_MAX:
                        self._send()
        except Exception as error:
            self.give_up(error)
            return
        if channel.state is _YIELDED and state_before is not _YIELDED:
            self._shared.queues.pipelined.wait(self._take_turn)
        if channel.outgoing_bytes:
            self._send()
        if not channel.may_read():
            self._pause_reading()
        elif self._reading_is_paused:
            self._resume_reading()

    def _handle(self, request: StartedRequest) -> float:
        """Decode a request, call its handler, and answer it if the response is there; what time it is then."""
        served = request.served
        try:
            call = Call(self._services, self.client, request.client_id, request.api_version)
            try:
                message = served.read(request.frame, request.body_position, self._limits.elements_max)
            except UNREADABLE as error:
                raise served.unreadable(error) from None
            outcome = served.handle(call, message)
            if type(outcome) is Reply:
                self._await(request, outcome)
                return self._loop.time()
            self.channel.respond(request, outcome)
            now = self._loop.time()
            served.observe_seconds(now - request.started_at)
            return now
        except Exception:
            self.channel.discard(request)
            raise

    def _handle_later(self, request: StartedRequest) -> None:
        """Have a request of low priority handled when it is its turn."""
        self.channel.block(request)
        self.channel.keep(request)
        self._shared.queues.low_priority.wait(partial(self._handle_in_turn, request))

    def _handle_in_turn(self, request: StartedRequest) -> None:
        channel = self.channel
        if channel.state is _CLOSED or channel.state is _DRAINING:
            channel.discard(request)
            return
        try:
            self._handle(request)
        except Exception as error:
            self.give_up(error)
            return
        self._continue()

    def _await(self, request: StartedRequest, reply: Reply) -> None:
        """Send the response when the reply's future or coroutine is done."""
        channel, awaited, only_waits = self.channel, reply.awaited, request.served.cancel_on_disconnect
        if reply.next_may_start:
            channel.unblock(request)
        elif not request.blocks_next:
            channel.block(request)
        channel.defer(request, only_waits=only_waits, release=reply.release)
        if not isinstance(awaited, asyncio.Future):
            awaited = self._loop.create_task(awaited)
            self._tasks[awaited] = only_waits
        awaited.add_done_callback(partial(self._completed, request, reply))

    def _completed(self, request: StartedRequest, reply: Reply, future: "asyncio.Future[Any]") -> None:
        is_task = self._tasks.pop(future, None) is not None
        if future.cancelled():
            self.channel.discard(request)
            if self.channel.state is not _CLOSED:  # its response, and those after it, can never be sent
                self.abort()
        elif request.served.low_priority:
            finish = partial(self._finish, request, reply, future, at_once=True)
            self._shared.queues.low_priority.wait(finish)
        else:
            self._finish(request, reply, future, at_once=is_task)

    def _finish(
        self, request: StartedRequest, reply: Reply, future: "asyncio.Future[Any]", *, at_once: bool
    ) -> None:
        """Answer a request whose reply is complete. Futures often complete together: their responses share a write."""
        try:
            result = future.result()
            response = result if reply.respond is None else reply.respond(result)
            self.channel.respond(request, response)
            request.served.observe_seconds(self._loop.time() - request.started_at)
        except Exception as error:
            self.channel.discard(request)
            self.give_up(error)
            return
        if at_once:
            self._continue()
        elif not self._continues_soon:
            self._continues_soon = True
            self._loop.call_soon(self._continue)

    def _continue(self) -> None:
        """Send what was answered, and start what was held back."""
        self._continues_soon = False
        if self.channel.state is _CLOSED:
            return
        self._serve(self._loop.time())
        if self._drained is not None and not self.channel.owes_responses and not self._drained.done():
            self._drained.set_result(None)

    def _send(self) -> None:
        """Hand the transport what was answered since the last time."""
        channel = self.channel
        chunks, count = channel.outgoing_chunks, channel.outgoing_bytes
        channel.outgoing_chunks, channel.outgoing_bytes = [], 0
        if channel.state is _CLOSED:
            return
        assert self._transport is not None
        self._services.node.bytes_out.value += count
        if len(chunks) == 1:
            self._transport.write(chunks[0])
        elif count <= GATHERED_BYTES_MAX:
            self._transport.write(b"".join(chunks))
        else:
            self._transport.writelines(chunks)

    # Reading.

    def _pause_reading(self) -> None:
        channel = self.channel
        if channel.memory.asked:
            self._owner.memory_awaited()
        if self._reading_is_paused or channel.state is _CLOSED:
            return
        assert self._transport is not None
        self._reading_is_paused = True
        # It is the broker that is slow, not the client.
        channel.memory.is_excused = not channel.is_congested and channel.is_full
        self._transport.pause_reading()

    def _resume_reading(self) -> None:
        assert self._transport is not None
        self._reading_is_paused = False
        self.channel.memory.is_excused = False
        self.active_at = self._loop.time()  # while reading was paused, the client could not be active
        self._transport.resume_reading()

    def _take_turn(self) -> None:
        self.channel.turn_came()
        self._continue()

    def _take_reading_turn(self) -> None:
        self.channel.reading_turn_came()
        self._continue()

    def _got_memory(self) -> None:
        self._shared.queues.reading.wait(self._read_on)

    def _read_on(self) -> None:
        if self.channel.state is not _CLOSED:
            self.channel.got_memory()
            self._continue()

    # Endings.

    def give_up(self, error: Exception) -> None:
        """Close the connection after a peer's fault, which costs one line in the log, or after a fault of ours."""
        if isinstance(error, PeerError):
            self._shared.warnings.warn(
                "connection from %s:%s closed: %s", self.client.host, self.client.port, error
            )
        else:
            log.error(
                "a request from %s:%s failed; its connection is closed",
                self.client.host,
                self.client.port,
                exc_info=error,
            )
        self._services.node.refused_connections.add()
        self.abort()

    def abort(self) -> None:
        """Close at once; unsent responses are dropped."""
        self.channel.close()
        if self._transport is not None:
            self._transport.abort()

    def close_when_idle(self) -> None:
        """Close an idle connection; what was written is still sent."""
        if self.channel.outgoing_bytes:
            self._send()
        self.channel.close()
        if self._transport is not None:
            self._transport.close()

    @property
    def unsent_bytes(self) -> int:
        """Response bytes that the client has not read, once they are so many that sending is paused; else 0."""
        if not self.channel.is_congested or self.channel.state is _CLOSED or self._transport is None:
            return 0
        return self._transport.get_write_buffer_size()

    @property
    def has_stalled_request(self) -> bool:
        """Whether the rest of a request is due: a part has arrived, and reading is not paused."""
        return self.channel.has_unfinished_request and not self._reading_is_paused

    @property
    def is_idle(self) -> bool:
        return self.channel.is_idle

    async def drain(self) -> None:
        """Start no further request, send the responses that are due, then close; returns when that is done."""
        if self._lost.done():
            return
        channel = self.channel
        channel.drain()
        self._pause_reading()
        if channel.owes_responses:
            self._drained = self._loop.create_future()
            await self._drained
        self.close_when_idle()
        await self._lost  # the client may need a while to read what was written
