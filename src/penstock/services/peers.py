"""Asking other brokers of the cluster: a connection to each, opened when it is first needed and after it was lost.

Who needs a connection for itself, as a follower does whose fetches are held, takes one with `connect`.
"""

import asyncio
from typing import TypeVar

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


class Peers:
    """The other brokers, by node id."""

    def __init__(self, world: World, image: MetadataImage, *, node_id: int) -> None:
        self._world = world
        self._image = image
        self._client_id = f"{_CLIENT_ID_PREFIX}{node_id}"
        self._connections: dict[Address, Connection] = {}
        self._opening: dict[Address, asyncio.Task[Connection]] = {}
        self._asked_at: dict[int, Address] = {}  # where each broker was when it was last asked
        self._closed = False

    async def ask(self, node_id: int, request: Message, response: type[R]) -> R:
        """A broker's answer; a ClientError if there is none."""
        address = self._asked_at[node_id] = self._address(node_id)
        connection = await self._connection(address)
        return await connection.ask(request, response)

    async def connect(self, node_id: int, limits: ConnectionLimits = _LIMITS) -> Connection:
        """A connection for the caller alone, who closes it; a ClientError if there is none to be had."""
        return await self._open(self._address(node_id), limits)

    def brokers_changed(self) -> None:
        """Fail whoever waits for a broker that is not there any more: it may never answer, nor hang up."""
        for node_id, address in list(self._asked_at.items()):
            broker = self._image.brokers.get(node_id)
            if broker is None or broker.fenced or self._find(node_id) != address:
                del self._asked_at[node_id]
                connection = self._connections.pop(address, None)
                if connection is not None:
                    connection.close()

    def close(self) -> None:
        """Fail whoever waits."""
        self._closed = True
        for task in self._opening.values():
            task.cancel()
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def _address(self, node_id: int) -> Address:
        found = self._find(node_id)
        if found is None:
            raise UnreachableError(f"broker {node_id} is not known")
        return found

    def _find(self, node_id: int) -> Address | None:
        broker = self._image.brokers.get(node_id)
        found = None if broker is None else broker.address(broker.peer_listener)
        return None if found is None else Address(found.host, found.port)

    async def _connection(self, address: Address) -> Connection:
        connection = self._connections.get(address)
        if connection is not None and connection.is_open:
            return connection
        task = self._opening.get(address)
        if task is None:
            task = self._opening[address] = self._world.loop.create_task(self._open(address, _LIMITS))
            task.add_done_callback(lambda done: self._opened(address, done))
        # Whoever gives up waiting leaves the attempt to the others.
        return await asyncio.shield(task)

    def _opened(self, address: Address, task: "asyncio.Task[Connection]") -> None:
        del self._opening[address]
        if task.cancelled() or task.exception() is not None:
            return
        if self._closed:
            task.result().close()
        else:
            self._connections[address] = task.result()

    async def _open(self, address: Address, limits: ConnectionLimits) -> Connection:
        if self._closed:
            raise UnreachableError("this broker is stopping")
        return await open_connection(self._world.loop, address, client_id=self._client_id, limits=limits)
