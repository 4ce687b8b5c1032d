"""Fences and unfences brokers: the controller unfences those that have registered, and fences those whose session is
over.

It watches the list of live brokers. A broker that may have lost records leaves the ISRs before brokers that are gone
do: in the other order it could become the last member of an ISR, and lead without records that the others have.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace

from penstock.base.errors import Refusal
from penstock.cluster.features import unsupported
from penstock.cluster.metadata import (
    BROKERS,
    LIVE,
    NO_LEADER,
    BrokerRegistration,
    MetadataImage,
    PartitionState,
    Topic,
)
from penstock.cluster.metadata_changes import Change
from penstock.cluster.store_watcher import StoreWatcher
from penstock.controller.controller import Controller
from penstock.controller.rules import majority_partitions
from penstock.controller.rules.leader_election import elect_for_shutdown, fence_replica, unfence_replica
from penstock.world import World
from penstock.world.store import Check

log = logging.getLogger("penstock.controller")

Rule = Callable[[Topic, PartitionState], PartitionState]


class BrokerRegistry:
    """Fences and unfences brokers while this broker is the controller."""

    def __init__(
        self,
        world: World,
        image: MetadataImage,
        controller: Controller,
        *,
        min_isr: Callable[[Topic], int],
        allows_unclean: Callable[[Topic], bool],
        is_in_memory: Callable[[Topic], bool],
    ) -> None:
        self._world = world
        self._image = image
        self._controller = controller
        self._min_in_sync = min_isr
        self.allows_unclean = allows_unclean
        self._is_in_memory = is_in_memory
        self.leaving: dict[int, int] = {}  # brokers in controlled shutdown, and their broker epochs
        self._watcher = StoreWatcher(world, self._look, name="broker registry")

    def look(self) -> None:
        """Look for brokers that have registered, or whose session is over."""
        self._watcher.ask()

    async def stop(self) -> None:
        await self._watcher.stop()

    async def _look(self) -> bool:
        """Fence and unfence brokers; False if a change failed and has to be retried."""
        if not self._controller.is_active:
            return True
        living = {int(name) for name in await self._world.store.children(LIVE, watch=self.look)}
        registered: dict[int, tuple[BrokerRegistration, int]] = {}
        for name in await self._world.store.children(BROKERS):
            node = await self._world.store.get(f"{BROKERS}/{name}")
            registered[int(name)] = BrokerRegistration.decode(node.data), node.version
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
        # Brokers that may have lost records come first.
        for node_id in sorted(come, key=lambda each: (come[each].keeps_all, each)):
            done &= await self._unfence(*registered[node_id])
        for node_id in sorted(gone):
            done &= await self.fence(registered[node_id][0], version=registered[node_id][1])
        await self._controller.clear_needless_elrs()  # the last controller may have died before it did this
        return done

    async def _unfence(self, broker: BrokerRegistration, version: int) -> bool:
        node_id = broker.node_id

        def decide() -> Change:
            problems = unsupported(self._image.features, broker.features)
            if problems:
                # It checked the levels before it registered, and they were raised since: it reads them, and stops.
                log.error(
                    "broker %d: registration rejected, unsupported features: %s", node_id, "; ".join(problems)
                )
                return Change()
            alive = {*self._image.alive(), node_id}
            counted = replace(
                broker, fenced=False, is_new=False, keeps_all=True, same_directory=True, same_process=True
            )

            def rule(topic: Topic, state: PartitionState) -> PartitionState:
                keeps_all = (
                    broker.keeps_all
                    and broker.same_directory
                    and (broker.same_process or not self._is_in_memory(topic))
                )
                if topic.counts_majority:
                    return majority_partitions.unfence_replica(state, node_id, keeps_all=keeps_all)
                return unfence_replica(
                    state,
                    node_id,
                    alive,
                    keeps_all=keeps_all,
                    same_directory=broker.same_directory,
                    unclean=self.allows_unclean(topic),
                )

            return Change(topics=self._changed(rule), brokers={node_id: counted})

        refusal = await self._decide(decide, node_id, version)
        if refusal is None and node_id in self._image.alive():
            log.info("broker %d unfenced, broker epoch %d", node_id, broker.epoch)
        return refusal is None

    async def fence_unreachable(self, node_id: int, epoch: int) -> None:
        """Fence a broker that refuses the connections of several others, before its session ends.

        If its process still runs, it reads that it is fenced, and registers again.
        """
        node = await self._world.store.get(f"{BROKERS}/{node_id}")
        broker = BrokerRegistration.decode(node.data)
        if broker.epoch == epoch and not broker.fenced:
            await self.fence(broker, version=node.version)

    async def fence(self, broker: BrokerRegistration, *, version: int) -> bool:
        """Fence a broker: remove it from the ISRs, and elect other leaders in its place."""
        node_id = broker.node_id

        def decide() -> Change:
            alive = [each for each in self._image.alive() if each != node_id]
            topics = self._changed(
                lambda topic, state: (
                    majority_partitions.fence_replica(state, node_id)
                    if topic.counts_majority
                    else fence_replica(
                        state,
                        node_id,
                        alive,
                        min_isr=self._min_in_sync(topic),
                        unclean=self.allows_unclean(topic),
                    )
                )
            )
            return Change(topics=topics, brokers={node_id: replace(broker, fenced=True, is_new=False)})

        refusal = await self._decide(decide, node_id, version)
        if refusal is None:
            log.warning(
                "broker %d fenced, broker epoch %d; its partitions get other leaders", node_id, broker.epoch
            )
        return refusal is None

    async def controlled_shutdown(self, node_id: int) -> int:
        """Elect other leaders for the partitions of a broker that is about to stop.

        Returns how many partitions still wait: those it leads and of which a live broker has a replica that may catch
        up, and those whose majority election is not over.
        """
        broker = self._image.brokers.get(node_id)
        self.leaving[node_id] = -1 if broker is None else broker.epoch

        def decide() -> Change:
            alive = self._image.alive()
            return Change(
                topics=self._changed(
                    lambda topic, state: (
                        majority_partitions.elect_for_shutdown(state, node_id, alive)
                        if topic.counts_majority
                        else elect_for_shutdown(state, node_id, alive)
                    )
                )
            )

        await self._controller.decide(decide)
        others = {each for each in self._image.alive() if each != node_id}
        return sum(
            _waits_for_others(topic, state, node_id, others)
            for topic in self._image.topics()
            for state in topic.partitions
        )

    async def _decide(self, decide: Callable[[], Change], node_id: int, version: int) -> Refusal | None:
        """Write a decision about a broker, unless it has registered again meanwhile."""
        refusal = await self._controller.decide(
            decide, checks=lambda: (Check(f"{BROKERS}/{node_id}", version),)
        )
        if refusal is not None:
            log.info("broker %d: changing its registration failed: %s; retrying", node_id, refusal.message)
        return refusal

    def _changed(self, rule: Rule) -> Mapping[str, Topic]:
        """The topics that a rule changes."""
        changed = {}
        for topic in self._image.topics():
            partitions = tuple(rule(topic, state) for state in topic.partitions)
            if partitions != topic.partitions:
                changed[topic.name] = replace(topic, partitions=partitions)
        return changed


def _waits_for_others(topic: Topic, state: PartitionState, leaving: int, others: set[int]) -> bool:
    if topic.counts_majority:
        return (
            state.leader == NO_LEADER and leaving in state.replicas and not others.isdisjoint(state.replicas)
        )
    return state.leader == leaving and not others.isdisjoint(state.replicas)
