"""Fetches of records outside the page cache: read off the event loop, with the same limits."""

from collections.abc import Iterator

import pytest

from penstock.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.apis.requests import list_offset, records_in, values_in
from tests.broker.controlled import ControlledBroker
from tests.raw_client import RawClient, batch_of, fetch_request

LONG_MS = 60_000


@pytest.fixture
def broker() -> Iterator[ControlledBroker]:
    with ControlledBroker() as broker:
        yield broker


@pytest.fixture
def client(broker: ControlledBroker) -> Iterator[RawClient]:
    with RawClient(broker.bootstrap_servers) as client:
        yield client


def test_records_outside_the_page_cache_are_fetched(broker: ControlledBroker, client: RawClient):
    client.create_topic("t", internal_segment_bytes="1000")
    for number in range(10):
        client.produce("t", batch_of(b"%d" % number * 300))
    broker.gate.cold = True
    seen: list[int] = []
    while len(seen) < 10:
        seen += [record.offset for record in records_in(client.fetch("t", len(seen)).records)]
    assert seen == list(range(10))


def test_only_the_first_of_several_cold_partitions_may_exceed_the_limits(
    broker: ControlledBroker, client: RawClient
):
    client.create_topic("t", partitions=5)
    large = batch_of(b"x" * 10_000)
    for partition in range(5):
        client.produce("t", large, partition=partition)
    broker.gate.cold = True
    asked = [FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=100) for index in range(5)]
    request = FetchRequest(min_bytes=1, max_bytes=1000, topics=[FetchTopic(topic="t", partitions=asked)])
    sizes = [len(p.records) for p in client.ask(request, 12).responses[0].partitions]
    assert sizes[0] == len(large)
    assert all(size <= 100 for size in sizes[1:])


def test_a_long_poll_on_a_cold_partition_is_answered_by_a_produce(
    broker: ControlledBroker, client: RawClient
):
    client.create_topic("t")
    client.produce("t", batch_of(b"old"))
    broker.gate.cold = True
    client.send(fetch_request("t", 0, min_bytes=100, max_wait_ms=LONG_MS), 12)
    with RawClient(broker.bootstrap_servers) as producer:
        producer.produce("t", batch_of(b"new"))
    assert b"new" in client.receive_frame()


def test_offsets_are_found_by_time_in_cold_segments(broker: ControlledBroker, client: RawClient):
    client.create_topic("t", internal_segment_bytes="1000")
    for number in range(10):
        client.produce("t", batch_of(b"x" * 300, timestamp=1000 + number))
    broker.gate.cold = True
    assert [list_offset(client, "t", 1000 + number).offset for number in (0, 4, 9)] == [0, 4, 9]
    assert values_in(client.fetch("t", 9).records) == [b"x" * 300]
