"""What a log makes of its files after a stop, clean or not."""

from dataclasses import replace
from random import Random

import pytest

from penstock.records.batch import read_header
from penstock.sim.disk import SimDisk
from penstock.storage import file_names
from penstock.storage.errors import CorruptionError
from penstock.storage.log import Log, LogConfig
from penstock.world.memory_disk import MemoryDisk
from tests.storage.helpers import (
    NOW_MS,
    PATH,
    TOPIC_ID,
    RememberedProducers,
    append,
    batch,
    close_cleanly,
    create_log,
    delete_old_segments,
    open_log,
    placed,
    read_all,
    sync,
)

CONFIG = LogConfig(segment_bytes=1500, index_interval_bytes=100)


@pytest.fixture
def disk() -> MemoryDisk:
    return MemoryDisk()


def fill(log: Log, count: int = 40) -> list[bytes]:
    return [
        append(
            log,
            batch(
                log.end_offset,
                2,
                timestamp=NOW_MS + number,
                size=30,
                producer_id=number % 3,
                sequence=number,
                epoch=number // 10,
            ),
        )
        for number in range(count)
    ]


def log_file(base: int) -> str:
    return f"{PATH}/{file_names.file_name(base, file_names.LOG)}"


def overwrite(disk: MemoryDisk, path: str, content: bytes) -> None:
    disk.remove(path)
    file = disk.open(path, create=True)
    file.append([content])
    file.close()


def content_of(disk: MemoryDisk, path: str) -> bytes:
    file = disk.open(path)
    try:
        return file.read(0, file.size)
    finally:
        file.close()


def damage(disk: MemoryDisk, path: str, position: int, count: int = 1) -> None:
    content = bytearray(content_of(disk, path))
    for index in range(position, position + count):
        content[index] ^= 0xFF
    overwrite(disk, path, bytes(content))


def indexes_of(disk: MemoryDisk) -> dict[str, bytes]:
    kinds = (file_names.INDEX, file_names.TIME_INDEX)
    return {name: content_of(disk, f"{PATH}/{name}") for name in disk.list(PATH) if name.endswith(kinds)}


# ---- clean stops


def test_a_clean_start_reads_no_batches_but_the_last_few(disk: MemoryDisk) -> None:
    producers = RememberedProducers()
    log = create_log(disk, CONFIG, producers)
    written = fill(log)
    close_cleanly(log, disk)
    restored = RememberedProducers()
    log, report = open_log(disk, CONFIG, restored, recovery_point=80, clean=True)
    assert (report.checked_batches, report.problems()) == (0, [])
    assert restored.entries() == producers.entries()
    assert [entry.epoch for entry in log.epochs.entries] == [0, 1, 2, 3]
    assert read_all(log) == written
    assert log.recovery_point == 80
    assert log.unsynced().files == ()


def test_appending_after_a_clean_start_goes_on_with_the_same_segment_and_index(disk: MemoryDisk) -> None:
    log = create_log(disk, LogConfig(index_interval_bytes=100))
    written = fill(log, 20)
    close_cleanly(log, disk)
    log, _ = open_log(disk, LogConfig(index_interval_bytes=100), recovery_point=40, clean=True)
    written += fill(log, 20)
    assert read_all(log) == written
    assert read_all(log, max_bytes=1, start=0) == written
    assert log.offset_of_max_timestamp() is not None
    close_cleanly(log, disk)
    kept = indexes_of(disk)
    log, _ = open_log(disk, LogConfig(index_interval_bytes=100), recovery_point=0)
    close_cleanly(log, disk)
    again = indexes_of(disk)
    assert kept.keys() == again.keys()
    log, _ = open_log(disk, LogConfig(index_interval_bytes=100), recovery_point=80, clean=True)
    assert read_all(log, max_bytes=1) == written


def test_a_missing_index_makes_a_clean_start_look_again(disk: MemoryDisk) -> None:
    log = create_log(disk, CONFIG)
    written = fill(log)
    close_cleanly(log, disk)
    victim = log.segments[1].path(file_names.INDEX)
    disk.remove(victim)
    log, report = open_log(disk, CONFIG, recovery_point=80, clean=True)
    assert report.rebuilt_indexes == 1
    assert read_all(log) == written
    assert disk.exists(victim)


# ---- torn tails


@pytest.mark.parametrize("left", [1, 11, 17, 60, 61, 62, 100])
def test_a_partial_batch_at_the_end_is_cut(disk: MemoryDisk, left: int) -> None:
    log = create_log(disk)
    written = fill(log, 5)
    torn = append(log, batch(10, 2, size=60))
    log.close()
    content = content_of(disk, log_file(0))
    overwrite(disk, log_file(0), content[: len(content) - len(torn) + left])
    log, report = open_log(disk)
    assert read_all(log) == written
    assert report.cut_bytes == left
    assert "torn tail" in report.problems()[0]
    assert disk.size(log_file(0)) == sum(map(len, written))
    again = append(log, batch(10))
    assert read_all(log) == [*written, again]


@pytest.mark.parametrize("tail", [bytes(5), bytes(5000), b"\xff" * 100, b"\x02" * 3000])
def test_zeros_and_rubbish_at_the_end_are_cut(disk: MemoryDisk, tail: bytes) -> None:
    log = create_log(disk)
    written = fill(log, 5)
    log.close()
    overwrite(disk, log_file(0), content_of(disk, log_file(0)) + tail)
    log, report = open_log(disk)
    assert read_all(log) == written
    assert report.cut_bytes == len(tail)


def test_a_last_batch_with_a_wrong_crc_is_cut(disk: MemoryDisk) -> None:
    log = create_log(disk)
    written = fill(log, 5)
    log.close()
    damage(disk, log_file(0), sum(map(len, written)) - 1)
    log, report = open_log(disk)
    assert read_all(log) == written[:-1]
    assert report.damage == []


def test_a_batch_inside_a_torn_batch_is_not_taken_for_one_of_the_log(disk: MemoryDisk) -> None:
    log = create_log(disk)
    written = fill(log, 2)
    embedded = batch(100, 1)
    torn = append(log, batch(4, 1, values=[embedded + bytes(100)], keys=[b"k"]))
    log.close()
    content = content_of(disk, log_file(0))
    overwrite(disk, log_file(0), content[: len(content) - len(torn) + 61 + 20 + len(embedded) + 20])
    log, report = open_log(disk)
    assert read_all(log) == written
    assert report.damage == []


def test_an_empty_segment_behind_a_torn_one_goes(disk: MemoryDisk) -> None:
    log = create_log(disk, CONFIG)
    written = fill(log, 8)
    log.roll(now_ms=NOW_MS)
    log.close()
    damage(disk, log_file(0), sum(map(len, written)) - 1)
    log, report = open_log(disk, CONFIG)
    assert read_all(log) == written[:-1]
    assert report.removed_segments == 1
    assert len(log.segments) == 1


def test_an_empty_segment_behind_a_whole_one_stays(disk: MemoryDisk) -> None:
    log = create_log(disk, CONFIG)
    written = fill(log, 8)
    log.roll(now_ms=NOW_MS)
    log.close()
    log, report = open_log(disk, CONFIG)
    assert report.problems() == []
    assert [segment.base_offset for segment in log.segments] == [0, 16]
    assert read_all(log) == written


# ---- damage that is not a torn tail


def test_damage_with_valid_batches_behind_it_stays_and_is_refused(disk: MemoryDisk) -> None:
    log = create_log(disk)
    written = fill(log, 10)
    log.close()
    damage(disk, log_file(0), sum(map(len, written[:4])) + 70)
    producers = RememberedProducers()
    log, report = open_log(disk, producers=producers)
    assert [(found.first_offset, found.next_offset) for found in report.damage] == [(8, 10)]
    assert "deleting the records up to 10" in report.problems()[0]
    assert log.end_offset == 20
    assert b"".join(read_all_until(log, 8)) == b"".join(written[:4])
    for offset in (8, 9):
        with pytest.raises(CorruptionError):
            log.read(offset, max_bytes=1000, upto_offset=20)
    assert read_all(log, start=10) == written[5:]
    with pytest.raises(CorruptionError):
        list(log.headers(0))
    assert [entry.producer_id for entry in producers.entries()] == [0, 1, 2]


def test_a_log_that_is_of_use_only_whole_ends_at_a_hole_that_was_never_synced(disk: MemoryDisk) -> None:
    log = create_log(disk, CONFIG)
    written = fill(log, 40)
    bases = [segment.base_offset for segment in log.segments]
    log.close()
    damage(disk, log_file(bases[1]), 70)
    log, report = open_log(disk, replace(CONFIG, ends_at_damage=True))
    assert report.damage == []
    assert "cut a torn tail" in report.problems()[0]
    assert log.end_offset == bases[1]
    assert read_all(log) == written[: bases[1] // 2]
    append(log, batch(log.end_offset, 2, epoch=4))
    assert len(read_all(log)) == bases[1] // 2 + 1


def test_a_log_that_is_of_use_only_whole_keeps_damage_in_what_was_synced(disk: MemoryDisk) -> None:
    log = create_log(disk)
    written = fill(log, 10)
    log.close()
    damage(disk, log_file(0), sum(map(len, written[:4])) + 16)  # no batch any more, even at a glance
    log, report = open_log(disk, LogConfig(ends_at_damage=True), recovery_point=12)
    assert [(found.first_offset, found.next_offset) for found in report.damage] == [(8, 10)]
    assert log.end_offset == 20


def test_a_log_that_is_of_use_only_whole_ends_where_a_segment_is_missing(disk: MemoryDisk) -> None:
    log = create_log(disk, CONFIG)
    written = fill(log, 40)
    bases = [segment.base_offset for segment in log.segments]
    log.close()
    disk.remove(log_file(bases[1]))
    log, report = open_log(disk, replace(CONFIG, ends_at_damage=True))
    assert report.damage == []
    assert log.end_offset == bases[1]
    assert read_all(log) == written[: bases[1] // 2]


def test_a_log_that_ends_at_damage_starts_empty_if_its_first_segment_is_missing(
    disk: MemoryDisk,
) -> None:
    log = create_log(disk, CONFIG)
    fill(log, 40)
    log.close()
    disk.remove(log_file(0))
    log, report = open_log(disk, replace(CONFIG, ends_at_damage=True))
    assert report.damage == []
    assert (log.start_offset, log.end_offset) == (0, 0)
    assert read_all(log) == []
    append(log, batch(0, 2, epoch=4))
    assert len(read_all(log)) == 1


def read_all_until(log: Log, offset: int) -> list[bytes]:
    data = log.read(log.start_offset, max_bytes=1 << 20, upto_offset=log.end_offset)
    assert data is not None
    return [bytes(data)]


def test_known_damage_is_found_again_after_a_clean_stop(disk: MemoryDisk) -> None:
    log = create_log(disk)
    written = fill(log, 10)
    log.close()
    damage(disk, log_file(0), sum(map(len, written[:4])) + 70)
    log, _ = open_log(disk)
    close_cleanly(log, disk)
    assert (log.recovery_point, log.checkpoint_offset) == (20, 8)
    log, report = open_log(disk, recovery_point=log.checkpoint_offset, clean=True)
    assert len(report.damage) == 1
    with pytest.raises(CorruptionError):
        log.read(8, max_bytes=1000, upto_offset=20)


def test_deleting_the_records_up_to_the_damage_makes_the_log_whole(disk: MemoryDisk) -> None:
    log = create_log(disk, CONFIG)
    written = fill(log, 20)
    log.close()
    damage(disk, log_file(0), 70)
    log, _ = open_log(disk, CONFIG)
    log.roll(now_ms=NOW_MS)
    log.advance_start_offset(2)
    assert read_all(log) == written[1:]
    log.advance_start_offset(log.segments[1].base_offset)
    delete_old_segments(log, NOW_MS)
    sync(log, disk)
    assert log.checkpoint_offset == 40


def test_bytes_missing_below_the_recovery_point_are_damage_and_their_offsets_are_not_reused(
    disk: MemoryDisk,
) -> None:
    log = create_log(disk)
    written = fill(log, 10)
    log.close()
    overwrite(disk, log_file(0), b"".join(written[:7]))
    log, report = open_log(disk, recovery_point=20)
    assert [(found.first_offset, found.next_offset) for found in report.damage] == [(14, 20)]
    assert log.end_offset == 20
    with pytest.raises(CorruptionError):
        log.read(14, max_bytes=1000, upto_offset=20)
    data = append(log, batch(20))
    assert log.read(20, max_bytes=1000, upto_offset=21) == data


def test_a_missing_segment_in_the_middle_is_damage(disk: MemoryDisk) -> None:
    log = create_log(disk, CONFIG)
    fill(log)
    log.close()
    first, missing, after = (segment.base_offset for segment in log.segments[:3])
    for kind in file_names.SEGMENT_SUFFIXES:
        disk.remove(f"{PATH}/{file_names.file_name(missing, kind)}")
    for recovery_point in (0, 80):
        log, report = open_log(disk, CONFIG, recovery_point=recovery_point)
        assert [(found.first_offset, found.next_offset) for found in report.damage] == [(missing, after)]
        with pytest.raises(CorruptionError):
            log.read(missing, max_bytes=1000, upto_offset=80)
        assert log.read(first, max_bytes=1000, upto_offset=80)
        log.close()


def test_a_log_whose_files_are_all_gone_does_not_give_out_its_offsets_again(disk: MemoryDisk) -> None:
    log = create_log(disk)
    fill(log, 5)
    log.close()
    disk.remove_tree(PATH)
    disk.make_dir(PATH)
    log, _ = open_log(disk, recovery_point=10)
    assert (log.start_offset, log.end_offset) == (10, 10)


def test_offsets_that_were_deleted_are_not_given_out_again(disk: MemoryDisk) -> None:
    log = create_log(disk, CONFIG)
    written = fill(log)
    log.close()
    overwrite(disk, log_file(log.segments[-1].base_offset), b"")
    log, _ = open_log(disk, CONFIG, log_start_offset=79)
    assert (log.start_offset, log.end_offset, log.size) == (79, 79, 0)
    data = append(log, batch(79, epoch=9))
    assert read_all(log) == [data]
    assert log.epochs.epoch_at(79) == 9
    assert read_header(written[-1]).last_offset == 79


def test_a_batch_below_the_recovery_point_is_trusted_until_it_is_read(disk: MemoryDisk) -> None:
    log = create_log(disk, CONFIG)
    written = fill(log)
    sync(log, disk)
    log.close()
    erase_a_header(disk, written)
    log, report = open_log(disk, CONFIG, recovery_point=80)
    assert (report.checked_batches, report.damage) == (0, [])
    with pytest.raises(CorruptionError):
        log.read(5, max_bytes=1000, upto_offset=80)
    assert log.read(0, max_bytes=10, upto_offset=80) == written[0]


def erase_a_header(disk: MemoryDisk, written: list[bytes]) -> None:
    """Of the batch with offsets 4 and 5."""
    start = sum(map(len, written[:2]))
    content = bytearray(content_of(disk, log_file(0)))
    content[start : start + 61] = bytes(61)
    overwrite(disk, log_file(0), bytes(content))


def test_a_start_that_has_to_read_everything_finds_damage_in_what_was_trusted(disk: MemoryDisk) -> None:
    producers = RememberedProducers()
    log = create_log(disk, CONFIG, producers)
    written = fill(log)
    close_cleanly(log, disk)
    erase_a_header(disk, written)
    disk.remove(f"{PATH}/{file_names.LEADER_EPOCHS}")
    restored = RememberedProducers()
    log, report = open_log(disk, CONFIG, restored, recovery_point=80)
    assert [(found.first_offset, found.next_offset) for found in report.damage] == [(4, 6)]
    assert restored.entries() == producers.entries()
    assert read_all(log, start=6) == written[3:]
    with pytest.raises(CorruptionError):
        log.read(5, max_bytes=1000, upto_offset=80)


def test_zeros_over_a_base_offset_do_not_move_a_batch(disk: MemoryDisk) -> None:
    log = create_log(disk)
    written = fill(log, 3)
    log.close()
    content = bytearray(b"".join(written))
    second = len(written[0])
    content[second - 100 : second + 8] = bytes(108)  # the first batch's end, and the second one's offset
    overwrite(disk, log_file(0), bytes(content[: -len(written[2])]))
    log, report = open_log(disk)
    assert log.end_offset == 0, "its CRC holds, but its offset is lost"
    assert report.damage == []


def test_zeros_before_a_batch_are_fine_if_the_next_one_confirms_it(disk: MemoryDisk) -> None:
    log = create_log(disk)
    written = fill(log, 3)
    log.close()
    content = bytearray(b"".join(written))
    second = len(written[0])
    content[second - 100 : second] = bytes(100)
    overwrite(disk, log_file(0), bytes(content))
    log, report = open_log(disk)
    assert [(found.first_offset, found.next_offset) for found in report.damage] == [(0, 2)]
    assert read_all(log, start=2) == written[1:]


def test_batches_of_an_earlier_epoch_are_not_what_follows(disk: MemoryDisk) -> None:
    log = create_log(disk, CONFIG)
    newer = append(log, batch(0, 2, epoch=7))
    log.roll(now_ms=NOW_MS)
    log.close()
    overwrite(disk, log_file(2), batch(2, 2, epoch=5))  # from before a cut, brought back by a crash
    log, _ = open_log(disk, CONFIG)
    assert read_all(log) == [newer]


def test_a_cut_tail_that_comes_back_is_no_damage(disk: MemoryDisk) -> None:
    log = create_log(disk, CONFIG)
    written = fill(log, 8)
    log.roll(now_ms=NOW_MS)
    written += fill(log, 3)
    log.close()
    overwrite(disk, log_file(0), content_of(disk, log_file(0)) + b"torn, cut, and back again" * 10)
    log, report = open_log(disk, CONFIG)
    assert report.damage == []
    assert report.cut_bytes == 250
    assert read_all(log) == written


# ---- indexes


@pytest.mark.parametrize("kind", [file_names.INDEX, file_names.TIME_INDEX])
@pytest.mark.parametrize("content", [None, b"", b"abc", bytes(2400), b"\xff" * 2400, b"\x7f" * 2400])
@pytest.mark.parametrize("recovery_point", [0, 80])
def test_a_wrong_index_is_rebuilt(
    disk: MemoryDisk, kind: str, content: bytes | None, recovery_point: int
) -> None:
    log = create_log(disk, CONFIG)
    written = fill(log)
    close_cleanly(log, disk)
    right = indexes_of(disk)
    for segment in log.segments[:2]:
        disk.remove(segment.path(kind))
        if content is not None:
            overwrite(disk, segment.path(kind), content)
    log, report = open_log(disk, CONFIG, recovery_point=recovery_point)
    assert read_all(log, max_bytes=1) == written
    assert log.offset_for_timestamp(NOW_MS + 15) == (NOW_MS + 15, 30, 1)
    assert report.rebuilt_indexes == (2 if recovery_point else 0), (
        "all indexes behind the recovery point are rebuilt anyway"
    )
    close_cleanly(log, disk)
    assert indexes_of(disk) == right


def test_an_index_from_before_the_crash_is_not_trusted(disk: MemoryDisk) -> None:
    log = create_log(disk, LogConfig(index_interval_bytes=0))
    written = fill(log, 30)
    close_cleanly(log, disk)
    path = f"{PATH}/{file_names.file_name(0, file_names.INDEX)}"
    content = bytearray(content_of(disk, path))
    content[4:8] = (5).to_bytes(4, "big")  # points into the middle of a batch
    overwrite(disk, path, bytes(content))
    log, _ = open_log(disk, LogConfig(index_interval_bytes=0), recovery_point=10)
    assert read_all(log, max_bytes=1) == written


# ---- producers and epochs


def test_producers_come_from_the_snapshot_and_the_batches_behind_it(disk: MemoryDisk) -> None:
    producers = RememberedProducers()
    log = create_log(disk, CONFIG, producers)
    fill(log)
    sync(log, disk)
    log.close()
    for recovery_point in (0, 20, 80):
        restored = RememberedProducers()
        log, _ = open_log(disk, CONFIG, restored, recovery_point=recovery_point)
        assert restored.entries() == producers.entries()
        log.close()
    snapshots = [name for name in disk.list(PATH) if name.endswith(file_names.SNAPSHOT)]
    assert len(snapshots) == len(log.segments) - 1


def test_snapshots_behind_the_recovery_point_are_rebuilt(disk: MemoryDisk) -> None:
    log = create_log(disk, CONFIG)
    written = fill(log)
    close_cleanly(log, disk)
    last = log.segments[-1].base_offset
    overwrite(disk, log_file(last), b"")
    producers = RememberedProducers()
    log, _ = open_log(disk, CONFIG, producers)
    snapshots = [name for name in disk.list(PATH) if name.endswith(file_names.SNAPSHOT)]
    assert snapshots == [
        file_names.file_name(segment.base_offset, file_names.SNAPSHOT) for segment in log.segments[1:]
    ]
    assert [entry.last_sequence for entry in producers.entries()] == [
        max(
            header.last_sequence
            for header in map(read_header, written)
            if header.base_offset < last and header.producer_id == number
        )
        for number in range(3)
    ]


def test_a_broken_snapshot_is_passed_over(disk: MemoryDisk) -> None:
    producers = RememberedProducers()
    log = create_log(disk, CONFIG, producers)
    fill(log)
    close_cleanly(log, disk)
    for name in disk.list(PATH):
        if name.endswith(file_names.SNAPSHOT):
            damage(disk, f"{PATH}/{name}", 12)
    for clean in (True, False):
        restored = RememberedProducers()
        log, _ = open_log(disk, CONFIG, restored, recovery_point=80, clean=clean)
        assert restored.entries() == producers.entries()
        log.close()


def test_leader_epochs_that_were_never_written_come_from_the_batches(disk: MemoryDisk) -> None:
    log = create_log(disk, CONFIG)
    fill(log)
    epochs = log.epochs.entries
    log.close()
    log, _ = open_log(disk, CONFIG)
    assert log.epochs.entries == epochs


def test_a_broken_epoch_checkpoint_is_rebuilt_and_said_so(disk: MemoryDisk) -> None:
    log = create_log(disk, CONFIG)
    fill(log)
    epochs = log.epochs.entries
    close_cleanly(log, disk)
    overwrite(disk, f"{PATH}/{file_names.LEADER_EPOCHS}", b"0\n4\n0 0\n1 2")
    for clean in (True, False):
        log, report = open_log(disk, CONFIG, recovery_point=80, clean=clean)
        assert log.epochs.entries == epochs
        assert report.rebuilt_epochs
        log.close()


def test_epochs_behind_the_end_are_forgotten(disk: MemoryDisk) -> None:
    log = create_log(disk)
    written = fill(log, 20)
    sync(log, disk)
    log.close()
    overwrite(disk, log_file(0), b"".join(written[:5]))
    log, _ = open_log(disk)
    assert [entry.epoch for entry in log.epochs.entries] == [0]


# ---- leftovers


def test_unfinished_files_are_removed(disk: MemoryDisk) -> None:
    log = create_log(disk, CONFIG)
    written = fill(log)
    close_cleanly(log, disk)
    for name in (
        f"{0:020d}.log.deleted",
        f"{0:020d}.index.deleted",
        f"{0:020d}.log.cleaned",
        f"{0:020d}.timeindex.cleaned",
        f"{0:020d}.index.swap",
        f"{999:020d}.index",
        "leader-epoch-checkpoint.tmp",
    ):
        overwrite(disk, f"{PATH}/{name}", b"x")
    log, report = open_log(disk, CONFIG, recovery_point=80, clean=True)
    assert report.problems() == []
    assert read_all(log) == written
    left = set(disk.list(PATH))
    assert not [name for name in left if name.endswith((".deleted", ".cleaned", ".swap", ".tmp"))]
    assert f"{999:020d}.index" not in left


def test_segments_below_the_start_do_not_come_back(disk: MemoryDisk) -> None:
    log = create_log(disk, CONFIG)
    written = fill(log)
    close_cleanly(log, disk)
    bases = [segment.base_offset for segment in log.segments]
    for clean in (True, False):
        log, _ = open_log(disk, CONFIG, recovery_point=80, log_start_offset=bases[2] + 1, clean=clean)
        assert [segment.base_offset for segment in log.segments] == bases[2:]
        assert log.start_offset == bases[2] + 1
        assert read_all(log) == written[bases[2] // 2 :]
        log.close()


def test_a_committed_swap_is_finished(disk: MemoryDisk) -> None:
    config = LogConfig(compact=True, segment_bytes=1500, index_interval_bytes=100)
    log = create_log(disk, config)
    written = fill(log)
    close_cleanly(log, disk)
    replaced = [segment.base_offset for segment in log.segments[:3]]
    kept = [data for data in written if placed(data).header.base_offset < log.segments[3].base_offset]
    survivors = kept[::3]
    if survivors[-1] is not kept[-1]:
        survivors.append(kept[-1])
    overwrite(disk, log_file(0) + file_names.SWAP, b"".join(survivors))
    log, report = open_log(disk, config, recovery_point=80)
    assert replaced[1] not in [segment.base_offset for segment in log.segments]
    assert report.damage == []
    found = read_all(log)
    assert found[: len(survivors)] == survivors
    assert found[len(survivors) :] == written[len(kept) :]


def test_ordinary_starts_say_nothing(disk: MemoryDisk) -> None:
    log = create_log(disk, CONFIG)
    fill(log)
    log.close()
    _, report = open_log(disk, CONFIG)
    assert report.problems() == []
    assert report.checked_batches == 40


def test_a_log_whose_creator_died_before_its_first_sync_keeps_its_id_once_it_is_flushed() -> None:
    for seed in range(100):
        machine = SimDisk(Random(seed))
        append(create_log(machine.mount()), batch(0))
        machine.crash_process()
        disk = machine.mount()
        log, _ = open_log(disk)
        data = append(log, batch(1))
        sync(log, disk)
        machine.crash_machine()
        log, _ = open_log(machine.mount(), recovery_point=2)
        assert log.topic_id == TOPIC_ID
        assert read_all(log)[-1] == data
