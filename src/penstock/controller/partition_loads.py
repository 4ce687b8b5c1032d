"""Collects the loads of partitions for the balancer: size, bytes written, bytes sent to consumers.

Brokers are asked with PartitionLoads (key 10002). Bytes written are the growth of the leader's log; bytes sent to
consumers are a total that each broker counts since its start.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

from penstock.base.ids import TopicPartition
from penstock.client.errors import ClientError
from penstock.cluster.metadata import MetadataImage
from penstock.cluster.peers import Peers
from penstock.controller.requests_to_unproven_peers import ask_loads
from penstock.services.replicas.replica_manager import ReplicaManager
from penstock.wire.private.partition_loads import PartitionLoadsRequest, PartitionLoadsResponse
from penstock.world import World

log = logging.getLogger("penstock.balancer")

_FRESH: Final = 0.5  # the weight of a new rate in the moving average

Totals: TypeAlias = Mapping[TopicPartition, int]


class _BrokerLoads(NamedTuple):
    """The totals of one broker's partitions."""

    sizes: Totals
    sent: Totals


class Rates:
    """How fast totals grow, by partition: a moving average over measurements."""

    def __init__(self) -> None:
        self.totals: Totals = {}
        self.rates: dict[TopicPartition, float] = {}  # a second
        self._leaders: Mapping[TopicPartition, int] = {}  # the brokers that reported the totals

    def measured(
        self, totals: Totals, leaders: Mapping[TopicPartition, int], *, passed_s: float | None
    ) -> None:
        """Take new totals; the last ones were taken `passed_s` ago."""
        rates = {}
        for where, total in totals.items():
            rates[where] = self.rates.get(where, 0.0)
            grown = total - self.totals.get(where, total)
            # A log that has shrunk has deleted old segments, and a new leader counts from another start: no rate.
            if passed_s and grown >= 0 and self._leaders.get(where) == leaders[where]:
                rates[where] += _FRESH * (grown / passed_s - rates[where])
        self.totals, self.rates, self._leaders = totals, rates, leaders


class PartitionLoads:
    """The loads of all partitions, as last measured."""

    def __init__(
        self, world: World, image: MetadataImage, replicas: ReplicaManager, peers: Peers, *, node_id: int
    ) -> None:
        self._loop = world.loop
        self._image = image
        self._replicas = replicas
        self._peers = peers
        self._node_id = node_id
        self.forget()

    def forget(self) -> None:
        """Drop all measurements: they are of an earlier term as controller."""
        self.written = Rates()
        self.sent = Rates()
        self._measured_at: float | None = None

    async def measure(self, interval_s: float) -> None:
        """Ask all brokers, unless less than `interval_s` has passed since the last time."""
        now = self._loop.time()
        passed_s = None if self._measured_at is None else now - self._measured_at
        if passed_s is not None and passed_s < interval_s:
            return
        self._measured_at = now
        alive = self._image.alive()
        reported = dict(zip(alive, await asyncio.gather(*map(self._ask, alive)), strict=True))
        leaders = {
            TopicPartition(topic.name, number): state.leader
            for topic in self._image.topics()
            for number, state in enumerate(topic.partitions)
            if state.leader in reported
        }
        written, sent = (
            {
                where: reported[leader][kind][where]
                for where, leader in leaders.items()
                if where in reported[leader][kind]
            }
            for kind in (0, 1)
        )
        self.written.measured(written, leaders, passed_s=passed_s)
        self.sent.measured(sent, leaders, passed_s=passed_s)

    async def _ask(self, node_id: int) -> _BrokerLoads:
        if node_id == self._node_id:
            here = {
                TopicPartition(partition.topic, partition.index): partition
                for partition in self._replicas.all()
            }
            return _BrokerLoads(
                {where: partition.log.size for where, partition in here.items()},
                {where: partition.sent_bytes for where, partition in here.items()},
            )
        try:
            if not self._peers.shakes_hands(node_id):
                return _BrokerLoads(*await ask_loads(self._peers, node_id))
            answer = await self._peers.ask(node_id, PartitionLoadsRequest(), PartitionLoadsResponse)
        except ClientError as error:
            log.info(
                "broker %d: asking for partition sizes failed: %s; balancing without them", node_id, error
            )
            return _BrokerLoads({}, {})
        loads = {
            TopicPartition(topic.name, each.partition_index): each
            for topic in answer.topics
            for each in topic.partitions
        }
        return _BrokerLoads(
            {where: each.size_bytes for where, each in loads.items()},
            {where: each.sent_bytes for where, each in loads.items()},
        )
