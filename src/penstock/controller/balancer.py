"""The controller's balancer: gathers facts about brokers and partitions, and carries out the moves that
`controller.rules.balancing` plans.

Each plan follows from the metadata alone, so the next controller continues where this one stopped.
"""

import logging
from collections.abc import Mapping
from typing import Final

from penstock.base.cluster_settings import (
    AUTO_LEADER_REBALANCE_ENABLE,
    PENSTOCK_BALANCE_ENABLE,
    PENSTOCK_BALANCE_INTERVAL_MS,
    PENSTOCK_BALANCE_MOVES_MAX,
    PENSTOCK_BALANCE_REPLACE_AFTER_MS,
)
from penstock.base.errors import ErrorCode, Refusal
from penstock.base.ids import TopicPartition
from penstock.cluster.metadata import MetadataImage
from penstock.cluster.peers import Peers
from penstock.controller.controller import Controller
from penstock.controller.partition_loads import PartitionLoads
from penstock.controller.rules.admin_requests import RequestedReplicas, ongoing_reassignments
from penstock.controller.rules.balancing import BalancingPlan, BrokerFact, Limits, PartitionFact, plan
from penstock.services.configs import Configs
from penstock.services.coordinators.internal_topics import replicas_wanted
from penstock.services.replicas.replica_manager import ReplicaManager
from penstock.world import World
from penstock.world.tasks import Tasks, repeat

log = logging.getLogger("penstock.balancer")

_LEADERS_AT_A_TIME: Final = 100
_LOADS_EVERY: Final = 6  # intervals: with thousands of partitions the responses are large
_BUSY_INTERVAL_S: Final = 1.0  # while partitions are being reassigned

# Below these averages per broker, sizes and rates are not balanced: moving replicas would cost more than it gains.
_SIZE_MIN: Final = 256 * 1024**2
_RATE_MIN: Final = 256 * 1024


class Balancer:
    """Runs at `penstock.balance.interval.ms`, and balances while this broker is the controller."""

    def __init__(
        self,
        world: World,
        image: MetadataImage,
        controller: Controller,
        configs: Configs,
        replicas: ReplicaManager,
        peers: Peers,
        *,
        node_id: int,
    ) -> None:
        self._world = world
        self._loop = world.loop
        self._image = image
        self._controller = controller
        self._configs = configs
        self._node_id = node_id
        self._loads = PartitionLoads(world, image, replicas, peers, node_id=node_id)
        self._fenced_since: dict[int, float] = {}
        self._is_moving = False
        self._tasks = Tasks(world.loop)

    def start(self) -> None:
        name = "balancer"
        self._tasks.start(name, repeat(self._loop, name, self._balance, log=log, interval_s=self._pause_s))

    async def stop(self) -> None:
        await self._tasks.stop()

    @property
    def _interval_s(self) -> float:
        return self._configs.broker[PENSTOCK_BALANCE_INTERVAL_MS] / 1000

    def _pause_s(self) -> float:
        return min(self._interval_s, _BUSY_INTERVAL_S) if self._is_moving else self._interval_s

    async def _balance(self) -> None:
        """Begin the next reassignments and preferred leader elections."""
        self._is_moving = False
        if not self._controller.is_active:
            self._fenced_since.clear()
            self._loads.forget()
            return
        brokers = self._brokers()
        if not self._configs.broker[PENSTOCK_BALANCE_ENABLE]:
            return
        await self._cancel_hopeless(
            {broker.node_id for broker in brokers if broker.is_leaving and not broker.is_alive}
        )
        await self._loads.measure(_LOADS_EVERY * self._interval_s)
        facts = self._partitions(len(brokers))
        broker = self._configs.broker
        limits = Limits(
            leaders=_LEADERS_AT_A_TIME,
            replicas=broker[PENSTOCK_BALANCE_MOVES_MAX],
            auto_leader_rebalance=broker[AUTO_LEADER_REBALANCE_ENABLE],
        )
        planned = await self._world.work.run(lambda: plan(brokers, facts, limits))
        await self._carry_out(planned, {fact.where: fact for fact in facts})
        self._is_moving = not planned.is_empty or any(fact.is_moving for fact in facts)

    # The facts.

    def _brokers(self) -> list[BrokerFact]:
        now = self._loop.time()
        for node_id, broker in self._image.brokers.items():
            if broker.fenced:
                self._fenced_since.setdefault(node_id, now)
            else:
                self._fenced_since.pop(node_id, None)
        patience_s = self._configs.broker[PENSTOCK_BALANCE_REPLACE_AFTER_MS] / 1000
        return [
            BrokerFact(
                node_id,
                broker.rack,
                is_alive=not broker.fenced,
                is_leaving=self._image.is_draining(node_id)
                or now - self._fenced_since.get(node_id, now) > patience_s,
            )
            for node_id, broker in sorted(self._image.brokers.items())
        ]

    def _partitions(self, broker_count: int) -> list[PartitionFact]:
        facts = []
        wanted = replicas_wanted(self._configs.broker)
        for topic in self._image.topics():
            for number, state in enumerate(topic.partitions):
                where = TopicPartition(topic.name, number)
                facts.append(
                    PartitionFact(
                        where,
                        state.leader,
                        tuple(each for each in state.replicas if each not in state.removing),
                        state.isr,
                        is_moving=bool(state.adding or state.removing),
                        bytes_in=self._loads.written.rates.get(where, 0.0),
                        bytes_out=self._loads.sent.rates.get(where, 0.0),
                        size=self._loads.written.totals.get(where, 0),
                        replicas_wanted=wanted.get(topic.name, 0),
                    )
                )
        size = sum(fact.size * len(fact.replicas) for fact in facts) / max(1, broker_count)
        rate = sum(fact.bytes_in * len(fact.replicas) + fact.bytes_out for fact in facts) / max(
            1, broker_count
        )
        if size < _SIZE_MIN:
            facts = [fact._replace(size=0) for fact in facts]
        if rate < _RATE_MIN:
            facts = [fact._replace(bytes_in=0.0, bytes_out=0.0) for fact in facts]
        return facts

    # The moves.

    async def _cancel_hopeless(self, lost: set[int]) -> None:
        """Cancel reassignments that add a replica on a broker that was away for too long: they would never complete."""
        hopeless = [
            RequestedReplicas(where, None)
            for where, state in ongoing_reassignments(self._image).items()
            if not lost.isdisjoint(state.adding)
        ]
        if hopeless:
            _log_failures(
                "cancelling the reassignment of",
                await self._controller.reassign_replicas(hopeless, keeps_factor=True),
            )

    async def _carry_out(self, planned: BalancingPlan, facts: Mapping[TopicPartition, PartitionFact]) -> None:
        wanted = [*planned.reorderings, *planned.reassignments]
        if wanted:
            for where, replicas in planned.reassignments:
                log.info(
                    "%s: reassigning replicas from brokers %s to %s", where, facts[where].replicas, replicas
                )
            outcomes = await self._controller.reassign_replicas(
                [RequestedReplicas(where, replicas, facts[where].replicas) for where, replicas in wanted],
                keeps_factor=False,
            )
            _log_failures("reassigning", outcomes)
        if planned.elections:
            log.info("electing the preferred leaders of %d partitions", len(planned.elections))
            _log_failures(
                "electing the preferred leader of",
                await self._controller.elect_leaders(planned.elections, unclean=False),
            )


def _log_failures(what: str, outcomes: Mapping[TopicPartition, Refusal] | Refusal) -> None:
    if isinstance(outcomes, Refusal):
        log.info("%s failed: %s; retrying at the next interval", what, outcomes.message)
        return
    for where, outcome in outcomes.items():
        if outcome.code is not ErrorCode.NONE:
            log.info("%s %s failed: %s; retrying at the next interval", what, where, outcome.message)
