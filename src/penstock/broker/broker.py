"""The broker: assembles storage, services, cluster membership and listeners on one world, starts and stops them."""

import asyncio
import logging
from collections.abc import Callable

from penstock.apis import ApiTable
from penstock.apis.context import ClusterServices, Services
from penstock.base.broker_settings import (
    BROKER_RACK,
    NODE_ID,
    PENSTOCK_DRAIN_TIMEOUT_MS,
    PENSTOCK_METRICS_LISTEN,
    advertised,
    bound,
)
from penstock.base.cluster_settings import (
    CONTROLLED_SHUTDOWN_ENABLE,
    INITIAL_BROKER_REGISTRATION_TIMEOUT_MS,
    INTER_BROKER_LISTENER_NAME,
    PENSTOCK_FEATURE_LEVELS_MAX,
    PENSTOCK_SHUTDOWN_NOTICE_MS,
    PENSTOCK_SHUTDOWN_TIMEOUT_MS,
    ZOOKEEPER_SESSION_TIMEOUT_MS,
)
from penstock.base.features import PEER_VERSION, PENSTOCK_VERSION, lowered
from penstock.base.listeners import Listener, parse_address, render_address
from penstock.base.settings import Settings
from penstock.base.topic_settings import PENSTOCK_STORAGE, UNCLEAN_LEADER_ELECTION_ENABLE
from penstock.broker.background import Background
from penstock.broker.cluster_member import ClusterMember
from penstock.broker.connections import Connections
from penstock.broker.http import HttpConnections
from penstock.broker.listen_errors import listen_error
from penstock.broker.service_groups import build_controller, build_logs, build_node, build_services
from penstock.broker.shutdown_deadline import ShutdownDeadline
from penstock.cluster.features import refusal_to_join, unsupported
from penstock.cluster.handshake import PeerCredentials
from penstock.cluster.image_loading import load_image, set_up
from penstock.cluster.metadata import BrokerRegistration as BrokerMetadata
from penstock.cluster.metadata import MetadataImage
from penstock.cluster.metadata_loader import MetadataLoader
from penstock.cluster.peer_secret import open_peer_secret
from penstock.cluster.peers import Peers
from penstock.cluster.renewable_store import RenewableStore
from penstock.controller.balancer import Balancer
from penstock.controller.broker_registry import BrokerRegistry
from penstock.controller.controller import Controller
from penstock.controller.controller_link import ControllerLink
from penstock.controller.failure_detector.broker_view import BrokerView
from penstock.controller.majority_elections import MajorityElections
from penstock.controller.metadata_writer import MetadataWriter
from penstock.services.configs import Configs
from penstock.services.metadata_publisher import BrokerMetadataPublisher
from penstock.services.metrics import Metrics
from penstock.services.replication.replication import Replication
from penstock.storage.data_directory import DataDirectory
from penstock.world import World
from penstock.world.loop import Server

NEVER = -1  # an epoch that no registration has
_GOODBYE_S = 2.0

log = logging.getLogger("penstock.broker")


class Broker:
    """One node. `start` returns when the broker serves clients, `stop` when all its logs are synced and closed.

    `failure` is done, with the reason, once the data directory has failed: then the code that runs the broker calls
    `abandon` and ends the process.
    """

    def __init__(
        self,
        world: World,
        directory: DataDirectory,
        settings: Settings,
        *,
        log_dir: str,
        sessions: RenewableStore | None = None,
    ) -> None:
        """`sessions`: the store of `world`, if this broker is a member of a cluster; None for a broker alone."""
        self._world = world
        self._directory = directory
        self._static = settings
        self._supported = lowered(settings[PENSTOCK_FEATURE_LEVELS_MAX])
        self._log_dir = log_dir
        self._sessions = sessions
        self._member: ClusterMember | None = None
        self._leaving: ShutdownDeadline | None = None
        self._broker_view = BrokerView()
        self._replication: Replication | None = None
        self._balancer: Balancer | None = None
        self._majority_elections: MajorityElections | None = None
        self._servers: list[Server] = []
        self._connections: Connections | None = None
        self._http: HttpConnections | None = None
        self._background: Background | None = None
        self._services: Services | None = None
        self._problem: str | None = "starting"
        self.listeners: tuple[Listener, ...] = ()
        self.metrics_address: str | None = None
        self.failure: asyncio.Future[str] = world.loop.create_future()
        directory.disk.on_failed = lambda why: world.loop.call_from_thread(self._fail, why)

    @property
    def services(self) -> Services:
        assert self._services is not None, "the broker has not been started"
        return self._services

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all listeners, as a client's `bootstrap.servers`."""
        return ",".join(render_address(listener.host, listener.port) for listener in self.listeners)

    async def start(self) -> None:
        services = await self._assemble()
        self._services = services
        self._publisher.on_brokers.append(services.transactions.brokers_changed)
        self._publisher.on_brokers.append(services.logs.replicas.brokers_changed)
        self._publisher.on_brokers.append(
            lambda: self._broker_view.brokers_changed(services.cluster.image, now=self._world.loop.time())
        )
        apis = ApiTable(services.node.metrics, services.node.authorizer)
        services.node.api_versions.update(apis.advertised(self._static))
        services.node.broker_api_versions.update(apis.between_brokers)
        if self._member is None and not self._directory.was_closed_cleanly:
            await services.cluster.controller.begin_new_leader_epochs()
        await services.logs.replicas.load(
            [self._publisher.permitted(topic) for topic in services.cluster.image.topics()]
        )
        # Records that a crash left unsynced are synced, and below the high watermark, before the first request.
        await services.logs.flusher.settle()
        connections = Connections(services, apis)
        self._connections = connections
        if self._member is not None:
            # As at a restart, the connections end: a client may have sent a request that waits there to another
            # broker since then, so it must not be served now.
            self._member.on_doubt = connections.lease_guard.suspend
        self._background = Background(services, self._directory, connections)
        try:
            await self._listen(connections)
            await self._listen_http(services.node.metrics)
        except BaseException:
            self._close_servers()
            await self._close_data()  # all logs were recovered: the next start need not recover them again
            raise
        self._background.start()
        try:
            await self._join()
        except BaseException:
            await self.stop()
            raise
        services.coordinators.start()
        self._problem = None

    async def _join(self) -> None:
        """Register this broker: in its own image if it is alone, else in the cluster."""
        settings = self._static
        own = BrokerMetadata(
            settings[NODE_ID],
            settings[BROKER_RACK],
            {listener.name: (listener.host, listener.port) for listener in self.listeners},
            incarnation=self._directory.meta.directory_id,
            peer_listener=settings[INTER_BROKER_LISTENER_NAME] or self.listeners[0].name,
            keeps_all=self._directory.was_closed_cleanly,
            same_process=False,
            features=self._supported,
        )
        if self._member is None:
            self.services.cluster.image.apply_broker(own)
        else:
            await self._member.join(own, timeout_ms=settings[INITIAL_BROKER_REGISTRATION_TIMEOUT_MS])
            assert self._connections is not None
            session_s = settings[ZOOKEEPER_SESSION_TIMEOUT_MS] / 1000
            self._connections.lease_guard.watch(session_s / 2, self._member.confirm_place)
            assert self._replication is not None
            self._replication.start()
            assert self._balancer is not None
            self._balancer.start()

    async def _assemble(self) -> Services:
        world, settings = self._world, self._static
        image = MetadataImage(self._directory.meta.cluster_id)
        node = build_node(world, settings, image, log_dir=self._log_dir)
        logs = build_logs(node, self._directory, settings, image)
        publisher = self._publisher = BrokerMetadataPublisher(
            image, logs.replicas, node.configs, node_id=node.node_id
        )
        loader = MetadataLoader(world, image, publisher)
        await set_up(
            world.store, image.cluster_id, shared=self._sessions is not None, supported=self._supported
        )
        credentials = PeerCredentials(
            await open_peer_secret(world.store, world.entropy),
            world.entropy,
            cluster_id=image.cluster_id,
            node_id=node.node_id,
            proves=self._supported[PEER_VERSION].highest > 0,
        )
        controller = build_controller(node, settings, image)
        link = await self._find_controller(image, loader, publisher, controller, node.configs, credentials)
        problems = unsupported(image.features, self._supported)
        if problems:
            await world.work.run(self._directory.restore_clean_shutdown_file)
            raise refusal_to_join(problems)
        await logs.replicas.checkpoints.set_data_version(image.features.level(PENSTOCK_VERSION))
        node.configs.reload()
        cluster = ClusterServices(
            image=image,
            peer_credentials=credentials,
            supported_features=self._supported,
            controller=controller,
            controller_link=link,
            broker_registry=None if self._member is None else self._member.broker_registry,
            broker_view=self._broker_view,
        )
        services = build_services(node, logs, cluster, settings)
        publisher.on_topic.append(services.coordinators.leadership_changed)
        if self._member is not None:
            self._build_cluster_work(services, self._member)
        node.metrics.gauge("penstock_topics", "Topics in the cluster.", lambda: image.topic_count)
        node.metrics.gauge("penstock_partitions", "Partitions in the cluster.", lambda: image.partition_count)
        return services

    def _build_cluster_work(self, services: Services, member: ClusterMember) -> None:
        """Build what only a member of a cluster runs: replication, the balancer, majority elections."""
        world, node_id, configs = self._world, services.node.node_id, services.node.configs
        image, controller = services.cluster.image, services.cluster.controller
        replicas = services.logs.replicas
        self._replication = Replication(
            world, image, replicas, self._peers, configs, services.cluster.controller_link, node_id=node_id
        )
        self._balancer = Balancer(world, image, controller, configs, replicas, self._peers, node_id=node_id)
        elections = self._majority_elections = MajorityElections(
            world, image, controller, member.broker_registry, replicas, self._peers, node_id=node_id
        )
        self._publisher.on_topic.append(elections.topic_changed)
        self._publisher.on_brokers.append(elections.look)
        controller.on_active = elections.look

    async def _find_controller(
        self,
        image: MetadataImage,
        loader: MetadataLoader,
        publisher: BrokerMetadataPublisher,
        controller: Controller,
        configs: Configs,
        credentials: PeerCredentials,
    ) -> ControllerLink:
        """Load the metadata, and build the link to the controller; a broker that is alone is its own controller."""
        world, node_id = self._world, self._static[NODE_ID]
        self._peers = Peers(world, image, credentials)
        publisher.on_brokers.append(self._peers.brokers_changed)  # before any request to a new broker
        link = ControllerLink(image, controller, self._peers, node_id=node_id)
        if self._sessions is None:
            await load_image(world, image)
            controller.activate(MetadataWriter(world, image, loader, publisher, epoch_version=None))
            image.controller_id = node_id
            return link
        await loader.read_first()
        publisher.leads_nothing_before(NEVER)
        broker_registry = BrokerRegistry(
            world,
            image,
            controller,
            min_isr=configs.min_isr,
            allows_unclean=lambda topic: configs.of_topic(topic)[UNCLEAN_LEADER_ELECTION_ENABLE],
            is_in_memory=lambda topic: configs.of_topic(topic)[PENSTOCK_STORAGE] == "memory",
        )
        self._member = ClusterMember(
            world,
            self._sessions,
            image,
            loader,
            publisher,
            controller,
            broker_registry,
            link,
            self._peers,
            self._broker_view,
            credentials,
            node_id=node_id,
        )
        self._leaving = ShutdownDeadline(world, self._member)
        return link

    async def _listen(self, connections: Connections) -> None:
        ports = {}
        for listener in bound(self._static):
            server = await self._bind(
                lambda name=listener.name: connections.make(name),  # type: ignore[misc]
                listener.host,
                listener.port,
                option="--listen",
            )
            ports[listener.name] = server.port
        self.listeners = tuple(
            listener._replace(port=listener.port or ports[listener.name])
            for listener in advertised(self._static)
        )

    async def _listen_http(self, metrics: Metrics) -> None:
        address = self._static[PENSTOCK_METRICS_LISTEN]
        if not address:
            return
        host, port = parse_address(address)
        self._http = HttpConnections(self._world.loop, metrics, self._health_problem)
        server = await self._bind(self._http.make, host, port, option=PENSTOCK_METRICS_LISTEN.name)
        self.metrics_address = render_address(host, server.port)

    def _health_problem(self) -> str | None:
        """Why this broker is not healthy; None if it is."""
        return self._problem or self.services.logs.replicas.disk_space.problem()

    async def _bind(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int, *, option: str
    ) -> Server:
        try:
            server = await self._world.loop.listen(factory, host, port)
        except OSError as error:
            raise listen_error(error, host, port, option=option) from error
        self._servers.append(server)
        return server

    async def stop(self) -> None:
        """Accept no new requests, answer those in flight, sync and close every log, and mark the shutdown as clean.

        A member of a cluster first does a controlled shutdown: it hands its leaderships over and leaves. If that takes
        longer than `penstock.shutdown.timeout.ms` (`broker/shutdown_deadline.py`), it stops without, and `has_left` is
        False.
        """
        self._problem = "stopping"
        leaving = self._leaving
        try:
            if leaving is not None:
                leaving.limit(self._static[PENSTOCK_SHUTDOWN_TIMEOUT_MS])
            if self._balancer is not None:
                await self._balancer.stop()
            if (
                leaving is not None
                and leaving.member.is_admitted
                and self._static[CONTROLLED_SHUTDOWN_ENABLE]
            ):
                await leaving.run(self._hand_over(leaving.member))
            if leaving is not None:
                leaving.limit(
                    self._static[PENSTOCK_SHUTDOWN_TIMEOUT_MS] + self._static[PENSTOCK_DRAIN_TIMEOUT_MS]
                )
            self._close_servers()
            if self._services is not None:
                await self._services.coordinators.stop()
                await self._services.transactions.stop()
            if self._connections is not None:
                self._connections.lease_guard.stop()
                await self._connections.drain(timeout_ms=self._static[PENSTOCK_DRAIN_TIMEOUT_MS])
            if self._http is not None:
                self._http.close()
            if self._background is not None:
                await self._background.stop()
            if self._replication is not None:
                await self._replication.stop()
            if self._majority_elections is not None:
                await self._majority_elections.stop()
            if self._member is not None:
                await self._member.stop()
            if self._services is not None:
                self._peers.close()
            await self._close_data()
        finally:
            self._close_servers()
            self._world.work.close()
            if leaving is not None:
                leaving.done()

    @property
    def has_left(self) -> bool:
        """Whether a stopped broker has completed its controlled shutdown."""
        return self._leaving is None or not self._leaving.is_given_up

    async def _hand_over(self, member: ClusterMember) -> None:
        """Hand all leaderships over, and then answer clients for a moment longer, so that they learn the new leaders
        from the responses. A librdkafka client that loses its only connection may not reconnect for 1 s: it waits for
        the next tick of a timer.
        """
        replicas = () if self._services is None else self._services.logs.replicas.all()
        has_heirs = any(each.is_leader and len(each.state.isr) > 1 for each in replicas)
        await member.leave()
        if has_heirs:
            await self._world.loop.sleep(self._static[PENSTOCK_SHUTDOWN_NOTICE_MS] / 1000)

    def _fail(self, why: str) -> None:
        """The data directory cannot be written any more, so this broker has to end: it could no longer record which
        partitions it has, their checkpoints and, if it is alone, the metadata.
        """
        if not self.failure.done():
            self._problem = f"the data directory has failed: {why}"
            log.critical(
                "%s: the data directory has failed: %s. Further writes there would not be durable, so this broker "
                "shuts down; partitions with replicas on other brokers stay available there. Look for the cause in the "
                "system's log, repair the disk, and restart the broker",
                self._log_dir,
                why,
            )
            self.failure.set_result(why)

    async def abandon(self) -> None:
        """Leave the cluster without touching the disk, which has failed: the process ends right after this."""
        self._close_servers()
        if self._connections is not None:
            self._connections.abort_all()
        if self._member is not None:
            goodbye = self._world.loop.create_task(self._close_session(self._member))
            timer = self._world.loop.call_later(_GOODBYE_S, goodbye.cancel)
            # If this fails, the session times out later.
            await asyncio.gather(goodbye, return_exceptions=True)
            timer.cancel()

    async def _close_session(self, member: ClusterMember) -> None:
        await member.stop()
        await self._world.store.close()

    async def _close_data(self) -> None:
        await self._world.store.close()  # from now on changes of the metadata are refused
        if self._services is not None:
            await self._services.cluster.controller.settle()
            await self._services.logs.flusher.settle()
            await self._services.logs.replicas.close_cleanly()

    def _close_servers(self) -> None:
        for server in self._servers:
            server.close()
