"""Members of groups, by both protocols, against a whole broker."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from penstock.base.ids import TopicPartition
from penstock.client.blocking import BlockingClient
from penstock.client.classic_member import assign_ranges
from penstock.client.client import Client
from penstock.client.fetch import read_batches, read_fetched
from penstock.client.group_consumer import GroupConsumer
from penstock.client.group_offsets import GroupOffset, committed_offsets, delete_offsets
from penstock.client.groups import (
    GroupDescription,
    GroupProtocol,
    delete_groups,
    describe_groups,
    list_groups,
)
from penstock.client.membership import MemberSettings
from penstock.client.producer import NewRecord, Producer
from penstock.client.topics import NewTopic, create_topics, delete_records

PATIENCE_S = 60
both_protocols = pytest.mark.parametrize("protocol", [GroupProtocol.CLASSIC, GroupProtocol.CONSUMER])


class Reader:
    """A member of the group that has the topic's name, and what it has read."""

    def __init__(self, client: Client, topic: str, protocol: GroupProtocol) -> None:
        self.client = client.sibling()
        self.settings = MemberSettings(topic, (topic,), heartbeat_interval_ms=100)
        self.protocol = protocol
        self.values: list[bytes] = []
        self.consumer: GroupConsumer

    async def join(self) -> "Reader":
        self.consumer = await GroupConsumer.join(self.client, self.settings, protocol=self.protocol)
        return self

    async def step(self) -> None:
        for fetched in await self.consumer.poll():
            for header, batch in read_batches(fetched):
                position = self.consumer.positions.get(fetched.partition)
                if position is None:
                    break
                records = read_fetched(batch, header, from_offset=position)
                self.values += [record.value or b"" for record in records]
                self.consumer.advance(fetched.partition, header.next_offset)

    async def leave(self) -> None:
        await self.consumer.close()
        await self.client.close()


async def read_until(readers: list[Reader], happened: Callable[[], bool]) -> None:
    async def read(reader: Reader) -> None:
        while not happened():
            await reader.step()

    async with asyncio.timeout(PATIENCE_S):
        tasks = [asyncio.ensure_future(read(reader)) for reader in readers]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if not task.done():
                task.cancel()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(outcome, Exception):
                raise outcome


def run(blocking: BlockingClient, story: Callable[[Client], Awaitable[None]]) -> None:
    async def told() -> None:
        await story(blocking.client)

    blocking.run(told())


async def fill(client: Client, topic: str, values: range) -> None:
    records = [NewRecord(None, b"%d" % value, partition=value % 4) for value in values]
    await Producer(client).send(topic, records)


@both_protocols
def test_two_members_share_a_topic_and_one_takes_over_from_the_other(
    blocking: BlockingClient, topic: str, protocol: GroupProtocol
) -> None:
    async def story(client: Client) -> None:
        await create_topics(client, [NewTopic(topic, 4, 1)])
        await fill(client, topic, range(100))
        first = await Reader(client, topic, protocol).join()
        await read_until([first], lambda: len(first.values) == 100)
        assert sorted(map(int, first.values)) == list(range(100))

        second = await Reader(client, topic, protocol).join()
        both = [first, second]
        await read_until(both, lambda: all(len(each.consumer.assignment) == 2 for each in both))
        assert first.consumer.assignment.isdisjoint(second.consumer.assignment)
        await fill(client, topic, range(100, 200))
        await read_until(both, lambda: len(first.values) + len(second.values) == 200)
        assert sorted(map(int, first.values + second.values)) == list(range(200))

        await first.leave()
        await read_until([second], lambda: len(second.consumer.assignment) == 4)
        await fill(client, topic, range(200, 300))
        await read_until([second], lambda: len(first.values) + len(second.values) == 300)
        await second.consumer.commit()
        (described,) = (await describe_groups(client, [topic])).values()
        assert isinstance(described, GroupDescription)
        assert (described.protocol, described.state) == (protocol, "Stable")
        assert len(described.members[0].partitions) == 4
        await second.leave()
        committed = await committed_offsets(client, topic)
        assert {each.offset for each in committed.values()} == {75}

    run(blocking, story)


@both_protocols
def test_a_member_that_comes_back_reads_on(
    blocking: BlockingClient, topic: str, protocol: GroupProtocol
) -> None:
    async def story(client: Client) -> None:
        await create_topics(client, [NewTopic(topic, 4, 1)])
        await fill(client, topic, range(8))
        for values in (range(8), range(8, 16)):
            reader = await Reader(client, topic, protocol).join()
            await fill(client, topic, range(8, 16)) if values.start else None
            await read_until([reader], lambda reader=reader: len(reader.values) == 8)
            assert sorted(map(int, reader.values)) == list(values)
            await reader.leave()

    run(blocking, story)


def test_a_position_below_the_log_start_offset_is_reset(blocking: BlockingClient, topic: str) -> None:
    async def story(client: Client) -> None:
        await create_topics(client, [NewTopic(topic, 4, 1)])
        await fill(client, topic, range(40))
        reader = await Reader(client, topic, GroupProtocol.CONSUMER).join()
        await reader.step()  # joins, and finds its positions at the beginning
        await delete_records(client, {TopicPartition(topic, index): 5 for index in range(4)})
        await read_until([reader], lambda: len(reader.values) == 20)
        assert min(map(int, reader.values)) == 20
        await reader.leave()

    run(blocking, story)


def test_groups_are_listed_and_deleted_with_their_offsets(blocking: BlockingClient, topic: str) -> None:
    async def story(client: Client) -> None:
        await create_topics(client, [NewTopic(topic, 4, 1)])
        await fill(client, topic, range(8))
        reader = await Reader(client, topic, GroupProtocol.CLASSIC).join()
        await read_until([reader], lambda: len(reader.values) == 8)
        await reader.leave()
        first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
        assert await delete_offsets(client, topic, [first]) == {first: None}
        assert await committed_offsets(client, topic, [first, second]) == {second: GroupOffset(2)}
        assert topic in [group.group_id for group in await list_groups(client, states=["Empty"])]
        assert await delete_groups(client, [topic]) == {topic: None}
        assert topic not in [group.group_id for group in await list_groups(client)]
        assert await committed_offsets(client, topic) == {}

    run(blocking, story)


def test_ranges_are_dealt_to_those_who_want_the_topic() -> None:
    wanted = {"a": ["orders", "bills"], "c": ["orders"], "b": ["orders"]}
    assert assign_ranges(wanted, {"orders": 5, "bills": 2}) == {
        "a": {"bills": range(2), "orders": range(2)},
        "b": {"orders": range(2, 4)},
        "c": {"orders": range(4, 5)},
    }
    assert assign_ranges({"a": ["orders"], "b": ["orders"]}, {"orders": 1}) == {
        "a": {"orders": range(1)},
        "b": {},
    }
