"""One connection to one broker: TLS, ApiVersions, authentication, requests in flight, and how it ends.

A connection that ends fails all requests in flight and is never used again; `Client` opens a new one. If the SASL
session has a lifetime, the connection reauthenticates before it expires, between two requests.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, TypeVar, cast

from penstock.base.buffers import Buffer
from penstock.base.errors import ErrorCode, PeerError
from penstock.base.version import VERSION
from penstock.client.addresses import Address
from penstock.client.authentication import authenticate, check_versions, renewal_delay_ms
from penstock.client.conversation import Conversation
from penstock.client.errors import (
    AuthenticationError,
    ClientError,
    ConnectionLostError,
    NoAnswerError,
    UnreachableError,
    UnsupportedError,
    connect_problem,
    raise_if_refused,
)
from penstock.client.security import Security
from penstock.client.versions import Versions
from penstock.schema.words import Message
from penstock.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from penstock.wire.private import api_name
from penstock.world.entropy import Entropy
from penstock.world.loop import Loop, Timer
from penstock.world.tls import TlsError, explain

R = TypeVar("R", bound=Message)
T = TypeVar("T")

# ApiVersions: Kafka 0.10 knows version 0; newer brokers answer an unknown version with one they know.
_NOTHING_KNOWN = Versions({ApiVersionsRequest.API_KEY: ApiVersionsRequest.VERSIONS})

PLAINTEXT = Security()
# The first bytes of a TLS alert. Read as a frame's length they would be 350 MB.
_TLS_ALERT = b"\x15\x03"

_LATE_S_MIN = 0.05
_CATCH_UP_S = 5.0


class ConnectionLimits(NamedTuple):
    """Timeouts of one connection, and how many requests may be in flight."""

    connect_timeout_ms: int = 10_000
    request_timeout_ms: int = 30_000
    in_flight_max: int = 5
    response_bytes_max: int = 128 << 20


class Connection(asyncio.BufferedProtocol):
    """The client's side of one connection; made with `open_connection`."""

    def __init__(
        self,
        loop: Loop,
        address: Address,
        *,
        client_id: str | None,
        limits: ConnectionLimits,
        security: Security = PLAINTEXT,
        entropy: Entropy | None = None,
    ) -> None:
        self.address = address
        self.versions = _NOTHING_KNOWN
        self.features: dict[str, int] = {}  # the cluster's finalised feature levels
        self._loop = loop
        self._limits = limits
        self._security = security
        self._entropy = entropy
        self._answered_count = 0
        self._renewal_due: float | None = None  # when to reauthenticate
        self._renewal_timer: Timer | None = None
        self._renewal: asyncio.Task[None] | None = None
        self._conversation = Conversation(client_id=client_id, response_bytes_max=limits.response_bytes_max)
        self._answers: deque[asyncio.Future[Message]] = deque()  # in step with the conversation's queue
        self._waiting: deque[asyncio.Future[None]] = (
            deque()
        )  # requests that wait for their turn to be written
        self._writing_paused = False
        self._transport: asyncio.Transport | None = None
        self._ended: ClientError | None = None
        self._end_heard: asyncio.Future[None] | None = None  # callers of `ended`

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
        """Send the request in the newest version that both sides know, and wait for the response."""
        await self._turn()
        return await self._send(request, response, timeout_ms=timeout_ms, version_max=version_max)

    async def _send(
        self,
        request: Message,
        response: type[R],
        *,
        timeout_ms: int | None = None,
        version_max: int | None = None,
    ) -> R:
        if self._ended is not None:
            raise self._ended
        version = self.versions.pick(type(request), at_most=version_max)
        self._write(_encoded(lambda: self._conversation.ask(request, version, response)))
        answer: asyncio.Future[Message] = self._loop.create_future()
        self._answers.append(answer)
        allowed_ms = self._limits.request_timeout_ms if timeout_ms is None else timeout_ms
        timeout = _Timeout(self._loop, allowed_ms / 1000, lambda: self._give_up(request, allowed_ms))
        try:
            return cast(R, await answer)
        finally:
            timeout.cancel()

    async def tell(self, request: Message, *, version_max: int | None = None) -> None:
        """Send a request that has no response."""
        await self._turn()
        version = self.versions.pick(type(request), at_most=version_max)
        self._write(_encoded(lambda: self._conversation.tell(request, version)))

    async def ended(self) -> None:
        """Return when the connection has ended, for any reason."""
        if self.is_open:
            if self._end_heard is None:
                self._end_heard = self._loop.create_future()
            await asyncio.shield(self._end_heard)

    def close(self) -> None:
        self._end(ConnectionLostError(f"the connection to {self.address} was closed on this side"))

    # Callbacks of the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if not self.is_open:
            self._transport.abort()

    def get_buffer(self, _size_hint: int) -> memoryview:
        return self._conversation.room or self._loop.scratch

    def buffer_updated(self, count: int) -> None:
        if self._conversation.room is None:
            self.data_received(bytes(self._loop.scratch[:count]))
        else:
            self._received(self._conversation.filled, count)

    def data_received(self, data: bytes) -> None:
        if not self._answered_count and data[:2] == _TLS_ALERT:
            self._end(
                AuthenticationError(
                    f"{self.address} speaks TLS; security.protocol would be SSL or SASL_SSL there"
                )
            )
            return
        self._received(self._conversation.feed, data)

    def _received(self, take: Callable[[T], list[Message]], what: T) -> None:
        try:
            messages = take(what)
        except PeerError as error:
            self._end(ConnectionLostError(f"{self.address} does not speak Kafka's protocol: {error}"))
            return
        self._answered_count += len(messages)
        for message in messages:
            answer = self._answers.popleft()
            if not answer.done():  # the caller may have been cancelled
                answer.set_result(message)
        self._wake()

    def connection_lost(self, error: Exception | None) -> None:
        refused = None if error is None else explain(error, self.address.host)
        if refused is not None:
            self._end(AuthenticationError(f"{self.address}: {refused}"))
            return
        why = f": {connect_problem(error)}" if isinstance(error, OSError) else ""
        self._end(ConnectionLostError(f"{self.address} closed the connection{why}{self._likely_cause()}"))

    def _likely_cause(self) -> str:
        """The likely cause if the broker closed the connection during the first exchanges."""
        if self._answered_count == 0 and self._security.tls is None:
            return " before it answered; if it expects TLS, security.protocol has to be SSL or SASL_SSL"
        if self._answered_count == 1 and self._security.sasl is None:
            return " after ApiVersions; if it expects SASL, security.protocol has to be SASL_PLAINTEXT or SASL_SSL"
        return ""

    def pause_writing(self) -> None:
        self._writing_paused = True

    def resume_writing(self) -> None:
        self._writing_paused = False
        self._wake()

    async def negotiate_versions(self) -> None:
        """Learn the broker's API versions and features; retry with an older ApiVersions if it does not know ours."""
        request = ApiVersionsRequest(client_software_name="penstock", client_software_version=VERSION)
        answer = await self.ask(request, ApiVersionsResponse, timeout_ms=self._limits.connect_timeout_ms)
        if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
            known = {api.api_key: api.max_version for api in answer.api_keys}
            version_max = known.get(ApiVersionsRequest.API_KEY, 0)
            answer = await self.ask(request, ApiVersionsResponse, version_max=version_max)
        raise_if_refused(answer.error_code, None, f"handshake with {self.address}")
        self.versions = Versions.of(answer.api_keys)
        self.features = {each.name: each.max_version_level for each in answer.finalized_features}

    # Authentication.

    async def authenticate(self) -> None:
        """Authenticate if SASL is configured, and schedule reauthentication."""
        sasl = self._security.sasl
        if sasl is None:
            return
        assert self._entropy is not None, "SASL needs a source of entropy"
        check_versions(self.versions, self.address)
        lifetime_ms = await authenticate(self._send, sasl, address=self.address, entropy=self._entropy)
        delay_ms = renewal_delay_ms(lifetime_ms)
        if delay_ms is not None and self.is_open:
            self._renewal_due = self._loop.time() + delay_ms / 1000
            self._renewal_timer = self._loop.call_later(delay_ms / 1000, self._renew)

    def _renew(self) -> None:
        """Reauthenticate. No other request is sent meanwhile: the broker expects only SASL requests."""
        if self._renewal is None and self.is_open:
            self._stop_timer()
            self._renewal_due = None
            self._renewal = self._loop.create_task(self._renew_now(), name=f"who we are, to {self.address}")

    async def _renew_now(self) -> None:
        try:
            await self.authenticate()
        except ClientError as error:
            self._end(error)
        except BaseException:
            self.close()
            raise
        finally:
            self._renewal = None
            self._wake()

    def _stop_timer(self) -> None:
        if self._renewal_timer is not None:
            self._renewal_timer.cancel()
            self._renewal_timer = None

    def _may_write(self) -> bool:
        # The timer alone is not enough: after a pause of the loop (a blocking client between two calls) requests may
        # run before it.
        if self._renewal_due is not None and self._loop.time() >= self._renewal_due:
            self._renew()
        crowded = self._writing_paused or len(self._answers) >= self._limits.in_flight_max
        return self._renewal is None and not crowded

    async def _turn(self) -> None:
        """Wait until there is room for one more request in flight."""
        while self._ended is None and not self._may_write():
            turn: asyncio.Future[None] = self._loop.create_future()
            self._waiting.append(turn)
            await turn
        if self._ended is not None:
            raise self._ended

    def _wake(self) -> None:
        # Wake all: those that find no room wait again, and a cancelled waiter cannot lose the wake-up.
        waiting, self._waiting = self._waiting, deque()
        for turn in waiting:
            if not turn.done():
                turn.set_result(None)

    def _write(self, chunks: list[Buffer]) -> None:
        assert self._transport is not None, "request before the connection was made"
        if len(chunks) == 1:
            self._transport.write(chunks[0])
        else:
            self._transport.writelines(chunks)

    def _give_up(self, request: Message, allowed_ms: int) -> None:
        name = api_name(request.API_KEY)
        self._end(NoAnswerError(f"{self.address} did not answer {name} within {allowed_ms / 1000:g} s"))

    def _end(self, why: ClientError) -> None:
        if self._ended is not None:
            return
        why.address = self.address
        self._ended = why
        self._stop_timer()
        for answer in self._answers:
            if not answer.done():
                answer.set_exception(why)
        self._answers.clear()
        if self._end_heard is not None:
            self._end_heard.set_result(None)
        self._wake()
        if self._transport is not None:
            self._transport.abort()


class _Timeout:
    """Calls a function after a timeout, not counting pauses of the event loop.

    A loop is paused while its program does something else: a blocking client between two calls, a Spark task whose
    rows are not consumed. Responses that arrived meanwhile are unread, so after a pause there is time to read them.
    """

    def __init__(self, loop: Loop, allowed_s: float, give_up: Callable[[], None]) -> None:
        self._loop = loop
        self._give_up = give_up
        self._start(allowed_s)

    def cancel(self) -> None:
        self._timer.cancel()

    def _start(self, allowed_s: float) -> None:
        self._allowed_s = allowed_s
        self._due = self._loop.time() + allowed_s
        self._timer = self._loop.call_later(allowed_s, self._is_over)

    def _is_over(self) -> None:
        if self._loop.time() - self._due > max(_LATE_S_MIN, self._allowed_s / 10):
            self._start(min(self._allowed_s, _CATCH_UP_S))
        else:
            self._give_up()


async def open_connection(
    loop: Loop,
    address: Address,
    *,
    client_id: str | None,
    limits: ConnectionLimits,
    security: Security = PLAINTEXT,
    entropy: Entropy | None = None,
) -> Connection:
    """Open a connection that is ready for requests; UnreachableError if no broker listens there.

    AuthenticationError if TLS or SASL fails. SASL needs `entropy`.
    """
    connection = Connection(
        loop, address, client_id=client_id, limits=limits, security=security, entropy=entropy
    )
    try:
        await _connect(loop, connection, address, security, limits.connect_timeout_ms)
        await connection.negotiate_versions()
        await connection.authenticate()
    except TlsError as error:
        raise AuthenticationError(f"{address}: {error}") from error
    except OSError as error:
        raise _unreachable(address, connect_problem(error)) from error
    except ConnectionLostError as error:
        raise _unreachable(address, str(error)) from error
    except BaseException:
        connection.close()
        raise
    return connection


def _unreachable(address: Address, why: str) -> UnreachableError:
    error = UnreachableError(f"cannot reach {address}: {why}")
    error.address = address
    return error


async def _connect(
    loop: Loop, connection: Connection, address: Address, security: Security, timeout_ms: int
) -> None:
    attempt = loop.create_task(loop.connect(lambda: connection, address.host, address.port, tls=security.tls))
    late = False

    def give_up() -> None:
        nonlocal late
        late = attempt.cancel()

    timer = loop.call_later(timeout_ms / 1000, give_up)
    try:
        await attempt
    except asyncio.CancelledError:
        connection.close()  # if it is established later, it is closed at once
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
