"""Topics and records of an embedded broker, for the part of a test that is not what it is about.

    broker.create_topic("orders", partitions=3, configs={"retention.ms": "1000"})
    broker.send("orders", b"one", b"two", key=b"alice")
    assert [record.value for record in broker.records("orders", count=2)] == [b"one", b"two"]

They go through the broker's port, with Penstock's own client, as any other client's requests. They block; in an asyncio
program call them on a thread: `await asyncio.to_thread(broker.send, "orders", b"one")`.
"""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeVar

from penstock.base.errors import ErrorCode, Refusal, UserError
from penstock.base.ids import TopicPartition
from penstock.client.blocking import BlockingClient
from penstock.client.client import Client, ClientSettings
from penstock.client.errors import AnsweredError
from penstock.client.fetch import Fetched, FetchLimits, read_batches, read_fetched
from penstock.client.fetcher import Fetcher
from penstock.client.offsets import EARLIEST, LATEST, find_offsets
from penstock.client.producer import NewRecord, Producer
from penstock.client.topics import NewTopic, create_topics
from penstock.records.record import Headers

T = TypeVar("T")

TIMEOUT_S: Final = 10.0
_LIMITS: Final = FetchLimits(max_wait_ms=100)
_LOOK_AGAIN_S: Final = 0.02


class StoredRecord(NamedTuple):
    """A record as it is in a topic."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class RecordHelpers(ABC):
    """What an embedded broker can do with its own topics."""

    @property
    @abstractmethod
    def bootstrap_servers(self) -> str:
        """Where clients find the broker, as host:port."""

    def create_topic(
        self, name: str, *, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> None:
        """Create a topic; UserError if it exists or cannot be."""
        new = NewTopic(name, partitions, 1, dict(configs or {}))

        async def create(client: Client) -> None:
            outcome = (await create_topics(client, [new]))[name]
            if isinstance(outcome, Refusal):
                raise UserError(f"topic {name!r} was not created: {outcome.message or outcome.code.name}")

        self._ask(create)

    def send(
        self,
        topic: str,
        *values: bytes | str | None,
        key: bytes | str | None = None,
        headers: Headers = (),
        partition: int | None = None,
    ) -> None:
        """Send one record per value, in order; returns when the topic, which is created if need be, has them."""
        records = [NewRecord(_bytes(key), _bytes(value), headers, partition=partition) for value in values]

        async def send(client: Client) -> None:
            (found,) = await client.refresh([topic])
            if found.refusal is not None and found.refusal.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                await create_topics(client, [NewTopic(topic)])
            await Producer(client).send(topic, records)

        self._ask(send)

    def records(
        self,
        topic: str,
        *,
        count: int = 0,
        timeout_s: float = TIMEOUT_S,
        committed_only: bool = False,
    ) -> list[StoredRecord]:
        """What a topic holds, by partition and offset. With `count`, waits until it holds so many; UserError if it does
        not in time.
        """

        async def read(client: Client) -> list[StoredRecord]:
            deadline = time.monotonic() + timeout_s
            while True:
                found = await _read(client, topic, committed_only=committed_only)
                if len(found) >= count:
                    return found
                if time.monotonic() > deadline:
                    raise UserError(
                        f"topic {topic!r} holds {len(found)} records after {timeout_s:g} s; {count} were expected"
                    )
                await asyncio.sleep(_LOOK_AGAIN_S)

        return self._ask(read)

    def _ask(self, ask: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            raise UserError(
                "this would block the event loop; call it on a thread: `await asyncio.to_thread(broker.send, …)`"
            )
        settings = ClientSettings(client_id="penstock-testing", patience_ms=round(TIMEOUT_S * 1000))
        with BlockingClient(self.bootstrap_servers, settings=settings) as blocking:
            return blocking.run(ask(blocking.client))


async def _read(client: Client, topic: str, *, committed_only: bool) -> list[StoredRecord]:
    (found,) = await client.refresh([topic])
    if found.refusal is not None:
        if found.refusal.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return []
        raise AnsweredError(found.refusal, f"topic {topic!r}")
    partitions = [TopicPartition(topic, each.partition) for each in found.partitions]
    starts = await find_offsets(client, dict.fromkeys(partitions, EARLIEST))
    ends = await find_offsets(client, dict.fromkeys(partitions, LATEST), committed_only=committed_only)
    positions = {each: starts[each] for each in partitions if starts[each] < ends[each]}
    fetcher = Fetcher(client, positions, limits=_LIMITS, committed_only=committed_only)
    records: list[StoredRecord] = []
    try:
        while fetcher.positions:
            for fetched in await fetcher.poll():
                records += _take(fetched, fetcher, ends[fetched.partition])
    finally:
        await fetcher.close()
    return sorted(records, key=lambda record: (record.partition, record.offset))


def _take(fetched: Fetched, fetcher: Fetcher, end: int) -> Iterator[StoredRecord]:
    """The records below `end` of an answer; moves the fetcher on."""
    partition = fetched.partition
    position = begun = fetcher.positions[partition]
    for header, batch in read_batches(fetched):
        for record in read_fetched(batch, header, from_offset=begun):
            if record.offset < end:
                yield StoredRecord(
                    partition.partition,
                    record.offset,
                    record.timestamp,
                    record.key,
                    record.value,
                    record.headers,
                )
        position = header.last_offset + 1
    if position >= end or position == begun:  # nothing at all: compaction took the rest
        fetcher.leave(partition)
    else:
        fetcher.advance(partition, position)


def _bytes(value: bytes | str | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
