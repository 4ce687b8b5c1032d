"""Fetch: records, limits and waiting. Fetch sessions are in another file."""

import threading

import pytest

from penstock.base.errors import ErrorCode
from penstock.records.batch import read_header
from penstock.testing import EmbeddedBroker
from penstock.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tests.apis.requests import delete_topic, records_in, topic_id, values_in
from tests.raw_client import RawClient, batch_of, fetch_request

# Longer than any test may take: a fetch that is answered sooner was woken.
LONG_MS = 60_000


def by_id(identity: bytes, offset: int = 0, *, max_wait_ms: int = 0) -> FetchRequest:
    asked = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    return FetchRequest(
        max_wait_ms=max_wait_ms, min_bytes=1, topics=[FetchTopic(topic_id=identity, partitions=[asked])]
    )


def several(topic: str, *partitions: tuple[int, int], max_bytes: int = 1 << 20) -> FetchRequest:
    """From each (partition, partition_max_bytes), from offset 0."""
    asked = [
        FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=size)
        for index, size in partitions
    ]
    return FetchRequest(min_bytes=1, max_bytes=max_bytes, topics=[FetchTopic(topic=topic, partitions=asked)])


def one(client: RawClient, request: FetchRequest, version: int = 13):
    return client.ask(request, version).responses[0].partitions[0]


def test_records_come_from_the_batch_that_holds_the_offset_to_the_end(client: RawClient, topic: str):
    client.create_topic(topic)
    for values in ((b"0", b"1"), (b"2", b"3"), (b"4",)):
        client.produce(topic, batch_of(*values))
    found = client.fetch(topic, 3)
    assert [record.offset for record in records_in(found.records)] == [2, 3, 4]
    assert (found.high_watermark, found.last_stable_offset, found.log_start_offset) == (5, 5, 0)


def test_a_fetch_at_the_log_end_is_empty_without_an_error(client: RawClient, topic: str):
    client.create_topic(topic)
    client.produce(topic, batch_of(b"x"))
    found = client.fetch(topic, 1)
    assert (found.error_code, bytes(found.records)) == (0, b"")


@pytest.mark.parametrize("offset", [2, 1000, -1])
def test_outside_the_log_the_offset_is_out_of_range(client: RawClient, topic: str, offset: int):
    client.create_topic(topic)
    client.produce(topic, batch_of(b"x"))
    assert client.fetch(topic, offset).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_unknown_topics_partitions_and_ids_are_answered_at_once(client: RawClient, topic: str):
    assert client.fetch(topic, 0, max_wait_ms=LONG_MS).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    client.create_topic(topic)
    found = client.fetch(topic, 0, partition=7, max_wait_ms=LONG_MS)
    assert found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    unknown = one(client, by_id(b"sixteen bytes...", max_wait_ms=LONG_MS))
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_an_error_in_one_partition_is_answered_without_waiting_for_another(client: RawClient, topic: str):
    client.create_topic(topic)
    request = several(topic, (0, 1000), (5, 1000))
    request.max_wait_ms = LONG_MS
    partitions = client.ask(request, 12).responses[0].partitions
    assert [p.error_code for p in partitions] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_fetch_with_another_leader_epoch_gets_an_error(client: RawClient, topic: str):
    client.create_topic(topic)
    request = fetch_request(topic, 0, max_wait_ms=LONG_MS)
    request.topics[0].partitions[0].current_leader_epoch = 5
    assert one(client, request, 12).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_a_fetch_beyond_the_end_of_its_last_epoch_gets_the_diverging_epoch(client: RawClient, topic: str):
    client.create_topic(topic)
    client.produce(topic, batch_of(b"x"))
    request = fetch_request(topic, 1, max_wait_ms=LONG_MS)
    request.topics[0].partitions[0].last_fetched_epoch = 0
    request.topics[0].partitions[0].fetch_offset = 5
    diverging = one(client, request, 12).diverging_epoch
    assert (diverging.epoch, diverging.end_offset) == (0, 1)


# Waiting.


def test_a_long_poll_is_answered_by_a_produce_on_another_connection(
    client: RawClient, another_client: RawClient, topic: str
):
    client.create_topic(topic)
    client.send(fetch_request(topic, 0, max_wait_ms=LONG_MS), 12)
    another_client.produce(topic, batch_of(b"here"))
    frame = client.receive_frame()
    assert b"here" in frame


def test_a_long_poll_waits_for_min_bytes_over_several_produces_and_partitions(
    client: RawClient, another_client: RawClient, topic: str
):
    client.create_topic(topic, partitions=2)
    small = batch_of(b"x" * 100)
    request = several(topic, (0, 1 << 20), (1, 1 << 20))
    request.max_wait_ms, request.min_bytes = LONG_MS, 3 * len(small)
    client.send(request, 12)
    another_client.produce(topic, small)
    another_client.produce(topic, small, partition=1)
    client.socket.settimeout(0.05)
    with pytest.raises(TimeoutError):
        client.socket.recv(1)
    client.socket.settimeout(20)
    another_client.produce(topic, small)
    answer = client.receive(1, 12, FetchResponse)
    assert [len(p.records) for p in answer.responses[0].partitions] == [2 * len(small), len(small)]


def test_after_max_wait_a_fetch_returns_the_records_there_are(client: RawClient, topic: str):
    client.create_topic(topic)
    client.produce(topic, batch_of(b"little"))
    found = client.fetch(topic, 0, min_bytes=1 << 20, max_wait_ms=20)
    assert values_in(found.records) == [b"little"]


def test_existing_records_are_returned_without_waiting(client: RawClient, topic: str):
    client.create_topic(topic)
    client.produce(topic, batch_of(b"there"))
    assert values_in(client.fetch(topic, 0, max_wait_ms=LONG_MS).records) == [b"there"]


def test_min_bytes_of_0_never_waits(client: RawClient, topic: str):
    client.create_topic(topic)
    assert client.fetch(topic, 0, min_bytes=0, max_wait_ms=LONG_MS).error_code == 0


@pytest.mark.parametrize("version", [12, 13])
def test_deletion_ends_a_long_poll(client: RawClient, another_client: RawClient, topic: str, version: int):
    client.create_topic(topic)
    request = (
        fetch_request(topic, 0, max_wait_ms=LONG_MS)
        if version == 12
        else by_id(topic_id(client, topic), max_wait_ms=LONG_MS)
    )
    client.send(request, version)
    # By the time another connection is answered, the fetch has been waiting for long.
    delete_topic(another_client, topic)
    found = client.receive(1, version, FetchResponse).responses[0].partitions[0]
    gone = {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    }
    assert found.error_code in gone


def test_many_long_polls_on_one_partition_are_all_answered(broker: EmbeddedBroker, topic: str):
    clients = [RawClient(broker.bootstrap_servers) for _ in range(20)]
    try:
        clients[0].create_topic(topic)
        for client in clients[1:]:
            client.send(fetch_request(topic, 0, max_wait_ms=LONG_MS), 12)
        clients[0].produce(topic, batch_of(b"to all"))
        assert all(b"to all" in client.receive_frame() for client in clients[1:])
    finally:
        for client in clients:
            client.socket.close()


def test_a_delayed_fetch_ends_when_its_client_disconnects(
    broker: EmbeddedBroker, client: RawClient, topic: str
):
    client.create_topic(topic)
    with RawClient(broker.bootstrap_servers) as leaver:
        leaver.send(fetch_request(topic, 0, max_wait_ms=LONG_MS), 12)
    assert client.produce(topic, batch_of(b"x")).error_code == 0
    assert values_in(client.fetch(topic, 0).records) == [b"x"]


# Topic ids.


def test_a_fetch_by_id_never_reads_the_topics_successor(client: RawClient, topic: str):
    client.create_topic(topic)
    client.produce(topic, batch_of(b"old"))
    old = topic_id(client, topic)
    assert values_in(one(client, by_id(old)).records) == [b"old"]
    delete_topic(client, topic)
    client.create_topic(topic)
    client.produce(topic, batch_of(b"new"))
    assert one(client, by_id(old)).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert values_in(one(client, by_id(topic_id(client, topic))).records) == [b"new"]


# How much.


def test_the_first_batch_comes_whole_however_small_the_limits(client: RawClient, topic: str):
    client.create_topic(topic)
    large = batch_of(b"x" * 10_000)
    client.produce(topic, large)
    client.produce(topic, large)
    found = client.fetch(topic, 0, max_bytes=1, partition_max_bytes=1)
    assert len(found.records) == len(large)


def test_only_the_first_partition_with_records_may_exceed_the_limits(client: RawClient, topic: str):
    client.create_topic(topic, partitions=3)
    large = batch_of(b"x" * 10_000)
    client.produce(topic, large, partition=1)
    client.produce(topic, large, partition=2)
    answer = client.ask(several(topic, (0, 10), (1, 10), (2, 10)), 12)
    sizes = {p.partition_index: len(p.records) for p in answer.responses[0].partitions}
    assert sizes[0] == 0
    assert sizes[1] == len(large)
    assert sizes[2] <= 10


def test_max_bytes_holds_for_all_partitions_together(client: RawClient, topic: str):
    client.create_topic(topic, partitions=4)
    batch = batch_of(b"x" * 1000)
    for partition in range(4):
        for _ in range(5):
            client.produce(topic, batch, partition=partition)
    request = several(topic, *((index, 1 << 20) for index in range(4)), max_bytes=7 * len(batch))
    answer = client.ask(request, 12)
    sizes = [len(p.records) for p in answer.responses[0].partitions]
    assert sum(sizes) <= 7 * len(batch)
    assert sizes[0] == 5 * len(batch)
    assert sizes[3] == 0


def test_a_partition_gives_no_more_than_its_own_limit(client: RawClient, topic: str):
    client.create_topic(topic)
    batch = batch_of(b"x" * 1000)
    for _ in range(5):
        client.produce(topic, batch)
    found = client.fetch(topic, 0, partition_max_bytes=2 * len(batch) + 10)
    assert 2 * len(batch) <= len(found.records) <= 2 * len(batch) + 10
    assert len(records_in(found.records)) == 2


def test_the_broker_has_a_limit_of_its_own(topic: str):
    settings = {"fetch.max.bytes": 2048}
    with EmbeddedBroker(settings=settings) as broker, RawClient(broker.bootstrap_servers) as client:
        client.create_topic(topic)
        for _ in range(10):
            client.produce(topic, batch_of(b"x" * 500))
        assert len(client.fetch(topic, 0).records) <= 2048


def test_reading_on_batch_by_batch_finds_every_record_once(client: RawClient, topic: str):
    client.create_topic(topic, internal_segment_bytes="2000")
    for number in range(50):
        client.produce(topic, batch_of(*(b"%d-%d" % (number, i) for i in range(1 + number % 3))))
    offset, seen = 0, []
    while True:
        found = records_in(client.fetch(topic, offset, partition_max_bytes=300).records)
        if not found:
            break
        seen += [record.offset for record in found]
        offset = found[-1].offset + 1
    assert seen == list(range(offset))
    assert offset == client.fetch(topic, offset).high_watermark


def test_isolation_levels_see_the_same_as_there_are_no_transactions(client: RawClient, topic: str):
    client.create_topic(topic)
    client.produce(topic, batch_of(b"x"))
    request = fetch_request(topic, 0)
    assert one(client, request, 12).aborted_transactions is None
    request.isolation_level = 1
    found = one(client, request, 12)
    assert found.aborted_transactions == []
    assert values_in(found.records) == [b"x"]


def test_readers_beside_a_writer_see_whole_batches_in_order(broker: EmbeddedBroker, topic: str):
    count = 300
    with RawClient(broker.bootstrap_servers) as client:
        client.create_topic(topic, internal_segment_bytes="5000")

    def write() -> None:
        with RawClient(broker.bootstrap_servers) as writer:
            for number in range(count):
                writer.produce(topic, batch_of(b"%d" % number))

    writing = threading.Thread(target=write)
    writing.start()
    seen: list[bytes | None] = []
    with RawClient(broker.bootstrap_servers) as reader:
        while len(seen) < count:
            data = reader.fetch(topic, len(seen), max_wait_ms=LONG_MS).records
            assert read_header(data).base_offset == len(seen)
            seen += values_in(data)
    writing.join()
    assert seen == [b"%d" % number for number in range(count)]
