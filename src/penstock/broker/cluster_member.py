"""A broker's membership in a cluster: it registers, follows the metadata, takes part in controller elections, and
activates its `Controller` while it is elected. When its session with the metadata store expires, it opens another one
and registers again.

A broker registers fenced, and leads no partition until the controller has unfenced it. If feature levels that this
broker does not support were raised while it joined, it reads that and does not join.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace

from penstock.base.errors import UserError
from penstock.client.errors import ClientError
from penstock.cluster.broker_registration import register
from penstock.cluster.features import refusal_to_join, unsupported
from penstock.cluster.handshake import PeerCredentials
from penstock.cluster.metadata import LIVE, BrokerRegistration, MetadataImage
from penstock.cluster.metadata_loader import MetadataLoader
from penstock.cluster.peers import Peers
from penstock.cluster.renewable_store import RenewableStore
from penstock.controller.broker_registry import BrokerRegistry
from penstock.controller.controller import Controller
from penstock.controller.controller_election import ControllerElection, Elected
from penstock.controller.controller_link import ControllerLink
from penstock.controller.failure_detector.broker_view import BrokerView
from penstock.controller.failure_detector.probe import ConnectionProbe
from penstock.controller.failure_detector.reports import FailureReports
from penstock.controller.metadata_writer import MetadataWriter
from penstock.services.metadata_publisher import BrokerMetadataPublisher
from penstock.world import World
from penstock.world.repeating import Repeating
from penstock.world.store import SessionExpiredError, SessionState, StoreError
from penstock.world.tasks import Tasks

log = logging.getLogger("penstock.cluster")

_TRY_AGAIN_S = 0.2
# Without this pause, a broker that only some others can reach would be fenced and unfenced in a tight loop.
_BACK_AFTER_S = 1.0
_HAND_OVER_ATTEMPTS = 5
_LOG_EVERY_S = 5.0


class ClusterMember:
    """This broker as a member of its cluster."""

    def __init__(
        self,
        world: World,
        store: RenewableStore,
        image: MetadataImage,
        loader: MetadataLoader,
        publisher: BrokerMetadataPublisher,
        controller: Controller,
        broker_registry: BrokerRegistry,
        link: ControllerLink,
        peers: Peers,
        broker_view: BrokerView,
        credentials: PeerCredentials,
        *,
        node_id: int,
    ) -> None:
        self._world = world
        self._store = store
        self._image = image
        self._loader = loader
        self._publisher = publisher
        self._controller = controller
        self._link = link
        self._credentials = credentials
        self._node_id = node_id
        self.broker_registry = broker_registry
        self._election = ControllerElection(world, node_id=node_id, on_elected=self._elected)
        self._failure_reports = FailureReports(
            world,
            image,
            node_id=node_id,
            is_controller=lambda: controller.is_active,
            fence=broker_registry.fence_unreachable,
        )
        self._probe = ConnectionProbe(
            world, image, peers, node_id=node_id, broker_view=broker_view, report=self._failure_reports.report
        )
        self._broker: BrokerRegistration | None = None
        self._epoch = 0
        self._admitted: asyncio.Future[None] | None = None
        self._tasks = Tasks(world.loop)
        self._activation: asyncio.Task[None] | None = None
        self._leaving = False
        self._stopped = False
        self._returning = False
        self._is_probing = False
        self.hears_store = True  # the session is connected
        # Called when other brokers may have been elected leaders of this one's partitions, and before it leads again.
        self.on_doubt: Callable[[], None] = lambda: None
        publisher.on_brokers.append(self._brokers_changed)
        publisher.on_features.append(self._features_changed)

    async def join(self, broker: BrokerRegistration, *, timeout_ms: int) -> None:
        """Register; returns when the controller has unfenced this broker. UserError if that takes too long."""
        self._broker = broker
        await self._register()
        self._store.end_patience()
        self._store.on_session(self._session_changed)
        self._loader.follow()
        self._election.stand()
        self._failure_reports.look()
        assert self._admitted is not None
        await self._wait_for_admission(self._admitted, timeout_ms)
        self._is_probing = True
        self._probe.follow()

    async def _wait_for_admission(self, admitted: "asyncio.Future[None]", timeout_ms: int) -> None:
        loop = self._world.loop
        deadline = loop.time() + timeout_ms / 1000

        def say() -> None:
            log.warning("%s; waiting for another %.0f s", self._why_still_fenced(), deadline - loop.time())

        def give_up() -> None:
            if not admitted.done():
                why = f"{self._why_still_fenced()}, after {timeout_ms} ms"
                todo = "look into the controller's log and at ZooKeeper, then start this broker again"
                admitted.set_exception(UserError(f"{why}: {todo}"))

        progress = Repeating(loop, _LOG_EVERY_S, say)
        limit = loop.call_later(timeout_ms / 1000, give_up)
        try:
            await admitted
        finally:
            progress.stop()
            limit.cancel()

    def _why_still_fenced(self) -> str:
        if not self.hears_store:
            return "this broker has registered, and ZooKeeper does not answer any more"
        controller = self._image.controller_id
        who = f"the controller, broker {controller}," if controller >= 0 else "no controller is elected that"
        return f"this broker has registered, and {who} has not unfenced it yet"

    @property
    def is_admitted(self) -> bool:
        return self._admitted is not None and self._admitted.done() and self._admitted.exception() is None

    async def leave(self) -> None:
        """Controlled shutdown: other brokers take over the leaderships, and this broker does not register again."""
        self._leaving = True
        for attempt in range(_HAND_OVER_ATTEMPTS):
            try:
                if await self._hand_over() == 0:
                    return
            except ClientError as error:
                log.info(
                    "controlled shutdown: the controller could not move leaderships off this broker: %s; retrying",
                    error,
                )
            await self._world.loop.sleep(_TRY_AGAIN_S * (attempt + 1))

    def give_up(self) -> None:
        """Called before the ZooKeeper session is closed at the end of a shutdown: open no further session."""
        self._stopped = True
        self._controller.resign()

    async def stop(self) -> None:
        self.give_up()
        await self._probe.stop()
        await self._failure_reports.stop()
        await self._election.stop()
        await self.broker_registry.stop()
        await self._tasks.stop()
        await self._loader.stop()

    # Registering.

    async def _register(self) -> None:
        assert self._broker is not None
        registered = await register(self._store, self._broker)
        self._credentials.epoch = registered.epoch
        # True of every later registration of this process.
        self._broker = replace(self._broker, keeps_all=True, same_process=True)
        if self._admitted is None:
            self._publisher.leads_nothing_before(registered.epoch)
            self._admitted = self._world.loop.create_future()
        else:
            self.on_doubt()
        self._epoch = registered.epoch
        self._brokers_changed()

    def _brokers_changed(self) -> None:
        own = self._image.brokers.get(self._node_id)
        if own is None or self._admitted is None or own.epoch != self._epoch or own.is_new:
            return
        if not own.fenced:
            if not self._admitted.done():
                self._admitted.set_result(None)
            if self._is_probing:
                self._probe.follow()
        elif not self._returning and not self._leaving and not self._stopped:
            self._returning = True
            self._tasks.start("registration after fencing", self._return_from_fence(self._epoch))

    def _features_changed(self) -> None:
        """Give up joining if feature levels were raised, after this broker registered, beyond what it supports."""
        if self._broker is None or self._admitted is None or self._admitted.done():
            return
        problems = unsupported(self._image.features, self._broker.features)
        if problems:
            self._admitted.set_exception(refusal_to_join(problems))

    async def _return_from_fence(self, epoch: int) -> None:
        """Register again after the controller fenced this broker."""
        log.warning("this broker was fenced by the controller; registering again under a new broker epoch")
        await self._world.loop.sleep(_BACK_AFTER_S)
        self._returning = False
        if self._epoch == epoch:
            await self._register_again()

    def _session_changed(self, state: SessionState) -> None:
        self.hears_store = state is SessionState.CONNECTED
        if self._stopped:
            return
        match state:
            case SessionState.CONNECTED:
                self._look_at_everything()
            case SessionState.SUSPENDED:
                log.warning("lost the connection to ZooKeeper; reconnecting")
            case SessionState.EXPIRED:
                log.warning("ZooKeeper session expired; opening a new one and registering again")
                self._controller.resign()
                self.on_doubt()
                self._tasks.start("registration after session expiry", self._return())

    async def _return(self) -> None:
        """Open another session, and register again."""
        try:
            await self._store.renew()
        except SessionExpiredError:
            return  # the store was closed meanwhile: this broker stops
        await self._register_again()

    async def _register_again(self) -> None:
        """Register until it succeeds. If the session expires meanwhile, the next session registers."""
        while not self._leaving and not self._stopped:
            try:
                await self._register()
                break
            except SessionExpiredError:
                return
            except (UserError, StoreError) as error:
                log.info("registering this broker again failed: %s; retrying", error)
            await self._world.loop.sleep(_TRY_AGAIN_S)
        self._look_at_everything()

    async def confirm_place(self) -> None:
        """Return when this broker's registration holds, and its image has all changes made before the call."""
        assert self._broker is not None
        while True:
            try:
                holder = await self._store.get(f"{LIVE}/{self._node_id}")
                if holder.data.decode() == self._broker.incarnation:
                    await self._loader.catch_up()
                    return
            except StoreError:
                pass  # the store does not answer, or this broker is registering again
            await self._world.loop.sleep(_TRY_AGAIN_S)

    def _look_at_everything(self) -> None:
        self._loader.follow()
        self._election.stand()
        self._failure_reports.look()
        self.broker_registry.look()

    # Controller elections.

    def _elected(self, elected: Elected) -> None:
        self._image.controller_id = elected.node_id
        self._controller.resign()
        if self._activation is not None:
            self._activation.cancel()
        if elected.epoch_version is not None:
            self._activation = self._tasks.start(
                "controller activation", self._activate_controller(elected.epoch, elected.epoch_version)
            )

    async def _activate_controller(self, epoch: int, epoch_version: int) -> None:
        while True:
            try:
                await self._loader.catch_up()
                break
            except StoreError:
                await self._world.loop.sleep(_TRY_AGAIN_S)
        log.info("elected controller, controller epoch %d", epoch)
        self._controller.activate(
            MetadataWriter(
                self._world, self._image, self._loader, self._publisher, epoch_version=epoch_version
            )
        )
        self.broker_registry.look()
        self._failure_reports.look()

    async def _hand_over(self) -> int:
        """Ask the controller for a controlled shutdown; returns how many partitions still wait for another leader."""
        if self._link.is_here or not self._link.can_ask:
            return await self.broker_registry.controlled_shutdown(self._node_id)
        return await self._link.ask_to_leave(self._epoch)
