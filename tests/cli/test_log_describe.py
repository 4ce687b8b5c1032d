"""`penstock log describe` on files of our own making, some of them damaged. Foreign tests try Kafka's."""

from collections.abc import Sequence
from pathlib import Path
from struct import pack

import pytest
from crc32c import crc32c

from penstock.records.builder import build_batch
from penstock.records.compression import Codec
from penstock.records.producer import ProducerEntry
from penstock.records.record import Record
from penstock.storage.producer_snapshots import encode_snapshot
from tests.cli.running import Penstock

NAME = "00000000000000000010"
TIME_MS = 1_763_281_800_000


def batches() -> list[bytes]:
    """Offsets 10-11, 12 and 20-22 with a gap before, as compaction leaves one."""
    return [
        build_batch(
            [Record(10, TIME_MS, b"k", b"v", (("h", b"1"),)), Record(11, TIME_MS + 5, None, None)],
            base_offset=10,
            leader_epoch=3,
        ),
        build_batch(
            [Record(12, TIME_MS + 7, b"k2", b"tab\there", ())],
            base_offset=12,
            codec=Codec.ZSTD,
            producer_id=7,
            producer_epoch=1,
            base_sequence=40,
            leader_epoch=3,
        ),
        build_batch(
            [Record(offset, TIME_MS + 9, None, b"x" * 100) for offset in (20, 21, 22)],
            base_offset=20,
            leader_epoch=4,
        ),
    ]


def segment(folder: Path, parts: Sequence[bytes]) -> Path:
    path = folder / f"{NAME}.log"
    path.write_bytes(b"".join(parts))
    return path


def test_batches_are_a_table(offline: Penstock, tmp_path: Path) -> None:
    path = segment(tmp_path, batches())
    outcome = offline("log", "describe", path)
    assert outcome.code == 0
    first, second, third = (len(batch) for batch in batches())
    assert [line.split() for line in outcome.lines[1:]] == [
        ["POSITION", "OFFSETS", "RECORDS", "SIZE", "CODEC", "NEWEST", "PRODUCER", "EPOCH", "NOTES"],
        f"0 10-11 2 {first} none 2025-11-16T08:30:00.005Z - 3 -".split(),
        f"{first} 12-12 1 {second} zstd 2025-11-16T08:30:00.007Z 7/1/40 3 -".split(),
        f"{first + second} 20-22 3 {third} none 2025-11-16T08:30:00.009Z - 4 -".split(),
    ]


def test_records_are_shown_on_request(offline: Penstock, tmp_path: Path) -> None:
    outcome = offline("log", "describe", "--records", segment(tmp_path, batches()))
    rows = [line.split() for line in outcome.lines]
    assert ["10", "2025-11-16T08:30:00.000Z", "k", "v", "h=1"] in rows
    assert ["11", "2025-11-16T08:30:00.005Z", "null", "null", "-"] in rows
    assert ["12", "2025-11-16T08:30:00.007Z", "k2", "tab\\there", "-"] in rows


def test_json_has_a_line_per_batch_with_its_records(offline: Penstock, tmp_path: Path) -> None:
    outcome = offline("log", "describe", "--records", "--json", segment(tmp_path, batches()))
    first, second, third = outcome.documents
    assert [each["kind"] for each in outcome.documents] == ["batch"] * 3
    assert (first["base_offset"], first["last_offset"], first["leader_epoch"]) == (10, 11, 3)
    assert first["records"][0] == {
        "offset": 10,
        "timestamp": TIME_MS,
        "key": "k",
        "value": "v",
        "headers": [["h", "1"]],
    }
    assert (second["codec"], second["producer_id"], second["base_sequence"]) == ("zstd", 7, 40)
    assert third["problem"] is None


def test_a_changed_byte_is_found_and_the_batches_behind_it_are_still_shown(
    offline: Penstock, tmp_path: Path
) -> None:
    first, second, third = batches()
    damaged = bytearray(second)
    damaged[-1] ^= 1
    outcome = offline("log", "describe", segment(tmp_path, [first, bytes(damaged), third]))
    assert outcome.code == 1
    assert outcome.err == "penstock: 1 problem found in 1 file\n"
    assert (
        f"  WRONG at position {len(first)}: wrong CRC: its bytes have changed since it was written"
        in outcome.lines
    )
    assert any("20-22" in line for line in outcome.lines)


@pytest.mark.parametrize("missing", [1, 150])
def test_a_torn_tail_is_told_from_damage(offline: Penstock, tmp_path: Path, missing: int) -> None:
    parts = batches()
    outcome = offline("log", "describe", segment(tmp_path, [*parts[:2], parts[2][:-missing]]))
    assert outcome.code == 1
    assert f"the batch at offset 20 lacks {missing} bytes: a torn write" in outcome.out


@pytest.mark.parametrize(
    ("tail", "problem"),
    [
        (b"\1" * 20, "20 bytes are left, less than a batch's header: a torn write"),
        (bytes(100), "100 bytes are left that begin with zeros: never written to"),
        (b"\7" * 100, "no batch begins here (magic 7, length 117901063); the 100 bytes from here on"),
    ],
)
def test_what_is_no_batch_ends_the_walk(offline: Penstock, tmp_path: Path, tail: bytes, problem: str) -> None:
    outcome = offline("log", "describe", segment(tmp_path, [*batches(), tail]))
    assert outcome.code == 1
    assert problem in outcome.out


def test_offsets_that_fall_are_wrong(offline: Penstock, tmp_path: Path) -> None:
    first, second, _ = batches()
    outcome = offline("log", "describe", "--json", segment(tmp_path, [second, first]))
    assert outcome.code == 1
    assert outcome.documents[-1] == {
        "file": str(tmp_path / f"{NAME}.log"),
        "kind": "problem",
        "position": len(second),
        "problem": "offset 10 comes after 12: offsets must rise",
    }


def test_records_that_are_not_what_the_header_says_are_found(offline: Penstock, tmp_path: Path) -> None:
    honest = build_batch([Record(10, TIME_MS, None, b"v")], base_offset=10)
    lying = bytearray(honest)
    lying[57:61] = pack(">i", 2)
    lying[17:21] = pack(">I", crc32c(bytes(lying[21:])))
    path = segment(tmp_path, [bytes(lying)])
    assert offline("log", "describe", path).code == 0
    outcome = offline("log", "describe", "--records", path)
    assert outcome.code == 1
    assert "its records cannot be read: " in outcome.out


def test_an_index_is_checked_against_its_segment(offline: Penstock, tmp_path: Path) -> None:
    first, second, _ = batches()
    segment(tmp_path, batches())
    index = tmp_path / f"{NAME}.index"
    index.write_bytes(pack(">iiii", 2, len(first), 12, len(first) + len(second)) + bytes(80))
    outcome = offline("log", "describe", index)
    assert outcome.code == 0
    assert [line.split() for line in outcome.lines[2:]] == [
        ["12", str(len(first))],
        ["22", str(len(first) + len(second))],
    ]
    index.write_bytes(pack(">ii", 2, len(first) + 1))
    outcome = offline("log", "describe", index)
    assert outcome.code == 1
    assert f"no batch with offset 12 begins at position {len(first) + 1} of {NAME}.log" in outcome.out


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (pack(">qiqi", 5, 1, 4, 2), "comes after (5, 11): both must rise"),
        (pack(">qi", 5, 1) + b"xyz", "3 bytes are left, less than an entry"),
    ],
)
def test_a_time_index_that_cannot_be_right_is_found(
    offline: Penstock, tmp_path: Path, content: bytes, problem: str
) -> None:
    path = tmp_path / f"{NAME}.timeindex"
    path.write_bytes(content)
    outcome = offline("log", "describe", path)
    assert outcome.code == 1
    assert problem in outcome.out


def test_a_snapshot_shows_its_producers_or_that_it_is_not_whole(offline: Penstock, tmp_path: Path) -> None:
    path = tmp_path / f"{NAME}.snapshot"
    content = encode_snapshot([ProducerEntry(7, 1, 40, 12, 0, TIME_MS, -1, -1)])
    path.write_bytes(content)
    outcome = offline("log", "describe", path)
    assert outcome.lines[-1].split() == ["7", "1", "40", "12", "2025-11-16T08:30:00.000Z", "-"]
    path.write_bytes(content[:-1])
    outcome = offline("log", "describe", path)
    assert outcome.code == 1
    assert "the snapshot is not whole" in outcome.out


def test_a_directory_is_all_its_files_and_an_empty_one_is_an_error(offline: Penstock, tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    assert "there are no segments in" in offline("log", "describe", folder).err
    segment(folder, batches())
    (folder / f"{NAME}.timeindex").write_bytes(b"")
    (folder / "leader-epoch-checkpoint").write_text("0\n0\n")
    outcome = offline("log", "describe", folder)
    assert outcome.code == 0
    assert [line for line in outcome.lines if line.startswith(str(folder))] == [
        f"{folder}/{NAME}.log ({sum(map(len, batches()))} B)",
        f"{folder}/{NAME}.timeindex (0 B)",
    ]


def test_describing_a_missing_file_or_no_log_file_is_an_error(offline: Penstock, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    assert "is none of a log's files" in offline("log", "describe", tmp_path / "notes.txt").err
    assert offline("log", "describe", tmp_path / "gone.log").err.endswith("gone.log does not exist\n")


def partition(data_dir: Path, name: str, *, topic_id: str = "AQEBAQEBAQEBAQEBAQEBAQ") -> None:
    (data_dir / name).mkdir()
    segment(data_dir / name, batches())
    (data_dir / name / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}\n")


def test_a_data_directory_is_a_table_of_its_partitions_with_those_that_the_metadata_do_not_know(
    offline: Penstock, tmp_path: Path
) -> None:
    unique = "0123456789abcdef" * 2
    for name in ("orders-0", "photos-1", f"photos-2.{unique}-stray", f"old-0.{unique}-delete"):
        partition(tmp_path, name)
    (tmp_path / "holidays-2024").mkdir()
    (tmp_path / "unknown-partitions").write_text('["photos-1", "gone-0"]')
    size = sum(each.stat().st_size for each in (tmp_path / "orders-0").iterdir())
    outcome = offline("log", "describe", tmp_path)
    assert outcome.code == 0
    assert outcome.lines[0] == f"{tmp_path} (4 partitions)"
    assert outcome.lines[1].split() == ["DIRECTORY", "TOPIC", "ID", "SEGMENTS", "SIZE", "STATE"]
    states = {line.split()[0]: line.split(maxsplit=5)[-1].strip() for line in outcome.lines[2:]}
    assert states == {
        f"old-0.{unique}-delete": "deleted; the broker removes the files if the metadata record the deletion",
        "orders-0": "-",
        "photos-1": "the metadata do not know it; the broker leaves it alone",
        f"photos-2.{unique}-stray": "renamed because a new partition needed its name; the broker leaves it alone",
    }
    lines = offline("log", "describe", tmp_path, "--json").documents
    assert lines[1] == {
        "file": str(tmp_path),
        "kind": "partition directory",
        "directory": "orders-0",
        "topic_id": "AQEBAQEBAQEBAQEBAQEBAQ",
        "segments": 1,
        "size": size,
        "state": None,
    }
    assert [line["state"] for line in lines] == ["deleted", None, "unknown", "stray"]


def test_describing_a_partition_unknown_to_the_metadata_says_so(offline: Penstock, tmp_path: Path) -> None:
    partition(tmp_path, "photos-1")
    partition(tmp_path, "orders-0")
    (tmp_path / "unknown-partitions").write_text('["photos-1"]')
    outcome = offline("log", "describe", tmp_path / "photos-1")
    assert outcome.code == 0
    assert outcome.lines[0].startswith(f"{tmp_path / 'photos-1'}: the metadata did not know this partition")
    assert "the metadata" not in "\n".join(offline("log", "describe", tmp_path / "orders-0").lines)
