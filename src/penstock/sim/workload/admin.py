"""The client that creates, alters and deletes topics."""

from collections.abc import Awaitable

from penstock.base.errors import ErrorCode, Refusal
from penstock.base.ids import TopicPartition
from penstock.client.configs import Resource, ResourceType, alter_configs
from penstock.client.errors import AnsweredError, ClientError
from penstock.client.offsets import LATEST, find_offsets
from penstock.client.topics import NewTopic, create_partitions, create_topics, delete_records, delete_topics
from penstock.sim import entries
from penstock.sim.checkers import RecordDeletion
from penstock.sim.workload.journal import Journal
from penstock.sim.workload.topic_promises import TopicPromises
from penstock.sim.workload.tracking_client import TrackingClient


async def counted(client: TrackingClient, journal: Journal, operation: str, doing: Awaitable[object]) -> None:
    """Await an operation, and count its outcome."""
    try:
        result = await doing
    except AnsweredError as error:
        client.cluster.forget()
        outcome = error.refusal.code.name
    except ClientError as error:
        client.cluster.forget()
        outcome = type(error).__name__
    else:
        outcome = result.code.name if isinstance(result, Refusal) else "ok"
    journal.count(operation, outcome)


class Admin:
    """Carries out one operation after the other; errors are counted, not retried."""

    def __init__(self, client: TrackingClient, journal: Journal, promises: TopicPromises) -> None:
        self._client = client
        self._journal = journal
        self._promises = promises

    async def create(self, entry: entries.CreateTopic) -> None:
        await self._counted(entry.kind, self._create(entry.topic))

    async def delete(self, entry: entries.DeleteTopic) -> None:
        await self._counted(entry.kind, self._delete(entry.topic))

    async def recreate(self, entry: entries.RecreateTopic) -> None:
        await self._counted(entry.kind, self._recreate(entry.topic))

    async def alter(self, entry: entries.AlterTopic) -> None:
        self._promises.note_change(entry.topic, entry.name, entry.value)
        resource = Resource(ResourceType.TOPIC, entry.topic)
        change = alter_configs(self._client, resource, set_to={entry.name: entry.value})
        await self._counted(entry.kind, change)

    async def grow(self, entry: entries.GrowTopic) -> None:
        await self._counted(entry.kind, self._grow(entry))

    async def delete_records(self, entry: entries.DeleteRecords) -> None:
        await self._counted(entry.kind, self._delete_records(entry))

    async def _counted(self, operation: str, doing: Awaitable[object]) -> None:
        await counted(self._client, self._journal, operation, doing)

    async def _create(self, topic: str) -> Refusal | None:
        plan = self._promises[topic]
        new = NewTopic(topic, plan.partitions, plan.replication_factor, plan.configs)
        results = await create_topics(self._client, [new])
        result = results[topic]
        if not isinstance(result, Refusal):
            self._journal.topics.created(topic)
            return None
        if result.code is ErrorCode.TOPIC_ALREADY_EXISTS:
            self._journal.topics.exists(topic)
        return result

    async def _delete(self, topic: str) -> Refusal | None:
        self._journal.topics.asked_to_delete(topic)
        return (await delete_topics(self._client, [topic]))[topic]

    async def _recreate(self, topic: str) -> Refusal | None:
        await self._delete(topic)
        return await self._create(topic)

    async def _grow(self, entry: entries.GrowTopic) -> Refusal | None:
        count = self._promises[entry.topic].partitions + entry.by
        return (await create_partitions(self._client, {entry.topic: count}))[entry.topic]

    async def _delete_records(self, entry: entries.DeleteRecords) -> Refusal | None:
        partition = TopicPartition(entry.topic, entry.partition)
        self._client.begin()
        end = (await find_offsets(self._client, {partition: LATEST}))[partition]
        before = end * entry.percent // 100
        try:
            result = (await delete_records(self._client, {partition: before}))[partition]
        finally:
            # The request goes by name: each log of that name may have been cut.
            self._journal.history.cuts += [RecordDeletion(log, before) for log in self._client.logs]
        return result if isinstance(result, Refusal) else None
