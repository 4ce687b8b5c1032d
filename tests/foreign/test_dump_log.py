"""Apache Kafka's DumpLogSegments reads every file that the broker writes, and finds nothing wrong with any.

The files come from a broker that was killed and recovered, has compacted, rolled, deleted, and been stopped.
"""

import re
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from peers.brokers import Broker
from peers.kafka import DUMP_LOG_SEGMENTS, run_tool
from tests.foreign import on_disk
from tests.foreign.sample import CODECS
from tests.foreign.target import target_is_kafka

pytestmark = [pytest.mark.foreign, pytest.mark.needs("kafka")]

TIMEOUT_S = 30.0
SEGMENT_BYTES = 1024 * 1024  # the smallest that Kafka allows
KEYS = 50

# Kafka's cleaner itself leaves time indexes with which its tool is not content.
KAFKAS_OWN = "Found timestamp mismatch"
# What DumpLogSegments says when a file is not as it should be.
COMPLAINTS = [
    "isvalid: false",
    "Mismatches in",
    KAFKAS_OWN,
    "Found out of order timestamp",
    "Exception",
    "corrupt",
    "found an invalid",
]


def test_every_file_of_a_broker_that_was_killed_and_has_compacted(own_broker: Broker) -> None:
    admin = AdminClient({"bootstrap.servers": own_broker.bootstrap})
    small = {"segment.bytes": str(SEGMENT_BYTES), "index.interval.bytes": "1000"}
    compacted = {**small, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
    create(admin, "rolled", **small)
    create(admin, "append-time", **small, **{"message.timestamp.type": "LogAppendTime"})
    create(admin, "compacted", **compacted)
    for codec in CODECS:
        create(admin, codec, **small)

    produce(own_broker, "rolled", megabytes=3)
    produce(own_broker, "append-time", megabytes=1)
    produce(own_broker, "compacted", megabytes=2, codec="lz4")
    for codec in CODECS:
        produce(own_broker, codec, megabytes=1, codec=codec)
    own_broker.kill()
    tear_tail(own_broker.data, "rolled")
    on_disk.log_files(own_broker.data, "none")[0].with_suffix(".index").unlink()
    own_broker.start()
    own_broker.stop()
    assert len(on_disk.log_files(own_broker.data, "rolled")) >= 3
    expect_no_complaints(own_broker.data)

    own_broker.start()
    admin = AdminClient({"bootstrap.servers": own_broker.bootstrap})
    produce(own_broker, "rolled", megabytes=1)
    produce(own_broker, "compacted", megabytes=2)
    admin.delete_records([TopicPartition("rolled", 0, 2500)])[TopicPartition("rolled", 0, 2500)].result(
        TIMEOUT_S
    )
    wait_for_compaction(own_broker)
    own_broker.stop()
    expect_no_complaints(own_broker.data)


def create(admin: AdminClient, topic: str, **configs: str) -> None:
    admin.create_topics([NewTopic(topic, 1, 1, config=configs)])[topic].result(TIMEOUT_S)


def produce(broker: Broker, topic: str, *, megabytes: int, codec: str = "none") -> None:
    """Records that do not compress, over few keys, some of them tombstones."""
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "enable.idempotence": True,
            "compression.type": codec,
            "batch.size": 16_000,
        }
    )
    for number in range(megabytes * 1000):
        value = None if number % 97 == 0 else f"{number:09} ".encode() + incompressible(number)
        while True:
            try:
                producer.produce(topic, value, f"key {number % KEYS}")
                break
            except BufferError:
                producer.poll(1)
    assert producer.flush(TIMEOUT_S) == 0


def incompressible(number: int) -> bytes:
    return number.to_bytes(4, "big") + _NOISE[number % 1000 : number % 1000 + 1040]


def _noise(size: int) -> bytes:
    state, made = 12345, bytearray()
    for _ in range(size):
        state = (state * 1103515245 + 12345) % 2**31
        made.append(state >> 16 & 0xFF)
    return bytes(made)


_NOISE = _noise(3000)


def tear_tail(data: Path, topic: str) -> None:
    """What a machine leaves that lost power while a batch was written."""
    file = on_disk.log_files(data, topic)[-1]
    with file.open("ab") as log:
        log.write(file.read_bytes()[:500])


def wait_for_compaction(broker: Broker) -> None:
    """Until what lies before the last segment has about one record for each key."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while True:
        closed = on_disk.log_files(broker.data, "compacted")[:-1]
        kept = sum(header.record_count for file in closed for header in on_disk.batches_of(file))
        if closed and kept <= 2 * KEYS:
            return
        assert time.monotonic() < deadline_s, f"{kept} records in {len(closed)} closed segments"
        time.sleep(0.1)  # another process is at work: nothing here could be told


def expect_no_complaints(data: Path) -> None:
    files = sorted(
        file
        for kind in ("log", "index", "timeindex", "snapshot", "txnindex")
        for file in files_of(data, kind)
    )
    assert {file.suffix for file in files} >= {".log", ".index", ".timeindex", ".snapshot"}
    indexes = [file for file in files if file.suffix in (".index", ".timeindex")]
    deep = dump(files, "--deep-iteration")
    sane = dump(indexes, "--index-sanity-check")

    complaints = [words for words in COMPLAINTS if not (target_is_kafka() and words == KAFKAS_OWN)]
    for shown in (deep, sane):
        found = [line for line in shown.splitlines() if any(words in line for words in complaints)]
        assert not found, "\n".join(found[:20])
    dumped = set(re.findall(r"Dumping (\S+)", deep))
    assert dumped == set(map(str, files))
    accepted = re.findall(r"(\S+) (?:passed sanity check|is empty)\.", sane)
    assert accepted == list(map(str, indexes))


def dump(files: list[Path], *options: str) -> str:
    done = run_tool(DUMP_LOG_SEGMENTS, "--files", ",".join(map(str, files)), *options, timeout_s=120)
    return done.stdout + done.stderr


def files_of(data: Path, kind: str) -> list[Path]:
    return [file for file in data.glob(f"*-0/*.{kind}") if not file.parent.name.startswith("__")]
