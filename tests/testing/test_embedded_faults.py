"""Killing an embedded broker, starting it again, and what can go wrong in between: as people's own tests use it."""

import asyncio
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer
from confluent_kafka import TopicPartition as Assigned

from penstock.base.errors import ErrorCode, UserError
from penstock.testing import EmbeddedBroker
from penstock.wire.messages.produce import ProduceResponse
from tests.apis.requests import end_offset, values_in
from tests.raw_client import RawClient, batch_of, produce_request

PATIENCE_S = 60
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"


@pytest.fixture(params=["memory", "directory"])
def broker(request: pytest.FixtureRequest, tmp_path: Path):
    with EmbeddedBroker(data_dir=None if request.param == "memory" else tmp_path) as broker:
        yield broker


# ---- kill and restart


def test_what_was_acknowledged_is_there_after_a_kill_at_the_same_address(broker: EmbeddedBroker):
    address = broker.bootstrap_servers
    with RawClient(address) as client:
        client.create_topic("t")
        for number in range(20):
            assert client.produce("t", batch_of(b"%d" % number)).error_code == 0
    for _ in range(3):
        broker.kill()
        broker.restart()
    assert broker.bootstrap_servers == address
    with RawClient(address) as client:
        assert values_in(client.fetch("t", 0).records) == [b"%d" % number for number in range(20)]


def test_a_kill_is_no_clean_stop(tmp_path: Path):
    with EmbeddedBroker(data_dir=tmp_path) as broker:
        with RawClient(broker.bootstrap_servers) as client:
            client.create_topic("t")
            client.produce("t", batch_of(b"x"))
        before = (tmp_path / "t-0" / "00000000000000000000.log").read_bytes()
        broker.kill()
        assert not (tmp_path / CLEAN_SHUTDOWN).exists()
        assert (tmp_path / "t-0" / "00000000000000000000.log").read_bytes() == before
        broker.restart()
    assert (tmp_path / CLEAN_SHUTDOWN).exists()


def test_clients_of_a_killed_broker_are_disconnected_and_cannot_reconnect(broker: EmbeddedBroker):
    address = broker.bootstrap_servers
    with RawClient(address) as client:
        client.create_topic("t")
        broker.kill()
        assert client.is_closed_by_broker()
    with pytest.raises(ConnectionError):
        RawClient(address)
    with pytest.raises(UserError, match="not running"):
        _ = broker.bootstrap_servers


def test_a_kill_in_the_middle_of_producing_leaves_whole_batches_and_every_acknowledged_one(
    broker: EmbeddedBroker,
):
    acknowledged: list[bytes] = []
    enough = threading.Event()
    with RawClient(broker.bootstrap_servers) as client:
        client.create_topic("t", flush_messages="1")

        def produce() -> None:
            with suppress(ConnectionError):
                while client.produce("t", batch_of(b"%d" % len(acknowledged))).error_code == 0:
                    acknowledged.append(b"%d" % len(acknowledged))
                    if len(acknowledged) == 50:
                        enough.set()

        producing = threading.Thread(target=produce)
        producing.start()
        assert enough.wait(PATIENCE_S)
        broker.kill()
        producing.join()
    broker.restart()
    with RawClient(broker.bootstrap_servers) as client:
        found: list[bytes | None] = []
        while len(found) < end_offset(client, "t"):
            found += values_in(client.fetch("t", len(found)).records)
        assert found[: len(acknowledged)] == acknowledged
        assert len(found) - len(acknowledged) in (0, 1), "one may have been written and not answered"


def test_a_confluent_producer_gets_everything_through_a_kill(broker: EmbeddedBroker):
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "enable.idempotence": True,
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,
        }
    )
    failures: list[KafkaError] = []

    def note(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failures.append(error)

    for number in range(300):
        producer.produce("t", b"%d" % number, on_delivery=note)
        producer.poll(0)
        if number == 100:
            broker.kill()
        elif number == 200:
            broker.restart()
    assert producer.flush(PATIENCE_S) == 0
    assert failures == []
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": "none", "enable.auto.commit": False}
    )
    consumer.assign([Assigned("t", 0, 0)])
    found = [message.value() for message in consumer.consume(300, PATIENCE_S)]
    consumer.close()
    assert found == [b"%d" % number for number in range(300)]


def test_a_restart_of_a_running_broker_is_clean_and_keeps_data_and_address(broker: EmbeddedBroker):
    address = broker.bootstrap_servers
    with RawClient(address) as client:
        client.create_topic("t")
        client.produce("t", batch_of(b"x"))
    assert broker.restart() is broker
    assert broker.bootstrap_servers == address
    assert broker._life is not None
    assert broker._life.broker._directory.was_closed_cleanly
    with RawClient(address) as client:
        assert end_offset(client, "t") == 1


def test_a_killed_broker_that_is_not_restarted_ends_with_its_block_and_forgets_what_was_in_memory():
    broker = EmbeddedBroker()
    with broker:
        with RawClient(broker.bootstrap_servers) as client:
            client.create_topic("t")
        broker.kill()
    with broker, RawClient(broker.bootstrap_servers) as client:
        client.create_topic("t")


def test_no_thread_and_no_open_file_is_left_of_the_dead(tmp_path: Path):
    before = threading.enumerate()
    with EmbeddedBroker(data_dir=tmp_path) as broker:
        with RawClient(broker.bootstrap_servers) as client:
            client.create_topic("t")
            client.produce("t", batch_of(b"x"))
        broker.kill()
        new = [thread.name for thread in threading.enumerate() if thread not in before]
        assert [name for name in new if name.startswith("penstock")] == []
        disk = broker._disk
        assert disk is not None
        assert disk.open_files == 0  # type: ignore[attr-defined]


def test_only_a_running_broker_on_a_thread_of_its_own_is_killed():
    broker = EmbeddedBroker()
    with pytest.raises(UserError, match="thread of its own"):
        broker.kill()

    async def program() -> None:
        async with broker:
            broker.kill()

    with pytest.raises(UserError, match="thread of its own"):
        asyncio.run(program())


# ---- faults while it runs


def test_answers_come_later_and_in_order(broker: EmbeddedBroker):
    with RawClient(broker.bootstrap_servers) as client:
        client.create_topic("t")
        broker.faults.answer_delay_s = 0.3
        began = time.monotonic()
        asked = [client.send(produce_request("t", batch_of(b"%d" % number)), 12) for number in range(5)]
        answered = []
        for number in asked:
            if number == asked[2]:
                broker.faults.clear()  # what is on its way is not overtaken
            answer = client.receive(0, 12, ProduceResponse).responses[0].partition_responses[0]
            answered.append((client.last_correlation_id, answer.base_offset))
        assert time.monotonic() - began >= 0.3
        assert answered == [(number, offset) for offset, number in enumerate(asked)]
        assert client.produce("t", batch_of(b"soon")).base_offset == 5


def test_a_delayed_answer_is_sent_before_a_stopping_broker_closes_the_connection():
    with EmbeddedBroker() as broker, RawClient(broker.bootstrap_servers) as client:
        client.create_topic("t")
        broker.faults.answer_delay_s = 0.2
        client.send(produce_request("t", batch_of(b"x")), 12)
        with RawClient(broker.bootstrap_servers) as other:
            while end_offset(other, "t") == 0:
                pass
        broker.stop()
        answer = client.receive(0, 12, ProduceResponse).responses[0].partition_responses[0]
        assert answer.error_code == 0


def test_dropped_connections_are_reset_and_new_ones_are_taken(broker: EmbeddedBroker):
    with RawClient(broker.bootstrap_servers) as first, RawClient(broker.bootstrap_servers) as second:
        first.create_topic("t")
        second.produce("t", batch_of(b"x"))
        broker.faults.drop_connections()
        assert first.is_closed_by_broker()
        assert second.is_closed_by_broker()
    with RawClient(broker.bootstrap_servers) as client:
        assert end_offset(client, "t") == 1


def test_refused_connections_are_reset_and_old_ones_stay(broker: EmbeddedBroker):
    with RawClient(broker.bootstrap_servers) as old:
        old.create_topic("t")
        broker.faults.refuse_connections = True
        with RawClient(broker.bootstrap_servers) as new:
            assert new.is_closed_by_broker()
        assert end_offset(old, "t") == 0
        broker.faults.clear()
        with RawClient(broker.bootstrap_servers) as new:
            assert end_offset(new, "t") == 0


def test_a_full_disk_refuses_records_until_there_is_room_again(broker: EmbeddedBroker):
    with RawClient(broker.bootstrap_servers) as client:
        client.create_topic("t")
        assert client.produce("t", batch_of(b"first")).error_code == 0
        broker.faults.disk_full = True
        for _ in range(3):
            assert client.produce("t", batch_of(b"refused")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert values_in(client.fetch("t", 0).records) == [b"first"]
        broker.faults.disk_full = False
        assert client.produce("t", batch_of(b"second")).base_offset == 1


def test_faults_outlive_a_kill():
    with EmbeddedBroker() as broker:
        with RawClient(broker.bootstrap_servers) as client:
            client.create_topic("t")
        broker.faults.disk_full = True
        broker.kill()
        broker.faults.drop_connections()  # no broker runs: nothing to do
        broker.faults.clear()
        broker.restart()
        with RawClient(broker.bootstrap_servers) as client:
            assert client.produce("t", batch_of(b"x")).error_code == 0


def test_faults_work_inside_an_asyncio_program_too():
    async def program() -> bytes:
        async with EmbeddedBroker() as broker:
            host, _, port = broker.bootstrap_servers.rpartition(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(b"\0\0")
            while not broker.faults._connections:
                await asyncio.sleep(0)
            broker.faults.drop_connections()
            try:
                return await reader.read(1)
            except ConnectionResetError:
                return b""
            finally:
                writer.close()

    assert asyncio.run(program()) == b""
