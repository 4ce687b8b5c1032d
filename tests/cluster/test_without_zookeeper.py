"""Broker processes that stop or start while ZooKeeper does not answer."""

import os
import re
import signal
import sys
import threading
from collections.abc import Iterator

import pytest

from peers.cluster import PenstockCluster
from peers.penstock import SOURCE, PenstockProcess
from peers.ports import free_ports
from peers.process import ProcessEndedError, WatchedProcess
from peers.zookeeper import ZooKeeper
from tests.cluster.driving import create, until

pytestmark = pytest.mark.foreign

SHUTDOWN_TIMEOUT_MS = 1_000
# What a stop may take on a busy machine when everything is bounded: the old broker was there after 25 minutes.
BOUNDED_S = 60
CLEAN_MARK = ".kafka_cleanshutdown"


def stop_without_zookeeper(broker: PenstockProcess) -> int:
    os.kill(broker.pid, signal.SIGTERM)
    return broker.wait(timeout_s=BOUNDED_S)


@pytest.fixture
def cluster(needs_zookeeper: None) -> Iterator[PenstockCluster]:
    settings = {"penstock.shutdown.timeout.ms": SHUTDOWN_TIMEOUT_MS, "default.replication.factor": 2}
    with PenstockCluster(brokers=2, settings=settings) as cluster:
        yield cluster
        cluster.zookeeper.servers[0].resume()
        for broker in cluster.brokers.values():
            if broker.running:
                broker.kill()


def test_brokers_stop_in_time_while_zookeeper_is_paused_and_come_back_with_everything(cluster, admin, topic):
    create(admin, topic, partitions=4, replicas=2)
    cluster.zookeeper.servers[0].pause()
    for broker in cluster.brokers.values():
        assert stop_without_zookeeper(broker) == 1
        assert re.search(rf"could not leave its cluster within {SHUTDOWN_TIMEOUT_MS} ms", broker.output)
        assert "Traceback" not in broker.output
        assert (broker.data / CLEAN_MARK).exists(), "the logs were closed as in any stop"
    cluster.zookeeper.servers[0].resume()
    cluster.start_missing()
    until(lambda: len(admin.list_topics(topic, timeout=10).topics[topic].partitions) == 4)


def test_brokers_stop_in_time_when_zookeeper_is_dead(cluster, admin, topic):
    create(admin, topic, partitions=4, replicas=2)
    cluster.zookeeper.servers[0].kill()
    for broker in cluster.brokers.values():
        assert stop_without_zookeeper(broker) == 1
        assert (broker.data / CLEAN_MARK).exists()
        assert "Traceback" not in broker.output
        kazoo = [line for line in broker.output.splitlines() if " kazoo." in line]
        assert len(kazoo) == len({line.partition(" kazoo.")[2] for line in kazoo}), "no line comes twice"
        assert not [line for line in kazoo if " INFO " in line]


def test_a_second_signal_ends_a_broker_at_once(cluster, admin, topic):
    create(admin, topic, partitions=1, replicas=2)
    broker = cluster.brokers[1]
    broker.settings["penstock.shutdown.timeout.ms"] = 600_000
    broker.restart()
    cluster.zookeeper.servers[0].pause()
    os.kill(broker.pid, signal.SIGTERM)
    broker.wait_for_line("stopping")
    os.kill(broker.pid, signal.SIGTERM)
    assert broker.wait(timeout_s=BOUNDED_S) == 128 + signal.SIGTERM
    assert "a second SIGTERM" in broker.output
    assert not (broker.data / CLEAN_MARK).exists()


@pytest.fixture
def zookeeper(needs_zookeeper: None) -> Iterator[ZooKeeper]:
    with ZooKeeper() as zookeeper:
        yield zookeeper
        zookeeper.servers[0].resume()


def test_a_start_waits_for_zookeeper_and_logs_it(zookeeper, tmp_path):
    server = zookeeper.servers[0]
    server.pause()
    broker = PenstockProcess(
        tmp_path / "data",
        arguments=["--zookeeper", zookeeper.addresses],
        settings={"zookeeper.connection.timeout.ms": 60_000},
    )
    starting = threading.Thread(target=broker.start)
    starting.start()
    try:
        until(lambda: f"no ZooKeeper answers at {zookeeper.addresses}; trying for another" in broker.output)
    finally:
        server.resume()
        starting.join(timeout=BOUNDED_S)
    assert broker.running
    assert broker.stop() == 0


def test_a_start_without_zookeeper_exits_with_an_error_and_creates_nothing(tmp_path):
    address = f"127.0.0.1:{free_ports(1)[0]}"
    data = tmp_path / "data"
    broker = PenstockProcess(
        data, arguments=["--zookeeper", address], settings={"zookeeper.connection.timeout.ms": 500}
    )
    with pytest.raises(ProcessEndedError) as ended:
        broker.start()
    assert f"penstock: no ZooKeeper answers at {address} (tried for 500 ms" in str(ended.value)
    assert "start ZooKeeper, or correct its address in --zookeeper" in str(ended.value)
    assert "Traceback" not in str(ended.value)
    assert not data.exists()


def test_a_signal_ends_a_start_that_waits_for_zookeeper(zookeeper, tmp_path):
    zookeeper.servers[0].pause()
    process = WatchedProcess(
        [
            *(sys.executable, "-m", "penstock", "serve", "--listen", "127.0.0.1:0"),
            *("--zookeeper", zookeeper.addresses, "--set", "zookeeper.connection.timeout.ms=600000"),
            *("--data-dir", str(tmp_path / "data")),
        ],
        environment={**os.environ, "PYTHONPATH": str(SOURCE)},
    )
    try:
        process.wait_for_line(re.compile("no ZooKeeper answers").search, timeout_s=BOUNDED_S)
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(timeout_s=BOUNDED_S) == 0
        assert "stopped before it was ready" in process.output
    finally:
        process.kill()
