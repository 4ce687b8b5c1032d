"""A broker whose data directory fails, as opposed to the files of one log: it logs that, and ends."""

import asyncio
import logging

import pytest

from penstock.base.errors import ErrorCode
from penstock.storage.data_directory import CLEAN_SHUTDOWN
from tests.broker.controlled import PATIENCE_S, ControlledBroker
from tests.broker.test_offline_partitions import FullDisk
from tests.raw_client import RawClient, batch_of

SYNCED = {"flush_messages": "1"}


def reason(broker: ControlledBroker) -> str:
    """Why the broker has to end; waits for it."""

    async def wait() -> str:
        return await asyncio.wait_for(asyncio.shield(broker.broker.failure), PATIENCE_S)

    return broker.run(wait)


@pytest.mark.parametrize("path", ["recovery-point-offset-checkpoint", "log-start-offset-checkpoint"])
def test_a_checkpoint_that_cannot_be_synced_ends_the_broker(path: str, caplog: pytest.LogCaptureFixture):
    with ControlledBroker() as broker:
        broker.gate.fail(path)
        with pytest.raises(OSError):
            broker.run(broker.background.write_checkpoints)
        assert "the device is broken" in reason(broker)
    (said,) = (each for each in caplog.records if each.levelno == logging.CRITICAL)
    assert "controlled: the data directory has failed" in said.getMessage()
    assert path in said.getMessage()


def test_metadata_that_cannot_be_synced_end_the_broker():
    with ControlledBroker() as broker, RawClient(broker.bootstrap_servers) as client:
        broker.gate.fail("__metadata")
        with pytest.raises(AssertionError):
            client.create_topic("t")
        assert "the device is broken" in reason(broker)


def test_a_broker_whose_data_directory_failed_does_not_stop_cleanly():
    with ControlledBroker() as broker:
        broker.gate.fail("recovery-point-offset-checkpoint")
        with pytest.raises(OSError):
            broker.run(broker.background.write_checkpoints)
        broker.gate.fail("\0")  # the disk works again; what it was to keep may be gone
        with pytest.raises(OSError, match="has failed before"):
            broker.run(broker.broker.stop)
    assert not broker.disk.exists(CLEAN_SHUTDOWN)


def test_an_abandoned_broker_answers_no_requests():
    with ControlledBroker() as broker, RawClient(broker.bootstrap_servers) as client:
        client.create_topic("t")
        broker.gate.fail("recovery-point-offset-checkpoint")
        with pytest.raises(OSError):
            broker.run(broker.background.write_checkpoints)
        broker.run(broker.broker.abandon)
        with pytest.raises(OSError):
            client.produce("t", batch_of(b"x"))
        with pytest.raises(OSError):
            RawClient(broker.bootstrap_servers)


def test_a_log_that_cannot_be_synced_does_not_end_the_broker():
    with ControlledBroker() as broker, RawClient(broker.bootstrap_servers) as client:
        client.create_topic("bad", **SYNCED)
        client.create_topic("good", **SYNCED)
        broker.gate.fail("bad-0")
        assert client.produce("bad", batch_of(b"x")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert client.produce("good", batch_of(b"x")).error_code == ErrorCode.NONE
        broker.run(broker.background.write_checkpoints)
        assert not broker.broker.failure.done()


def test_a_full_disk_does_not_end_the_broker():
    broker = ControlledBroker()
    broker.disk = disk = FullDisk(broker.gate)
    with broker, RawClient(broker.bootstrap_servers) as client:
        client.create_topic("t")
        disk.full = "recovery-point-offset-checkpoint"
        with pytest.raises(OSError, match="no space left"):
            broker.run(broker.background.write_checkpoints)
        disk.full = "__metadata"
        with pytest.raises(AssertionError):
            client.create_topic("another")
        disk.full = ""
        client.create_topic("another")
        broker.run(broker.background.write_checkpoints)
        assert not broker.broker.failure.done()


def test_a_log_whose_directory_was_removed_starts_empty_and_does_not_end_the_broker():
    first = ControlledBroker()
    with first, RawClient(first.bootstrap_servers) as client:
        client.create_topic("t")
        client.produce("t", batch_of(b"x"))
    first.disk.remove_tree("t-0")
    again = ControlledBroker(disk=first.disk)
    with again, RawClient(again.bootstrap_servers) as client:
        assert client.produce("t", batch_of(b"y")).base_offset == 0
        assert not again.broker.failure.done()
