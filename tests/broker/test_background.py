"""Background tasks: retention, compaction, removing files, expiring producers, closing idle connections."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from penstock.base.errors import ErrorCode
from penstock.base.ids import TopicPartition
from penstock.broker.background import Chore
from penstock.records.batch import headers
from penstock.records.builder import build_batch
from penstock.records.record import Record, read_records
from penstock.storage.offset_checkpoints import START_OFFSETS, read_offsets
from penstock.testing import EmbeddedBroker
from penstock.wire.messages.metadata import MetadataRequest
from tests.apis.requests import TOPIC, alter, delete_topic, end_offset, list_offset, values_in
from tests.broker.controlled import ControlledBroker
from tests.raw_client import RawClient, batch_of, fetch_request

EARLIEST = -2
DAY_MS = 86_400_000
LONG_MS = 60_000


@pytest.fixture
def broker() -> Iterator[ControlledBroker]:
    with ControlledBroker() as broker:
        yield broker


@pytest.fixture
def client(broker: ControlledBroker) -> Iterator[RawClient]:
    with RawClient(broker.bootstrap_servers) as client:
        yield client


def now_ms(broker: ControlledBroker) -> int:
    return broker.broker.services.node.world.loop.now_ms()


def files(broker: ControlledBroker, directory: str) -> list[str]:
    return [name for name in broker.disk.list(directory) if name.endswith(".log")]


def fill(broker: ControlledBroker, client: RawClient, topic: str, count: int = 5) -> None:
    """One small segment per batch."""
    for _ in range(count):
        client.produce(topic, batch_of(b"x" * 900, timestamp=now_ms(broker)))


def test_segments_older_than_retention_ms_are_deleted(broker: ControlledBroker, client: RawClient):
    client.create_topic("aging", internal_segment_bytes="1000", retention_ms=str(DAY_MS))
    fill(broker, client, "aging")
    broker.run(broker.background.expire_segments)
    assert list_offset(client, "aging", EARLIEST).offset == 0
    broker.advance(DAY_MS + 1000)
    fill(broker, client, "aging", 1)
    broker.run(broker.background.expire_segments)
    assert list_offset(client, "aging", EARLIEST).offset == 5
    assert client.fetch("aging", 0).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert len(values_in(client.fetch("aging", 5).records)) == 1


def test_no_segment_is_deleted_before_the_new_log_start_offset_is_synced(
    broker: ControlledBroker, client: RawClient
):
    client.create_topic("aging", internal_segment_bytes="1000", retention_ms="1000")
    fill(broker, client, "aging")
    broker.advance(5000)
    broker.gate.hold("log-start-offset-checkpoint")
    with ThreadPoolExecutor(1) as pool:
        expiring = pool.submit(broker.run, broker.background.expire_segments)
        broker.gate.wait_until_one_is_held()
        assert list_offset(client, "aging", EARLIEST).offset == 5
        assert len(files(broker, "aging-0")) == 6
        broker.gate.release()
        expiring.result()
    assert files(broker, "aging-0") == ["00000000000000000005.log"]
    assert read_offsets(broker.disk, START_OFFSETS) == {TopicPartition("aging", 0): 5}


def test_the_oldest_segments_are_deleted_while_there_is_more_than_retention_bytes(
    broker: ControlledBroker, client: RawClient
):
    client.create_topic("growing", internal_segment_bytes="1000", retention_bytes="2500")
    fill(broker, client, "growing", 6)
    broker.run(broker.background.expire_segments)
    start = list_offset(client, "growing", EARLIEST).offset
    assert 2 <= start <= 4
    assert end_offset(client, "growing") == 6


def test_compacted_topics_do_not_expire(broker: ControlledBroker, client: RawClient):
    client.create_topic("kept", internal_segment_bytes="1000", cleanup_policy="compact", retention_ms="1")
    for number in range(3):
        batch = build_batch([Record(0, now_ms(broker), b"%d" % number, b"x" * 900, ())])
        assert client.produce("kept", batch).error_code == 0
    broker.advance(DAY_MS)
    broker.run(broker.background.expire_segments)
    assert list_offset(client, "kept", EARLIEST).offset == 0


def test_the_files_of_deleted_segments_are_removed_after_file_delete_delay_ms(
    broker: ControlledBroker, client: RawClient
):
    client.create_topic(
        "aging", internal_segment_bytes="1000", retention_ms="1000", file_delete_delay_ms="5000"
    )
    fill(broker, client, "aging")
    before = set(broker.disk.list("aging-0"))
    broker.advance(2000)
    fill(broker, client, "aging", 1)
    broker.run(broker.background.expire_segments)
    broker.run(broker.background.remove_deleted)
    waiting = [name for name in broker.disk.list("aging-0") if name.endswith(".deleted")]
    assert waiting, "they are there under another name, for readers that still have them open"
    broker.advance(5001)
    broker.run(broker.background.remove_deleted)
    left = set(broker.disk.list("aging-0"))
    assert not [name for name in left if name.endswith(".deleted")]
    assert not (before & left) - {"partition.metadata", "leader-epoch-checkpoint"}


def test_the_files_of_a_deleted_topic_are_removed_after_file_delete_delay_ms(
    broker: ControlledBroker, client: RawClient
):
    client.create_topic("doomed", partitions=2, file_delete_delay_ms="5000")
    client.produce("doomed", batch_of(b"x"))
    delete_topic(client, "doomed")
    assert "doomed-0" not in broker.disk.list("")
    assert len([name for name in broker.disk.list("") if name.startswith("doomed-")]) == 2
    broker.run(broker.background.remove_deleted)
    assert len([name for name in broker.disk.list("") if name.startswith("doomed-")]) == 2
    broker.advance(5001)
    broker.run(broker.background.remove_deleted)
    assert not [name for name in broker.disk.list("") if name.startswith("doomed-")]


def test_a_topic_can_be_deleted_and_created_again_many_times(broker: ControlledBroker, client: RawClient):
    for _ in range(5):
        client.create_topic("again")
        assert client.produce("again", batch_of(b"x")).base_offset == 0
        delete_topic(client, "again")
    broker.advance(DAY_MS)
    broker.run(broker.background.remove_deleted)
    assert not [name for name in broker.disk.list("") if name.startswith("again-")]


def test_segments_roll_by_time(broker: ControlledBroker, client: RawClient):
    client.create_topic("rolling", segment_ms="10000")
    client.produce("rolling", batch_of(b"x", timestamp=now_ms(broker)))
    client.produce("rolling", batch_of(b"x", timestamp=now_ms(broker)))
    assert len(files(broker, "rolling-0")) == 1
    broker.advance(10_001)
    client.produce("rolling", batch_of(b"x", timestamp=now_ms(broker)))
    assert files(broker, "rolling-0") == ["00000000000000000000.log", "00000000000000000002.log"]


def test_segments_are_named_by_their_first_offset(broker: ControlledBroker, client: RawClient):
    client.create_topic("rolling", internal_segment_bytes="1000")
    fill(broker, client, "rolling", 3)
    assert files(broker, "rolling-0") == [f"{offset:020}.log" for offset in range(3)]


def test_the_state_of_idle_producers_expires(broker: ControlledBroker, client: RawClient):
    client.create_topic("t")
    batch = batch_of(b"x", producer_id=5, producer_epoch=0, base_sequence=0)
    assert client.produce("t", batch).base_offset == 0
    broker.run(broker.background.expire_producers)
    assert client.produce("t", batch).base_offset == 0, "a duplicate"
    broker.advance(DAY_MS + 1)
    broker.run(broker.background.expire_producers)
    assert client.produce("t", batch).base_offset == 1, "the producer id has expired"


def test_idle_connections_are_closed_and_waiting_ones_are_not(broker: ControlledBroker, client: RawClient):
    client.create_topic("t")
    with RawClient(broker.bootstrap_servers) as waiting, RawClient(broker.bootstrap_servers) as idle:
        assert idle.ask(MetadataRequest(topics=[]), 12).brokers
        waiting.send(fetch_request("t", 0, max_wait_ms=LONG_MS * 100), 12)
        client.ask(MetadataRequest(topics=[]), 12)
        broker.advance(9 * LONG_MS)
        assert client.ask(MetadataRequest(topics=[]), 12).brokers
        broker.advance(2 * LONG_MS)
        broker.run(broker.background._close_idle)
        assert idle.is_closed_by_broker()
        assert client.produce("t", batch_of(b"x")).error_code == 0
        assert b"x" in waiting.receive_frame()


def test_a_connection_that_stops_in_the_middle_of_a_request_is_closed(
    broker: ControlledBroker, client: RawClient
):
    client.create_topic("t")
    with RawClient(broker.bootstrap_servers) as stalled, RawClient(broker.bootstrap_servers) as quiet:
        stalled.socket.sendall((1_000_000).to_bytes(4, "big") + b"half of it")
        assert quiet.ask(MetadataRequest(topics=[]), 12).brokers
        broker.advance(31_000)
        broker.run(broker.background._close_idle)
        assert stalled.is_closed_by_broker()
        assert quiet.ask(MetadataRequest(topics=[]), 12).brokers


def keyed(broker: ControlledBroker, key: bytes, value: bytes | None) -> bytes:
    return build_batch([Record(0, now_ms(broker), key, value, ())])


def surviving(client: RawClient, topic: str) -> dict[int, tuple[bytes | None, bytes | None]]:
    """What a reader from the beginning sees: key and value by offset."""
    found = {}
    offset, end = 0, end_offset(client, topic)
    while offset < end:
        batches = bytes(client.fetch(topic, offset).records)
        for position, header in headers(batches):
            for record in read_records(batches[position:], limit=1 << 20):
                found[record.offset] = (record.key, record.value)
            offset = header.next_offset
    return found


def test_compaction_stores_the_log_start_offset_before_it_removes_records_below_it(
    broker: ControlledBroker, client: RawClient
):
    client.create_topic(
        "table",
        internal_segment_bytes="1000",
        cleanup_policy="compact,delete",
        retention_ms="-1",
        min_cleanable_dirty_ratio="0",
    )
    for key in (b"a", b"b", b"c"):
        assert client.produce("table", keyed(broker, key, b"x" * 400)).error_code == 0
    (partition,) = broker.broker.services.logs.replicas.all()
    assert partition.leader is not None
    partition.leader.delete_records(1)
    broker.run(broker.background.compact)
    assert read_offsets(broker.disk, START_OFFSETS) == {TopicPartition("table", 0): 1}


def test_compaction_keeps_the_newest_record_of_each_key_and_tombstones_for_delete_retention_ms(
    broker: ControlledBroker, client: RawClient
):
    client.create_topic(
        "latest",
        internal_segment_bytes="1000",
        cleanup_policy="compact",
        min_cleanable_dirty_ratio="0.01",
        delete_retention_ms="60000",
    )
    big = b"x" * 900
    for key, value in [
        (b"a", big),
        (b"b", big),
        (b"a", b"new" + big),
        (b"b", None),
        (b"end", big),
        (b"end", big),
    ]:
        assert client.produce("latest", keyed(broker, key, value)).error_code == 0

    broker.run(broker.background.compact)
    assert surviving(client, "latest") == {
        2: (b"a", b"new" + big),
        3: (b"b", None),
        4: (b"end", big),  # the active segment, where the newer one lies, is never looked at
        5: (b"end", big),
    }

    broker.advance(61_000)
    assert client.produce("latest", keyed(broker, b"end", big)).error_code == 0
    broker.run(broker.background.compact)
    assert surviving(client, "latest") == {2: (b"a", b"new" + big), 5: (b"end", big), 6: (b"end", big)}


def test_a_change_of_retention_takes_effect_at_the_next_check(broker: ControlledBroker, client: RawClient):
    client.create_topic("aging", internal_segment_bytes="1000")
    fill(broker, client, "aging")
    broker.advance(2000)
    alter(client, TOPIC, "aging", "retention.ms", "1000")
    broker.run(broker.background.expire_segments)
    assert list_offset(client, "aging", EARLIEST).offset == 5


def test_a_background_task_that_fails_is_logged_and_the_broker_keeps_running(
    broker: ControlledBroker, client: RawClient, caplog: pytest.LogCaptureFixture
):
    async def twice() -> None:
        again = asyncio.Event()
        runs = []

        async def chore() -> None:
            runs.append(1)
            if len(runs) == 2:
                again.set()
            raise RuntimeError("a chore's own bug")

        task = asyncio.ensure_future(broker.background._repeat(Chore("broken", lambda: 1, chore)))
        await again.wait()
        task.cancel()

    broker.run(twice)
    assert any("background task broken failed" in record.getMessage() for record in caplog.records)
    assert client.ask(MetadataRequest(topics=[]), 12).brokers


def test_only_topics_in_memory_are_lost_after_a_restart(tmp_path: Path):
    with EmbeddedBroker(data_dir=tmp_path) as broker, RawClient(broker.bootstrap_servers) as client:
        client.create_topic("memory", penstock_storage="memory")
        client.create_topic("disk")
        for name in ("memory", "disk"):
            client.produce(name, batch_of(b"x"))
        assert not (tmp_path / "memory-0").exists()
        assert values_in(client.fetch("memory", 0).records) == [b"x"]
    with EmbeddedBroker(data_dir=tmp_path) as broker, RawClient(broker.bootstrap_servers) as client:
        assert end_offset(client, "memory") == 0, "the topic is there, its records are not"
        assert end_offset(client, "disk") == 1
        assert client.produce("memory", batch_of(b"y")).base_offset == 0


def test_memory_can_be_the_brokers_default_for_new_topics(tmp_path: Path):
    settings = {"penstock.storage": "memory"}
    with (
        EmbeddedBroker(data_dir=tmp_path, settings=settings) as broker,
        RawClient(broker.bootstrap_servers) as client,
    ):
        client.create_topic("t")
        client.produce("t", batch_of(b"x"))
        assert not (tmp_path / "t-0").exists()
    with EmbeddedBroker(data_dir=tmp_path) as broker, RawClient(broker.bootstrap_servers) as client:
        assert end_offset(client, "t") == 0, "it was created in memory, and stays so"
        client.produce("t", batch_of(b"x"))
        assert not (tmp_path / "t-0").exists()
