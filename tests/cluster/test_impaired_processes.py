"""Brokers with something wrong, each a real process of one cluster: a clear message, and nothing lost.

The first has little memory for topics that live there, and the third a clock that is an hour ahead.
"""

import resource
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from peers.cluster import PenstockCluster
from peers.penstock import PenstockProcess
from tests.chaos.cluster import verdicts
from tests.chaos.cluster.recording import log_of
from tests.cluster import fast_clock
from tests.cluster.driving import PATIENCE_S, Writer, isr, leader, read_all, until, watermarks

pytestmark = pytest.mark.foreign

HOUR_S = 3600
MEMORY_BYTES = 2_000_000
SETTINGS = {
    "penstock.balance.enable": "false",
    # Long enough for brokers that a test pauses for a moment.
    "zookeeper.session.timeout.ms": 30_000,
    # A replica without room is waited for as long.
    "replica.lag.time.max.ms": 3_000,
}


class ImpairedCluster(PenstockCluster):
    def broker(
        self, node_id: int, data: Path | None = None, *, settings: Mapping[str, object] | None = None
    ) -> PenstockProcess:
        own = {"penstock.memory.bytes.max": MEMORY_BYTES} if node_id == 1 else {}
        clock = {"program": [str(fast_clock.__file__), str(HOUR_S)]} if node_id == 3 else {}
        return PenstockProcess(
            data,
            settings={**self._settings, **own, **(settings or {})},
            arguments=["--zookeeper", self.zookeeper.addresses, "--node-id", str(node_id)],
            **clock,
        )


@pytest.fixture(scope="module")
def cluster(needs_zookeeper: None) -> Iterator[PenstockCluster]:
    with ImpairedCluster(settings=SETTINGS) as cluster:
        yield cluster


def create_led_by(admin: AdminClient, topic: str, *replicas: int, **configs: str) -> None:
    """A topic of one partition, the first of its replicas to lead."""
    settings = {name.replace("_", "."): value for name, value in configs.items()}
    new = NewTopic(topic, 1, replica_assignment=[list(replicas)], config=settings)
    admin.create_topics([new])[topic].result(PATIENCE_S)
    until(lambda: leader(admin, topic) == replicas[0])


def test_clocks_an_hour_apart_are_logged_and_lose_nothing(cluster, admin):
    warning = "ahead of ZooKeeper's"
    assert [node_id for node_id, broker in cluster.brokers.items() if warning in broker.output] == [3]
    create_led_by(admin, "clocks", 3, 1, 2, min_insync_replicas="2")
    writer = Writer(cluster, "clocks", **{"enable.idempotence": True})
    writer.send(200)
    writer.flush()
    cluster.brokers[3].kill()
    until(lambda: leader(admin, "clocks") in (1, 2))
    writer.send(200)
    writer.flush()
    cluster.brokers[3].start()
    until(lambda: isr(admin, "clocks") == {1, 2, 3})
    cluster.brokers[1].kill()
    cluster.brokers[1].start()
    until(lambda: isr(admin, "clocks") == {1, 2, 3})
    writer.send(200)
    writer.flush()
    assert not writer.errors
    assert read_all(cluster, "clocks", 600) == Counter(range(600))


def test_a_follower_with_a_longer_log_is_cut_and_says_so(cluster, admin):
    create_led_by(admin, "longer", 2, 1, 3, min_insync_replicas="2")
    kept = Writer(cluster, "longer")
    kept.send(100)
    kept.flush()
    # What only the leader has: its followers may still get the answer to the fetch that waits, and no other.
    hasty = Writer(cluster, "longer", acks=1)
    hasty.sent = 999
    hasty.send(1)  # who would ask a paused broker where the leader is waits a minute for the answer
    hasty.flush()
    for node_id in (1, 3):
        cluster.brokers[node_id].pause()
    for _ in range(3):
        hasty.send(20)
        hasty.flush()
    cluster.brokers[2].kill()
    for node_id in (1, 3):
        cluster.brokers[node_id].resume()
    until(lambda: leader(admin, "longer") in (1, 3))
    kept.send(100)
    kept.flush()
    assert (len(kept.acknowledged), len(hasty.acknowledged)) == (200, 61)
    cluster.brokers[2].start()
    until(lambda: isr(admin, "longer") == {1, 2, 3})
    assert "longer-0: truncated: the log diverges from that of leader" in cluster.brokers[2].output
    seen = read_all(cluster, "longer", watermarks(cluster, "longer")[1])
    assert seen.keys() >= kept.acknowledged
    assert set(range(1_040, 1_060)).isdisjoint(seen)
    assert max(seen.values()) == 1
    directories = [broker.data for broker in cluster.brokers.values()]
    assert list(verdicts.unlike_copies(directories, [log_of("longer", 0)])) == []


def test_a_leader_whose_disk_fails_gives_up_and_another_one_leads(cluster, admin):
    create_led_by(admin, "failing", 2, 1, 3, min_insync_replicas="2")
    writer = Writer(cluster, "failing", **{"enable.idempotence": True})
    writer.send(100)
    writer.flush()
    broker = cluster.brokers[2]
    size = sum(path.stat().st_size for path in (broker.data / "failing-0").glob("*.log"))
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (size + 10, hard))  # no write beyond that succeeds
    writer.send(100)
    writer.flush()
    assert not writer.errors
    until(lambda: isr(admin, "failing") == {1, 3})
    assert "failing-0: this leader cannot write" in broker.output
    assert read_all(cluster, "failing", 200) == Counter(range(200))
    broker.kill()
    broker.start()
    until(lambda: isr(admin, "failing") == {1, 2, 3})


def test_a_broker_whose_data_directory_fails_ends_and_others_lead(cluster, admin):
    create_led_by(admin, "directory", 2, 1, 3, min_insync_replicas="2")
    writer = Writer(cluster, "directory", **{"enable.idempotence": True})
    writer.send(100)
    writer.flush()
    broker = cluster.brokers[2]
    in_the_way = broker.data / "replication-offset-checkpoint.tmp"
    in_the_way.mkdir()  # no new checkpoint can be written
    writer.send(100)
    writer.flush()
    assert broker.wait(timeout_s=PATIENCE_S) == 1
    assert f"{broker.data}: the data directory has failed" in broker.output
    writer.send(100)
    writer.flush()
    assert not writer.errors
    until(lambda: isr(admin, "directory") == {1, 3})
    in_the_way.rmdir()
    broker.start()
    until(lambda: isr(admin, "directory") == {1, 2, 3})
    assert read_all(cluster, "directory", 300) == Counter(range(300))


def test_a_leader_without_room_gives_up_and_another_one_leads(cluster, admin):
    create_led_by(admin, "full", 1, 2, 3, penstock_storage="memory")
    writer = Writer(cluster, "full", **{"enable.idempotence": True})
    writer.send(10)
    writer.fill(2 * MEMORY_BYTES)
    writer.send(10)
    writer.flush()
    assert not writer.errors
    assert leader(admin, "full") in (2, 3)
    assert "full-0: this leader cannot write (there is no room on its disk)" in cluster.brokers[1].output
    end = 20 + 2 * MEMORY_BYTES // 500_000
    assert watermarks(cluster, "full")[1] == end
