"""Small stories that several tests tell: a broker, a client on it, and what may come between them."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from penstock.base.ids import TopicPartition
from penstock.client.client import Client, ClientSettings
from penstock.client.fetch import read_batches, read_fetched
from penstock.client.fetcher import Fetcher
from penstock.client.producer import NewRecord, Producer
from penstock.client.topics import NewTopic, create_topics
from penstock.sim import Node, Outsider, Simulation

T = TypeVar("T")

PATIENCE_S = 900.0

# A machine without power closes no connection: a client waits until its request times out, and then tries again.
PATIENT = ClientSettings(patience_ms=600_000)


async def as_client(
    simulation: Simulation,
    someone: Outsider,
    node: Node,
    chore: Callable[[Client], Awaitable[T]],
    *,
    settings: ClientSettings = PATIENT,
) -> T:
    """Connect a client in an outsider's process to a node, and run `chore` with it."""

    async def talk() -> T:
        async with Client(someone.loop, node.address, entropy=someone.entropy, settings=settings) as client:
            return await chore(client)

    return await simulation.loop.spawn(someone.process, talk())


async def make_topic(client: Client, name: str) -> None:
    """A topic that loses nothing it has acknowledged, whatever crashes."""
    await create_topics(client, [NewTopic(name, partitions=1, configs={"flush.messages": "1"})])


async def send(client: Client, topic: str, *values: bytes) -> None:
    """One request after the other."""
    await client.retry(lambda: client.topic(topic))
    producer = Producer(client)
    for value in values:
        await producer.send(topic, [NewRecord(None, value)])


async def read(client: Client, topic: str) -> list[bytes | None]:
    """All that a reader finds, from the beginning to the high watermark."""
    partition = TopicPartition(topic, 0)
    fetcher = Fetcher(client, {partition: 0})
    values: list[bytes | None] = []
    try:
        while True:
            for fetched in await fetcher.poll():
                for header, batch in read_batches(fetched):
                    position = fetcher.positions[partition]
                    values += [each.value for each in read_fetched(batch, header, from_offset=position)]
                    fetcher.advance(partition, header.next_offset)
                if fetcher.positions[partition] >= fetched.high_watermark:
                    return values
    finally:
        await fetcher.close()
