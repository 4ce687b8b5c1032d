"""A full disk: appends are rejected, it is logged, and appends work again when there is room."""

import logging
import re
import time
from pathlib import Path

import pytest

from penstock.base.errors import ErrorCode
from penstock.testing import EmbeddedBroker
from tests.apis.requests import delete_topic
from tests.broker.test_listeners import free_port, get
from tests.raw_client import RawClient, batch_of

MIB = 1 << 20
PATIENCE_S = 60


def metric(port: int, name: str) -> float:
    found = re.search(rf"^{name} (\S+)$", get(port, "/metrics")[1], re.MULTILINE)
    assert found is not None, f"there is no metric {name}"
    return float(found[1])


def said_about_room(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "penstock.disk_space"]


def test_a_full_disk_is_logged_once_per_partition_and_again_when_there_is_room(
    caplog: pytest.LogCaptureFixture,
):
    port = free_port()
    with (
        caplog.at_level(logging.WARNING),
        EmbeddedBroker(settings={"penstock.metrics.listen": f"127.0.0.1:{port}"}) as broker,
        RawClient(broker.bootstrap_servers) as client,
    ):
        client.create_topic("orders", partitions=2)
        assert metric(port, "penstock_disk_full_total") == 0
        broker.faults.disk_full = True
        for partition in (0, 0, 0, 1):
            refused = client.produce("orders", batch_of(b"x"), partition=partition)
            assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert [line.split(":")[0] for line in said_about_room(caplog)] == ["orders-0", "orders-1"]
        assert all("disk full" in line for line in said_about_room(caplog))
        assert get(port, "/healthz") == (503, "no room on the disk for orders-0, orders-1\n")
        assert metric(port, "penstock_disk_full_total") == 4
        assert metric(port, "penstock_partitions_without_room") == 2

        caplog.clear()
        broker.faults.disk_full = False
        for partition in (0, 1):
            assert client.produce("orders", batch_of(b"x"), partition=partition).error_code == 0
        assert get(port, "/healthz") == (200, "ok\n")
        assert metric(port, "penstock_partitions_without_room") == 0
        lines = said_about_room(caplog)
        assert sorted(line.split(":")[0] for line in lines) == ["orders-0", "orders-1"]
        assert all("disk has room again" in line for line in lines)


def test_a_broker_detects_free_disk_space_without_a_produce_request():
    port = free_port()
    with (
        EmbeddedBroker(settings={"penstock.metrics.listen": f"127.0.0.1:{port}"}) as broker,
        RawClient(broker.bootstrap_servers) as client,
    ):
        client.create_topic("orders")
        broker.faults.disk_full = True
        client.produce("orders", batch_of(b"x"))
        assert get(port, "/healthz")[0] == 503
        broker.faults.disk_full = False
        deadline = time.monotonic() + PATIENCE_S
        while get(port, "/healthz")[0] != 200 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert get(port, "/healthz") == (200, "ok\n")


def test_a_broker_that_stops_on_a_full_disk_logs_it_and_loses_nothing(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
):
    with EmbeddedBroker(data_dir=tmp_path) as broker:
        with RawClient(broker.bootstrap_servers) as client:
            client.create_topic("orders")
            client.produce("orders", batch_of(b"first"))
        broker.faults.disk_full = True
        broker.stop()
        assert "no room" in caplog.text
        broker.faults.disk_full = False
        broker.start()
        with RawClient(broker.bootstrap_servers) as client:
            assert b"first" in bytes(client.fetch("orders", 0).records)


def test_a_full_memory_rejects_appends_and_serves_fetches_until_there_is_room():
    with (
        EmbeddedBroker(settings={"penstock.memory.bytes.max": 8 * MIB}) as broker,
        RawClient(broker.bootstrap_servers) as client,
    ):
        for name in ("kept", "dropped"):
            client.create_topic(name, penstock_storage="memory")
        assert client.produce("kept", batch_of(b"first")).error_code == 0
        while (answer := client.produce("dropped", batch_of(b"x" * 900_000))).error_code == 0:
            pass
        assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert "no room" in answer.error_message

        refused = client.produce("kept", batch_of(b"x" * 900_000))
        assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert b"first" in bytes(client.fetch("kept", 0).records)

        delete_topic(client, "dropped")
        assert client.produce("kept", batch_of(b"x" * 900_000)).base_offset == 1
