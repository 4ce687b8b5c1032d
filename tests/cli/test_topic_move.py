"""`penstock topic move`: what is asked of the cluster. tests/cluster moves replicas between real brokers."""

import asyncio

import pytest

from penstock.base.errors import UserError
from penstock.base.ids import TopicPartition
from penstock.cli.topic_move import require_moved, spread
from penstock.schema.words import Message
from penstock.wire.headers import RequestHeader
from tests.cli.running import Penstock
from tests.client.scripted import Answer, ScriptedBroker, metadata, new_client


def test_every_broker_is_the_preferred_leader_of_its_share() -> None:
    partitions = [TopicPartition("t", number) for number in range(4)]
    assert list(spread(partitions, [1, 2, 3]).values()) == [[1, 2, 3], [2, 3, 1], [3, 1, 2], [1, 2, 3]]


def test_a_broker_whose_metadata_is_behind_the_controllers_is_asked_again() -> None:
    leaders = [0, 0, 1]  # as the broker answers, one after the other: the move to node 1 has ended

    def answer(_header: RequestHeader, _request: Message) -> Answer:
        return metadata([broker, broker], leaders=[leaders.pop(0)])

    async def story() -> None:
        nonlocal broker
        async with ScriptedBroker(answer) as broker, new_client(broker) as client:
            await require_moved(client, "t", {TopicPartition("t", 0): [1]})

    broker: ScriptedBroker
    asyncio.run(story())
    assert not leaders


def test_a_move_that_was_cancelled_is_an_error() -> None:
    def answer(_header: RequestHeader, _request: Message) -> Answer:
        return metadata([broker, broker], leaders=[0])

    async def story() -> None:
        nonlocal broker
        async with ScriptedBroker(answer) as broker, new_client(broker) as client:
            with pytest.raises(
                UserError, match="the move of t-0 was cancelled or replaced: its replicas are 0"
            ):
                await require_moved(client, "t", {TopicPartition("t", 0): [1]}, patience_s=0)

    broker: ScriptedBroker
    asyncio.run(story())


def test_a_topic_that_is_where_it_should_be_is_moved_at_once(penstock: Penstock, topic: str) -> None:
    penstock("topic", "create", topic, "--partitions", 2)
    (described,) = penstock("topic", "describe", topic, "--json").document
    (broker,) = described["partitions"][0]["replicas"]
    assert penstock("topic", "move", topic, "--to", broker) == (
        0,
        f"moved 2 partitions of topic {topic} to brokers {broker}\n",
        "",
    )
    done = penstock("topic", "move", f"{topic}:1", "--to", broker, "--json").documents
    assert done == [{"topic": topic, "partitions": {"1": [broker]}, "done": True}]


def test_moving_to_unknown_brokers_or_an_unknown_partition_is_an_error_of_one_line(
    penstock: Penstock, topic: str
) -> None:
    penstock("topic", "create", topic)
    refused = penstock("topic", "move", topic, "--to", "98,99")
    assert (refused.code, refused.out) == (1, "")
    assert refused.err.startswith(f"penstock: cannot move {topic}-0: ")
    assert refused.err.endswith("(INVALID_REPLICA_ASSIGNMENT)\n")
    assert penstock("topic", "move", f"{topic}:3", "--to", "1").err == (
        f"penstock: topic {topic} has no partition 3; the last one is 0\n"
    )


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["orders"], "--to BROKERS or --cancel is required, and not both"),
        (["orders", "--to", "1", "--cancel"], "--to BROKERS or --cancel is required, and not both"),
        (["orders", "--to", "one"], "'one' is no list of brokers like 1,2,3"),
        (["orders", "--to", "1,1"], "'1,1' names a broker twice"),
        (["orders:", "--to", "1"], "'orders:' is neither a topic nor partitions like orders:0,2"),
        (["orders:x", "--to", "1"], "'x' is no list of partitions like 0,2,5-7"),
    ],
)
def test_a_wrong_call_is_one_line(offline: Penstock, words: list[str], told: str) -> None:
    outcome = offline("topic", "move", *words)
    assert (outcome.code, outcome.out) == (2, "")
    assert told in outcome.err
    assert outcome.err.count("\n") == 1
