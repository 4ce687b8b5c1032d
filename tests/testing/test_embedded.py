"""The embedded broker, as people use it in their own tests."""

import asyncio
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Assigned

from peers.penstock import SOURCE
from penstock.base.errors import SettingError, UserError
from penstock.testing import EmbeddedBroker
from tests.apis.requests import BROKER, config, end_offset, values_in
from tests.raw_client import RawClient, batch_of


def test_a_program_can_produce_and_consume_inside_the_with_block():
    with EmbeddedBroker() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        producer.produce("greetings", b"hello", key=b"k")
        assert producer.flush(20) == 0
        settings = {"group.id": "none", "enable.auto.commit": False}
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, **settings})
        consumer.assign([Assigned("greetings", 0, 0)])
        message = consumer.poll(20)
        consumer.close()
    assert message is not None
    assert (message.error(), message.key(), message.value()) == (None, b"k", b"hello")


def test_inside_an_asyncio_program_it_runs_on_the_same_loop():
    async def program() -> bytes | None:
        async with EmbeddedBroker() as broker:
            async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
                await producer.send_and_wait("greetings", b"hello")
            async with AIOKafkaConsumer(bootstrap_servers=broker.bootstrap_servers) as consumer:
                partition = TopicPartition("greetings", 0)
                consumer.assign([partition])
                await consumer.seek_to_beginning(partition)
                record = await asyncio.wait_for(consumer.getone(), 20)
                return record.value

    assert asyncio.run(program()) == b"hello"


def test_two_brokers_at_once_know_nothing_of_each_other():
    with EmbeddedBroker() as one, EmbeddedBroker() as two:
        assert one.bootstrap_servers != two.bootstrap_servers
        with RawClient(one.bootstrap_servers) as first, RawClient(two.bootstrap_servers) as second:
            first.create_topic("t")
            first.produce("t", batch_of(b"x"))
            second.create_topic("t")
            assert (end_offset(first, "t"), end_offset(second, "t")) == (1, 0)


def test_in_memory_nothing_is_left_when_it_ends():
    broker = EmbeddedBroker()
    for _ in range(2):
        with broker, RawClient(broker.bootstrap_servers) as client:
            client.create_topic("t")


@pytest.mark.parametrize("kind", [str, Path])
def test_on_disk_the_data_is_there_again_with_the_same_directory(tmp_path: Path, kind: type):
    directory = kind(tmp_path / "data")
    with EmbeddedBroker(data_dir=directory) as broker, RawClient(broker.bootstrap_servers) as client:
        client.create_topic("t", partitions=2)
        client.produce("t", batch_of(b"x"), partition=1)
    assert (tmp_path / "data" / "t-1").is_dir()
    with EmbeddedBroker(data_dir=directory) as broker, RawClient(broker.bootstrap_servers) as client:
        assert values_in(client.fetch("t", 0, partition=1).records) == [b"x"]


def test_two_brokers_cannot_share_a_directory(tmp_path: Path):
    with (
        EmbeddedBroker(data_dir=tmp_path),
        pytest.raises(UserError, match="another broker"),
        EmbeddedBroker(data_dir=tmp_path),
    ):
        pass


def test_outside_the_with_block_it_says_what_to_do():
    broker = EmbeddedBroker()
    with pytest.raises(UserError, match="with"):
        _ = broker.bootstrap_servers
    with broker:
        assert broker.bootstrap_servers
    with pytest.raises(UserError, match="with"):
        _ = broker.bootstrap_servers


def test_it_can_be_started_and_stopped_by_hand():
    broker = EmbeddedBroker().start()
    with RawClient(broker.bootstrap_servers) as client:
        client.create_topic("t")
    with pytest.raises(UserError, match="already"):
        broker.start()
    broker.stop()
    broker.stop()


def test_the_port_can_be_chosen_and_is_free_again_afterwards():
    with EmbeddedBroker() as broker:
        port = int(broker.bootstrap_servers.rpartition(":")[2])
    for _ in range(2):
        with EmbeddedBroker(port=port) as again:
            assert again.bootstrap_servers == f"127.0.0.1:{port}"
            with pytest.raises(UserError, match="another program listens"):
                EmbeddedBroker(port=port).start()


def test_settings_are_the_brokers_own():
    settings = {"num.partitions": 6, "log.retention.ms": "1000", "auto.create.topics.enable": False}
    with EmbeddedBroker(settings=settings) as broker, RawClient(broker.bootstrap_servers) as client:
        assert config(client, BROKER, "1", "num.partitions").value == "6"
        assert config(client, BROKER, "1", "log.retention.ms").value == "1000"


def test_a_wrong_setting_is_refused_at_once_with_the_nearest_name():
    with pytest.raises(SettingError, match=r"num\.partitions"):
        EmbeddedBroker(settings={"num.partition": 6})


def test_an_exception_in_the_with_block_stops_it_and_goes_through():
    broker = EmbeddedBroker()
    addresses = []

    def failing_program() -> None:
        with broker:
            addresses.append(broker.bootstrap_servers)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing_program()
    with pytest.raises(ConnectionError):
        RawClient(addresses[0])


PLUGIN_TESTS = """
from confluent_kafka import Producer

def test_first(penstock_broker):
    producer = Producer({"bootstrap.servers": penstock_broker.bootstrap_servers})
    producer.produce("t", b"x")
    assert producer.flush(20) == 0
    penstock_broker.seen_by_first = True

def test_second(penstock_broker):
    assert penstock_broker.seen_by_first, "one broker for the whole session"
"""


def test_the_pytest_plugin_gives_a_broker_for_the_session(tmp_path: Path):
    (tmp_path / "test_mine.py").write_text(PLUGIN_TESTS)
    installed = any(point.name == "penstock" for point in entry_points(group="pytest11"))
    plugin = [] if installed else ["-p", "penstock.testing.pytest_plugin"]
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", *plugin, str(tmp_path)]
    result = subprocess.run(
        command, env={"PYTHONPATH": str(SOURCE)}, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "2 passed" in result.stdout


def test_the_plugin_costs_nothing_to_those_who_do_not_use_it():
    code = "import sys, penstock.testing.pytest_plugin; print('penstock.broker' in sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout.strip() == "False"
