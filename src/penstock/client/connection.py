"""One connection to one broker: the handshake, requests in flight at the same time, and the ways it can end.

A connection that ends, for whatever reason, fails everything that waits on it and is never used again; making
a new one is the client's business.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, TypeVar, cast

from penstock.base.buffers import Buffer
from penstock.base.errors import ErrorCode, PeerError
from penstock.base.version import VERSION
from penstock.client.addresses import Address
from penstock.client.conversation import Conversation
from penstock.client.errors import (
    ConnectionLostError,
    NoAnswerError,
    UnreachableError,
    UnsupportedError,
    connect_problem,
    raise_if_refused,
)
from penstock.client.versions import Versions
from penstock.schema.words import Message
from penstock.wire.apis import APIS
from penstock.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from penstock.world.loop import Loop

R = TypeVar("R", bound=Message)

# Kafka 0.10 knows version 0, every broker since then its neighbours.
_NOTHING_KNOWN = Versions({ApiVersionsRequest.API_KEY: ApiVersionsRequest.VERSIONS})


class ConnectionLimits(NamedTuple):
    """How long things may take and how much may be under way on one connection."""

    connect_timeout_ms: int = 10_000
    request_timeout_ms: int = 30_000
    in_flight_max: int = 5
    response_bytes_max: int = 128 << 20


class Connection(asyncio.Protocol):
    """The client's side of one connection; made with `open_connection`."""

    def __init__(
        self, loop: Loop, address: Address, *, client_id: str | None, limits: ConnectionLimits
    ) -> None:
        self.address = address
        self.versions = _NOTHING_KNOWN
        self.features: dict[str, int] = {}  # finalised by the cluster, each at a level
        self._loop = loop
        self._limits = limits
        self._conversation = Conversation(client_id=client_id, response_bytes_max=limits.response_bytes_max)
        self._answers: deque[asyncio.Future[Message]] = deque()  # in step with the conversation's queue
        self._waiting: deque[asyncio.Future[None]] = deque()  # for a turn to write
        self._writing_paused = False
        self._transport: asyncio.Transport | None = None
        self._ended: ConnectionLostError | None = None

    @property
    def is_open(self) -> bool:
        return self._ended is None

    @property
    def in_flight(self) -> int:
        return len(self._answers)

    async def ask(
        self,
        request: Message,
        response: type[R],
        *,
        timeout_ms: int | None = None,
        version_max: int | None = None,
    ) -> R:
        """Send the request in the newest version both know, and wait for the answer."""
        await self._turn()
        version = self.versions.pick(type(request), at_most=version_max)
        self._write(_encoded(lambda: self._conversation.ask(request, version, response)))
        answer: asyncio.Future[Message] = self._loop.create_future()
        self._answers.append(answer)
        allowed_ms = self._limits.request_timeout_ms if timeout_ms is None else timeout_ms
        timer = self._loop.call_later(allowed_ms / 1000, self._give_up, request, allowed_ms)
        try:
            return cast(R, await answer)
        finally:
            timer.cancel()

    async def tell(self, request: Message, *, version_max: int | None = None) -> None:
        """Send a request that is never answered."""
        await self._turn()
        version = self.versions.pick(type(request), at_most=version_max)
        self._write(_encoded(lambda: self._conversation.tell(request, version)))

    def close(self) -> None:
        self._end(ConnectionLostError(f"the connection to {self.address} was closed on this side"))

    # What the loop tells us.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if not self.is_open:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        try:
            messages = self._conversation.feed(data)
        except PeerError as error:
            self._end(ConnectionLostError(f"{self.address} does not speak Kafka's protocol: {error}"))
            return
        for message in messages:
            answer = self._answers.popleft()
            if not answer.done():  # the one who asked may have gone
                answer.set_result(message)
        self._wake()

    def connection_lost(self, error: Exception | None) -> None:
        why = f": {connect_problem(error)}" if isinstance(error, OSError) else ""
        self._end(ConnectionLostError(f"{self.address} closed the connection{why}"))

    def pause_writing(self) -> None:
        self._writing_paused = True

    def resume_writing(self) -> None:
        self._writing_paused = False
        self._wake()

    async def greet(self) -> None:
        """Learn what the broker knows; asks again in an older version if it does not know ours."""
        request = ApiVersionsRequest(client_software_name="penstock", client_software_version=VERSION)
        answer = await self.ask(request, ApiVersionsResponse, timeout_ms=self._limits.connect_timeout_ms)
        if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
            known = {api.api_key: api.max_version for api in answer.api_keys}
            version_max = known.get(ApiVersionsRequest.API_KEY, 0)
            answer = await self.ask(request, ApiVersionsResponse, version_max=version_max)
        raise_if_refused(answer.error_code, None, f"handshake with {self.address}")
        self.versions = Versions.of(answer.api_keys)
        self.features = {each.name: each.max_version_level for each in answer.finalized_features}

    async def _turn(self) -> None:
        """Wait until the connection may take one more request."""
        while self._ended is None and (
            self._writing_paused or len(self._answers) >= self._limits.in_flight_max
        ):
            turn: asyncio.Future[None] = self._loop.create_future()
            self._waiting.append(turn)
            await turn
        if self._ended is not None:
            raise self._ended

    def _wake(self) -> None:
        # All of them: who finds no room waits again, and nobody's cancellation can swallow a wake-up.
        waiting, self._waiting = self._waiting, deque()
        for turn in waiting:
            if not turn.done():
                turn.set_result(None)

    def _write(self, chunks: list[Buffer]) -> None:
        assert self._transport is not None, "asked before the connection was made"
        if len(chunks) == 1:
            self._transport.write(chunks[0])
        else:
            self._transport.writelines(chunks)

    def _give_up(self, request: Message, allowed_ms: int) -> None:
        name = APIS[request.API_KEY].name
        self._end(NoAnswerError(f"{self.address} did not answer {name} within {allowed_ms / 1000:g} s"))

    def _end(self, why: ConnectionLostError) -> None:
        if self._ended is not None:
            return
        self._ended = why
        for answer in self._answers:
            if not answer.done():
                answer.set_exception(why)
        self._answers.clear()
        self._wake()
        if self._transport is not None:
            self._transport.abort()


async def open_connection(
    loop: Loop, address: Address, *, client_id: str | None, limits: ConnectionLimits
) -> Connection:
    """A connection that has shaken hands; UnreachableError if there is nobody, or nobody who speaks Kafka."""
    connection = Connection(loop, address, client_id=client_id, limits=limits)
    try:
        await _connect(loop, connection, address, limits.connect_timeout_ms)
        await connection.greet()
    except OSError as error:
        raise UnreachableError(f"cannot reach {address}: {connect_problem(error)}") from error
    except ConnectionLostError as error:
        raise UnreachableError(f"cannot reach {address}: {error}") from error
    except BaseException:
        connection.close()
        raise
    return connection


async def _connect(loop: Loop, connection: Connection, address: Address, timeout_ms: int) -> None:
    attempt = loop.create_task(loop.connect(lambda: connection, address.host, address.port))
    late = False

    def give_up() -> None:
        nonlocal late
        late = attempt.cancel()

    timer = loop.call_later(timeout_ms / 1000, give_up)
    try:
        await attempt
    except asyncio.CancelledError:
        connection.close()  # should it still be made, it ends at once
        if not late:
            raise
        raise TimeoutError(f"no answer within {timeout_ms / 1000:g} s") from None
    finally:
        timer.cancel()


def _encoded(encode: Callable[[], list[Buffer]]) -> list[Buffer]:
    try:
        return encode()
    except ValueError as error:
        raise UnsupportedError(f"the broker is too old for this request: {error}") from error
