"""A client that records which topic ids its attempts were sent to: between two of them the topic may be recreated."""

from collections.abc import Iterable

from penstock.base.ids import TopicPartition, format_id
from penstock.client.client import Client
from penstock.client.connection import Connection
from penstock.sim.checkers import LogName


class TrackingClient(Client):
    """Tracks one operation at a time; call `begin` before each."""

    attempts: int = 0

    def begin(self) -> None:
        self.attempts = 0
        self._tried: dict[LogName, None] = {}

    @property
    def logs(self) -> tuple[LogName, ...]:
        """The logs that the attempts since `begin` were sent to, the last one last."""
        return tuple(self._tried)

    def log(self, partition: TopicPartition) -> LogName:
        """The log of a partition, by the topic id in this client's metadata."""
        return LogName(
            partition.topic, format_id(self.cluster.topic_id(partition.topic)), partition.partition
        )

    async def leaders(self, partitions: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        wanted = list(partitions)
        found = await super().leaders(wanted)
        self.attempts += 1
        for each in wanted:
            self._tried.pop(self.log(each), None)
            self._tried[self.log(each)] = None
        return found


class AnyBrokerClient(TrackingClient):
    """Sends requests for the controller to any broker, which has to forward or reject them."""

    async def controller_connection(self) -> Connection:
        brokers = await self.brokers()
        return await self.connection(brokers[self.entropy.random_below(len(brokers))].address)
