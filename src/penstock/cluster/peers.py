"""Connections to the other brokers of the cluster, opened at the first request and again after they were lost.

Each begins with the handshake (`cluster.handshake`). `ask` shares one connection per broker; a caller whose requests
are delayed by the other side, as a replica fetcher's are, takes a connection of its own with `connect`.

A connection belongs to one registration of a broker (node id and broker epoch). A machine that loses its power closes
no connections, so requests in flight to a broker fail as soon as the metadata have it fenced or registered again.
"""

import asyncio
from typing import NamedTuple, TypeVar

from penstock.client.addresses import Address
from penstock.client.connection import Connection, ConnectionLimits, open_connection
from penstock.client.errors import ConnectionLostError, UnreachableError
from penstock.cluster.handshake import InitiatorHandshake, PeerCredentials
from penstock.cluster.metadata import MetadataImage
from penstock.cluster.unproven_peers import CLIENT_ID_PREFIX, can_prove
from penstock.schema.words import Message
from penstock.wire.private.broker_handshake import BrokerHandshakeRequest, BrokerHandshakeResponse
from penstock.world import World

R = TypeVar("R", bound=Message)

_LIMITS = ConnectionLimits(connect_timeout_ms=5_000, request_timeout_ms=30_000, in_flight_max=100)


class _Registered(NamedTuple):
    """One registration of a broker."""

    node_id: int
    epoch: int
    address: Address
    can_prove: bool


class Peers:
    """The other brokers, by node id."""

    def __init__(self, world: World, image: MetadataImage, credentials: PeerCredentials) -> None:
        self._world = world
        self._image = image
        self._credentials = credentials
        self._client_id = f"{CLIENT_ID_PREFIX}{credentials.node_id}"
        self._connections: dict[_Registered, Connection] = {}
        self._opening: dict[_Registered, asyncio.Task[Connection]] = {}
        self._lent: dict[Connection, _Registered] = {}
        self._closed = False

    async def ask(
        self, node_id: int, request: Message, response: type[R], *, version_max: int | None = None
    ) -> R:
        """Send a request and return the response; a ClientError if there is none."""
        connection = await self._connection(self._registered(node_id))
        return await connection.ask(request, response, version_max=version_max)

    async def connect(self, node_id: int, limits: ConnectionLimits = _LIMITS) -> Connection:
        """Open a connection for this caller alone, which has to close it; a ClientError if that fails."""
        broker = self._registered(node_id)
        connection = await self._open(broker, limits)
        self._lent = {lent: of for lent, of in self._lent.items() if lent.is_open}
        self._lent[connection] = broker
        return connection

    def shakes_hands(self, node_id: int) -> bool:
        """Whether connections to a broker begin with the handshake, after which private API keys can be asked."""
        broker = self._find(node_id)
        return broker is not None and self._shakes_hands(broker)

    def _shakes_hands(self, broker: _Registered) -> bool:
        return broker.can_prove and self._credentials.proves

    def brokers_changed(self) -> None:
        """Close connections to brokers that are fenced or have registered again: they may never answer."""
        for connection, broker in [
            *self._lent.items(),
            *((each, of) for of, each in self._connections.items()),
        ]:
            if not self._is_present(broker):
                connection.close()
        self._connections = {broker: each for broker, each in self._connections.items() if each.is_open}

    def close(self) -> None:
        """Close the shared connections; requests in flight fail."""
        self._closed = True
        for task in self._opening.values():
            task.cancel()
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def _registered(self, node_id: int) -> _Registered:
        found = self._find(node_id)
        if found is None:
            raise UnreachableError(f"broker {node_id} is not registered")
        return found

    def _find(self, node_id: int) -> _Registered | None:
        broker = self._image.brokers.get(node_id)
        found = None if broker is None else broker.address(broker.peer_listener)
        if broker is None or found is None:
            return None
        return _Registered(node_id, broker.epoch, Address(found.host, found.port), can_prove(broker))

    def _is_present(self, broker: _Registered) -> bool:
        return self._find(broker.node_id) == broker and not self._image.brokers[broker.node_id].fenced

    async def _connection(self, broker: _Registered) -> Connection:
        connection = self._connections.get(broker)
        if connection is not None and connection.is_open:
            return connection
        task = self._opening.get(broker)
        if task is None:
            task = self._opening[broker] = self._world.loop.create_task(self._open(broker, _LIMITS))
            task.add_done_callback(lambda done: self._opened(broker, done))
        # Shielded: if this caller is cancelled, others still wait for the connection.
        return await asyncio.shield(task)

    def _opened(self, broker: _Registered, task: "asyncio.Task[Connection]") -> None:
        del self._opening[broker]
        if task.cancelled() or task.exception() is not None:
            return
        if self._closed:
            task.result().close()
        else:
            self._connections[broker] = task.result()

    async def _open(self, broker: _Registered, limits: ConnectionLimits) -> Connection:
        if self._closed:
            raise UnreachableError("this broker is stopping")
        connection = await open_connection(
            self._world.loop, broker.address, client_id=self._client_id, limits=limits
        )
        if self._shakes_hands(broker):
            try:
                await self._shake_hands(connection, broker, limits.connect_timeout_ms)
            except BaseException:
                connection.close()
                raise
        return connection

    async def _shake_hands(self, connection: Connection, broker: _Registered, timeout_ms: int) -> None:
        handshake = InitiatorHandshake(self._credentials, node_id=broker.node_id, epoch=broker.epoch)
        key, versions = BrokerHandshakeRequest.API_KEY, BrokerHandshakeRequest.VERSIONS
        connection.versions = connection.versions.including({key: versions})
        try:
            challenge = await connection.ask(
                handshake.hello(), BrokerHandshakeResponse, timeout_ms=timeout_ms
            )
            answer = await connection.ask(
                handshake.prove(challenge), BrokerHandshakeResponse, timeout_ms=timeout_ms
            )
        except ConnectionLostError as error:
            raise UnreachableError(
                f"broker {broker.node_id} ({broker.address}) refused the broker handshake: {error}"
            ) from error
        connection.versions = connection.versions.including(handshake.check(answer))
