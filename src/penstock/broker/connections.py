"""All connections of a broker: limits their number, closes those that are idle, and drains them at shutdown."""

import asyncio
import logging
from collections import Counter

from penstock.apis import ApiTable
from penstock.apis.context import Services
from penstock.base.broker_settings import (
    CONNECTIONS_MAX_IDLE_MS,
    MAX_CONNECTIONS,
    MAX_CONNECTIONS_PER_IP,
    PENSTOCK_CONNECTION_INFLIGHT_REQUESTS_MAX,
    PENSTOCK_CONNECTION_UNSENT_BYTES_MAX,
    PENSTOCK_LOOP_SLICE_MS,
    PENSTOCK_REQUEST_ARRIVAL_TIMEOUT_MS,
    PENSTOCK_REQUEST_ELEMENTS_MAX,
    PENSTOCK_REQUEST_PROGRESS_TIMEOUT_MS,
    PENSTOCK_UNSENT_BYTES_MAX,
    QUEUED_MAX_REQUEST_BYTES,
    SOCKET_REQUEST_MAX_BYTES,
)
from penstock.base.errors import PeerError
from penstock.base.settings import Settings
from penstock.broker.channel import TURN_MS_MAX, KafkaChannel
from penstock.broker.channel_interface import ChannelLimits
from penstock.broker.connection import ServerConnection, Shared, SharedQueues
from penstock.broker.lease_guard import LeaseGuard
from penstock.broker.rate_limited_log import RateLimitedLog
from penstock.broker.request_memory import RequestMemory
from penstock.broker.time_sliced_queue import TimeSlicedQueue
from penstock.world.large_buffers import LargeBuffers
from penstock.world.loop import Timer

log = logging.getLogger("penstock.connection")

_PROGRESS_LOOK_S = 0.25  # how often progress is checked while requests wait for memory


class Connections:
    """Makes connections, counts them, and closes them."""

    def __init__(self, services: Services, apis: ApiTable) -> None:
        self._services = services
        self._apis = apis
        self._open: dict[ServerConnection, None] = {}
        self._per_address: Counter[str] = Counter()
        settings = services.node.configs.broker
        self._memory = RequestMemory(
            settings[QUEUED_MAX_REQUEST_BYTES],
            progress_timeout_s=settings[PENSTOCK_REQUEST_PROGRESS_TIMEOUT_MS] / 1000,
        )
        # Connections whose clients do not read their responses, the longest first.
        self._unsent: dict[ServerConnection, None] = {}
        self._progress_timer: Timer | None = None  # while requests wait for memory
        loop = services.node.world.loop
        self._warnings = RateLimitedLog(log, loop.time)
        self.lease_guard = LeaseGuard(loop, end_connections=self.abort_all)
        self._queues = SharedQueues(
            low_priority=TimeSlicedQueue(loop, slice_ms=settings[PENSTOCK_LOOP_SLICE_MS]),
            pipelined=TimeSlicedQueue(loop, slice_ms=TURN_MS_MAX),
            reading=TimeSlicedQueue(loop, slice_ms=0.0),  # one connection per iteration of the event loop
        )
        self._buffers = LargeBuffers(loop)
        self._shared = Shared(self._memory, self._queues, self.lease_guard, self._warnings)
        services.node.metrics.gauge(
            "penstock_delayed_requests",
            "Requests and responses of low priority that wait for their turn.",
            lambda: len(self._queues.low_priority),
        )
        services.node.metrics.gauge(
            "penstock_request_bytes", "Bytes of requests that arrive or wait.", lambda: self._memory.held
        )
        services.node.metrics.gauge(
            "penstock_requests_waiting_for_memory",
            "Requests that are not read on before memory is given back by others.",
            lambda: self._memory.waiting_count,
        )
        self._ended_without_progress = services.node.metrics.counter(
            "penstock_requests_without_progress_total",
            "Connections closed since their requests held memory that others waited for, and made no progress.",
        )
        services.node.metrics.gauge(
            "penstock_connections", "Connections that are open now.", lambda: len(self._open)
        )

    @property
    def _settings(self) -> Settings:
        return self._services.node.configs.broker

    def make(self, listener: str) -> ServerConnection:
        """A protocol for one more connection; whether it may stay is decided when its address is known."""
        settings = self._settings
        limits = ChannelLimits(
            request_bytes_max=settings[SOCKET_REQUEST_MAX_BYTES],
            in_flight_max=settings[PENSTOCK_CONNECTION_INFLIGHT_REQUESTS_MAX],
            unsent_bytes_max=settings[PENSTOCK_CONNECTION_UNSENT_BYTES_MAX],
            elements_max=settings[PENSTOCK_REQUEST_ELEMENTS_MAX],
        )
        channel = KafkaChannel(limits, self._memory, self._apis, allocate=self._buffers.allocate)
        return ServerConnection(channel, self._services, self._shared, self, listener=listener, limits=limits)

    def admit(self, connection: ServerConnection) -> bool:
        host = connection.client.host
        reason = None
        if len(self._open) >= self._settings[MAX_CONNECTIONS]:
            reason = f"max.connections={self._settings[MAX_CONNECTIONS]} is reached"
        elif self._per_address[host] >= self._settings[MAX_CONNECTIONS_PER_IP]:
            reason = f"max.connections.per.ip={self._settings[MAX_CONNECTIONS_PER_IP]} is reached"
        if reason is not None:
            self._warnings.warn(
                "connection from %s:%s refused: %s", connection.client.host, connection.client.port, reason
            )
            self._services.node.refused_connections.add()
            return False
        self._open[connection] = None
        self._per_address[host] += 1
        log.debug(
            "connection from %s:%s accepted on %s; %d are open",
            host,
            connection.client.port,
            connection.client.listener,
            len(self._open),
        )
        return True

    def unsent_changed(self, connection: ServerConnection) -> None:
        """A client stopped reading its responses, or reads again. Above the common limit, the longest are closed."""
        self._unsent.pop(connection, None)
        if not connection.unsent_bytes:
            return
        self._unsent[connection] = None
        limit = self._settings[PENSTOCK_UNSENT_BYTES_MAX]
        left = sum(each.unsent_bytes for each in self._unsent)
        while left > limit >= 0:
            oldest = next(iter(self._unsent))
            del self._unsent[oldest]
            left -= oldest.unsent_bytes
            oldest.give_up(
                PeerError(
                    f"the client has {oldest.unsent_bytes} bytes of unread responses, and all clients together exceed "
                    f"penstock.unsent.bytes.max={limit}"
                )
            )

    def forget(self, connection: ServerConnection) -> None:
        self._unsent.pop(connection, None)
        if connection not in self._open:
            return
        del self._open[connection]
        host = connection.client.host
        log.debug("connection from %s:%s closed; %d are open", host, connection.client.port, len(self._open))
        self._per_address[host] -= 1
        if not self._per_address[host]:
            del self._per_address[host]

    def memory_awaited(self) -> None:
        if self._progress_timer is None:
            loop = self._services.node.world.loop
            self._progress_timer = loop.call_later(_PROGRESS_LOOK_S, self._judge_progress)

    def _judge_progress(self) -> None:
        """While requests wait for memory: close connections that hold some and make too little progress."""
        self._progress_timer = None
        too_slow = set(self._memory.without_progress(self._services.node.world.loop.time()))
        for connection in [each for each in self._open if each.channel.memory in too_slow]:
            self._ended_without_progress.add()
            connection.give_up(
                PeerError(
                    f"too little progress while {self._memory.waiting_count} others wait for its memory "
                    f"(queued.max.request.bytes): {connection.channel.progress}"
                )
            )
        if self._memory.waiting_count:
            self.memory_awaited()

    def close_idle(self) -> None:
        """Close connections without a request for too long, and those whose request has stopped in the middle."""
        now = self._services.node.world.loop.time()
        idle_ms = self._settings[CONNECTIONS_MAX_IDLE_MS]
        arrival_ms = self._settings[PENSTOCK_REQUEST_ARRIVAL_TIMEOUT_MS]
        for connection in list(self._open):
            silent_ms = (now - connection.active_at) * 1000
            if connection.has_stalled_request and silent_ms > arrival_ms:
                connection.give_up(PeerError(f"the rest of a request did not arrive within {arrival_ms} ms"))
            elif connection.is_idle and 0 <= idle_ms < silent_ms:
                connection.close_when_idle()

    async def drain(self, *, timeout_ms: int) -> None:
        """Answer the requests in flight, for at most `timeout_ms`, then close all connections."""
        loop = self._services.node.world.loop
        timer = loop.call_later(timeout_ms / 1000, self.abort_all)
        drains = [loop.create_task(connection.drain()) for connection in list(self._open)]
        self._services.logs.replicas.end_waiting_fetches()
        await asyncio.gather(*drains)
        timer.cancel()
        if self._progress_timer is not None:
            self._progress_timer.cancel()
        self.abort_all()

    def abort_all(self) -> None:
        """Close all connections at once. Requests that are still in the network are lost with them."""
        for connection in list(self._open):
            connection.abort()
