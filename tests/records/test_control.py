"""Transaction markers: Kafka's bytes, read and written."""

import pytest

from penstock.records.batch import check_produced, read_header
from penstock.records.builder import build_batch
from penstock.records.control import Marker, MarkerType, build_leader_change, build_marker, read_marker
from penstock.records.errors import CorruptBatchError
from penstock.records.record import Record, read_records

MARKER = Marker(MarkerType.COMMIT, producer_id=7, producer_epoch=3, coordinator_epoch=5)


@pytest.mark.parametrize("type_", list(MarkerType))
def test_a_marker_is_read_as_it_was_written(type_: MarkerType) -> None:
    marker = MARKER._replace(type=type_)
    batch = build_marker(marker, timestamp=99)
    assert read_marker(batch) == marker
    assert read_marker(batch, read_header(batch)) == marker
    assert marker.committed == (type_ is MarkerType.COMMIT)


def test_a_marker_is_a_control_batch_of_its_producer_without_a_sequence_number() -> None:
    batch = build_marker(MARKER, timestamp=99)
    header = read_header(batch)
    assert header.is_control
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, -1)
    assert (header.record_count, header.max_timestamp) == (1, 99)
    (record,) = read_records(batch, limit=1000)
    assert record.key == bytes.fromhex("0000 0001")
    assert record.value == bytes.fromhex("0000 00000005")


def test_a_marker_in_a_produce_request_is_refused() -> None:
    assert not hasattr(check_produced(build_marker(MARKER, timestamp=1), size_max=1000), "crc")


def control(key: bytes | None, value: bytes | None) -> bytes:
    return build_batch([Record(0, 1, key, value)], producer_id=1, transactional=True, control=True)


def test_a_control_batch_of_another_kind_holds_no_marker() -> None:
    assert read_marker(control(bytes.fromhex("0000 0002"), b"leader")) is None


def test_a_leader_begins_with_a_control_batch_that_has_no_producer() -> None:
    batch = build_leader_change(3, [1, 3], timestamp=99)
    header = read_header(batch)
    assert header.is_control
    assert not header.is_transactional
    assert header.producer_id == -1
    assert read_marker(batch) is None
    (record,) = read_records(batch, limit=1000)
    assert record.key == bytes.fromhex("0000 0002")
    assert record.value == bytes.fromhex("0000 00000003 03 00000001 00 00000003 00 01 00")


@pytest.mark.parametrize("value", ["0000 00000005", "0001 00000005", "0000 00000005 ff"])
@pytest.mark.parametrize("key", ["0000 0001", "0001 0001", "0000 0001 ff"])
@pytest.mark.parametrize("headers", [(), (("h", b""),)])
def test_a_marker_is_understood_however_its_record_is_laid_out(key: str, value: str, headers: object) -> None:
    record = Record(0, 1, bytes.fromhex(key), bytes.fromhex(value), headers)
    batch = build_batch([record], producer_id=7, producer_epoch=3, transactional=True, control=True)
    assert read_marker(batch) == MARKER


def test_a_marker_that_compaction_took_away_is_none() -> None:
    emptied = build_batch([], last_offset_delta=0, producer_id=1, transactional=True, control=True)
    assert read_marker(emptied) is None


@pytest.mark.parametrize(
    ("key", "value"), [(b"\0", b""), (None, None), (bytes(4), b"\0\0\0"), (bytes(4), None)]
)
def test_a_marker_that_is_cut_short_is_corrupt(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(CorruptBatchError):
        read_marker(control(key, value))
