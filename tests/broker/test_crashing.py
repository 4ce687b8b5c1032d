"""kill -9: acknowledged records survive, a torn tail is truncated and logged, indexes are rebuilt."""

import threading
from pathlib import Path

from peers.penstock import PenstockProcess
from penstock.base.errors import ErrorCode
from penstock.records.compression import Codec
from penstock.wire.messages.produce import ProduceResponse
from tests.apis.requests import (
    TOPIC,
    config,
    delete_topic,
    end_offset,
    exists,
    list_offset,
    records_in,
    topic_id,
    values_in,
)
from tests.raw_client import RawClient, batch_of, produce_request

LOG = "00000000000000000000.log"


class Writer(threading.Thread):
    """Produces with acks=all, several requests in flight, until the broker is gone."""

    def __init__(self, address: str, topic: str, round_number: int) -> None:
        super().__init__()
        self._client = RawClient(address)
        self._topic = topic
        self._round = round_number
        self.acknowledged: dict[int, bytes] = {}
        self.enough = threading.Event()

    def run(self) -> None:
        number = 0
        waiting: list[bytes] = []
        try:
            while True:
                value = b"%d/%d" % (self._round, number)
                codec = Codec.LZ4 if number % 2 else Codec.NONE
                batch = batch_of(value * 50, value, codec=codec)
                self._client.send(produce_request(self._topic, batch), 12)
                waiting.append(value)
                number += 1
                if len(waiting) == 5:
                    self._take_answer(waiting.pop(0))
        except OSError:
            self._client.socket.close()

    def _take_answer(self, value: bytes) -> None:
        answer = self._client.receive(0, 12, ProduceResponse).responses[0].partition_responses[0]
        assert answer.error_code == 0
        self.acknowledged[answer.base_offset + 1] = value
        if len(self.acknowledged) >= 200:
            self.enough.set()


def everything(client: RawClient, topic: str) -> dict[int, bytes | None]:
    found: dict[int, bytes | None] = {}
    offset = 0
    while True:
        records = records_in(client.fetch(topic, offset).records)
        if not records:
            return found
        found.update((record.offset, record.value) for record in records)
        offset = records[-1].offset + 1


def test_everything_acknowledged_is_there_after_kill_9_in_the_middle_of_producing(tmp_path: Path):
    settings = {"log.segment.bytes": 1 << 20, "log.flush.offset.checkpoint.interval.ms": 100}
    acknowledged: dict[int, bytes] = {}
    with PenstockProcess(tmp_path, settings=settings) as broker:
        with RawClient(broker.bootstrap) as client:
            client.create_topic("t", internal_segment_bytes="20000")
        for round_number in range(3):
            writer = Writer(broker.bootstrap, "t", round_number)
            writer.start()
            assert writer.enough.wait(timeout=30)
            broker.kill()
            writer.join(timeout=30)
            acknowledged |= writer.acknowledged
            broker.start()
            with RawClient(broker.bootstrap) as client:
                found = everything(client, "t")
                assert acknowledged.items() <= found.items()
                assert sorted(found) == list(range(end_offset(client, "t")))


def test_a_torn_tail_is_truncated_to_the_last_valid_batch_and_logged(tmp_path: Path):
    with PenstockProcess(tmp_path) as broker:
        with RawClient(broker.bootstrap) as client:
            client.create_topic("t")
            for number in range(5):
                client.produce("t", batch_of(b"%d" % number))
        broker.kill()
        log = tmp_path / "t-0" / LOG
        whole = log.read_bytes()
        log.write_bytes(whole[:-3])
        broker.start()
        with RawClient(broker.bootstrap) as client:
            assert values_in(client.fetch("t", 0).records) == [b"0", b"1", b"2", b"3"]
            assert client.produce("t", batch_of(b"next")).base_offset == 4
        said = [line for line in broker.output.splitlines() if "t-0" in line and "WARNING" in line]
        assert len(said) == 1
        assert "Traceback" not in broker.output


def test_zeros_behind_the_last_batch_are_cut_too(tmp_path: Path):
    with PenstockProcess(tmp_path) as broker:
        with RawClient(broker.bootstrap) as client:
            client.create_topic("t")
            client.produce("t", batch_of(b"x"))
        broker.kill()
        with (tmp_path / "t-0" / LOG).open("ab") as log:
            log.write(bytes(4096))
        broker.start()
        with RawClient(broker.bootstrap) as client:
            assert client.produce("t", batch_of(b"y")).base_offset == 1
            assert values_in(client.fetch("t", 0).records) == [b"x", b"y"]


def test_missing_and_wrong_indexes_are_rebuilt(tmp_path: Path):
    with PenstockProcess(tmp_path) as broker:
        with RawClient(broker.bootstrap) as client:
            client.create_topic("t", internal_segment_bytes="20000", index_interval_bytes="100")
            for number in range(100):
                client.produce("t", batch_of(b"%d" % number * 200, timestamp=1000 + number))
        broker.kill()
        indexes = sorted((tmp_path / "t-0").glob("*.index"))
        assert len(indexes) > 1
        indexes[0].unlink()
        indexes[-1].write_bytes(b"\xff" * 80)
        for index in (tmp_path / "t-0").glob("*.timeindex"):
            index.write_bytes(b"\x01" * 13)
        broker.start()
        with RawClient(broker.bootstrap) as client:
            assert sorted(everything(client, "t")) == list(range(100))
            assert [list_offset(client, "t", 1000 + n).offset for n in (0, 37, 99)] == [0, 37, 99]


def test_idempotent_producers_are_recognised_after_a_crash(tmp_path: Path):
    def batch(sequence: int) -> bytes:
        return batch_of(b"x", producer_id=9, producer_epoch=0, base_sequence=sequence)

    with PenstockProcess(tmp_path) as broker:
        with RawClient(broker.bootstrap) as client:
            client.create_topic("t")
            for sequence in range(3):
                client.produce("t", batch(sequence))
        broker.kill()
        broker.start()
        with RawClient(broker.bootstrap) as client:
            assert client.produce("t", batch(2)).base_offset == 2, "a duplicate"
            assert client.produce("t", batch(9)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            assert client.produce("t", batch(3)).base_offset == 3


def test_a_log_without_partition_metadata_is_replaced_by_an_empty_one_without_producer_state(tmp_path: Path):
    def batch(sequence: int) -> bytes:
        return batch_of(b"%d" % sequence, producer_id=9, producer_epoch=0, base_sequence=sequence)

    with PenstockProcess(tmp_path) as broker:
        with RawClient(broker.bootstrap) as client:
            client.create_topic("t")
            for sequence in range(2):
                client.produce("t", batch(sequence))
        broker.kill()
        # As a power cut may leave it: without a topic id the log belongs to no topic, so an empty one replaces it.
        (tmp_path / "t-0" / "partition.metadata").write_bytes(b"")
        broker.start()
        with RawClient(broker.bootstrap) as client:
            assert end_offset(client, "t") == 0
            assert client.produce("t", batch(0)).base_offset == 0
            assert client.produce("t", batch(1)).base_offset == 1, "no duplicate: it is not here"
            assert values_in(client.fetch("t", 0).records) == [b"0", b"1"]


def test_topics_configs_and_deletions_survive_a_crash(tmp_path: Path):
    with PenstockProcess(tmp_path) as broker:
        with RawClient(broker.bootstrap) as client:
            client.create_topic("kept", partitions=3, retention_ms="12345")
            client.create_topic("gone")
            client.produce("gone", batch_of(b"x"))
            delete_topic(client, "gone")
            identity = topic_id(client, "kept")
        broker.kill()
        broker.start()
        with RawClient(broker.bootstrap) as client:
            assert topic_id(client, "kept") == identity
            assert config(client, TOPIC, "kept", "retention.ms").value == "12345"
            assert client.produce("kept", batch_of(b"x"), partition=2).base_offset == 0
            assert not exists(client, "gone")
            client.create_topic("gone")
            assert end_offset(client, "gone") == 0
