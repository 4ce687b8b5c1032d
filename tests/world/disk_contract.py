"""What every Disk promises. A test class inherits `DiskContract` and brings a fixture `disk`."""

import errno
import threading

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.world.disk import Disk, File, read_file, write_file_atomically


def filled(disk: Disk, path: str, content: bytes) -> File:
    file = disk.open(path, create=True)
    file.append([content])
    return file


class DiskContract:
    @pytest.fixture
    def disk(self) -> Disk:
        raise AssertionError("the test class brings its own disk")

    def test_a_file_gives_back_what_was_appended(self, disk: Disk) -> None:
        file = disk.open("a.log", create=True)
        assert (file.path, file.size) == ("a.log", 0)
        file.append([b"one", bytearray(b"two"), memoryview(b"three")])
        file.append([])
        file.append([b""])
        file.append([b"!"])
        assert file.size == 12
        assert file.read(0, 100) == b"onetwothree!"
        assert file.read_cached(3, 3) == b"two"

    def test_reading_at_or_past_the_end_gives_nothing(self, disk: Disk) -> None:
        file = filled(disk, "a", b"12345")
        assert file.read(5, 10) == b""
        assert file.read(9, 10) == b""
        assert file.read_cached(5, 10) == b""
        assert file.read_cached(3, 10) == b"45"

    def test_what_was_read_does_not_change_with_the_file(self, disk: Disk) -> None:
        file = filled(disk, "a", b"old" * 1_000_000)
        end, all_of_it = file.read_cached(2_999_997, 3), file.read_cached(0, 3_000_000)
        file.truncate(1)
        file.append([b"new" * 1_000_000])
        assert end == b"old"
        assert all_of_it in (None, b"old" * 1_000_000)

    def test_many_buffers_go_into_one_append(self, disk: Disk) -> None:
        file = disk.open("a", create=True)
        parts = [b"%06d" % number for number in range(5000)]
        file.append(parts)
        assert file.size == 30_000
        assert file.read(0, 30_000) == b"".join(parts)

    def test_a_truncated_file_goes_on_from_its_new_end(self, disk: Disk) -> None:
        file = filled(disk, "a", b"x" * 3_000_000)
        file.truncate(1_500_000)
        file.append([b"end"])
        assert file.size == 1_500_003
        assert file.read(1_499_998, 100) == b"xxend"
        file.truncate(0)
        assert file.read(0, 1) == b""
        assert disk.size("a") == 0

    def test_a_missing_file_is_not_opened_unless_it_is_to_be_created(self, disk: Disk) -> None:
        with pytest.raises(FileNotFoundError):
            disk.open("a")
        with pytest.raises(FileNotFoundError):
            disk.open("nowhere/a", create=True)
        assert not disk.exists("a")

    def test_a_directory_is_not_opened_as_a_file(self, disk: Disk) -> None:
        disk.make_dir("d")
        with pytest.raises(IsADirectoryError):
            disk.open("d")

    def test_two_handles_of_one_file_see_the_same(self, disk: Disk) -> None:
        first = filled(disk, "a", b"12")
        second = disk.open("a", create=True)
        first.append([b"34"])
        assert second.size == 4
        assert second.read(0, 9) == b"1234"
        first.close()
        second.append([b"5"])
        assert second.read(0, 9) == b"12345"

    def test_a_closed_file_is_of_no_more_use(self, disk: Disk) -> None:
        file = filled(disk, "a", b"12")
        file.close()
        file.close()
        for use in (lambda: file.append([b"3"]), lambda: file.read(0, 1), file.sync):
            with pytest.raises(OSError):
                use()
        assert file.path == "a"
        assert read_file(disk, "a") == b"12"

    def test_directories_list_their_names_in_order(self, disk: Disk) -> None:
        disk.make_dir("b/c")
        disk.make_dir("b/c")
        filled(disk, "b/z", b"")
        filled(disk, "b/a", b"")
        assert disk.list() == ["b"]
        assert disk.list("b") == ["a", "c", "z"]
        assert disk.exists("b/c")
        with pytest.raises(FileNotFoundError):
            disk.list("nowhere")

    def test_an_open_file_follows_when_it_is_renamed(self, disk: Disk) -> None:
        file = filled(disk, "a", b"1")
        disk.rename("a", "b")
        file.append([b"2"])
        assert file.path == "b"
        assert disk.list() == ["b"]
        assert read_file(disk, "b") == b"12"

    def test_open_files_follow_when_their_directory_is_renamed(self, disk: Disk) -> None:
        disk.make_dir("topic-0/inner")
        disk.make_dir("topic-01")
        file = filled(disk, "topic-0/a", b"1")
        inner = filled(disk, "topic-0/inner/b", b"2")
        other = filled(disk, "topic-01/a", b"3")
        disk.rename("topic-0", "topic-0.x-delete")
        file.append([b"1"])
        inner.append([b"2"])
        assert file.path == "topic-0.x-delete/a"
        assert inner.path == "topic-0.x-delete/inner/b"
        assert other.path == "topic-01/a"
        assert read_file(disk, "topic-0.x-delete/inner/b") == b"22"

    def test_a_directory_is_not_renamed_to_one_that_holds_something(self, disk: Disk) -> None:
        disk.make_dir("a")
        disk.make_dir("b")
        filled(disk, "a/1", b"1").close()
        filled(disk, "b/2", b"2").close()
        with pytest.raises(OSError) as refused:
            disk.rename("a", "b")
        assert refused.value.errno in (errno.ENOTEMPTY, errno.EEXIST)
        assert (disk.list("a"), disk.list("b")) == (["1"], ["2"])

    def test_a_rename_replaces_the_target_and_its_handles(self, disk: Disk) -> None:
        old = filled(disk, "log", b"old")
        new = filled(disk, "log.swap", b"new")
        disk.rename("log.swap", "log")
        assert read_file(disk, "log") == b"new"
        with pytest.raises(FileNotFoundError):
            old.read(0, 3)
        with pytest.raises(FileNotFoundError):
            old.append([b"x"])
        assert new.read(0, 3) == b"new"
        with pytest.raises(FileNotFoundError):
            disk.rename("nowhere", "log")

    def test_a_removed_file_is_gone_for_its_handles_too(self, disk: Disk) -> None:
        file = filled(disk, "a", b"1")
        disk.remove("a")
        disk.remove("a")
        assert not disk.exists("a")
        with pytest.raises(FileNotFoundError):
            file.read(0, 1)
        again = filled(disk, "a", b"2")
        with pytest.raises(FileNotFoundError):
            file.append([b"x"])
        file.close()
        assert again.read(0, 9) == b"2"

    def test_a_tree_is_removed_with_all_it_holds(self, disk: Disk) -> None:
        disk.make_dir("t/u")
        disk.make_dir("t2")
        file = filled(disk, "t/u/a", b"1")
        disk.remove_tree("t")
        disk.remove_tree("t")
        assert disk.list() == ["t2"]
        with pytest.raises(FileNotFoundError):
            file.read(0, 1)

    def test_syncing_succeeds_on_what_is_there(self, disk: Disk) -> None:
        disk.make_dir("d")
        file = filled(disk, "d/a", b"1")
        file.sync()
        disk.sync_dir("d")
        disk.sync_dir("")
        disk.sync_all()
        with pytest.raises(FileNotFoundError):
            disk.sync_dir("nowhere")

    def test_a_small_file_is_replaced_in_one_step(self, disk: Disk) -> None:
        disk.make_dir("d")
        write_file_atomically(disk, "d/meta", b"1")
        write_file_atomically(disk, "d/meta", b"2")
        assert read_file(disk, "d/meta") == b"2"
        assert disk.list("d") == ["meta"]

    def test_a_lock_is_held_by_one_until_it_is_released(self, disk: Disk) -> None:
        lock = disk.lock(".lock")
        with pytest.raises(BlockingIOError):
            disk.lock(".lock")
        lock.release()
        lock.release()
        disk.lock(".lock").release()

    def test_usage_says_how_much_there_is(self, disk: Disk) -> None:
        usage = disk.usage()
        assert 0 < usage.usable <= usage.total

    def test_one_thread_reads_while_another_appends(self, disk: Disk) -> None:
        file = disk.open("a", create=True)
        numbers = b"".join(number.to_bytes(8) for number in range(50_000))
        wrong: list[int] = []
        done = threading.Event()

        def check() -> None:
            position = 0
            while not (done.is_set() and position >= file.size):
                data = file.read(position, 30_000)
                if data != numbers[position : position + len(data)]:
                    wrong.append(position)
                    return
                position += len(data)

        reader = threading.Thread(target=check)
        reader.start()
        for start in range(0, len(numbers), 4000):
            file.append([numbers[start : start + 1000], numbers[start + 1000 : start + 4000]])
        done.set()
        reader.join()
        assert wrong == []

    @settings(
        max_examples=60,
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors],
    )
    @given(
        st.lists(
            st.one_of(
                st.tuples(st.just("append"), st.integers(0, 2_500_000)),
                st.tuples(st.just("truncate"), st.floats(0, 1)),
                st.tuples(st.just("read"), st.tuples(st.floats(0, 1), st.integers(0, 2_500_000))),
            ),
            max_size=12,
        )
    )
    def test_any_sequence_of_changes_matches_a_plain_string(self, disk: Disk, steps: list) -> None:
        disk.remove("model")
        file = disk.open("model", create=True)
        model = b""
        for index, (step, argument) in enumerate(steps):
            if step == "append":
                pattern = bytes([index + 65, index + 97, 48 + index]) * (argument // 3 + 1)
                file.append([pattern[: argument // 2], pattern[argument // 2 : argument]])
                model += pattern[:argument]
            elif step == "truncate":
                size = int(len(model) * argument)
                file.truncate(size)
                model = model[:size]
            else:
                position, count = int(len(model) * argument[0]), argument[1]
                assert file.read(position, count) == model[position : position + count]
                assert file.read_cached(position, count) in (None, model[position : position + count])
            assert file.size == len(model)
        assert read_file(disk, "model") == model
        file.close()
