"""A full disk: whatever a log was about to write, it is as it was, and goes on when there is room again."""

import errno
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from penstock.base.errors import StorageError
from penstock.base.ids import TopicPartition
from penstock.sim.disk import SimDisk
from penstock.storage.data_directory import CLEAN_SHUTDOWN, DataDirectory
from penstock.storage.errors import NoRoomError
from penstock.storage.log import Log, LogConfig
from penstock.world.real_entropy import RealEntropy
from tests.storage.helpers import (
    NOW_MS,
    PATH,
    TOPIC_ID,
    RememberedProducers,
    append,
    batch,
    create_log,
    open_log,
    placed,
    read_all,
    sync,
)

SMALL = LogConfig(segment_bytes=300)


class _RefusingFile:
    def __init__(self, file: Any, disk: "RefusingDisk") -> None:
        self._file = file
        self._disk = disk

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def append(self, data: Any) -> None:
        if self._file.path.endswith(self._disk.refused):
            raise OSError(self._disk.number, "refused", self._file.path)
        self._file.append(data)


class RefusingDisk:
    """Refuses appends to files whose paths end with `refused`, with an error of its own."""

    def __init__(self, number: int = errno.ENOSPC) -> None:
        self._disk = SimDisk(Random(0)).mount()
        self.number = number
        self.refused: tuple[str, ...] = ()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._disk, name)

    def open(self, path: str, *, create: bool = False) -> Any:
        return _RefusingFile(self._disk.open(path, create=create), self)


@pytest.fixture
def disk() -> RefusingDisk:
    return RefusingDisk()


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".snapshot"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_segment_that_cannot_be_begun_for_lack_of_room_is_begun_later(suffix: str, number: int) -> None:
    disk = RefusingDisk(number)
    log = create_log(disk, config=LogConfig(segment_bytes=300, index_interval_bytes=1))
    written = [append(log, batch(number_)) for number_ in range(3)]
    disk.refused = (suffix,)
    with suppress(NoRoomError):
        while len(written) < 10:
            written.append(append(log, batch(len(written))))
    assert len(log.segments) == 1, "there was no room for a second one"
    assert log.failed is None
    assert read_all(log) == written, "what is there can be read"
    disk.refused = ()
    for offset in range(log.end_offset, 12):
        written.append(append(log, batch(offset)))
    assert len(log.segments) > 1
    assert read_all(log) == written
    again, report = open_log(disk, config=LogConfig(segment_bytes=300), recovery_point=0)
    assert report.problems() == []
    assert read_all(again) == written


def test_what_went_before_a_segment_that_finds_no_room_stays(disk: RefusingDisk) -> None:
    log = create_log(disk, config=SMALL)
    batches = [batch(offset) for offset in range(6)]
    disk.refused = (".snapshot",)
    with pytest.raises(NoRoomError):
        log.append([placed(data) for data in batches], now_ms=NOW_MS)
    kept = log.end_offset
    assert 0 < kept < 6
    disk.refused = ()
    log.append([placed(data) for data in batches[kept:]], now_ms=NOW_MS)
    assert read_all(log) == batches


def test_index_entries_that_find_no_room_wait_in_memory(disk: RefusingDisk) -> None:
    log = create_log(disk, config=LogConfig(index_interval_bytes=1))
    disk.refused = ("index",)
    written = [append(log, batch(offset)) for offset in range(1100)]
    assert log.failed is None
    assert read_all(log, start=17)[:3] == written[17:20]
    disk.refused = ()
    written += [append(log, batch(offset)) for offset in range(1100, 1103)]
    log.roll(now_ms=NOW_MS)
    assert disk.size(f"{PATH}/{0:020d}.index") > 0
    assert read_all(log) == written


def test_leader_epochs_that_find_no_room_keep_the_checkpoint_below_them_until_they_are_written(
    disk: RefusingDisk,
) -> None:
    log = create_log(disk)
    append(log, batch(0, epoch=1))
    sync(log, disk)
    disk.refused = ("leader-epoch-checkpoint.tmp",)
    append(log, batch(1, epoch=5))
    append(log, batch(2, epoch=5))
    sync(log, disk)
    assert log.failed is None
    assert log.recovery_point == 3, "the records are on the device"
    assert log.checkpoint_offset == 1, "after a crash the batches tell which epoch began where"
    crashed, _ = open_log(disk, recovery_point=log.checkpoint_offset)
    assert crashed.epochs.entries == log.epochs.entries
    disk.refused = ()
    plan = log.unsynced()
    assert log.checkpoint_offset == 1, "the file is not on the device yet"
    plan.run(disk)
    log.synced(plan)
    assert log.checkpoint_offset == 3


def test_a_cut_is_part_of_what_the_leader_epochs_lack(disk: RefusingDisk) -> None:
    log = create_log(disk)
    for offset in range(4):
        append(log, batch(offset, epoch=offset))
    sync(log, disk)
    disk.refused = ("leader-epoch-checkpoint.tmp",)
    log.truncate_to(2)
    append(log, batch(2, epoch=7))
    sync(log, disk)
    assert log.checkpoint_offset == 2
    crashed, _ = open_log(disk, recovery_point=log.checkpoint_offset)
    assert crashed.epochs.entries == log.epochs.entries


def test_any_other_error_at_the_leader_epochs_is_final(disk: RefusingDisk) -> None:
    log = create_log(disk)
    append(log, batch(0))
    disk.refused, disk.number = ("leader-epoch-checkpoint.tmp",), errno.EIO
    with pytest.raises(StorageError, match="leader epoch checkpoint"):
        log.unsynced()
    assert log.failed is not None


def test_a_log_can_be_emptied_on_a_full_disk(disk: RefusingDisk) -> None:
    log = create_log(disk)
    append(log, batch(0))
    disk.faults.full = True
    log.truncate_fully(0, now_ms=NOW_MS)
    assert (log.start_offset, log.end_offset, log.failed) == (0, 0, None)
    disk.faults.full = False
    assert append(log, batch(0)) == read_all(log)[0]


def _directory(disk: RefusingDisk) -> DataDirectory:
    return DataDirectory.open(disk, node_id=1, entropy=RealEntropy())


def _log_in(directory: DataDirectory, name: str) -> Log:
    return directory.create_log(
        TopicPartition(name, 0),
        topic_id=TOPIC_ID,
        config=LogConfig(),
        producers=RememberedProducers(),
        now_ms=NOW_MS,
    )


def test_a_stop_on_a_full_disk_leaves_no_mark_of_a_clean_one_and_loses_nothing(disk: RefusingDisk) -> None:
    directory = _directory(disk)
    log = _log_in(directory, "orders")
    data = append(log, batch(0))
    disk.faults.full = True
    assert "no room" in str(directory.close_cleanly({TopicPartition("orders", 0): log}))
    disk.faults.full = False
    assert not disk.exists(CLEAN_SHUTDOWN)
    again = _directory(disk)
    opened, _ = again.open_log(
        TopicPartition("orders", 0), config=LogConfig(), producers=RememberedProducers(), now_ms=NOW_MS
    )
    assert read_all(opened) == [data]


def test_retention_makes_room_on_a_full_disk(disk: RefusingDisk) -> None:
    log = create_log(disk, config=LogConfig(segment_bytes=100, index_interval_bytes=1, retention_ms=1000))
    for offset in range(4):
        append(log, batch(offset))
    disk.refused = ("",)
    new_start = log.expire(NOW_MS + 2000)
    assert new_start == 3, "the active segment stays: there is no room for another one"
    before = disk.list(PATH)
    log.remove_indexes_below(new_start)
    gone = set(before) - set(disk.list(PATH))
    assert gone == {f"{base:020d}{kind}" for base in range(3) for kind in (".index", ".timeindex")}
    assert log.delete_segments_below(new_start, now_ms=NOW_MS) == 3
    assert log.failed is None


def test_segments_whose_indexes_made_room_are_whole_if_a_crash_brings_them_back(disk: RefusingDisk) -> None:
    log = create_log(disk, config=LogConfig(segment_bytes=100, retention_ms=1000))
    written = [append(log, batch(offset)) for offset in range(4)]
    new_start = log.expire(NOW_MS + 2000)
    assert new_start is not None
    log.remove_indexes_below(new_start)
    crashed, _ = open_log(disk, recovery_point=4, config=log.config)
    assert read_all(crashed) == written, "a start that finds the segments again makes their indexes again"
