"""A cluster that balances itself, as processes on a real ZooKeeper, while a producer goes on."""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from peers.cluster import PenstockCluster, controller_of
from penstock.cli.main import main
from tests.cluster.driving import PATIENCE_S, Writer, create, metadata

pytestmark = pytest.mark.foreign

TOPIC = "balanced"
PARTITIONS = 24
SETTINGS = {
    "penstock.balance.interval.ms": 300,
    "penstock.balance.moves.max": 10,
    "penstock.balance.replace.after.ms": 1_000,
}


@pytest.fixture(scope="module")
def cluster(needs_zookeeper: None) -> Iterator[PenstockCluster]:
    with PenstockCluster(settings=SETTINGS) as cluster:
        yield cluster


def shares(admin: AdminClient) -> tuple[Counter[int], Counter[int]]:
    """By broker: how many partitions it leads, and how many replicas it has that are in sync."""
    partitions = metadata(admin, TOPIC).topics[TOPIC].partitions.values()
    return (
        Counter(partition.leader for partition in partitions),
        Counter(each for partition in partitions for each in partition.replicas if each in partition.isrs),
    )


def read_numbers(cluster: PenstockCluster, expected: int) -> Counter[int]:
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": "reader", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(TOPIC, number, 0) for number in range(PARTITIONS)])
    seen: Counter[int] = Counter()
    deadline = time.monotonic() + PATIENCE_S
    while len(seen) < expected and time.monotonic() < deadline:
        for message in consumer.consume(1000, timeout=0.5):
            if message.error() is None:
                seen[int(message.value() or b"")] += 1
    consumer.close()
    return seen


def test_brokers_that_join_leave_or_die_have_their_shares_moved_and_nothing_is_lost(cluster, capsys):
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    create(admin, TOPIC, partitions=PARTITIONS, min_insync_replicas="2")
    writer = Writer(cluster, TOPIC, **{"enable.idempotence": True})

    def until(look: Callable[[Counter[int], Counter[int]], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not look(*shares(admin)):
            assert time.monotonic() < deadline, shares(admin)
            writer.send(20)
            time.sleep(0.1)

    def even(*brokers: int) -> Callable[[Counter[int], Counter[int]], bool]:
        """Whether these brokers, and no others, have equal shares."""
        leaders, replicas = PARTITIONS // len(brokers), 3 * PARTITIONS // len(brokers)
        return lambda leads, holds: (
            (leads, holds)
            == (
                Counter(dict.fromkeys(brokers, leaders)),
                Counter(dict.fromkeys(brokers, replicas)),
            )
        )

    def told(*words: str) -> str:
        assert main([*words, "-b", cluster.bootstrap]) == 0
        return str(capsys.readouterr().out)

    until(even(1, 2, 3))
    with cluster.broker(4) as joining:
        until(lambda _, holds: holds[4] > 0)
        # The next controller goes on with the reassignments.
        died = cluster.brokers[controller_of(cluster.bootstrap)]
        died.kill()
        until(lambda leads, _: leads[-1] == 0)
        died.start()
        until(even(1, 2, 3, 4))
        with ThreadPoolExecutor() as pool:
            drained = pool.submit(main, ["broker", "drain", "2", "-b", cluster.bootstrap])
            until(even(1, 3, 4))
            assert drained.result(PATIENCE_S) == 0
        *lines, last = capsys.readouterr().out.splitlines()
        assert last == "broker 2 is empty"
        assert all(" left, leads " in line for line in lines)
        listed = json.loads(told("broker", "list", "--json"))
        assert [(each["id"], each["state"], each["replicas"]) for each in listed] == [
            (1, "serving", 24),
            (2, "draining", 0),
            (3, "serving", 24),
            (4, "serving", 24),
        ]
        assert "draining" in told("broker", "describe", "2")
        # Three brokers are needed for three replicas.
        assert main(["broker", "drain", "3", "-b", cluster.bootstrap]) == 1
        assert "start another broker" in capsys.readouterr().err
        for node_id in ("2", "3"):
            told("broker", "undrain", node_id)
        until(even(1, 2, 3, 4))
        joining.kill()
        until(even(1, 2, 3))
    writer.flush()
    assert not writer.errors
    assert len(writer.acknowledged) == writer.sent
    assert read_numbers(cluster, writer.sent) == Counter(range(writer.sent))
