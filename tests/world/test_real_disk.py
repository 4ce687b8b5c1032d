"""The machine's disk: the contract, and what only a real file system can show."""

import errno
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.world.real_disk import RealDisk
from penstock.world.real_file import OWN_TAIL_BYTES_MAX
from tests.world.disk_contract import DiskContract, filled


class TestRealDisk(DiskContract):
    @pytest.fixture
    def disk(self, tmp_path: Path) -> RealDisk:
        return RealDisk(str(tmp_path))


class TestRealDiskWithOneDescriptor(DiskContract):
    """Every second call finds its descriptor closed by another file's."""

    @pytest.fixture
    def disk(self, tmp_path: Path) -> RealDisk:
        return RealDisk(str(tmp_path), open_files_max=1)


class TestRealDiskWithoutQuestionsToThePageCache(DiskContract):
    """As on macOS, and on file systems that do not know RWF_NOWAIT."""

    @pytest.fixture
    def disk(self, tmp_path: Path) -> RealDisk:
        disk = RealDisk(str(tmp_path))
        disk.can_ask_page_cache = False
        return disk


@pytest.fixture
def disk(tmp_path: Path) -> RealDisk:
    return RealDisk(str(tmp_path), open_files_max=10)


def descriptors_below(path: Path) -> int:
    links = (os.path.join("/proc/self/fd", name) for name in os.listdir("/proc/self/fd"))
    return sum(os.path.exists(link) and os.readlink(link).startswith(str(path)) for link in links)


@contextmanager
def files_no_larger_than(size: int) -> Iterator[None]:
    """The kernel refuses to grow any file of this process further: a full disk without filling one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.skipif(sys.platform != "linux", reason="counts descriptors in /proc")
def test_open_descriptors_stay_bounded_however_many_files_there_are(disk: RealDisk, tmp_path: Path) -> None:
    files = [disk.open(str(number), create=True) for number in range(100)]
    for turn in range(3):
        for number, file in enumerate(files):
            file.append([b"%d," % (number + turn)])
    assert disk.open_files == 10
    assert descriptors_below(tmp_path) == 10
    assert files[7].read(0, 99) == b"7,8,9,"
    for file in files:
        file.close()
    assert disk.open_files == 0
    assert descriptors_below(tmp_path) == 0


def test_opening_a_file_that_is_there_takes_no_descriptor(disk: RealDisk, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"123")
    file = disk.open("a")
    assert file.size == 3
    assert disk.open_files == 0
    assert file.read(1, 9) == b"23"
    assert disk.open_files == 1


def test_the_least_recently_used_descriptor_goes_first(tmp_path: Path) -> None:
    disk = RealDisk(str(tmp_path), open_files_max=2)
    busy, idle = filled(disk, "busy", b"1"), filled(disk, "idle", b"1")
    busy.append([b"2"])
    filled(disk, "third", b"1")
    os.unlink(tmp_path / "busy")
    os.unlink(tmp_path / "idle")
    assert busy.read(0, 9) == b"12"  # its descriptor was still open
    with pytest.raises(FileNotFoundError):
        idle.read(0, 9)


def test_a_descriptor_in_use_is_not_closed_under_its_user(tmp_path: Path) -> None:
    disk = RealDisk(str(tmp_path), open_files_max=1)
    files = [filled(disk, str(number), b"%d" % number * 1000) for number in range(4)]
    failures: list[BaseException] = []

    def use(number: int) -> None:
        try:
            for turn in range(400):
                other = files[(number + turn) % 4]
                assert set(other.read(0, 1000)) == {ord(other.path)}
                if turn % 50 == 0:
                    other.sync()
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=use, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert disk.open_files <= 4


def test_a_file_removed_in_use_lets_its_descriptor_go(disk: RealDisk, tmp_path: Path) -> None:
    file = filled(disk, "a", b"1" * 1_000_000)
    stop = threading.Event()

    def read_until_it_is_gone() -> None:
        while not stop.is_set():
            try:
                file.read(0, 1_000_000)
            except FileNotFoundError:
                return

    reader = threading.Thread(target=read_until_it_is_gone)
    reader.start()
    disk.remove("a")
    reader.join(timeout=10)
    stop.set()
    assert not reader.is_alive()
    assert disk.open_files == 0


def test_a_failed_append_leaves_the_file_as_it_was(disk: RealDisk, tmp_path: Path) -> None:
    file = filled(disk, "a", b"x" * 1000)
    with files_no_larger_than(1500), pytest.raises(OSError) as refusal:
        file.append([b"y" * 300, b"z" * 300])
    assert refusal.value.errno == errno.EFBIG
    assert file.size == 1000
    assert (tmp_path / "a").read_bytes() == b"x" * 1000
    file.append([b"!"])
    assert file.read(999, 9) == b"x!"


def test_a_failed_sync_is_never_tried_again(disk: RealDisk, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a")  # a pipe cannot be synced: the kernel refuses, as it would after an I/O error
    file = disk.open("a")
    with pytest.raises(OSError):
        file.sync()
    os.unlink(tmp_path / "a")
    (tmp_path / "a").write_bytes(b"1")  # from here on a sync would succeed
    with pytest.raises(OSError):
        file.sync()
    file.close()
    with pytest.raises(OSError):
        disk.open("a").sync()


@pytest.mark.skipif(not hasattr(os, "RWF_NOWAIT"), reason="the system cannot be asked")
def test_what_only_the_device_has_is_not_read_on_the_loop(disk: RealDisk, tmp_path: Path) -> None:
    content = os.urandom(16 << 20)
    file = filled(disk, "a", content)
    assert file.read_cached(0, 16 << 20) == content
    file.sync()
    descriptor = os.open(tmp_path / "a", os.O_RDONLY)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    try:
        # Far from what is looked at below: a refused read makes the system fetch what it was asked for.
        os.preadv(descriptor, [bytearray(1000)], 12 << 20, os.RWF_NOWAIT)
        pytest.skip("this file system lives in memory")
    except BlockingIOError:
        pass
    finally:
        os.close(descriptor)
    # The advice is not an order: a page that the system is busy with stays.
    cold = next(at for at in range(0, 8 << 20, 1 << 20) if file.read_cached(at, 1000) is None)
    assert file.read(cold, 1000) == content[cold : cold + 1000]
    assert file.read_cached(cold, 1000) == content[cold : cold + 1000]
    assert file.read_cached(0, 16 << 20) is None  # having a part is not enough


def test_where_the_page_cache_cannot_be_asked_only_the_own_tail_is_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    disk = RealDisk(str(tmp_path))
    disk.can_ask_page_cache = False
    file = disk.open("a")
    assert file.read_cached(0, 3) is None
    file.append([b"x" * (OWN_TAIL_BYTES_MAX - 10)])
    assert file.read_cached(3, 1) == b"x"
    file.append([b"y" * 20])
    assert file.read_cached(3, 1) is None
    assert file.read_cached(file.size - 20, 100) == b"y" * 20


def test_the_lock_holds_against_another_process(disk: RealDisk, tmp_path: Path) -> None:
    program = (
        "import sys; from penstock.world.real_disk import RealDisk\n"
        "try: RealDisk(sys.argv[1]).lock('.lock')\n"
        "except BlockingIOError: sys.exit(3)"
    )
    take = [sys.executable, "-c", program, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    lock = disk.lock(".lock")
    assert subprocess.run(take, env=environment, check=False).returncode == 3
    lock.release()
    assert subprocess.run(take, env=environment, check=False).returncode == 0


@pytest.mark.skipif(sys.platform != "linux", reason="syncfs is Linux's")
def test_everything_is_synced_in_one_call(disk: RealDisk) -> None:
    filled(disk, "a", b"1")
    assert disk.sync_all() is True


def test_the_root_itself_can_be_created(tmp_path: Path) -> None:
    disk = RealDisk(str(tmp_path / "data" / "here"))
    disk.make_dir("")
    filled(disk, "a", b"1").sync()
    disk.sync_dir("")
    assert (tmp_path / "data" / "here" / "a").read_bytes() == b"1"
