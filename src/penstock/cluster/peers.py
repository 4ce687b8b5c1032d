"""Asking other brokers of the cluster: a connection to each, opened when it is first needed and after it was lost.

Who needs a connection for itself, as a follower does whose fetches are held, takes one with `connect`.

A connection leads to one life of a broker. A machine that loses its power tells nobody, and what it had taken is
answered by nobody, so the end of that life is learned from the metadata: then whoever waits need not wait any longer.
"""

import asyncio
from typing import NamedTuple, TypeVar

from penstock.client.addresses import Address
from penstock.client.connection import Connection, ConnectionLimits, open_connection
from penstock.client.errors import UnreachableError
from penstock.cluster.metadata import MetadataImage
from penstock.schema.words import Message
from penstock.world import World

R = TypeVar("R", bound=Message)

_CLIENT_ID_PREFIX = "__penstock-broker-"
_LIMITS = ConnectionLimits(connect_timeout_ms=5_000, request_timeout_ms=30_000, in_flight_max=100)


def is_peer(client_id: str | None) -> bool:
    """Whether a request comes from another broker, by the name it gives itself: it is answered, and never sent on."""
    return client_id is not None and client_id.startswith(_CLIENT_ID_PREFIX)


class BrokerIdentity(NamedTuple):
    """A broker as it has proven itself on a connection: its node id, and the epoch of its registration."""

    node_id: int
    epoch: int


class _Life(NamedTuple):
    """A broker from one registration to the next."""

    node_id: int
    epoch: int
    address: Address


class Peers:
    """The other brokers, by node id."""

    def __init__(self, world: World, image: MetadataImage, *, node_id: int) -> None:
        self._world = world
        self._image = image
        self._client_id = f"{_CLIENT_ID_PREFIX}{node_id}"
        self._connections: dict[_Life, Connection] = {}
        self._opening: dict[_Life, asyncio.Task[Connection]] = {}
        self._lent: dict[Connection, _Life] = {}
        self._closed = False

    async def ask(
        self, node_id: int, request: Message, response: type[R], *, version_max: int | None = None
    ) -> R:
        """A broker's answer; a ClientError if there is none."""
        connection = await self._connection(self._life(node_id))
        return await connection.ask(request, response, version_max=version_max)

    async def connect(self, node_id: int, limits: ConnectionLimits = _LIMITS) -> Connection:
        """A connection for the caller alone, who closes it; a ClientError if there is none to be had."""
        life = self._life(node_id)
        connection = await self._open(life.address, limits)
        self._lent = {lent: of for lent, of in self._lent.items() if lent.is_open}
        self._lent[connection] = life
        return connection

    def brokers_changed(self) -> None:
        """Fail whoever waits for a broker that is not there any more: it may never answer, nor hang up."""
        for connection, life in [
            *self._lent.items(),
            *((each, of) for of, each in self._connections.items()),
        ]:
            if not self._is_present(life):
                connection.close()
        self._connections = {life: each for life, each in self._connections.items() if each.is_open}

    def close(self) -> None:
        """Fail whoever waits."""
        self._closed = True
        for task in self._opening.values():
            task.cancel()
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def _life(self, node_id: int) -> _Life:
        found = self._find(node_id)
        if found is None:
            raise UnreachableError(f"broker {node_id} is not known")
        return found

    def _find(self, node_id: int) -> _Life | None:
        broker = self._image.brokers.get(node_id)
        found = None if broker is None else broker.address(broker.peer_listener)
        if broker is None or found is None:
            return None
        return _Life(node_id, broker.epoch, Address(found.host, found.port))

    def _is_present(self, life: _Life) -> bool:
        return self._find(life.node_id) == life and not self._image.brokers[life.node_id].fenced

    async def _connection(self, life: _Life) -> Connection:
        connection = self._connections.get(life)
        if connection is not None and connection.is_open:
            return connection
        task = self._opening.get(life)
        if task is None:
            task = self._opening[life] = self._world.loop.create_task(self._open(life.address, _LIMITS))
            task.add_done_callback(lambda done: self._opened(life, done))
        # Whoever gives up waiting leaves the attempt to the others.
        return await asyncio.shield(task)

    def _opened(self, life: _Life, task: "asyncio.Task[Connection]") -> None:
        del self._opening[life]
        if task.cancelled() or task.exception() is not None:
            return
        if self._closed:
            task.result().close()
        else:
            self._connections[life] = task.result()

    async def _open(self, address: Address, limits: ConnectionLimits) -> Connection:
        if self._closed:
            raise UnreachableError("this broker is stopping")
        return await open_connection(self._world.loop, address, client_id=self._client_id, limits=limits)
