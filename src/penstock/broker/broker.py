"""The broker: everything below it, put together on one world."""

import asyncio
import errno
import logging
from collections.abc import Callable

from penstock.apis import ApiTable
from penstock.base.broker_settings import (
    BROKER_RACK,
    DEFAULT_REPLICATION_FACTOR,
    MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS,
    NODE_ID,
    NUM_PARTITIONS,
    PENSTOCK_DRAIN_TIMEOUT_MS,
    PENSTOCK_FETCH_SESSION_PARTITIONS_MAX,
    PENSTOCK_LOOP_SLICE_MS,
    PENSTOCK_METRICS_LISTEN,
    PENSTOCK_PARTITIONS_MAX,
    PENSTOCK_QUEUED_SYNCS_MAX,
    PENSTOCK_SYNC_WHOLE_FILE_SYSTEM_FROM,
    PENSTOCK_WORK_THREADS,
    advertised,
    bound,
)
from penstock.base.errors import UserError
from penstock.base.listeners import Listener, parse_address, render_address
from penstock.base.settings import Settings
from penstock.broker.background import Background
from penstock.broker.connections import Connections
from penstock.broker.http import HttpConnections
from penstock.cluster.controller import Controller
from penstock.cluster.image import load_image
from penstock.cluster.metadata import Broker as BrokerMetadata
from penstock.core.fetch_sessions import FetchSessions
from penstock.services.configs import Configs
from penstock.services.context import Services
from penstock.services.coordinators.coordinators import Coordinators
from penstock.services.flusher import Flusher
from penstock.services.metrics import Metrics
from penstock.services.partitions import Partitions
from penstock.services.producer_ids import ProducerIds
from penstock.services.transactions.transactions import Transactions
from penstock.storage.directory import DataDirectory
from penstock.world import World
from penstock.world.loop import Server

log = logging.getLogger("penstock.broker")


class AddressInUseError(UserError):
    """Somebody else listens where this broker should."""


class Broker:
    """One node. `start` returns when clients are answered, `stop` when everything is safely closed."""

    def __init__(self, world: World, directory: DataDirectory, settings: Settings, *, log_dir: str) -> None:
        self._world = world
        self._directory = directory
        self._static = settings
        self._log_dir = log_dir
        self._servers: list[Server] = []
        self._connections: Connections | None = None
        self._http: HttpConnections | None = None
        self._background: Background | None = None
        self._services: Services | None = None
        self._problem: str | None = "starting"
        self.listeners: tuple[Listener, ...] = ()
        self.metrics_address: str | None = None

    @property
    def services(self) -> Services:
        assert self._services is not None, "the broker has not been started"
        return self._services

    @property
    def bootstrap_servers(self) -> str:
        """Where clients connect."""
        return ",".join(render_address(listener.host, listener.port) for listener in self.listeners)

    async def start(self) -> None:
        services = await self._assemble()
        self._services = services
        apis = ApiTable(services.metrics)
        services.api_versions.update(apis.advertised(self._static))
        if not self._directory.was_closed_cleanly:
            await services.controller.begin_new_leader_epochs()
        await services.partitions.load(list(services.image.topics()))
        # What a crash left unsynced is below the high watermark before anybody asks for it.
        await services.flusher.settle()
        connections = Connections(services, apis)
        self._connections = connections
        self._background = Background(services, self._directory, connections)
        try:
            await self._listen(connections)
            await self._listen_http(services.metrics)
        except BaseException:
            self._close_servers()
            await self._close_data()  # all of it was read: the next start need not look again
            raise
        self._background.start()
        services.coordinators.start()
        self._problem = None

    async def _assemble(self) -> Services:
        world, settings = self._world, self._static
        node_id = settings[NODE_ID]
        image = await load_image(world, self._directory.meta.cluster_id)
        image.controller_id = node_id
        configs = Configs(settings, image, node_id=node_id)
        configs.reload()
        metrics = Metrics()
        flusher = Flusher(
            world,
            lanes=settings[PENSTOCK_WORK_THREADS],
            queue_max=settings[PENSTOCK_QUEUED_SYNCS_MAX],
            whole_from=settings[PENSTOCK_SYNC_WHOLE_FILE_SYSTEM_FROM],
        )
        partitions = Partitions(
            world, self._directory, flusher, configs, slice_ms=settings[PENSTOCK_LOOP_SLICE_MS]
        )
        controller = Controller(
            world,
            image,
            partitions,
            configs,
            default_partition_count=settings[NUM_PARTITIONS],
            default_replication_factor=settings[DEFAULT_REPLICATION_FACTOR],
            partition_count_max=settings[PENSTOCK_PARTITIONS_MAX],
        )
        coordinators = Coordinators(world, image, controller, partitions, configs, node_id=node_id)
        metrics.gauge("penstock_topics", "Topics in the cluster.", lambda: image.topic_count)
        metrics.gauge("penstock_partitions", "Partitions in the cluster.", lambda: image.partition_count)
        return Services(
            world=world,
            configs=configs,
            node_id=node_id,
            log_dir=self._log_dir,
            image=image,
            controller=controller,
            partitions=partitions,
            flusher=flusher,
            fetch_sessions=FetchSessions(
                slots=settings[MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS],
                partitions_max=settings[PENSTOCK_FETCH_SESSION_PARTITIONS_MAX],
                random_below=world.entropy.random_below,
            ),
            producer_ids=ProducerIds(controller),
            coordinators=coordinators,
            transactions=Transactions(
                world,
                partitions,
                coordinators.transactions,
                coordinators.groups,
                slice_ms=settings[PENSTOCK_LOOP_SLICE_MS],
            ),
            metrics=metrics,
            bytes_out=metrics.counter("penstock_sent_bytes_total", "Bytes of answers."),
            refused_connections=metrics.counter(
                "penstock_refused_connections_total",
                "Connections closed for what they sent, or over a limit.",
            ),
        )

    async def _listen(self, connections: Connections) -> None:
        ports = {}
        for listener in bound(self._static):
            server = await self._bind(
                lambda name=listener.name: connections.make(name),  # type: ignore[misc]
                listener.host,
                listener.port,
            )
            ports[listener.name] = server.port
        self.listeners = tuple(
            listener._replace(port=listener.port or ports[listener.name])
            for listener in advertised(self._static)
        )
        self.services.image.apply_broker(
            BrokerMetadata(
                self._static[NODE_ID],
                self._static[BROKER_RACK],
                {listener.name: (listener.host, listener.port) for listener in self.listeners},
            )
        )

    async def _listen_http(self, metrics: Metrics) -> None:
        address = self._static[PENSTOCK_METRICS_LISTEN]
        if not address:
            return
        host, port = parse_address(address)
        self._http = HttpConnections(self._world.loop, metrics, lambda: self._problem)
        server = await self._bind(self._http.make, host, port)
        self.metrics_address = render_address(host, server.port)

    async def _bind(self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int) -> Server:
        try:
            server = await self._world.loop.listen(factory, host, port)
        except OSError as error:
            address = render_address(host, port)
            if error.errno == errno.EADDRINUSE:
                raise AddressInUseError(
                    f"cannot listen on {address}: another program listens there; stop it, or choose another "
                    "address with --listen"
                ) from error
            raise UserError(
                f"cannot listen on {address}: {error}; choose an address of this machine with --listen"
            ) from error
        self._servers.append(server)
        return server

    async def stop(self) -> None:
        """Take no new work, answer what is under way, sync and close every log, say that the stop was clean."""
        self._problem = "stopping"
        self._close_servers()
        try:
            if self._services is not None:
                await self._services.coordinators.stop()
                await self._services.transactions.stop()
            if self._connections is not None:
                await self._connections.drain(timeout_ms=self._static[PENSTOCK_DRAIN_TIMEOUT_MS])
            if self._http is not None:
                self._http.close()
            if self._background is not None:
                await self._background.stop()
            await self._close_data()
        finally:
            self._world.work.close()

    async def _close_data(self) -> None:
        await self._world.store.close()  # changes of metadata that still come are refused
        if self._services is not None:
            await self._services.controller.settle()
            await self._services.flusher.settle()
            await self._services.partitions.close_cleanly()

    def _close_servers(self) -> None:
        for server in self._servers:
            server.close()
