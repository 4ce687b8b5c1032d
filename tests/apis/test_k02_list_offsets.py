import pytest

from penstock.base.errors import ErrorCode
from tests.apis.requests import list_offset
from tests.raw_client import RawClient, batch_of

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6


@pytest.fixture
def written(client: RawClient, topic: str) -> str:
    """Offsets 0 to 3, dated 1000, 3000, 2000, 2500."""
    client.create_topic(topic)
    for timestamp in (1000, 3000, 2000, 2500):
        client.produce(topic, batch_of(b"x", timestamp=timestamp))
    return topic


def test_latest_and_earliest(client: RawClient, written: str):
    latest = list_offset(client, written, LATEST)
    assert (latest.offset, latest.timestamp, latest.leader_epoch) == (4, -1, 0)
    for special in (EARLIEST, EARLIEST_LOCAL):
        earliest = list_offset(client, written, special)
        assert (earliest.offset, earliest.timestamp, earliest.leader_epoch) == (0, -1, 0)


def test_the_record_with_the_newest_timestamp(client: RawClient, written: str):
    newest = list_offset(client, written, MAX_TIMESTAMP)
    assert (newest.offset, newest.timestamp) == (1, 3000)


@pytest.mark.parametrize("special", [LATEST_TIERED, EARLIEST_PENDING_UPLOAD])
def test_nothing_is_tiered(client: RawClient, written: str, special: int):
    answer = list_offset(client, written, special)
    assert (answer.error_code, answer.offset) == (0, -1)


@pytest.mark.parametrize(
    ("timestamp", "found"),
    [(0, (0, 1000)), (1000, (0, 1000)), (1001, (1, 3000)), (2000, (1, 3000)), (3000, (1, 3000))],
)
def test_the_first_record_at_or_after_a_time(
    client: RawClient, written: str, timestamp: int, found: tuple[int, int]
):
    answer = list_offset(client, written, timestamp)
    assert (answer.offset, answer.timestamp) == found


def test_a_time_after_the_newest_record_has_no_offset(client: RawClient, written: str):
    answer = list_offset(client, written, 3001)
    assert (answer.error_code, answer.offset, answer.timestamp) == (0, -1, -1)


def test_a_time_inside_a_batch_finds_the_record_in_it(client: RawClient, topic: str):
    from penstock.records.builder import build_batch
    from penstock.records.record import Record

    client.create_topic(topic)
    client.produce(topic, build_batch([Record(i, 100 * i, None, b"x", ()) for i in range(10)]))
    answer = list_offset(client, topic, 450)
    assert (answer.offset, answer.timestamp) == (5, 500)
    newest = list_offset(client, topic, MAX_TIMESTAMP)
    assert (newest.offset, newest.timestamp) == (9, 900)


@pytest.mark.parametrize("timestamp", [LATEST, EARLIEST, MAX_TIMESTAMP, 0])
def test_an_empty_partition(client: RawClient, topic: str, timestamp: int):
    client.create_topic(topic)
    answer = list_offset(client, topic, timestamp)
    assert answer.error_code == 0
    assert answer.offset == (0 if timestamp in (LATEST, EARLIEST) else -1)


def test_special_timestamps_need_the_version_they_came_with(client: RawClient, written: str):
    for special, since in ((MAX_TIMESTAMP, 7), (EARLIEST_LOCAL, 8), (LATEST_TIERED, 9)):
        assert list_offset(client, written, special, version=since).error_code == 0
        refused = list_offset(client, written, special, version=since - 1)
        assert refused.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert list_offset(client, written, -7).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_unknown_partitions_and_other_epochs_are_refused(client: RawClient, written: str):
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert list_offset(client, "nobody", LATEST).error_code == unknown
    assert list_offset(client, written, LATEST, partition=5).error_code == unknown
    assert list_offset(client, written, LATEST, epoch=9).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert list_offset(client, written, LATEST, epoch=0).error_code == 0
