"""One interface to the transactional producers and consumers of all Python clients: the same tests run with each."""

import asyncio
import contextlib
from collections.abc import Awaitable
from typing import Any, ClassVar, Protocol

import aiokafka
import confluent_kafka
import kafka
from aiokafka.errors import ProducerFenced as AiokafkaFencedError
from confluent_kafka import KafkaException
from kafka.errors import ProducerFencedError as KafkaPythonFencedError

PATIENCE_S = 60.0


class Transacting(Protocol):
    """A producer that has taken its transactional id over."""

    fenced_error: ClassVar[type[Exception]]

    def __init__(self, bootstrap: str, name: str) -> None: ...
    def begin(self) -> None: ...
    def send(self, topic: str, value: bytes) -> None: ...
    def send_offset(self, group: str, topic: str, offset: int) -> None: ...
    def commit(self) -> None: ...
    def abort(self) -> None: ...
    def close(self) -> None: ...

    @staticmethod
    def read(bootstrap: str, topic: str, *, isolation: str, until: bytes) -> list[bytes]:
        """The values of partition 0, up to a certain one."""
        ...


class Confluent:
    fenced_error = KafkaException

    def __init__(self, bootstrap: str, name: str) -> None:
        self._bootstrap = bootstrap
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": name,
                "metadata.recovery.strategy": "none",
                "log_level": 0,
            }
        )
        self._producer.init_transactions(PATIENCE_S)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, value: bytes) -> None:
        self._producer.produce(topic, value, partition=0)
        self._producer.flush(PATIENCE_S)

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        outsider = confluent_kafka.Consumer({"bootstrap.servers": self._bootstrap, "group.id": group})
        with contextlib.closing(outsider):
            self._producer.send_offsets_to_transaction(
                [confluent_kafka.TopicPartition(topic, 0, offset)],
                outsider.consumer_group_metadata(),
                PATIENCE_S,
            )

    def commit(self) -> None:
        self._producer.commit_transaction(PATIENCE_S)

    def abort(self) -> None:
        self._producer.abort_transaction(PATIENCE_S)

    def close(self) -> None:
        self._producer.purge()

    @staticmethod
    def read(bootstrap: str, topic: str, *, isolation: str, until: bytes) -> list[bytes]:
        settings = {"bootstrap.servers": bootstrap, "group.id": "reader", "isolation.level": isolation}
        values: list[bytes] = []
        with contextlib.closing(confluent_kafka.Consumer(settings)) as consumer:
            consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
            while until not in values:
                message = consumer.poll(PATIENCE_S)
                assert message is not None, values
                assert message.error() is None, message.error()
                values.append(message.value())
        return values


class Aiokafka:
    """Its loop runs only while something is asked of it."""

    fenced_error = AiokafkaFencedError

    def __init__(self, bootstrap: str, name: str) -> None:
        self._runner = asyncio.Runner()
        self._producer: Any = None

        async def start() -> None:
            self._producer = aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=name)
            await self._producer.start()

        self._run(start())

    def begin(self) -> None:
        self._run(self._producer.begin_transaction())

    def send(self, topic: str, value: bytes) -> None:
        self._run(self._producer.send_and_wait(topic, value, partition=0))

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        offsets = {aiokafka.TopicPartition(topic, 0): offset}
        self._run(self._producer.send_offsets_to_transaction(offsets, group))

    def commit(self) -> None:
        self._run(self._producer.commit_transaction())

    def abort(self) -> None:
        self._run(self._producer.abort_transaction())

    def close(self) -> None:
        self._run(self._producer.stop())
        self._runner.close()

    def _run(self, work: Awaitable[Any]) -> None:
        async def patiently() -> None:
            await asyncio.wait_for(work, PATIENCE_S)

        self._runner.run(patiently())

    @staticmethod
    def read(bootstrap: str, topic: str, *, isolation: str, until: bytes) -> list[bytes]:
        async def read() -> list[bytes]:
            values: list[bytes] = []
            async with aiokafka.AIOKafkaConsumer(
                bootstrap_servers=bootstrap, isolation_level=isolation, auto_offset_reset="earliest"
            ) as consumer:
                consumer.assign([aiokafka.TopicPartition(topic, 0)])
                while until not in values:
                    values.append((await consumer.getone()).value)
            return values

        return asyncio.run(asyncio.wait_for(read(), PATIENCE_S))


class KafkaPython:
    fenced_error = KafkaPythonFencedError

    def __init__(self, bootstrap: str, name: str) -> None:
        self._producer = kafka.KafkaProducer(bootstrap_servers=bootstrap, transactional_id=name)
        self._producer.init_transactions()

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, value: bytes) -> None:
        self._producer.send(topic, value, partition=0).get(PATIENCE_S)

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        offsets = {kafka.TopicPartition(topic, 0): kafka.OffsetAndMetadata(offset, "", -1)}
        self._producer.send_offsets_to_transaction(offsets, group)

    def commit(self) -> None:
        self._producer.commit_transaction()

    def abort(self) -> None:
        self._producer.abort_transaction()

    def close(self) -> None:
        self._producer.close(timeout=PATIENCE_S)

    @staticmethod
    def read(bootstrap: str, topic: str, *, isolation: str, until: bytes) -> list[bytes]:
        values: list[bytes] = []
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=bootstrap,
            isolation_level=isolation,
            auto_offset_reset="earliest",
            consumer_timeout_ms=int(PATIENCE_S * 1000),
        )
        with contextlib.closing(consumer):
            consumer.assign([kafka.TopicPartition(topic, 0)])
            for message in consumer:
                values.append(message.value)
                if message.value == until:
                    break
        return values


CLIENTS: dict[str, type[Transacting]] = {
    "confluent": Confluent,
    "aiokafka": Aiokafka,
    "kafka-python": KafkaPython,
}
