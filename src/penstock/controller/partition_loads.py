"""What partitions make their leaders do, as the controller learns it: their size, bytes written, bytes sent.

Brokers are asked with DescribeLogDirs. Bytes written are how much a leader's log has grown; of bytes sent to consumers,
brokers count the sum, and tell each other.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

from penstock.base.ids import TopicPartition
from penstock.client.errors import ClientError
from penstock.cluster.metadata import MetadataImage
from penstock.cluster.peers import Peers
from penstock.services.replicas.replica_manager import ReplicaManager
from penstock.wire.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from penstock.world import World

log = logging.getLogger("penstock.balancer")

# The directory under which a broker tells another how many bytes it sent; no path begins like this.
SENT_BYTES: Final = "penstock:sent-bytes"

_FRESH: Final = 0.5  # how much a new measurement of a rate counts; the rest is what was known before

Totals: TypeAlias = Mapping[TopicPartition, int]


class _Told(NamedTuple):
    """What one broker says of its partitions."""

    sizes: Totals
    sent: Totals


class Rates:
    """How fast totals grow, by partition, evened out over some measurements."""

    def __init__(self) -> None:
        self.totals: Totals = {}
        self.rates: dict[TopicPartition, float] = {}  # a second
        self._leaders: Mapping[TopicPartition, int] = {}  # who told the totals

    def measured(
        self, totals: Totals, leaders: Mapping[TopicPartition, int], *, passed_s: float | None
    ) -> None:
        """The totals there are now; the last ones were so long ago."""
        rates = {}
        for where, total in totals.items():
            rates[where] = self.rates.get(where, 0.0)
            grown = total - self.totals.get(where, total)
            # A log that has shrunk has lost old segments, and a new leader counts from elsewhere: nothing is learned.
            if passed_s and grown >= 0 and self._leaders.get(where) == leaders[where]:
                rates[where] += _FRESH * (grown / passed_s - rates[where])
        self.totals, self.rates, self._leaders = totals, rates, leaders


class PartitionLoads:
    """What is known of the loads of all partitions."""

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
        """What is known is of another time."""
        self.written = Rates()
        self.sent = Rates()
        self._measured_at: float | None = None

    async def measure(self, interval_s: float) -> None:
        """Ask all brokers, unless that was done a moment ago."""
        now = self._loop.time()
        passed_s = None if self._measured_at is None else now - self._measured_at
        if passed_s is not None and passed_s < interval_s:
            return
        self._measured_at = now
        alive = self._image.alive()
        told = dict(zip(alive, await asyncio.gather(*map(self._ask, alive)), strict=True))
        leaders = {
            TopicPartition(topic.name, number): state.leader
            for topic in self._image.topics()
            for number, state in enumerate(topic.partitions)
            if state.leader in told
        }
        written, sent = (
            {
                where: told[leader][kind][where]
                for where, leader in leaders.items()
                if where in told[leader][kind]
            }
            for kind in (0, 1)
        )
        self.written.measured(written, leaders, passed_s=passed_s)
        self.sent.measured(sent, leaders, passed_s=passed_s)

    async def _ask(self, node_id: int) -> _Told:
        if node_id == self._node_id:
            here = {
                TopicPartition(partition.topic, partition.index): partition
                for partition in self._replicas.all()
            }
            return _Told(
                {where: partition.log.size for where, partition in here.items()},
                {where: partition.sent_bytes for where, partition in here.items()},
            )
        try:
            answer = await self._peers.ask(
                node_id, DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse
            )
        except ClientError as error:
            log.info(
                "broker %d: asking for partition sizes failed: %s; balancing without them", node_id, error
            )
            return _Told({}, {})
        sizes: dict[TopicPartition, int] = {}
        sent: dict[TopicPartition, int] = {}
        for result in answer.results:
            totals = sent if result.log_dir == SENT_BYTES else sizes
            for topic in result.topics:
                for each in topic.partitions:
                    totals[TopicPartition(topic.name, each.partition_index)] = each.partition_size
        return _Told(sizes, sent)
