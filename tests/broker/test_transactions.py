"""Transactions with slow and failing disks, restarts and kill -9; and retention of open transactions."""

import threading
import time
from pathlib import Path

import pytest

from peers.penstock import PenstockProcess
from penstock.base.errors import ErrorCode
from penstock.services.replicas.replica import Replica
from tests.apis.requests import delete_topic
from tests.apis.transactional import (
    READ_COMMITTED,
    TransactionalProducer,
    fetch_committed,
    read_committed,
)
from tests.broker.controlled import ControlledBroker, GatedDisk, SyncGate
from tests.raw_client import RawClient, batch_of, fetch_request

FLUSHED = {"flush_messages": "1"}
TIMEOUT_S = 60
LONG_MS = 60_000


@pytest.fixture
def broker():
    with ControlledBroker() as broker:
        yield broker


@pytest.fixture
def client(broker: ControlledBroker):
    with RawClient(broker.bootstrap_servers) as client:
        yield client


def partition_of(broker: ControlledBroker, topic: str) -> Replica:
    partition = broker.broker.services.logs.replicas.find_replica(topic, 0)
    assert isinstance(partition, Replica)
    return partition


def test_a_transaction_is_complete_when_its_markers_are_safe(broker: ControlledBroker, client: RawClient):
    client.create_topic("flushed", **FLUSHED)
    producer = TransactionalProducer(client)
    producer.send("flushed", b"x")
    broker.gate.hold("flushed-0/")
    answer = producer.end(commit=True)
    assert answer.error_code == 0, "the outcome is certain already"
    broker.gate.wait_until_one_is_held()
    assert producer.describe().transaction_state == "PrepareCommit"
    assert fetch_committed(client, "flushed").last_stable_offset == 0
    broker.gate.release()
    producer.wait_for("CompleteCommit")
    assert read_committed(client, "flushed") == [b"x"]


def test_a_coordinator_that_restarts_finishes_what_was_prepared():
    gate = SyncGate()
    disk = GatedDisk(gate)
    with ControlledBroker(disk=disk) as broker, RawClient(broker.bootstrap_servers) as client:
        client.create_topic("broken", **FLUSHED)
        client.create_topic("fine")
        producer = TransactionalProducer(client)
        producer.send("broken", b"x")
        producer.send("fine", b"y")
        gate.fail("broken-0/")
        assert producer.end(commit=True).error_code == 0
        while fetch_committed(client, "broken").error_code != ErrorCode.KAFKA_STORAGE_ERROR:
            pass
        assert producer.describe().transaction_state == "PrepareCommit"
    gate.fail("\0")
    with ControlledBroker(disk=disk) as broker, RawClient(broker.bootstrap_servers) as client:
        producer.client = client
        producer.wait_for("CompleteCommit")
        assert read_committed(client, "broken") == [b"x"]
        assert read_committed(client, "fine") == [b"y"]


def test_a_waiting_reader_is_woken_by_the_end_of_a_transaction(broker: ControlledBroker, client: RawClient):
    client.create_topic("t")
    producer = TransactionalProducer(client)
    producer.send("t", b"x" * 5000)
    partition = partition_of(broker, "t")

    async def is_waiting() -> bool:
        return len(partition.fetches) > 0

    with RawClient(broker.bootstrap_servers) as reader:
        request = fetch_request("t", 0, min_bytes=4000, max_wait_ms=LONG_MS)
        request.isolation_level = READ_COMMITTED
        reader.send(request, 12)
        while not broker.run(is_waiting):
            pass
        producer.finish(commit=True)
        assert b"x" * 5000 in reader.receive_frame()


def test_all_partitions_get_their_markers_without_waiting_for_one_another(
    broker: ControlledBroker, client: RawClient
):
    for topic in ("a-slow", "b-fast"):
        client.create_topic(topic, **FLUSHED)
    producer = TransactionalProducer(client)
    producer.send("a-slow", b"x")
    producer.send("b-fast", b"y")
    broker.gate.hold("a-slow-0/")
    assert producer.end(commit=True).error_code == 0
    broker.gate.wait_until_one_is_held()
    deadline_s = time.monotonic() + TIMEOUT_S
    while partition_of(broker, "b-fast").log.end_offset < 2:
        assert time.monotonic() < deadline_s, "its marker waits for the other one's sync"
    assert producer.describe().transaction_state == "PrepareCommit"
    broker.gate.release()
    producer.wait_for("Complete")
    assert read_committed(client, "a-slow") == [b"x"]


def test_a_transaction_whose_topic_is_deleted_ends_all_the_same(client: RawClient):
    client.create_topic("goes")
    client.create_topic("stays")
    producer = TransactionalProducer(client)
    producer.send("goes")
    producer.send("stays", b"x")
    delete_topic(client, "goes")
    producer.finish(commit=True)
    assert read_committed(client, "stays") == [b"x"]


def test_retention_leaves_open_transactions_alone(broker: ControlledBroker, client: RawClient):
    client.create_topic("old", internal_segment_bytes="200", retention_ms="1")
    client.produce("old", batch_of(b"1" * 150))
    producer = TransactionalProducer(client)
    first = producer.send("old", b"2" * 150).base_offset
    client.produce("old", batch_of(b"3" * 150))
    partition = partition_of(broker, "old")

    async def expire() -> int:
        partition.expire()
        return partition.log.start_offset

    assert broker.run(expire) == first
    producer.finish(commit=True)
    assert broker.run(expire) in (3, 4), "all but the marker, unless a millisecond has passed since"


def test_a_transaction_times_out_by_the_brokers_clock_after_a_restart():
    disk = GatedDisk(SyncGate())
    with ControlledBroker(disk=disk) as broker, RawClient(broker.bootstrap_servers) as client:
        client.create_topic("t")
        producer = TransactionalProducer(client, timeout_ms=1500)
        producer.send("t", b"left open")
    with ControlledBroker(disk=disk) as broker, RawClient(broker.bootstrap_servers) as client:
        producer.client = client
        producer.wait_for("CompleteAbort")
        assert read_committed(client, "t") == []
        assert fetch_committed(client, "t").last_stable_offset == 2


class Committer(threading.Thread):
    """Commits one transaction after the other, each with the same record to two partitions, until all is gone."""

    def __init__(self, address: str, *, first: int, is_version_2: bool) -> None:
        super().__init__()
        self._client = RawClient(address)
        self._is_version_2 = is_version_2
        self._first = first
        self.acknowledged: list[bytes] = []
        self.enough = threading.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self._commit_all()
        except OSError:
            pass
        except BaseException as error:
            self.error = error
        finally:
            self._client.socket.close()
            self.enough.set()

    def _commit_all(self) -> None:
        producer = TransactionalProducer(self._client, "survivor")
        for sequence in range(100_000):
            number = self._first + sequence
            value = b"%d" % number
            if not self._is_version_2:
                assert producer.add("t", 0, 1) == [0, 0]
            version = 12 if self._is_version_2 else 11
            for partition in (0, 1):
                sent = producer.send(
                    "t",
                    value,
                    partition=partition,
                    sequence=0 if self._is_version_2 else sequence,
                    version=version,
                )
                assert sent.error_code == 0, ErrorCode(sent.error_code)
            producer.finish(commit=True, version=5 if self._is_version_2 else 4)
            self.acknowledged.append(value)
            if len(self.acknowledged) == 30:
                self.enough.set()


@pytest.mark.parametrize("is_version_2", [True, False])
def test_after_kill_9_each_transaction_is_there_as_a_whole_or_not_at_all(tmp_path: Path, is_version_2: bool):
    acknowledged: list[bytes] = []
    with PenstockProcess(tmp_path) as broker:
        with RawClient(broker.bootstrap) as client:
            client.create_topic("t", partitions=2, internal_segment_bytes="2000")
        for round_number in range(2):
            committer = Committer(broker.bootstrap, first=round_number * 100_000, is_version_2=is_version_2)
            committer.start()
            assert committer.enough.wait(timeout=TIMEOUT_S)
            broker.kill()
            committer.join(timeout=TIMEOUT_S)
            assert committer.error is None
            acknowledged += committer.acknowledged
            broker.start()
            with RawClient(broker.bootstrap) as client:
                TransactionalProducer(client, "survivor")  # ends what was left open
                found = [read_committed(client, "t", partition=partition) for partition in (0, 1)]
            assert found[0] == found[1]
            assert len(set(found[0])) == len(found[0])
            assert set(acknowledged) <= set(found[0])
