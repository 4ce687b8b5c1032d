"""One client's connection: cuts frames, starts requests in order, sends the answers in the same order.

Requests are started one after the other. A request that has to wait holds back the next one, unless its
handler's `Reply` says that the next may start: then all that depends on order is done. Behind
what is held back no more than one read is taken from the socket, so TCP slows the client down and memory is bounded
(`request_memory` bounds it for all connections together).

Of what one read brought, a few requests are served at once; the rest when it is this connection's turn among those that
have as many (`pipelined`). So no client waits for all that another one has sent.

Requests of an API with low priority are decoded, begun and answered when it is their turn (`turns`). The client's next
request releases a reply that has a `release`.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar, cast

from penstock.apis import ApiTable, ServedApi
from penstock.apis.context import Call, ConnectedClient, Services
from penstock.apis.reply import Reply
from penstock.base.buffers import Buffer
from penstock.base.errors import PeerError
from penstock.broker.arrivals import TURN_READ_BYTES_MAX, Arrivals
from penstock.broker.lease_guard import LeaseGuard
from penstock.broker.request_memory import RequestMemory
from penstock.broker.scarce_lines import ScarceLines
from penstock.broker.turns import Turns
from penstock.schema.codec import decode, encode
from penstock.wire.headers import RequestHeader, frame_response, read_request_header
from penstock.world.large_buffers import LargeBuffers

log = logging.getLogger("penstock.connection")

T = TypeVar("T")

# What a connection may have done before others are heard: so many requests, or for so long.
REQUESTS_PER_TURN_MAX = 64
TURN_MS_MAX = 0.3

# Answers are gathered up to this size, so that the small ones of one read go out in one write.
GATHERED_BYTES_MAX = 1 << 16


class _Answer:
    """A place in the order of answers; filled when its request is done."""

    __slots__ = ("chunks", "done")

    def __init__(self) -> None:
        self.done = False
        self.chunks: list[Buffer] | None = None


class ServerConnection(asyncio.BufferedProtocol):
    """The server's side of one connection."""

    def __init__(
        self,
        services: Services,
        apis: ApiTable,
        *,
        listener: str,
        request_bytes_max: int,
        in_flight_max: int,
        unsent_bytes_max: int,
        elements_max: int,
        memory: RequestMemory,
        buffers: LargeBuffers,
        turns: Turns,
        pipelined: Turns,
        reading: Turns,
        lease_guard: LeaseGuard,
        lines: ScarceLines,
        on_made: Callable[["ServerConnection"], bool],
        on_waiting: Callable[[], None],
        on_unsent: Callable[["ServerConnection"], None],
        on_lost: Callable[["ServerConnection"], None],
    ) -> None:
        self._services = services
        self._loop = services.node.world.loop
        self._apis = apis
        self.arrivals = Arrivals(
            memory, request_bytes_max=request_bytes_max, buffers=buffers, wake=self._got_memory
        )
        self._memory = self.arrivals.memory
        self._scratch = self._loop.scratch
        self._in_flight_max = in_flight_max
        self._unsent_bytes_max = unsent_bytes_max
        self._elements_max = elements_max
        self._turns = turns
        self._pipelined = pipelined
        self._reading = (
            reading  # a line of its own: to read on costs little, and waits for no requests of others
        )
        self._lease_guard = lease_guard
        self._lines = lines
        self._on_made = on_made
        self._on_waiting = on_waiting  # for memory
        self._on_unsent = on_unsent  # more than one connection should leave, or no longer
        self._on_lost = on_lost
        self._waits_for_turn = False  # to go on with what was read, or to read on
        self._filled_bytes = 0  # of large requests, since the last turn that was waited for
        self._answers: deque[_Answer] = deque()
        self._unsent: list[Buffer] = []  # answers that have not been handed to the transport
        self._unsent_bytes = 0
        self._tasks: dict[asyncio.Task[None], bool] = {}  # whether they may be broken off
        self._exclusive = False  # a request that lets no other one start is under way, or waits for its turn
        self._release: Callable[[], None] | None = None  # ends the wait of an answer that is held
        self._resumes_soon = False
        self._writing_paused = False
        self._reading_paused = False
        self._closing = False
        self._draining = False
        self._drained: asyncio.Future[None] | None = None
        self._lost: asyncio.Future[None] = self._loop.create_future()
        self._transport: asyncio.Transport | None = None
        self.client = ConnectedClient(listener)
        self.active_at = self._loop.time()

    # What the loop tells us.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none of asyncio's classes
        peer = self._transport.get_extra_info("peername")
        if peer:
            self.client.host, self.client.port = peer[:2]
        self._transport.set_write_buffer_limits(high=self._unsent_bytes_max)
        if not self._on_made(self):
            self._closing = True
            self._transport.abort()

    def connection_lost(self, _error: Exception | None) -> None:
        self._closing = True
        self.arrivals.drop()
        self._memory.leave()
        for task, is_wait in list(self._tasks.items()):
            if is_wait:
                task.cancel()
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        self._lost.set_result(None)
        self._on_lost(self)

    def get_buffer(self, _size_hint: int) -> memoryview:
        return self.arrivals.buffer(self._scratch)

    def buffer_updated(self, count: int) -> None:
        if self.arrivals.is_filled_in_place:
            self._filled_bytes += count
            if self._filled_bytes >= TURN_READ_BYTES_MAX:
                self._filled_bytes = 0
                self._wait_for_turn(self._reading)
            self._received(self.arrivals.filled, count)
        else:
            self.data_received(bytes(self._scratch[:count]))

    def data_received(self, data: bytes) -> None:
        self._received(self.arrivals.put, data)

    def _received(self, take: Callable[[T], None], what: T) -> None:
        if self._closing:
            return
        self.active_at = self._loop.time()
        if self.active_at > self._lease_guard.trusted_until:
            self._lease_guard.look()
            self.abort()
            return
        try:
            take(what)
            if self._waits_for_turn or not self.arrivals.is_filled_in_place:
                self._start_what_may_start()
        except Exception as error:
            self.give_up(error)

    def pause_writing(self) -> None:
        self._writing_paused = True
        self._on_unsent(self)

    def resume_writing(self) -> None:
        self._writing_paused = False
        self._on_unsent(self)
        self._resume()

    # Requests in.

    def _start_what_may_start(self) -> None:
        arrivals = self.arrivals
        begun = 0
        ends = 0.0
        while not self._waits_for_turn and (frame := arrivals.next()) is not None:
            if self._release is not None:
                self._let_go()
            if self._held_back():
                break
            if begun:
                now = self._loop.time()
                ends = ends or now + TURN_MS_MAX / 1000
                if begun == REQUESTS_PER_TURN_MAX or now >= ends:
                    self._wait_for_turn(self._pipelined)
                    break
            begun += 1
            self._begin(frame, arrivals.take())
        self._send()
        if arrivals.is_held_back:
            arrivals.hold_back(progressed=begun > 0, is_clients_fault=self._holds_itself_back())
        arrivals.count()
        # Behind a request that waits, one read more is taken: else nobody would notice that the client is gone.
        self._pause_reading(
            self._waits_for_turn or arrivals.is_held_back or self._is_full() or not self._may_read_on()
        )

    def _holds_itself_back(self) -> bool:
        """Whether requests have to wait for a reason that is the client's: it reads no answers, or polls."""
        return self._writing_paused or (self._exclusive and any(self._tasks.values()))

    def _wait_for_turn(self, line: Turns) -> None:
        if not self._waits_for_turn:
            self._waits_for_turn = True
            line.wait(self._take_turn)

    def _take_turn(self) -> None:
        self._waits_for_turn = False
        self._resume()

    def _may_read_on(self) -> bool:
        may_read_on = self.arrivals.may_read_on()
        if not may_read_on:
            self._on_waiting()
        return may_read_on

    def _got_memory(self) -> None:
        self._reading.wait(self._read_on)

    def _read_on(self) -> None:
        if not self._closing:
            self.arrivals.woken()
            self._resume()

    def _letting_go_of(self, frame: Buffer, was_granted: bool) -> Callable[[], None]:
        """What gives back the memory of a request, when nothing but its records may be left of it."""
        if was_granted:
            return partial(self._memory.give_back, len(frame))
        return partial(self._memory.keep, -len(frame))

    def _held_back(self) -> bool:
        return self._exclusive or self._is_full()

    def _is_full(self) -> bool:
        # Only by the next request is an answer let go that is held: it must be read.
        return (
            self._writing_paused
            or (len(self._answers) >= self._in_flight_max and self._release is None)
            or self._draining
            or self._closing
        )

    def _pause_reading(self, pause: bool) -> None:
        if pause == self._reading_paused or self._closing:
            return
        assert self._transport is not None
        self._reading_paused = pause
        self._memory.is_excused = pause and not self._writing_paused and self._is_full()
        if pause:
            self._transport.pause_reading()
        else:
            self.active_at = self._loop.time()  # it could send nothing before
            self._transport.resume_reading()

    def _let_go(self) -> None:
        release, self._release = self._release, None
        assert release is not None
        release()

    def _begin(self, frame: Buffer, was_granted: bool) -> None:
        started_at = self._loop.time()
        waits = False
        try:
            header, position = read_request_header(frame)
            api = self._apis.find(header)
            if api.low_priority:
                self._exclusive = waits = True
                serve = partial(self._serve_in_turn, frame, was_granted, header, position, api, started_at)
                self._turns.wait(serve)
            else:
                waits = self._serve(frame, was_granted, header, position, api, started_at)
        finally:
            if was_granted and not waits:
                self._memory.give_back(len(frame))
        if waits and not was_granted:
            self._memory.keep(len(frame))

    def _serve_in_turn(
        self,
        frame: Buffer,
        was_granted: bool,
        header: RequestHeader,
        position: int,
        api: ServedApi,
        started_at: float,
    ) -> None:
        waits = False
        try:
            if self._closing or self._draining:
                return
            self._exclusive = False
            waits = self._serve(frame, was_granted, header, position, api, started_at)
        except Exception as error:
            self.give_up(error)
        finally:
            if not waits:
                self._letting_go_of(frame, was_granted)()
        self._resume()

    def _serve(
        self,
        frame: Buffer,
        was_granted: bool,
        header: RequestHeader,
        position: int,
        api: ServedApi,
        started_at: float,
    ) -> bool:
        """Whether the request waits for something; its memory is given back when that is over."""
        call = Call(self._services, header, self.client)
        lowest, highest = api.versions
        outcome: Any
        if lowest <= header.api_version <= highest:
            outcome = api.handle(
                call,
                decode(api.request, header.api_version, frame, position, elements_max=self._elements_max),
            )
        else:
            assert api.handle_unsupported is not None
            outcome = api.handle_unsupported(call)
            header = header._replace(api_version=0)
        if type(outcome) is not Reply:
            self._answer(None, api, header, outcome, started_at)
            return False
        give_back = self._letting_go_of(frame, was_granted)
        if not outcome.next_may_start:
            self._exclusive = True
        if outcome.release is not None:
            self._release = outcome.release
        if isinstance(outcome.awaited, asyncio.Future):
            self._finish_soon(outcome, api, header, started_at, give_back)
        else:
            awaited = outcome.awaited if outcome.respond is None else outcome.response()
            self._finish_later(
                awaited, api, header, started_at, give_back, exclusive=not outcome.next_may_start
            )
        return True

    def _finish_soon(
        self,
        reply: Reply,
        api: ServedApi,
        header: RequestHeader,
        started_at: float,
        let_go_of: Callable[[], None],
    ) -> None:
        assert isinstance(reply.awaited, asyncio.Future)
        answer = _Answer()
        self._answers.append(answer)

        def finish(future: asyncio.Future[Any]) -> None:
            let_go_of()
            try:
                result = future.result()
                self._answer(
                    answer,
                    api,
                    header,
                    result if reply.respond is None else reply.respond(result),
                    started_at,
                )
                if not reply.next_may_start:
                    self._exclusive = False
                self._resume_soon()
            except Exception as error:
                self.give_up(error)

        reply.awaited.add_done_callback(finish)

    def _resume_soon(self) -> None:
        """Answers that come one after the other in one turn of the loop go out in one write."""
        if not self._resumes_soon:
            self._resumes_soon = True
            self._loop.call_soon(self._resume_now)

    def _resume_now(self) -> None:
        self._resumes_soon = False
        self._resume()

    def _finish_later(
        self,
        outcome: Coroutine[Any, Any, Any],
        api: ServedApi,
        header: RequestHeader,
        started_at: float,
        let_go_of: Callable[[], None],
        *,
        exclusive: bool,
    ) -> None:
        answer = _Answer()
        self._answers.append(answer)
        task = self._loop.create_task(
            self._finish(outcome, answer, api, header, started_at, exclusive=exclusive)
        )
        self._tasks[task] = api.cancel_on_disconnect

        def forget(task: asyncio.Task[None]) -> None:
            del self._tasks[task]
            let_go_of()
            outcome.close()  # if the task was cancelled before it began

        task.add_done_callback(forget)

    async def _finish(
        self,
        outcome: Coroutine[Any, Any, Any],
        answer: _Answer,
        api: ServedApi,
        header: RequestHeader,
        started_at: float,
        *,
        exclusive: bool,
    ) -> None:
        try:
            response = await outcome
        except Exception as error:
            self.give_up(error)
            return
        go_on = partial(
            self._answer_and_go_on, answer, api, header, response, started_at, exclusive=exclusive
        )
        if api.low_priority:
            self._turns.wait(go_on)
        else:
            go_on()

    def _answer_and_go_on(
        self,
        answer: _Answer,
        api: ServedApi,
        header: RequestHeader,
        response: Any,
        started_at: float,
        *,
        exclusive: bool,
    ) -> None:
        try:
            self._answer(answer, api, header, response, started_at)
        except Exception as error:
            self.give_up(error)
            return
        if exclusive:
            self._exclusive = False
        self._resume()

    def _resume(self) -> None:
        if self._closing:
            return
        try:
            self._start_what_may_start()
        except Exception as error:
            self.give_up(error)

    # Answers out.

    def _answer(
        self, answer: _Answer | None, api: ServedApi, header: RequestHeader, response: Any, started_at: float
    ) -> None:
        chunks: list[Buffer] | None = None
        if response is not None:
            chunks = frame_response(
                api_key=header.api_key,
                api_version=header.api_version,
                correlation_id=header.correlation_id,
                chunks=encode(response, header.api_version),
            )
        api.seconds.observe(self._loop.time() - started_at)
        if answer is None and not self._answers:
            self._write(chunks)
            return
        if answer is None:
            answer = _Answer()
            self._answers.append(answer)
        answer.chunks = chunks
        answer.done = True
        while self._answers and self._answers[0].done:
            self._write(self._answers.popleft().chunks)
        self._tell_drained()

    def _write(self, chunks: list[Buffer] | None) -> None:
        if chunks is None:
            return
        self._unsent += chunks
        self._unsent_bytes += sum(map(len, chunks))
        if self._unsent_bytes > GATHERED_BYTES_MAX:
            self._send()

    def _send(self) -> None:
        """Hand the transport what was answered since the last time."""
        unsent, count = self._unsent, self._unsent_bytes
        if not unsent or self._closing:
            return
        assert self._transport is not None
        self._unsent, self._unsent_bytes = [], 0
        self._services.node.bytes_out.add(count)
        if len(unsent) == 1:
            self._transport.write(unsent[0])
        elif count <= GATHERED_BYTES_MAX:
            self._transport.write(b"".join(unsent))
        else:
            self._transport.writelines(unsent)

    # Endings.

    def give_up(self, error: Exception) -> None:
        """A peer's fault costs it its connection and us one line; a fault of ours costs it that too, and is told."""
        if isinstance(error, PeerError):
            self._lines.warn("connection from %s:%s closed: %s", self.client.host, self.client.port, error)
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
        """Close at once; unsent answers are dropped."""
        self._closing = True
        self.arrivals.drop()
        if self._transport is not None:
            self._transport.abort()

    def close_when_idle(self) -> None:
        """Close an idle connection; what was written is still sent."""
        self._send()
        self._closing = True
        if self._transport is not None:
            self._transport.close()

    @property
    def unsent_bytes(self) -> int:
        """What the client has not taken, where that is so much that it gets no further answers; else 0."""
        if not self._writing_paused or self._closing or self._transport is None:
            return 0
        return self._transport.get_write_buffer_size()

    @property
    def owes_half_a_request(self) -> bool:
        """Whether the rest of a request is due: it was begun, and we are listening."""
        return self.arrivals.has_unfinished and not self._reading_paused

    @property
    def is_idle(self) -> bool:
        return not self._answers and not self.arrivals.is_held_back and not self._exclusive

    async def drain(self) -> None:
        """Take no further request, send the answers that are due, then close; returns when that is done."""
        if self._lost.done():
            return
        self.arrivals.drop()
        self._draining = True
        self._pause_reading(True)
        if self._answers:
            self._drained = self._loop.create_future()
            await self._drained
        self.close_when_idle()
        await self._lost  # what was written may take the client a while to read

    def _tell_drained(self) -> None:
        if self._drained is not None and not self._answers and not self._drained.done():
            self._drained.set_result(None)
