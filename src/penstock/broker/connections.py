"""All connections of a broker: how many there may be, which have been idle too long, and their common end."""

import asyncio
import logging
from collections import Counter

from penstock.apis import ApiTable
from penstock.base.broker_settings import (
    CONNECTIONS_MAX_IDLE_MS,
    MAX_CONNECTIONS,
    MAX_CONNECTIONS_PER_IP,
    PENSTOCK_CONNECTION_INFLIGHT_REQUESTS_MAX,
    PENSTOCK_CONNECTION_UNSENT_BYTES_MAX,
    PENSTOCK_LOOP_SLICE_MS,
    PENSTOCK_REQUEST_ARRIVAL_TIMEOUT_MS,
    PENSTOCK_REQUEST_ELEMENTS_MAX,
    QUEUED_MAX_REQUEST_BYTES,
    SOCKET_REQUEST_MAX_BYTES,
)
from penstock.base.errors import PeerError
from penstock.base.settings import Settings
from penstock.broker.connection import Connection
from penstock.broker.request_memory import RequestMemory
from penstock.broker.standstill import Standstill
from penstock.broker.turns import Turns
from penstock.services.context import Services

log = logging.getLogger("penstock.connections")


class Connections:
    """Makes connections, counts them, and lets them go."""

    def __init__(self, services: Services, apis: ApiTable) -> None:
        self._services = services
        self._apis = apis
        self._open: dict[Connection, None] = {}
        self._per_address: Counter[str] = Counter()
        self._memory = RequestMemory(services.configs.broker[QUEUED_MAX_REQUEST_BYTES])
        self.standstill = Standstill(services.world.loop, end_connections=self.abort_all)
        self._turns = Turns(services.world.loop, slice_ms=services.configs.broker[PENSTOCK_LOOP_SLICE_MS])
        services.metrics.gauge(
            "penstock_patient_requests",
            "Requests and answers that wait for their turn.",
            lambda: len(self._turns),
        )
        services.metrics.gauge(
            "penstock_request_bytes", "Bytes of requests that arrive or wait.", lambda: self._memory.held
        )
        services.metrics.gauge(
            "penstock_connections", "Connections that are open now.", lambda: len(self._open)
        )

    @property
    def _settings(self) -> Settings:
        return self._services.configs.broker

    def make(self, listener: str) -> Connection:
        """A protocol for one more connection; whether it may stay is decided when its address is known."""
        settings = self._settings
        return Connection(
            self._services,
            self._apis,
            listener=listener,
            request_bytes_max=settings[SOCKET_REQUEST_MAX_BYTES],
            in_flight_max=settings[PENSTOCK_CONNECTION_INFLIGHT_REQUESTS_MAX],
            unsent_bytes_max=settings[PENSTOCK_CONNECTION_UNSENT_BYTES_MAX],
            elements_max=settings[PENSTOCK_REQUEST_ELEMENTS_MAX],
            memory=self._memory,
            turns=self._turns,
            standstill=self.standstill,
            on_made=self._admit,
            on_lost=self._forget,
        )

    def _admit(self, connection: Connection) -> bool:
        host = connection.client.host
        reason = None
        if len(self._open) >= self._settings[MAX_CONNECTIONS]:
            reason = f"max.connections={self._settings[MAX_CONNECTIONS]} is reached"
        elif self._per_address[host] >= self._settings[MAX_CONNECTIONS_PER_IP]:
            reason = f"max.connections.per.ip={self._settings[MAX_CONNECTIONS_PER_IP]} is reached"
        if reason is not None:
            log.warning(
                "connection from %s:%s refused: %s", connection.client.host, connection.client.port, reason
            )
            self._services.refused_connections.add()
            return False
        self._open[connection] = None
        self._per_address[host] += 1
        return True

    def _forget(self, connection: Connection) -> None:
        if connection not in self._open:
            return
        del self._open[connection]
        host = connection.client.host
        self._per_address[host] -= 1
        if not self._per_address[host]:
            del self._per_address[host]

    def close_idle(self) -> None:
        """Close connections that have asked for nothing for too long, or stopped in the middle of asking."""
        now = self._services.world.loop.time()
        idle_ms = self._settings[CONNECTIONS_MAX_IDLE_MS]
        arrival_ms = self._settings[PENSTOCK_REQUEST_ARRIVAL_TIMEOUT_MS]
        for connection in list(self._open):
            silent_ms = (now - connection.active_at) * 1000
            if connection.owes_half_a_request and silent_ms > arrival_ms:
                connection.give_up(PeerError(f"the rest of a request did not come within {arrival_ms} ms"))
            elif connection.is_idle and 0 <= idle_ms < silent_ms:
                connection.close_when_idle()

    async def drain(self, *, timeout_ms: int) -> None:
        """Answer what is under way, for at most `timeout_ms`, then close everything."""
        loop = self._services.world.loop
        timer = loop.call_later(timeout_ms / 1000, self.abort_all)
        drains = [loop.create_task(connection.drain()) for connection in list(self._open)]
        self._services.partitions.end_waiting_fetches()
        await asyncio.gather(*drains)
        timer.cancel()
        self.abort_all()

    def abort_all(self) -> None:
        """Close everything at once, and with it what clients have sent and given up, and a network still has on its
        way."""
        for connection in list(self._open):
            connection.abort()
