"""flush.messages and flush.ms: acks and consumers wait for the fsync; a failed fsync takes the partition offline."""

import pytest

from penstock.base.errors import ErrorCode
from penstock.wire.messages.fetch import FetchResponse
from penstock.wire.messages.produce import ProduceResponse
from tests.apis.requests import end_offset, values_in
from tests.broker.controlled import ControlledBroker
from tests.raw_client import RawClient, batch_of, fetch_request, produce_request

LONG_MS = 60_000


@pytest.fixture
def broker():
    with ControlledBroker() as broker:
        yield broker


@pytest.fixture
def client(broker: ControlledBroker):
    with RawClient(broker.bootstrap_servers) as client:
        yield client


def answer_of(client: RawClient):
    return client.receive(0, 12, ProduceResponse).responses[0].partition_responses[0]


@pytest.mark.parametrize("acks", [-1, 1])
def test_with_flush_messages_1_the_answer_waits_for_the_sync_and_so_do_readers(
    broker: ControlledBroker, client: RawClient, acks: int
):
    client.create_topic("flushed", flush_messages="1")
    broker.gate.hold("flushed-0/")
    with RawClient(broker.bootstrap_servers) as producer:
        producer.send(produce_request("flushed", batch_of(b"x"), acks=acks), 12)
        broker.gate.wait_until_one_is_held()
        # Others are served meanwhile, and see nothing of it yet.
        assert end_offset(client, "flushed") == 0
        assert values_in(client.fetch("flushed", 0).records) == []
        broker.gate.release()
        assert answer_of(producer).base_offset == 0
    assert values_in(client.fetch("flushed", 0).records) == [b"x"]


def test_a_long_poll_is_answered_when_the_sync_is_done(broker: ControlledBroker, client: RawClient):
    client.create_topic("flushed", flush_messages="1")
    broker.gate.hold("flushed-0/")
    with RawClient(broker.bootstrap_servers) as producer:
        client.send(fetch_request("flushed", 0, max_wait_ms=LONG_MS), 12)
        producer.send(produce_request("flushed", batch_of(b"waited for")), 12)
        broker.gate.wait_until_one_is_held()
        broker.gate.release()
        assert b"waited for" in client.receive_frame()
        assert answer_of(producer).error_code == 0


def test_batches_that_come_while_a_sync_runs_share_the_next_one(broker: ControlledBroker, client: RawClient):
    client.create_topic("flushed", partitions=2, flush_messages="1")
    broker.gate.hold("flushed-")
    producers = [RawClient(broker.bootstrap_servers) for _ in range(10)]
    try:
        producers[0].send(produce_request("flushed", batch_of(b"first")), 12)
        broker.gate.wait_until_one_is_held()
        syncs_before = len(broker.gate.synced)
        for number, producer in enumerate(producers[1:]):
            producer.send(produce_request("flushed", batch_of(b"more"), partition=number % 2), 12)
        # They have arrived when a request sent after them, on another connection, is answered and sees them.
        while broker.run(lambda: _ends(broker)) != [1 + 5, 4]:
            pass
        broker.gate.release()
        assert [answer_of(producer).error_code for producer in producers] == [0] * 10
        logs = [path for path in broker.gate.synced[syncs_before:] if path.endswith(".log")]
        assert len(logs) == 3, "the first one, then one for each partition"
    finally:
        for producer in producers:
            producer.socket.close()


async def _ends(broker: ControlledBroker) -> list[int]:
    return [partition.log.end_offset for partition in broker.broker.services.logs.replicas.all()]


def test_without_flush_settings_no_request_waits_for_an_fsync(broker: ControlledBroker, client: RawClient):
    client.create_topic("cached")
    broker.gate.hold("cached-0/")
    assert client.produce("cached", batch_of(b"x")).base_offset == 0
    assert values_in(client.fetch("cached", 0).records) == [b"x"]
    assert not [path for path in broker.gate.synced if path.startswith("cached-0/0")]


def test_flush_messages_syncs_when_that_many_records_are_unsynced(
    broker: ControlledBroker, client: RawClient
):
    client.create_topic("counted", flush_messages="3")
    broker.gate.hold("counted-0/")
    client.produce("counted", batch_of(b"1"))
    client.produce("counted", batch_of(b"2"))
    assert not broker.gate.entered.acquire(blocking=False)
    assert client.produce("counted", batch_of(b"3")).base_offset == 2, "only 1 makes producers wait"
    broker.gate.wait_until_one_is_held()


def test_flush_ms_syncs_records_that_are_that_old(broker: ControlledBroker, client: RawClient):
    client.create_topic("timed", flush_ms="60000")
    client.produce("timed", batch_of(b"x"))
    broker.run(broker.background.flush_old)
    broker.run(broker.broker.services.logs.flusher.settle)
    assert not [path for path in broker.gate.synced if path.startswith("timed-0/0") and path.endswith(".log")]
    broker.advance(60_000)
    broker.run(broker.background.flush_old)
    broker.run(broker.broker.services.logs.flusher.settle)
    assert [path for path in broker.gate.synced if path.startswith("timed-0/0") and path.endswith(".log")]


def test_a_failed_sync_takes_only_its_partition_offline(
    broker: ControlledBroker, client: RawClient, caplog: pytest.LogCaptureFixture
):
    client.create_topic("broken", partitions=2, flush_messages="1")
    client.create_topic("sound", flush_messages="1")
    assert client.produce("broken", batch_of(b"before"), partition=1).error_code == 0
    broker.gate.fail("broken-1/")
    failed = client.produce("broken", batch_of(b"x"), partition=1)
    assert (failed.error_code, failed.base_offset) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    lines = [record for record in caplog.records if "broken-1" in record.getMessage()]
    assert len(lines) == 1
    # It is never tried again, even if the device seems to work.
    broker.gate.fail("\0")
    again = client.produce("broken", batch_of(b"x"), partition=1)
    assert again.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert client.fetch("broken", 0, partition=1).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert client.produce("broken", batch_of(b"x"), partition=0).error_code == 0
    assert client.produce("sound", batch_of(b"x")).error_code == 0


def test_a_long_poll_on_a_partition_that_goes_offline_is_answered_with_the_error(
    broker: ControlledBroker, client: RawClient
):
    client.create_topic("broken", flush_messages="1")
    broker.gate.fail("broken-0/")
    client.send(fetch_request("broken", 0, max_wait_ms=LONG_MS), 12)
    with RawClient(broker.bootstrap_servers) as producer:
        producer.produce("broken", batch_of(b"x"))
    found = client.receive(1, 12, FetchResponse).responses[0].partitions[0]
    assert found.error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_produce_request_times_out_while_its_fsync_takes_longer(
    broker: ControlledBroker, client: RawClient
):
    client.create_topic("slow", flush_messages="1")
    broker.gate.hold("slow-0/")
    request = produce_request("slow", batch_of(b"x"))
    request.timeout_ms = 1
    answer = client.ask(request, 12).responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT


def test_a_duplicate_waits_for_the_sync_of_the_first(broker: ControlledBroker, client: RawClient):
    client.create_topic("flushed", flush_messages="1")
    broker.gate.hold("flushed-0/")
    batch = batch_of(b"x", producer_id=5, producer_epoch=0, base_sequence=0)
    with RawClient(broker.bootstrap_servers) as retrying:
        client.send(produce_request("flushed", batch), 12)
        broker.gate.wait_until_one_is_held()
        retrying.send(produce_request("flushed", batch), 12)
        retrying.socket.settimeout(0.05)
        with pytest.raises(TimeoutError):
            retrying.socket.recv(1)
        retrying.socket.settimeout(20)
        broker.gate.release()
        assert [answer_of(one).base_offset for one in (client, retrying)] == [0, 0]
    assert end_offset(client, "flushed") == 1


def test_beyond_the_limit_of_queued_syncs_produce_requests_are_delayed():
    with (
        ControlledBroker(settings={"penstock.queued.syncs.max": 1}) as broker,
        RawClient(broker.bootstrap_servers) as client,
    ):
        client.create_topic("flushed", partitions=3, flush_messages="1")
        broker.gate.hold("flushed-")
        producers = [RawClient(broker.bootstrap_servers) for _ in range(3)]
        producers[0].send(produce_request("flushed", batch_of(b"x"), partition=0), 12)
        broker.gate.wait_until_one_is_held()
        for partition in (1, 2):
            producers[partition].send(produce_request("flushed", batch_of(b"x"), partition=partition), 12)
        broker.gate.release()
        assert [answer_of(producer).error_code for producer in producers] == [0, 0, 0]
        for producer in producers:
            producer.socket.close()
