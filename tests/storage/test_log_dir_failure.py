"""A failed write to files that all logs share fails the log directory for good; one to a log's file only that log."""

import errno
import os
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from penstock.storage.log_dir_failure import WatchedDisk
from penstock.world.disk import Disk, File, write_file_atomically
from penstock.world.memory_disk import MemoryDisk
from tests.world.disk_contract import DiskContract

LOG = "orders-0"


def is_of_log(directory: str) -> bool:
    return directory.startswith(LOG)


class TestWatchedDisk(DiskContract):
    @pytest.fixture
    def disk(self) -> WatchedDisk:
        return WatchedDisk(MemoryDisk(), is_of_log=is_of_log)


class FailingFile:
    def __init__(self, disk: "FailingDisk", file: File) -> None:
        self._disk = disk
        self._file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def append(self, data: Sequence[bytes]) -> None:
        self._disk.fail_if_due()
        self._file.append(data)

    def truncate(self, size: int) -> None:
        self._disk.fail_if_due()
        self._file.truncate(size)

    def sync(self) -> None:
        self._disk.fail_if_due()


class FailingDisk:
    """A disk in memory of which every change fails for as long as `number` says with which error."""

    def __init__(self) -> None:
        self.number: int | None = None
        self._disk = MemoryDisk()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._disk, name)

    def fail_if_due(self) -> None:
        if self.number is not None:
            raise OSError(self.number, os.strerror(self.number))

    def open(self, path: str, *, create: bool = False) -> Any:
        if create:
            self.fail_if_due()
        return FailingFile(self, self._disk.open(path, create=create))

    def make_dir(self, path: str) -> None:
        self.fail_if_due()
        self._disk.make_dir(path)

    def rename(self, source: str, target: str) -> None:
        self.fail_if_due()
        self._disk.rename(source, target)

    def remove(self, path: str) -> None:
        self.fail_if_due()
        self._disk.remove(path)

    def sync_dir(self, path: str) -> None:
        self.fail_if_due()

    def sync_all(self) -> bool:
        self.fail_if_due()
        return True


def in_file(path: str, change: Callable[[File], None]) -> Callable[[Disk], None]:
    return lambda disk: change(disk.open(path))


SHARED: dict[str, Callable[[Disk], object]] = {
    "a file of its own is created": lambda disk: disk.open("new", create=True),
    "a file of its own grows": in_file("own", lambda file: file.append([b"x"])),
    "a file of its own is cut": in_file("own", lambda file: file.truncate(0)),
    "a file of its own is synced": in_file("own", lambda file: file.sync()),
    "the metadata are synced": in_file("__metadata/log", lambda file: file.sync()),
    "a file of its own is renamed": lambda disk: disk.rename("own", "other"),
    "a file of its own is removed": lambda disk: disk.remove("own"),
    "a log is set aside": lambda disk: disk.rename(LOG, f"{LOG}-delete"),
    "a log's directory is made": lambda disk: disk.make_dir(f"{LOG}1"),
    "its names are synced": lambda disk: disk.sync_dir(""),
    "everything is synced": lambda disk: disk.sync_all(),
}

A_LOGS: dict[str, Callable[[Disk], object]] = {
    "a segment is created": lambda disk: disk.open(f"{LOG}/new", create=True),
    "a segment grows": in_file(f"{LOG}/own", lambda file: file.append([b"x"])),
    "a segment is synced": in_file(f"{LOG}/own", lambda file: file.sync()),
    "a segment is renamed": lambda disk: disk.rename(f"{LOG}/own", f"{LOG}/other"),
    "a segment is removed": lambda disk: disk.remove(f"{LOG}/own"),
    "its names are synced": lambda disk: disk.sync_dir(LOG),
}


class Told:
    """A watched disk with a file in every kind of directory, and the failures its listener was called with."""

    def __init__(self) -> None:
        self.below = FailingDisk()
        self.disk = WatchedDisk(self.below, is_of_log=is_of_log)
        self.reasons: list[str] = []
        self.disk.on_failed = self.reasons.append
        for directory in (LOG, "__metadata"):
            self.disk.make_dir(directory)
        for path in ("own", "__metadata/log", f"{LOG}/own"):
            self.disk.open(path, create=True).append([b"content"])


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.mark.parametrize("change", SHARED)
def test_a_failed_shared_file_fails_the_directory_for_good_with_one_report(told: Told, change: str) -> None:
    told.below.number = errno.EIO
    with pytest.raises(OSError, match="Input/output error"):
        SHARED[change](told.disk)
    assert told.reasons == [told.disk.failed] == ["[Errno 5] Input/output error"]
    told.below.number = None
    for another in SHARED.values():
        with pytest.raises(OSError, match="has failed before"):
            another(told.disk)
    assert len(told.reasons) == 1


@pytest.mark.parametrize("change", A_LOGS)
def test_a_failed_file_of_a_log_does_not_fail_the_directory(told: Told, change: str) -> None:
    told.below.number = errno.EIO
    with pytest.raises(OSError, match="Input/output error"):
        A_LOGS[change](told.disk)
    assert told.disk.failed is None


@pytest.mark.parametrize("change", SHARED)
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EMFILE])
def test_errors_that_may_pass_do_not_fail_the_directory(told: Told, change: str, number: int) -> None:
    told.below.number = number
    with pytest.raises(OSError):
        SHARED[change](told.disk)
    assert told.disk.failed is None
    told.below.number = None
    SHARED[change](told.disk)


def test_a_log_removed_from_outside_does_not_fail_the_directory(told: Told) -> None:
    told.below.remove_tree(LOG)
    with pytest.raises(FileNotFoundError):
        told.disk.rename(LOG, f"{LOG}-delete")
    assert told.disk.failed is None


def test_logs_can_be_written_when_the_directory_has_failed(told: Told) -> None:
    told.below.number = errno.EROFS
    with pytest.raises(OSError):
        write_file_atomically(told.disk, "own", b"new")
    told.below.number = None
    for change in A_LOGS.values():
        change(told.disk)
