"""The client that reassigns partitions, elects preferred leaders and drains brokers."""

from collections.abc import Awaitable

from penstock.client.brokers import mark_draining
from penstock.client.errors import raise_if_refused
from penstock.sim import entries
from penstock.sim.workload.admin import counted
from penstock.sim.workload.journal import Journal
from penstock.sim.workload.tracking_client import TrackingClient
from penstock.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from penstock.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions

_PREFERRED = 0


class Operator:
    """Carries out one operation after the other; errors are counted. Reassignments are not awaited."""

    def __init__(self, client: TrackingClient, journal: Journal) -> None:
        self._client = client
        self._journal = journal

    async def move(self, entry: entries.MoveReplicas) -> None:
        await self._counted(entry.kind, self._client.retry(lambda: self._move(entry)))

    async def elect(self, entry: entries.ElectPreferred) -> None:
        await self._counted(entry.kind, self._client.retry(lambda: self._elect(entry)))

    async def drain(self, entry: entries.DrainBroker) -> None:
        await self._counted(entry.kind, mark_draining(self._client, entry.broker, draining=True))

    async def undrain(self, entry: entries.UndrainBroker) -> None:
        await self._counted(entry.kind, mark_draining(self._client, entry.broker, draining=False))

    async def _counted(self, operation: str, doing: Awaitable[object]) -> None:
        await counted(self._client, self._journal, operation, doing)

    async def _move(self, entry: entries.MoveReplicas) -> None:
        partition = ReassignablePartition(
            partition_index=entry.partition, replicas=list(entry.replicas) or None
        )
        request = AlterPartitionReassignmentsRequest(
            topics=[ReassignableTopic(name=entry.topic, partitions=[partition])]
        )
        about = f"move {entry.topic}-{entry.partition}"
        answer = await self._client.ask_controller(request, AlterPartitionReassignmentsResponse)
        raise_if_refused(answer.error_code, answer.error_message, about)
        for topic in answer.responses:
            for each in topic.partitions:
                raise_if_refused(each.error_code, each.error_message, about)

    async def _elect(self, entry: entries.ElectPreferred) -> None:
        request = ElectLeadersRequest(
            election_type=_PREFERRED,
            topic_partitions=[TopicPartitions(topic=entry.topic, partitions=[entry.partition])],
        )
        about = f"elect a leader of {entry.topic}-{entry.partition}"
        answer = await self._client.ask_controller(request, ElectLeadersResponse)
        raise_if_refused(answer.error_code, None, about)
        for topic in answer.replica_election_results:
            for each in topic.partition_result:
                raise_if_refused(each.error_code, each.error_message, about)
