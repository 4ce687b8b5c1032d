"""The data directory: who owns it, what a start finds in it, and what a stop leaves."""

import errno
from random import Random

import pytest

from penstock.base.errors import StorageError, UserError
from penstock.base.ids import TopicPartition, format_id
from penstock.sim.disk import SimDisk
from penstock.sim.disk_faults import Revoked
from penstock.storage import offset_checkpoints
from penstock.storage.data_directory import CLEAN_SHUTDOWN, DataDirectory
from penstock.storage.log import Log, LogConfig
from penstock.storage.partition_directories import (
    STRAY,
    RemovedDirectory,
    parse_removed_name,
    partition_of,
    removed_name,
)
from penstock.world.disk import Disk, read_file, write_file_atomically
from penstock.world.memory_disk import MemoryDisk
from tests.storage.helpers import NOW_MS, TOPIC_ID, RememberedProducers, append, batch, read_all, sync

ORDERS = TopicPartition("orders", 0)
DASHED = TopicPartition("a-b.c_d-1", 12)


class CountingEntropy:
    """Bytes that are easy to tell apart."""

    def __init__(self) -> None:
        self.count = 0

    def random_bytes(self, count: int) -> bytes:
        self.count += 1
        return bytes([self.count]) * count

    def random_below(self, limit: int) -> int:
        return 0


def take(disk: Disk, *, node_id: int = 1, cluster_id: str | None = None) -> DataDirectory:
    return DataDirectory.open(disk, node_id=node_id, entropy=CountingEntropy(), cluster_id=cluster_id)


def create(directory: DataDirectory, partition: TopicPartition = ORDERS) -> Log:
    return directory.create_log(
        partition, topic_id=TOPIC_ID, config=LogConfig(), producers=RememberedProducers(), now_ms=NOW_MS
    )


def reopen(directory: DataDirectory, partition: TopicPartition = ORDERS) -> Log:
    log, _ = directory.open_log(partition, config=LogConfig(), producers=RememberedProducers(), now_ms=NOW_MS)
    return log


@pytest.fixture
def disk() -> MemoryDisk:
    return MemoryDisk()


def test_a_new_directory_gets_ids_and_keeps_them(disk: MemoryDisk) -> None:
    first = take(disk)
    assert first.meta.cluster_id == format_id(b"\1" * 16)
    assert first.meta.directory_id == format_id(b"\2" * 16)
    first.close({})
    second = take(disk)
    assert second.meta == first.meta
    lines = read_file(disk, "meta.properties").decode().splitlines()
    assert lines == [
        f"cluster.id={first.meta.cluster_id}",
        f"directory.id={first.meta.directory_id}",
        "node.id=1",
        "penstock.data.version=1",
        "version=1",
    ]


def test_a_directory_has_one_broker_at_a_time(disk: MemoryDisk) -> None:
    first = take(disk)
    with pytest.raises(UserError, match="in use by another broker"):
        take(disk)
    first.close({})
    take(disk)


def test_the_directory_of_another_node_or_cluster_is_refused(disk: MemoryDisk) -> None:
    take(disk, cluster_id="mine").close({})
    with pytest.raises(UserError, match="belongs to node 1, and this is node 2"):
        take(disk, node_id=2)
    with pytest.raises(UserError, match="belongs to cluster mine, and this is cluster yours"):
        take(disk, cluster_id="yours")
    take(disk, cluster_id="mine")


@pytest.mark.parametrize("line", [b"penstock.data.version=99", b"version=2", b"penstock.data.version=x"])
def test_data_of_a_newer_version_is_refused_and_the_lock_given_back(disk: MemoryDisk, line: bytes) -> None:
    take(disk).close({})
    content = read_file(disk, "meta.properties")
    write_file_atomically(disk, "meta.properties", content.replace(b"penstock.data.version=1\n", b"") + line)
    for _ in range(2):
        with pytest.raises(UserError, match="newer version"):
            take(disk)


def test_an_older_version_refuses_a_newer_directory_and_names_the_version_needed(disk: MemoryDisk) -> None:
    directory = take(disk)
    directory.set_data_version(2)
    directory.close({})
    with pytest.raises(
        UserError, match=r"penstock\.version 2 .* is needed, .* up to 1 .*Install the version"
    ):
        DataDirectory.open(disk, node_id=1, entropy=CountingEntropy(), data_version_max=1)
    again = take(disk)
    assert again.meta == directory.meta
    again.set_data_version(1)
    again.close({})
    DataDirectory.open(disk, node_id=1, entropy=CountingEntropy(), data_version_max=1)


def test_a_start_that_goes_no_further_leaves_the_mark_of_a_clean_stop(disk: MemoryDisk) -> None:
    take(disk).close_cleanly({})
    refused = take(disk)
    refused.restore_clean_shutdown_file()
    refused.close({})
    again = take(disk)
    assert again.was_closed_cleanly
    again.close({})
    unclean = take(disk)
    unclean.restore_clean_shutdown_file()
    unclean.close({})
    assert not take(disk).was_closed_cleanly


@pytest.mark.parametrize("content", [b"", b"version=1\n", b"version=1\ncluster.id=a\nnode.id=x\n"])
def test_an_unreadable_meta_properties_is_said_so(disk: MemoryDisk, content: bytes) -> None:
    write_file_atomically(disk, "meta.properties", content)
    with pytest.raises(UserError, match=r"meta\.properties"):
        take(disk)


def test_kafkas_own_meta_properties_is_understood(disk: MemoryDisk) -> None:
    kafkas = b"#\n#Thu Jan 01 00:00:00 UTC 1970\ncluster.id=abc\nversion=1\ndirectory.id=def\nnode.id=1\n"
    write_file_atomically(disk, "meta.properties", kafkas)
    assert take(disk).meta.cluster_id == "abc"


def test_partitions_are_found_by_the_names_of_their_directories(disk: MemoryDisk) -> None:
    directory = take(disk)
    logs = {partition: create(directory, partition) for partition in (ORDERS, DASHED)}
    disk.make_dir("not a partition")
    disk.make_dir("neither-")
    directory.close(logs)
    assert sorted(take(disk).partitions) == [DASHED, ORDERS]


def test_a_clean_stop_spares_the_next_start_its_scan_once(disk: MemoryDisk) -> None:
    directory = take(disk)
    assert not directory.was_closed_cleanly
    log = create(directory)
    data = append(log, batch(0, 5))
    log.advance_start_offset(3)
    directory.close_cleanly({ORDERS: log})
    assert read_file(disk, CLEAN_SHUTDOWN) == b'{"version":0,"brokerEpoch":-1}'
    assert read_file(disk, offset_checkpoints.RECOVERY_POINTS) == b"0\n1\norders 0 5\n"
    assert read_file(disk, offset_checkpoints.START_OFFSETS) == b"0\n1\norders 0 3\n"

    directory = take(disk)
    assert directory.was_closed_cleanly
    assert not disk.exists(CLEAN_SHUTDOWN), "a crash from here on must not look like a clean stop"
    log = reopen(directory)
    assert (log.start_offset, log.end_offset, log.recovery_point) == (3, 5, 5)
    assert read_all(log) == [data]
    directory.close({ORDERS: log})
    assert not take(disk).was_closed_cleanly


def test_a_failed_log_leaves_no_mark(disk: MemoryDisk) -> None:
    directory = take(disk)
    good, bad = create(directory), create(directory, DASHED)
    append(good, batch(0))
    bad.fail("the disk is on fire")
    directory.close_cleanly({ORDERS: good, DASHED: bad})
    assert not disk.exists(CLEAN_SHUTDOWN)
    assert b"orders 0 1" in read_file(disk, offset_checkpoints.RECOVERY_POINTS)


def test_checkpoints_are_written_from_what_was_noted(disk: MemoryDisk) -> None:
    directory = take(disk)
    logs = {ORDERS: create(directory), DASHED: create(directory, DASHED)}
    append(logs[ORDERS], batch(0, 7))
    sync(logs[ORDERS], disk)
    directory.note_offsets(logs)
    append(logs[ORDERS], batch(7, 7))
    sync(logs[ORDERS], disk)
    directory.write_checkpoints()
    assert offset_checkpoints.read_offsets(disk, offset_checkpoints.RECOVERY_POINTS) == {ORDERS: 7, DASHED: 0}


def test_an_unreadable_checkpoint_costs_a_scan_and_is_said_so(disk: MemoryDisk) -> None:
    directory = take(disk)
    log = create(directory)
    data = append(log, batch(0, 5))
    directory.close_cleanly({ORDERS: log})
    write_file_atomically(disk, offset_checkpoints.RECOVERY_POINTS, b"0\n2\norders 0 5\n")
    directory = take(disk)
    assert "recovery-point-offset-checkpoint is damaged" in directory.problems[0]
    log = reopen(directory)
    assert read_all(log) == [data]


def test_a_recreated_partition_is_not_measured_by_the_old_ones_recovery_point(disk: MemoryDisk) -> None:
    directory = take(disk)
    log = create(directory)
    append(log, batch(0, 1000))
    directory.close_cleanly({ORDERS: log})
    directory = take(disk)
    directory.rename_removed({ORDERS: b"\1" * 16})
    log = create(directory)
    data = append(log, batch(0, 5))
    directory.close({ORDERS: log})
    log = reopen(take(disk))
    assert read_all(log) == [data]
    assert log.end_offset == 5


def test_a_recreated_partition_is_not_measured_by_it_after_a_deletion_that_failed() -> None:
    machine = SimDisk(Random(0))
    directory = take(machine.mount())
    log = create(directory)
    append(log, batch(0, 1000))
    directory.close_cleanly({ORDERS: log})
    directory = take(machine.mount())
    machine.faults.fail_appends(errno.ENOSPC)
    with pytest.raises(StorageError, match="recovery-point-offset-checkpoint"):
        directory.rename_removed({ORDERS: b"\1" * 16})
    directory.rename_removed({ORDERS: b"\2" * 16})
    log = create(directory)
    data = append(log, batch(0, 5))
    machine.crash_process()
    log = reopen(take(machine.mount()))
    assert read_all(log) == [data]
    assert log.end_offset == 5


def test_a_partition_that_checkpoints_remember_is_not_created_before_it_is_forgotten(
    disk: MemoryDisk,
) -> None:
    directory = take(disk)
    log = create(directory)
    append(log, batch(0, 5))
    directory.close_cleanly({ORDERS: log})
    disk.remove_tree(str(ORDERS))
    directory = take(disk)
    assert directory.is_in_checkpoints(ORDERS)
    with pytest.raises(AssertionError, match="predecessor"):
        create(directory)
    directory.remove_from_checkpoints([ORDERS])
    assert not directory.is_in_checkpoints(ORDERS)
    create(directory)
    directory.close({})
    assert not take(disk).is_in_checkpoints(ORDERS)


def test_a_directory_that_has_failed_is_not_left_as_if_it_had_been_closed_cleanly() -> None:
    machine = SimDisk(Random(0))
    directory = take(machine.mount())
    log = create(directory)
    append(log, batch(0, 5))
    machine.faults.fail_appends(errno.EIO)
    with pytest.raises(OSError):
        directory.write_checkpoints()
    assert directory.disk.failed is not None
    with pytest.raises(OSError, match="has failed before"):
        directory.close_cleanly({ORDERS: log})
    assert not take(machine.mount()).was_closed_cleanly


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_a_logs_failure_is_not_the_directorys(number: int) -> None:
    machine = SimDisk(Random(0))
    directory = take(machine.mount())
    log = create(directory)
    machine.faults.fail_appends(number)
    with pytest.raises(StorageError):
        append(log, batch(0, 5))
    assert directory.disk.failed is None


def test_a_deleted_partition_moves_aside_and_goes_later(disk: MemoryDisk) -> None:
    directory = take(disk)
    log = create(directory)
    append(log, batch(0))
    log.close()
    (name,) = directory.rename_removed({ORDERS: bytes(range(16))})
    assert name == "orders-0.000102030405060708090a0b0c0d0e0f-delete"
    assert disk.list(name)
    directory.close({})
    directory = take(disk)
    assert directory.partitions == []
    assert list(directory.removed_directories) == [name]
    directory.remove_deleted(name)
    assert not disk.exists(name)


def test_the_partitions_of_topics_with_the_longest_names_get_names_of_their_own(disk: MemoryDisk) -> None:
    directory = take(disk)
    longest = [TopicPartition("t" * 249, number) for number in (0, 1, 99999)]
    longest.append(TopicPartition("t" * 248 + "u", 1))
    for partition in longest:
        create(directory, partition).close()
    names = directory.rename_removed(
        {partition: bytes([number]) * 16 for number, partition in enumerate(longest)}
    )
    assert len(set(names)) == len(longest)
    assert {len(name) for name in names} == {255}
    assert [parse_removed_name(name).partition.partition for name in names] == [0, 1, 99999, 1]  # type: ignore[union-attr]
    directory.close({})
    directory = take(disk)
    assert directory.partitions == []
    for name in names:
        directory.remove_deleted(name)
        assert not disk.exists(name)


def test_a_name_that_is_cut_is_cut_between_characters() -> None:
    name = removed_name(TopicPartition("ä" * 120 + "x", 3), bytes(16), STRAY)
    assert len(name.encode()) in (254, 255)
    assert parse_removed_name(name) == RemovedDirectory(TopicPartition(name.partition("-")[0], 3), STRAY)


@pytest.mark.parametrize(
    ("name", "partition"),
    [
        ("orders-0", ORDERS),
        ("a-b.c_d-1-12", DASHED),
        ("orders-00", None),
        ("orders-٣", None),
        ("orders", None),
        ("-1", None),
        ("photos-delete", None),
    ],
)
def test_only_names_that_a_partition_would_be_given_are_partitions(
    name: str, partition: TopicPartition | None
) -> None:
    assert partition_of(name) == partition


@pytest.mark.parametrize(
    "name",
    ["photos-delete", "orders-0-delete", "orders-0.0123-delete", f"orders.{'0' * 32}-delete", "x-stray"],
)
def test_only_names_with_a_unique_suffix_are_of_removed_directories(name: str) -> None:
    assert parse_removed_name(name) is None


def test_what_says_whose_a_deleted_partition_is_goes_last() -> None:
    machine = SimDisk(Random(0))
    directory = take(machine.mount())
    log = create(directory)
    append(log, batch(0))
    log.close()
    (name,) = directory.rename_removed({ORDERS: bytes(16)})
    machine.faults.strike_after(1, machine.crash_process)
    with pytest.raises(Revoked):
        directory.remove_deleted(name)
    assert machine.mount().list(name)[-1] == "partition.metadata"


def test_the_recovery_point_goes_down_on_disk_before_a_log_is_cut() -> None:
    machine = SimDisk(Random(0))
    disk = machine.mount()
    directory = take(disk)
    log = create(directory)
    for number in range(10):
        append(log, batch(number * 2, 2))
    sync(log, disk)
    directory.note_offsets({ORDERS: log})
    directory.write_checkpoints()
    directory.truncate(ORDERS, log, 7)
    assert log.end_offset == 6
    assert offset_checkpoints.read_offsets(disk, offset_checkpoints.RECOVERY_POINTS) == {ORDERS: 6}
    machine.crash_process()
    log = reopen(take(machine.mount()))
    assert (log.end_offset, log.checkpoint_offset) == (6, 6)


def test_a_start_above_the_cut_goes_down_on_disk_before_a_log_is_cut(disk: MemoryDisk) -> None:
    directory = take(disk)
    log = create(directory)
    for number in range(10):
        append(log, batch(number * 2, 2))
    sync(log, disk)
    log.advance_start_offset(9)
    directory.note_offsets({ORDERS: log})
    directory.write_checkpoints()
    directory.truncate(ORDERS, log, 7)
    assert offset_checkpoints.read_offsets(disk, offset_checkpoints.START_OFFSETS) == {ORDERS: 6}
    assert (log.start_offset, log.end_offset) == (6, 6)


def test_high_watermarks_are_written_when_they_are_new_and_after_the_last_of_a_clean_stop(
    disk: MemoryDisk,
) -> None:
    directory = take(disk)
    log = create(directory)
    append(log, batch(0, 4))
    assert directory.high_watermark(ORDERS) == 0
    directory.write_high_watermarks()
    assert not disk.exists(offset_checkpoints.HIGH_WATERMARKS), "there was nothing to write"
    directory.note_high_watermarks({ORDERS: 2})
    directory.write_high_watermarks()
    assert read_file(disk, offset_checkpoints.HIGH_WATERMARKS) == b"0\n1\norders 0 2\n"
    directory.note_high_watermarks({ORDERS: 4})
    directory.close_cleanly({ORDERS: log})
    directory = take(disk)
    assert directory.high_watermark(ORDERS) == 4
    reopen(directory).close()
    directory.rename_removed({ORDERS: bytes(16)})
    assert directory.high_watermark(ORDERS) == 0
    directory.close({})
    assert take(disk).high_watermark(ORDERS) == 0, "a new log of the same name has nothing committed"


def test_the_high_watermark_goes_down_on_disk_before_a_log_is_cut() -> None:
    machine = SimDisk(Random(0))
    disk = machine.mount()
    directory = take(disk)
    log = create(directory)
    for number in range(10):
        append(log, batch(number * 2, 2))
    sync(log, disk)
    directory.note_high_watermarks({ORDERS: 12})
    directory.write_high_watermarks()
    directory.truncate(ORDERS, log, 16)
    assert directory.high_watermark(ORDERS) == 12, "what is cut was not committed"
    directory.truncate(ORDERS, log, 7)
    machine.crash_machine()
    assert take(machine.mount()).high_watermark(ORDERS) == 6


def test_a_start_is_written_down_even_where_the_first_segment_says_the_same(disk: MemoryDisk) -> None:
    directory = take(disk)
    log = create(directory)
    append(log, batch(0, 4))
    log.roll(now_ms=NOW_MS)
    log.advance_start_offset(4)
    log.delete_segments_below(4, now_ms=NOW_MS)
    assert log.segments[0].base_offset == 4
    directory.note_offsets({ORDERS: log})
    directory.write_start_offsets()
    assert offset_checkpoints.read_offsets(disk, offset_checkpoints.START_OFFSETS) == {ORDERS: 4}


def test_the_cleaner_offset_is_written_behind_the_recovery_point(disk: MemoryDisk) -> None:
    directory = take(disk)
    log = create(directory)
    append(log, batch(0, 9))
    sync(log, disk)
    directory.write_cleaner_offset(ORDERS, log, 4)
    assert offset_checkpoints.read_offsets(disk, offset_checkpoints.CLEANER_OFFSETS) == {ORDERS: 4}
    assert offset_checkpoints.read_offsets(disk, offset_checkpoints.RECOVERY_POINTS) == {ORDERS: 9}
    directory.close({ORDERS: log})
    assert take(disk).cleaner_offsets == {ORDERS: 4}


@pytest.mark.parametrize(
    "content",
    [b"", b"0\n", b"0\n1\n", b"1\n0\n", b"0\n1\na 0", b"0\n1\na 0 x\n", b"0\n2\na 0 1\n", b"\xff\n0\n"],
)
def test_a_checkpoint_that_is_not_whole_is_not_read(content: bytes) -> None:
    assert offset_checkpoints.decode_offsets(content) is None


def test_a_checkpoint_reads_back() -> None:
    offsets = {ORDERS: 5, DASHED: 1 << 40}
    assert offset_checkpoints.decode_offsets(offset_checkpoints.encode_offsets(offsets)) == offsets
