"""A partition whose disk fails answers KAFKA_STORAGE_ERROR at once; other partitions continue."""

import asyncio
import errno
import threading
from collections.abc import Sequence
from typing import Any

from penstock.base.errors import ErrorCode
from penstock.services.replicas.replica import Replica
from penstock.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from penstock.wire.messages.produce import ProduceResponse
from tests.apis.requests import end_offset, list_offset, values_in
from tests.broker.controlled import ControlledBroker, GatedDisk
from tests.raw_client import RawClient, batch_of, produce_request


class _FullFile:
    def __init__(self, file: Any, disk: "FullDisk") -> None:
        self._file = file
        self._disk = disk

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def append(self, data: Sequence[bytes]) -> None:
        if self._disk.full and self._file.path.startswith(self._disk.full):
            reason = "no space left" if self._disk.number == errno.ENOSPC else "the device is broken"
            raise OSError(self._disk.number, reason, self._file.path)
        self._file.append(data)


class FullDisk(GatedDisk):
    """Cannot write files whose path begins with `full`: there is no room for them, or as `number` says."""

    full = ""
    number = errno.ENOSPC

    def open(self, path: str, *, create: bool = False) -> Any:
        return _FullFile(super().open(path, create=create), self)


def test_a_sync_that_cannot_be_prepared_fails_its_partition_and_no_other():
    broker = ControlledBroker()
    broker.disk = disk = FullDisk(broker.gate)
    with broker, RawClient(broker.bootstrap_servers) as client:
        client.create_topic("bad", flush_messages="1")
        client.create_topic("good", flush_messages="1")
        disk.full, disk.number = "bad-0/leader-epoch-checkpoint", errno.EIO
        for topic in ("bad", "good"):
            client.send(produce_request(topic, batch_of(b"x")), 12)
        codes = [
            client.receive(0, 12, ProduceResponse).responses[0].partition_responses[0].error_code
            for _ in range(2)
        ]
    assert codes == [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE]


def test_a_sync_for_which_the_leader_epochs_find_no_room_is_a_sync_all_the_same():
    broker = ControlledBroker()
    broker.disk = disk = FullDisk(broker.gate)
    with broker, RawClient(broker.bootstrap_servers) as client:
        client.create_topic("t", flush_messages="1")
        disk.full = "t-0/leader-epoch-checkpoint"
        for value in (b"first", b"second"):
            assert client.produce("t", batch_of(value)).error_code == ErrorCode.NONE
        partition = broker.broker.services.logs.replicas.find_replica("t", 0)
        assert isinstance(partition, Replica)
        assert partition.log.epochs.changed
        assert "t-0" in str(broker.broker.services.logs.replicas.disk_space.problem())
        disk.full = ""
        assert client.produce("t", batch_of(b"third")).error_code == ErrorCode.NONE
        assert not partition.log.epochs.changed
        assert values_in(client.fetch("t", 0).records) == [b"first", b"second", b"third"]


def test_offsets_of_an_offline_partition_are_refused_and_the_connection_stays():
    with ControlledBroker() as broker, RawClient(broker.bootstrap_servers) as client:
        client.create_topic("t")
        client.produce("t", batch_of(b"x"))

        async def fail() -> None:
            partition = broker.broker.services.logs.replicas.find_replica("t", 0)
            assert isinstance(partition, Replica)
            partition.sync_failed(OSError(errno.EIO, "the device is broken"))
            partition.log.close()

        broker.run(fail)
        for timestamp in (0, -3):
            assert list_offset(client, "t", timestamp).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        asked = DeleteRecordsPartition(partition_index=0, offset=1)
        request = DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name="t", partitions=[asked])], timeout_ms=1000
        )
        deleted = client.ask(request, 2).topics[0].partitions[0]
        assert deleted.error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_records_left_unsynced_by_a_crash_are_synced_and_visible_after_the_next_start():
    broker = ControlledBroker()
    with broker, RawClient(broker.bootstrap_servers) as client:
        client.create_topic("t", flush_messages="1")
        client.produce("t", batch_of(b"safe"))
        broker.run(broker.background.write_checkpoints)
        broker.gate.hold("t-0")
        client.send(produce_request("t", batch_of(b"unsynced")), 12)
        broker.gate.wait_until_one_is_held()
        left_behind = GatedDisk(broker.gate)
        copy(broker.disk, left_behind)
        broker.gate.release()
    again = ControlledBroker()
    again.disk = GatedDisk(again.gate)
    copy(left_behind, again.disk)
    again.gate.hold("t-0")

    def release() -> None:
        again.gate.wait_until_one_is_held()
        again.gate.release()

    releasing = threading.Thread(target=release)
    releasing.start()
    with again, RawClient(again.bootstrap_servers) as client:
        releasing.join()
        assert end_offset(client, "t") == 2, "the end was never shown lower than it had been"
        assert values_in(client.fetch("t", 0).records) == [b"safe", b"unsynced"]


def copy(source: Any, target: Any, path: str = "") -> None:
    """What a process that is killed leaves: everything written, synced or not."""
    for name in source.list(path):
        below = f"{path}/{name}" if path else name
        try:
            file = source.open(below)
        except IsADirectoryError:
            target.make_dir(below)
            copy(source, target, below)
        else:
            target.open(below, create=True).append([bytes(file.read(0, file.size))])


def test_a_topic_deleted_under_its_sync_is_not_called_offline(caplog):
    with ControlledBroker() as broker, RawClient(broker.bootstrap_servers) as client:
        client.create_topic("t", flush_messages="1")
        broker.gate.hold("t-0")
        client.send(produce_request("t", batch_of(b"x")), 12)
        broker.gate.wait_until_one_is_held()

        async def delete() -> None:
            deletion = broker.broker.services.cluster.controller.delete_topic("t")
            await asyncio.wait_for(deletion, 10)

        broker.run(delete)
        broker.gate.release()
        answer = client.receive(0, 12, ProduceResponse).responses[0].partition_responses[0]
        assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        broker.run(broker.broker.services.logs.flusher.settle)
    assert "offline" not in caplog.text
