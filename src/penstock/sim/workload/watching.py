"""A client that remembers where its attempts went: a retry may find the topic deleted and another in its place."""

from collections.abc import Iterable

from penstock.base.ids import TopicPartition, format_id
from penstock.client.client import Client
from penstock.client.connection import Connection
from penstock.sim.checkers import LogName


class WatchingClient(Client):
    """For one operation at a time; `begin` before each."""

    attempts: int = 0

    def begin(self) -> None:
        self.attempts = 0
        self._tried: dict[LogName, None] = {}

    @property
    def logs(self) -> tuple[LogName, ...]:
        """Where the attempts since `begin` went, the last one last."""
        return tuple(self._tried)

    def log(self, partition: TopicPartition) -> LogName:
        """The log that the name stands for, as far as this client knows."""
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


class StrayingClient(WatchingClient):
    """Asks any broker for what only the controller may do."""

    async def controller_connection(self) -> Connection:
        brokers = await self.brokers()
        return await self.connection(brokers[self.entropy.random_below(len(brokers))].address)
