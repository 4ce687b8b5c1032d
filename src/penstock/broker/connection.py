"""One client's connection: cuts frames, starts requests in order, sends the answers in the same order.

Requests are started one after the other. A request that has to wait holds back the next one, unless its
handler says `Late`: then all that depends on order is done, and only the answer is missing. Behind
what is held back no more than one read is taken from the socket, so TCP slows the client down and memory is bounded.

Requests of a patient API are decoded, begun and answered when it is their turn (`turns`). An answer that is `Held` is
let go as soon as the client asks for anything else.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from types import CoroutineType
from typing import Any, TypeVar, cast

from penstock.apis import Api, ApiTable
from penstock.base.buffers import Buffer
from penstock.base.errors import PeerError
from penstock.broker.request_memory import RequestMemory
from penstock.broker.standstill import Standstill
from penstock.broker.turns import Turns
from penstock.schema.codec import decode, encode
from penstock.services.context import Call, ConnectedClient, Held, Late, Services, Soon
from penstock.wire.framing import FrameReader
from penstock.wire.headers import RequestHeader, frame_response, read_request_header

log = logging.getLogger("penstock.connection")

T = TypeVar("T")

# Answers are gathered up to this size, so that the small ones of one read go out in one write.
GATHERED_BYTES_MAX = 1 << 16


class _Answer:
    """A place in the order of answers; filled when its request is done."""

    __slots__ = ("chunks", "done")

    def __init__(self) -> None:
        self.done = False
        self.chunks: list[Buffer] | None = None


class Connection(asyncio.BufferedProtocol):
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
        turns: Turns,
        standstill: Standstill,
        on_made: Callable[["Connection"], bool],
        on_lost: Callable[["Connection"], None],
    ) -> None:
        self._services = services
        self._loop = services.world.loop
        self._apis = apis
        self._reader = FrameReader(request_bytes_max)
        self._scratch = self._loop.scratch
        self._in_flight_max = in_flight_max
        self._unsent_bytes_max = unsent_bytes_max
        self._elements_max = elements_max
        self._memory = memory
        self._turns = turns
        self._standstill = standstill
        self._arriving_bytes = 0  # of a request that is not complete, as far as `memory` knows
        self._on_made = on_made
        self._on_lost = on_lost
        self._backlog: deque[Buffer] = deque()  # frames of one read that are held back
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
        self._backlog.clear()
        self._memory.forget(self._resume)
        self._count_arriving(0)
        for task, is_wait in list(self._tasks.items()):
            if is_wait:
                task.cancel()
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        self._lost.set_result(None)
        self._on_lost(self)

    def get_buffer(self, _size_hint: int) -> memoryview:
        return self._reader.room or self._scratch

    def buffer_updated(self, count: int) -> None:
        if self._reader.room is None:
            self.data_received(bytes(self._scratch[:count]))
        else:
            self._received(self._reader.filled, count)

    def data_received(self, data: bytes) -> None:
        self._received(self._reader.feed, data)

    def _received(self, take: Callable[[T], list[memoryview]], what: T) -> None:
        if self._closing:
            return
        self.active_at = self._loop.time()
        if self.active_at > self._standstill.trusted_until:
            self._standstill.look()
            self.abort()
            return
        try:
            self._backlog.extend(take(what))
            held = self._reader.held
            if held != self._arriving_bytes:
                self._count_arriving(held)
            self._start_what_may_start()
        except Exception as error:
            self.give_up(error)

    def pause_writing(self) -> None:
        self._writing_paused = True

    def resume_writing(self) -> None:
        self._writing_paused = False
        self._resume()

    # Requests in.

    def _start_what_may_start(self) -> None:
        backlog = self._backlog
        while backlog:
            if self._release is not None:
                self._let_go()
            if self._held_back():
                break
            self._begin(backlog.popleft())
        self._send()
        # Behind a request that waits, one read more is taken: else nobody would notice that the client is gone.
        self._pause_reading(bool(backlog) or self._is_full() or self._must_wait_for_memory())

    def _must_wait_for_memory(self) -> bool:
        if self._arriving_bytes or not self._memory.is_full:
            return False
        self._memory.wake_when_there_is_room(self._resume)
        return True

    def _count_arriving(self, count: int) -> None:
        change = count - self._arriving_bytes
        self._arriving_bytes = count
        self._memory.add(change)

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
        if pause:
            self._transport.pause_reading()
        else:
            self.active_at = self._loop.time()  # it could send nothing before
            self._transport.resume_reading()

    def _let_go(self) -> None:
        release, self._release = self._release, None
        assert release is not None
        release()

    def _begin(self, frame: Buffer) -> None:
        started_at = self._loop.time()
        header, position = read_request_header(frame)
        api = self._apis.find(header)
        if not api.patient:
            self._serve(frame, header, position, api, started_at)
            return
        self._exclusive = True
        self._memory.add(len(frame))
        self._turns.wait(partial(self._serve_in_turn, frame, header, position, api, started_at))

    def _serve_in_turn(
        self, frame: Buffer, header: RequestHeader, position: int, api: Api, started_at: float
    ) -> None:
        self._memory.add(-len(frame))
        if self._closing or self._draining:
            return
        self._exclusive = False
        try:
            self._serve(frame, header, position, api, started_at)
            self._start_what_may_start()
        except Exception as error:
            self.give_up(error)

    def _serve(
        self, frame: Buffer, header: RequestHeader, position: int, api: Api, started_at: float
    ) -> None:
        call = Call(self._services, header, self.client)
        lowest, highest = api.versions
        if lowest <= header.api_version <= highest:
            outcome = api.handle(
                call,
                decode(api.request, header.api_version, frame, position, elements_max=self._elements_max),
            )
        else:
            assert api.handle_unsupported is not None
            outcome = api.handle_unsupported(call)
            header = header._replace(api_version=0)
        if type(outcome) is CoroutineType:
            self._exclusive = True
            self._finish_later(outcome, api, header, started_at, len(frame), exclusive=True)
        elif type(outcome) is Late:
            self._finish_later(outcome.answer, api, header, started_at, len(frame), exclusive=False)
        elif type(outcome) is Held:
            self._release = outcome.release
            self._finish_later(outcome.answer, api, header, started_at, len(frame), exclusive=False)
        elif type(outcome) is Soon:
            self._finish_soon(outcome, api, header, started_at, len(frame))
        else:
            self._answer(None, api, header, outcome, started_at)

    def _finish_soon(
        self, outcome: Soon, api: Api, header: RequestHeader, started_at: float, frame_bytes: int
    ) -> None:
        answer = _Answer()
        self._answers.append(answer)
        self._memory.add(frame_bytes)

        def finish(future: asyncio.Future[Any]) -> None:
            self._memory.add(-frame_bytes)
            try:
                self._answer(answer, api, header, outcome.answer(future.result()), started_at)
                self._resume_soon()
            except Exception as error:
                self.give_up(error)

        outcome.future.add_done_callback(finish)

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
        api: Api,
        header: RequestHeader,
        started_at: float,
        frame_bytes: int,
        *,
        exclusive: bool,
    ) -> None:
        answer = _Answer()
        self._answers.append(answer)
        task = self._loop.create_task(
            self._finish(outcome, answer, api, header, started_at, exclusive=exclusive)
        )
        self._tasks[task] = api.waits
        self._memory.add(frame_bytes)

        def forget(task: asyncio.Task[None]) -> None:
            del self._tasks[task]
            self._memory.add(-frame_bytes)
            outcome.close()  # if the task was cancelled before it began

        task.add_done_callback(forget)

    async def _finish(
        self,
        outcome: Coroutine[Any, Any, Any],
        answer: _Answer,
        api: Api,
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
        if api.patient:
            self._turns.wait(go_on)
        else:
            go_on()

    def _answer_and_go_on(
        self,
        answer: _Answer,
        api: Api,
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
        self, answer: _Answer | None, api: Api, header: RequestHeader, response: Any, started_at: float
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
        self._services.bytes_out.add(count)
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
            log.warning("connection from %s:%s closed: %s", self.client.host, self.client.port, error)
        else:
            log.error(
                "a request from %s:%s failed; its connection is closed",
                self.client.host,
                self.client.port,
                exc_info=error,
            )
        self._services.refused_connections.add()
        self.abort()

    def abort(self) -> None:
        """Close at once; unsent answers are dropped."""
        self._closing = True
        self._backlog.clear()
        if self._transport is not None:
            self._transport.abort()

    def close_when_idle(self) -> None:
        """Close an idle connection; what was written is still sent."""
        self._send()
        self._closing = True
        if self._transport is not None:
            self._transport.close()

    @property
    def owes_half_a_request(self) -> bool:
        """Whether the rest of a request is due: it was begun, and we are listening."""
        return self._arriving_bytes > 0 and not self._reading_paused

    @property
    def is_idle(self) -> bool:
        return not self._answers and not self._backlog and not self._exclusive

    async def drain(self) -> None:
        """Take no further request, send the answers that are due, then close; returns when that is done."""
        if self._lost.done():
            return
        self._backlog.clear()
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
