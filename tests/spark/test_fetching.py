"""What a task does with its ranges, on a real broker and without Spark."""

import gc
import threading
import time
from collections.abc import Iterator

import pyarrow as pa
import pytest

from penstock.base.ids import TopicPartition
from penstock.client.blocking import BlockingClient
from penstock.client.client import ClientSettings
from penstock.client.producer import NewRecord
from penstock.spark import fetching
from penstock.spark.columns import schema_of
from penstock.spark.connecting import ClusterAddress, connected
from penstock.spark.fetching import ReadRules, read_ranges
from penstock.spark.planning import ANSWER_BYTES, OffsetRange
from penstock.testing import EmbeddedBroker
from tests.spark.writing import Topics

pytestmark = pytest.mark.xdist_group("spark")

RULES = ReadRules(
    committed_only=True, fail_on_data_loss=True, fetch_bytes=8 << 20, decompressed_bytes_max=64 << 20
)
SCHEMA = schema_of(include_headers=False)


@pytest.fixture
def cluster(broker: EmbeddedBroker) -> ClusterAddress:
    return ClusterAddress(broker.bootstrap_servers, ClientSettings(client_id="test-fetching"))


@pytest.fixture
def topics(broker: EmbeddedBroker) -> Topics:
    return Topics(broker.bootstrap_servers)


def filled(topics: Topics, topic: str, sizes: list[list[int]]) -> list[OffsetRange]:
    """A topic with a partition per list, and in it a value of each size; the ranges of all of it."""
    topics.create(topic, partitions=len(sizes))
    for partition, values in enumerate(sizes):
        topics.write(topic, [NewRecord(None, bytes(size), partition=partition) for size in values])
    return [OffsetRange(TopicPartition(topic, index), 0, len(values)) for index, values in enumerate(sizes)]


def rows(batches: Iterator[pa.RecordBatch]) -> list[tuple[int, int, int]]:
    """Partition, offset and size of each."""
    return [
        (partition, offset, len(value))
        for batch in batches
        for partition, offset, value in zip(
            *(batch.column(name).to_pylist() for name in ("partition", "offset", "value")), strict=True
        )
    ]


def test_ranges_come_one_after_the_other_and_whole(cluster: ClusterAddress, topics: Topics, topic: str):
    # The second is so long that answers in its middle are asked to be long, and then its records are short.
    long = [100_000] * (5 * ANSWER_BYTES // 100_000) + [10] * 50
    sizes = [[1, 2, 3], long, [], [4], [5, 6], [7], [8]]
    ranges = filled(topics, topic, sizes)
    expected = [(index, offset, size) for index, each in enumerate(sizes) for offset, size in enumerate(each)]
    assert rows(read_ranges(cluster, ranges, RULES, SCHEMA)) == expected


def test_a_part_of_a_range_is_all_that_comes_of_it(cluster: ClusterAddress, topics: Topics, topic: str):
    ranges = filled(topics, topic, [list(range(1, 9)), list(range(1, 9))])
    parts = [ranges[0]._replace(start=2, end=4), ranges[1]._replace(start=7)]
    assert rows(read_ranges(cluster, parts, RULES, SCHEMA)) == [(0, 2, 3), (0, 3, 4), (1, 7, 8)]


def test_several_requests_are_under_way_and_never_more_than_may_be(
    broker: EmbeddedBroker, cluster: ClusterAddress, topics: Topics, topic: str
):
    ranges = filled(topics, topic, [[size] for size in range(1, 10)])
    with connected(cluster) as blocking:
        blocking.run(blocking.client.refresh([topic]))
    read: list[tuple[int, int, int]] = []
    reading = threading.Thread(target=lambda: read.extend(rows(read_ranges(cluster, ranges, RULES, SCHEMA))))
    most = 0
    broker.faults.answer_delay_s = 0.5
    try:
        reading.start()
        while reading.is_alive():
            most = max(most, in_flight(blocking))
            time.sleep(0.002)
    finally:
        broker.faults.clear()
        reading.join()
    assert [size for _, _, size in read] == list(range(1, 10))
    assert most == 4


def in_flight(blocking: BlockingClient) -> int:
    return sum(each.in_flight for each in list(blocking.client._connections.values()))


def test_who_stops_early_leaves_nothing_under_way(cluster: ClusterAddress, topics: Topics, topic: str):
    ranges = filled(topics, topic, [[1], [2], [3], [4], [5], [6]])
    batches = read_ranges(cluster, ranges, RULES, SCHEMA)
    assert next(batches).num_rows == 1
    batches.close()
    assert len(rows(read_ranges(cluster, ranges, RULES, SCHEMA))) == 6


def test_what_a_worker_has_loaded_is_not_looked_at_after_every_task(
    cluster: ClusterAddress, topics: Topics, topic: str
):
    ranges = filled(topics, topic, [[1]])
    fetching._freeze_loaded_objects.cache_clear()  # this process has read ranges before
    gc.unfreeze()
    rows(read_ranges(cluster, ranges, RULES, SCHEMA))
    assert gc.get_freeze_count() > 0
    gc.unfreeze()
    rows(read_ranges(cluster, ranges, RULES, SCHEMA))
    assert gc.get_freeze_count() == 0, "once is enough: what comes later may be garbage"
