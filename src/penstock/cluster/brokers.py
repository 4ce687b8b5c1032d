"""The controller's watch over the brokers: who has registered is made part of the cluster, who is gone is fenced.

There is one watch, on the list of the living. Whoever may have lost something leaves the in-sync sets before those
that are gone do: the other way round it could be left as the last member, and lead without what the others have.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace

from penstock.base.errors import Refusal
from penstock.cluster.changes import Change
from penstock.cluster.controller import Controller
from penstock.cluster.leadership import fence, hand_over, welcome
from penstock.cluster.metadata import BROKERS, LIVE, Broker, MetadataImage, PartitionState, Topic
from penstock.world import World
from penstock.world.store import Check, StoreError

log = logging.getLogger("penstock.controller")

_TRY_AGAIN_S = 0.2

Rule = Callable[[Topic, PartitionState], PartitionState]


class BrokerKeeper:
    """Works as long as this broker is the controller."""

    def __init__(
        self,
        world: World,
        image: MetadataImage,
        controller: Controller,
        *,
        allows_unclean: Callable[[Topic], bool],
        is_in_memory: Callable[[Topic], bool],
    ) -> None:
        self._world = world
        self._image = image
        self._controller = controller
        self._allows_unclean = allows_unclean
        self._is_in_memory = is_in_memory
        self._task: asyncio.Task[None] | None = None
        self._again = False
        self._stopped = False

    def look(self) -> None:
        """Somebody may have come or gone."""
        self._again = True
        if not self._stopped and (self._task is None or self._task.done()):
            self._task = self._world.loop.create_task(self._keep(), name="keep the brokers")

    async def stop(self) -> None:
        self._stopped = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _keep(self) -> None:
        while self._again and self._controller.is_active:
            self._again = False
            try:
                if not await self._look():
                    self._again = True
            except StoreError as error:
                log.debug("the brokers cannot be looked at: %s", error)
                self._again = True
            if self._again:
                await self._world.loop.sleep(_TRY_AGAIN_S)

    async def _look(self) -> bool:
        """False if something was left undone."""
        living = {int(name) for name in await self._world.store.children(LIVE, watch=self.look)}
        registered: dict[int, tuple[Broker, int]] = {}
        for name in await self._world.store.children(BROKERS):
            node = await self._world.store.get(f"{BROKERS}/{name}")
            registered[int(name)] = Broker.decode(node.data), node.version
        come = {
            node_id: broker
            for node_id, (broker, _) in registered.items()
            if node_id in living and broker.is_new
        }
        gone = [
            node_id
            for node_id, (broker, _) in registered.items()
            if node_id not in living and not broker.fenced
        ]
        done = True
        # Those first that may have lost something.
        for node_id in sorted(come, key=lambda each: (come[each].keeps_all, each)):
            done &= await self._welcome(*registered[node_id])
        for node_id in sorted(gone):
            done &= await self.fence(registered[node_id][0], version=registered[node_id][1])
        return done

    async def _welcome(self, broker: Broker, version: int) -> bool:
        node_id = broker.node_id

        def decide() -> Change:
            alive = {*self._image.alive(), node_id}
            counted = replace(
                broker, fenced=False, is_new=False, keeps_all=True, same_directory=True, same_process=True
            )
            topics = self._changed(
                lambda topic, state: welcome(
                    state,
                    node_id,
                    alive,
                    keeps_all=broker.keeps_all
                    and broker.same_directory
                    and (broker.same_process or not self._is_in_memory(topic)),
                    same_directory=broker.same_directory,
                    unclean=self._allows_unclean(topic),
                )
            )
            return Change(topics=topics, brokers={node_id: counted})

        refusal = await self._decide(decide, node_id, version)
        if refusal is None:
            log.info("broker %d is in the cluster, epoch %d", node_id, broker.epoch)
        return refusal is None

    async def expel(self, node_id: int, epoch: int) -> None:
        """Several brokers have found nobody where that one should be: do not wait for the end of its session.

        If it lives after all, it hears of it, and registers again.
        """
        node = await self._world.store.get(f"{BROKERS}/{node_id}")
        broker = Broker.decode(node.data)
        if broker.epoch == epoch and not broker.fenced:
            await self.fence(broker, version=node.version)

    async def fence(self, broker: Broker, *, version: int) -> bool:
        """A broker does not count any more: others lead what it led."""
        node_id = broker.node_id

        def decide() -> Change:
            alive = [each for each in self._image.alive() if each != node_id]
            topics = self._changed(
                lambda topic, state: fence(state, node_id, alive, unclean=self._allows_unclean(topic))
            )
            return Change(topics=topics, brokers={node_id: replace(broker, fenced=True, is_new=False)})

        refusal = await self._decide(decide, node_id, version)
        if refusal is None:
            log.warning("broker %d, epoch %d, is gone", node_id, broker.epoch)
        return refusal is None

    async def hand_over(self, node_id: int) -> int:
        """Have others lead what a broker leads that is about to stop. How many partitions it is left with of which
        others that are alive have a replica: those may still catch up.
        """

        def decide() -> Change:
            alive = self._image.alive()
            return Change(topics=self._changed(lambda _, state: hand_over(state, node_id, alive)))

        await self._controller.decide(decide)
        others = {each for each in self._image.alive() if each != node_id}
        return sum(
            state.leader == node_id and not others.isdisjoint(state.replicas)
            for topic in self._image.topics()
            for state in topic.partitions
        )

    async def _decide(self, decide: Callable[[], Change], node_id: int, version: int) -> Refusal | None:
        """Carry out what was decided of a broker, if it has not registered again meanwhile."""
        refusal = await self._controller.decide(
            decide, checks=lambda: (Check(f"{BROKERS}/{node_id}", version),)
        )
        if refusal is not None:
            log.info("broker %d has to wait: %s", node_id, refusal.message)
        return refusal

    def _changed(self, rule: Rule) -> Mapping[str, Topic]:
        """The topics of which a rule makes something else."""
        changed = {}
        for topic in self._image.topics():
            partitions = tuple(rule(topic, state) for state in topic.partitions)
            if partitions != topic.partitions:
                changed[topic.name] = replace(topic, partitions=partitions)
        return changed
