"""Topics and records for the tests of the source, by way of our own client."""

from collections.abc import Iterable, Sequence

from penstock.base.ids import TopicPartition
from penstock.client.blocking import BlockingClient
from penstock.client.configs import Resource, ResourceType, alter_configs
from penstock.client.offsets import LATEST, find_offsets
from penstock.client.producer import NewRecord, Producer
from penstock.client.topics import NewTopic, create_partitions, create_topics, delete_records, delete_topics
from penstock.client.transactional_producer import TransactionalProducer
from penstock.records.compression import Codec


class Topics:
    """What a test does to topics."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._servers = bootstrap_servers

    def create(self, name: str, partitions: int = 1, **configs: str) -> None:
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        with BlockingClient(self._servers) as blocking:
            blocking.run(create_topics(blocking.client, [NewTopic(name, partitions, 1, settings)]))

    def delete(self, name: str) -> None:
        with BlockingClient(self._servers) as blocking:
            blocking.run(delete_topics(blocking.client, [name]))

    def grow(self, name: str, partitions: int) -> None:
        with BlockingClient(self._servers) as blocking:
            blocking.run(create_partitions(blocking.client, {name: partitions}))

    def cut(self, name: str, partition: int, before: int) -> None:
        with BlockingClient(self._servers) as blocking:
            blocking.run(delete_records(blocking.client, {TopicPartition(name, partition): before}))

    def alter(self, name: str, **configs: str) -> None:
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        with BlockingClient(self._servers) as blocking:
            blocking.run(alter_configs(blocking.client, Resource(ResourceType.TOPIC, name), set_to=settings))

    def end(self, name: str, partition: int = 0) -> int:
        """The offset that the next record gets."""
        asked = {TopicPartition(name, partition): LATEST}
        with BlockingClient(self._servers) as blocking:
            (offset,) = blocking.run(find_offsets(blocking.client, asked)).values()
        return offset

    def write(self, name: str, records: Iterable[NewRecord], *, codec: Codec = Codec.NONE) -> None:
        with BlockingClient(self._servers) as blocking:
            blocking.run(Producer(blocking.client, codec=codec).send(name, list(records)))

    def write_values(self, name: str, values: Iterable[str], *, partition: int = 0) -> None:
        self.write(name, [NewRecord(None, value.encode(), partition=partition) for value in values])

    def transact(self, name: str, values: Sequence[str], *, commit: bool | None, partition: int = 0) -> None:
        """Values in one transaction, committed or aborted; None leaves it open."""

        async def run(producer: TransactionalProducer) -> None:
            await producer.start()
            producer.begin()
            await producer.send(
                name, [NewRecord(None, each.encode(), partition=partition) for each in values]
            )
            if commit is not None:
                await (producer.commit() if commit else producer.abort())

        with BlockingClient(self._servers) as blocking:
            blocking.run(run(TransactionalProducer(blocking.client, f"{name}-{partition}-{values[0]}")))
