"""Data directories and clusters of the version before the broker handshake open, and upgrade by rolling restart."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from peers.cluster import PenstockCluster, controller_of
from peers.earlier_penstock import MissingCommitError, install_earlier
from peers.penstock import SOURCE, PenstockProcess
from penstock.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from penstock.wire.messages.api_versions import ApiVersionsRequest
from tests.cluster.driving import PATIENCE_S, Writer, create, isr, read_all, until
from tests.proving import secret_of_data
from tests.raw_client import RawClient

pytestmark = pytest.mark.foreign

WRITTEN, MAJORITY, TRANSACTED = "written", "majority", "transacted"
COMMIT_EVERY = 20
BEFORE_HANDSHAKE = "9c71669"


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        return install_earlier(BEFORE_HANDSHAKE, tmp_path_factory.mktemp("earlier"))
    except MissingCommitError as missing:
        pytest.skip(str(missing))


def shakes_hands(broker: PenstockProcess) -> bool:
    """Whether the broker's program is the present one."""
    with RawClient(broker.bootstrap) as client:
        answer = client.ask(ApiVersionsRequest(client_software_name="tests", client_software_version="1"), 4)
    return "penstock.peer.version" in {each.name for each in answer.supported_features}


class Member:
    """The only member of a group: reads numbers in order, and commits every few of them."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.committed = 0  # the numbers below this are done with
        self.problems: list[str] = []
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "upgraded",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        self._consumer.subscribe([topic])

    def step(self) -> None:
        message = self._consumer.poll(0.1)
        if message is None or message.error() is not None:
            return
        number = int(message.value() or b"")
        if number < self.committed:
            self.problems.append(f"{number} was read again, after {self.committed} was committed")
        if number % COMMIT_EVERY:
            return
        try:
            self._consumer.commit(message, asynchronous=False)
        except KafkaException:
            return  # the coordinator has moved, or the group is being rebalanced: nothing was promised
        self.committed = number + 1

    def close(self) -> None:
        self._consumer.close()


class Transactor:
    """Writes each number to two partitions in one transaction; every fourth transaction is aborted."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._bootstrap = bootstrap
        self.number = 0
        self.committed: list[int] = []
        self._producer = self._begin()

    def _begin(self) -> Producer:
        producer = Producer({"bootstrap.servers": self._bootstrap, "transactional.id": "upgraded"})
        producer.init_transactions(PATIENCE_S)
        return producer

    def step(self) -> None:
        """One transaction, begun again until its end is known."""
        number, self.number = self.number, self.number + 1
        is_aborted = number % 4 == 3
        while True:
            try:
                self._producer.begin_transaction()
                for partition in (0, 1):
                    self._producer.produce(self._topic, str(number), partition=partition)
                self._end(
                    self._producer.abort_transaction if is_aborted else self._producer.commit_transaction
                )
            except KafkaException as error:
                if error.args[0].txn_requires_abort():
                    self._end(self._producer.abort_transaction)
                    continue
                raise
            if not is_aborted:
                self.committed.append(number)
            return

    def _end(self, end: Callable[[float], None]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                end(PATIENCE_S)
            except KafkaException as error:
                if error.args[0].retriable() and time.monotonic() < deadline:
                    continue
                raise
            return


@contextmanager
def repeated(step: Callable[[], None]) -> Iterator[None]:
    """Take steps on another thread while the block runs; raises what one of them raised."""
    stopped = threading.Event()
    raised: list[BaseException] = []

    def run() -> None:
        try:
            while not stopped.is_set():
                step()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()
    if raised:
        raise raised[0]


def read_committed(bootstrap: str, topic: str, partition: int, expected: int) -> list[int]:
    """The numbers of committed transactions, at least so many of them."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0)])
    seen: list[int] = []
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        for message in consumer.consume(500, timeout=0.5):
            if message.error() is None:
                seen.append(int(message.value() or b""))
        if len(seen) >= expected:
            break
    consumer.close()
    return seen


@pytest.fixture
def cluster(needs_zookeeper: None, earlier: Path) -> Iterator[PenstockCluster]:
    cluster = PenstockCluster()
    for broker in cluster.brokers.values():
        broker.source = earlier
    with cluster:
        yield cluster


def replace(cluster: PenstockCluster, node_id: int, source: Path) -> None:
    broker = cluster.brokers[node_id]
    assert broker.stop() == 0
    broker.source = source
    broker.start()
    assert shakes_hands(broker) == (source == SOURCE)


def test_a_cluster_is_upgraded_by_rolling_restart_under_load(cluster: PenstockCluster, earlier: Path) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    create(admin, WRITTEN, min_insync_replicas="2")
    create(admin, MAJORITY, **{"penstock.ack.quorum": "majority"})
    create(admin, TRANSACTED, partitions=2, min_insync_replicas="2")
    writers = [Writer(cluster, topic, **{"enable.idempotence": True}) for topic in (WRITTEN, MAJORITY)]
    member, transactor = Member(cluster.bootstrap, WRITTEN), Transactor(cluster.bootstrap, TRANSACTED)

    def write() -> None:
        for writer in writers:
            writer.send(1)
        time.sleep(0.005)  # a rate, not a wait

    def settle() -> None:
        """All are in sync, and every kind of load goes on."""
        for topic, partition in ((WRITTEN, 0), (MAJORITY, 0), (TRANSACTED, 0), (TRANSACTED, 1)):
            until(lambda topic=topic, partition=partition: isr(admin, topic, partition) == {1, 2, 3})
        read, committed = member.committed, len(transactor.committed)
        until(lambda: member.committed > read and len(transactor.committed) > committed)

    with repeated(write), repeated(member.step), repeated(transactor.step):
        settle()
        assert not any(map(shakes_hands, cluster.brokers.values()))
        first = controller_of(cluster.bootstrap)
        replace(cluster, first, SOURCE)
        settle()
        second = controller_of(cluster.bootstrap)
        assert not shakes_hands(cluster.brokers[second]), "a new broker has an old controller"
        replace(cluster, second, SOURCE)
        settle()
        (last,) = {1, 2, 3} - {first, second}
        if controller_of(cluster.bootstrap) == last:
            replace(cluster, last, earlier)
            settle()
        assert controller_of(cluster.bootstrap) != last, "an old broker has a new controller"
        replace(cluster, last, SOURCE)
        settle()

    for writer in writers:
        writer.flush()
        assert writer.errors == []
    for writer, topic in zip(writers, (WRITTEN, MAJORITY), strict=True):
        assert read_all(cluster, topic, writer.sent) == dict.fromkeys(range(writer.sent), 1), (
            "everything once"
        )
    member.close()
    assert member.problems == []
    for partition in (0, 1):
        seen = read_committed(cluster.bootstrap, TRANSACTED, partition, len(transactor.committed))
        assert seen == transactor.committed
    for broker in cluster.brokers.values():
        assert "Traceback" not in broker.output
        assert "broker handshake" not in broker.output, "it never failed"

    # All can prove themselves now: a client that names itself a broker is none.
    with RawClient(cluster.brokers[first].bootstrap) as client:
        client.client_id = f"__penstock-broker-{last}"
        refused = client.ask(AllocateProducerIdsRequest(broker_id=last), 0)
        assert refused.error_code == 31  # CLUSTER_AUTHORIZATION_FAILED


@pytest.mark.parametrize("ending", ["stopped", "killed"])
def test_a_data_directory_of_one_broker_opens(earlier: Path, tmp_path: Path, ending: str) -> None:
    broker = PenstockProcess(tmp_path / "data")
    broker.source = earlier
    broker.start()
    try:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        create(admin, WRITTEN, replicas=1, **{"flush.messages": "1"})
        create(admin, TRANSACTED, partitions=2, replicas=1)
        producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all"})
        for number in range(200):
            producer.produce(WRITTEN, str(number))
        assert producer.flush(PATIENCE_S) == 0
        member, transactor = Member(broker.bootstrap, WRITTEN), Transactor(broker.bootstrap, TRANSACTED)
        with repeated(member.step):
            until(lambda: member.committed == 181)
        member.close()
        for _ in range(6):
            transactor.step()
        broker.stop() if ending == "stopped" else broker.kill()

        broker.source = SOURCE
        broker.start()
        assert shakes_hands(broker)
        assert secret_of_data(broker.data)
        transactor.step()
        assert transactor.committed == [0, 1, 2, 4, 5, 6]
        for partition in (0, 1):
            assert read_committed(broker.bootstrap, TRANSACTED, partition, 6) == transactor.committed
        again = Member(broker.bootstrap, WRITTEN)
        again.committed = member.committed
        for number in range(200, 221):
            producer.produce(WRITTEN, str(number))
        assert producer.flush(PATIENCE_S) == 0
        with repeated(again.step):
            until(lambda: again.committed == 221)
        again.close()
        assert again.problems == []
    finally:
        broker.stop()
