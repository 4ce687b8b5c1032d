"""Apache Kafka's command-line tools against a broker process. Each starts a JVM, so stories are few and long."""

import json
import re
import time
from pathlib import Path

import pytest

from peers.brokers import Broker
from peers.kafka import (
    CONFIG_COMMAND,
    CONSOLE_CONSUMER,
    CONSOLE_PRODUCER,
    DELETE_RECORDS,
    GET_OFFSETS,
    LOG_DIRS,
    PRODUCER_PERFORMANCE,
    TOPIC_COMMAND,
    run_tool,
)
from tests.foreign import on_disk

pytestmark = [pytest.mark.foreign, pytest.mark.needs("kafka")]


def run(broker: Broker, tool: str, *arguments: object, text: str | None = None) -> str:
    return run_tool(tool, "--bootstrap-server", broker.bootstrap, *arguments, text=text).stdout


def create(broker: Broker, topic: str, *, partitions: int = 1, **configs: object) -> None:
    settings = [
        part for name, value in configs.items() for part in ("--config", f"{name.replace('_', '.')}={value}")
    ]
    run(broker, TOPIC_COMMAND, "--create", "--topic", topic, "--partitions", partitions, *settings)


def test_kafka_topics(broker: Broker, topic: str) -> None:
    create(broker, topic, partitions=2, retention_ms=5000)
    assert topic in run(broker, TOPIC_COMMAND, "--list").split()

    run(broker, TOPIC_COMMAND, "--alter", "--topic", topic, "--partitions", 3)
    described = run(broker, TOPIC_COMMAND, "--describe", "--topic", topic)
    assert "PartitionCount: 3" in described
    assert "retention.ms=5000" in described
    assert len(re.findall(r"Partition: \d\s+Leader: 1\s+Replicas: 1\s+Isr: 1", described)) == 3

    again = run_tool(
        TOPIC_COMMAND,
        "--bootstrap-server",
        broker.bootstrap,
        "--create",
        "--topic",
        topic,
        check=False,
    )
    assert again.returncode == 1
    assert "TopicExistsException" in again.stdout + again.stderr

    run(broker, TOPIC_COMMAND, "--delete", "--topic", topic)
    assert topic not in run(broker, TOPIC_COMMAND, "--list").split()


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_the_console_producer_and_consumer_by_partition(broker: Broker, topic: str, codec: str) -> None:
    create(broker, topic)
    lines = "".join(f"key {number}:value {number}\n" for number in range(500))
    with_keys = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
    run(broker, CONSOLE_PRODUCER, "--topic", topic, "--compression-codec", codec, *with_keys, text=lines)
    assert on_disk.codecs(broker.data, topic) == {codec}
    assert {header.producer_id for header in on_disk.batches(broker.data, topic)} != {-1}, "idempotent"

    shown = run(
        broker,
        CONSOLE_CONSUMER,
        *("--topic", topic, "--partition", 0, "--offset", "earliest", "--max-messages", 500),
        *("--formatter-property", "print.key=true", "--formatter-property", "key.separator=:"),
    )
    assert shown == lines


def test_kafka_configs(broker: Broker, topic: str) -> None:
    create(broker, topic)
    of_topic = ("--entity-type", "topics", "--entity-name", topic)
    run(broker, CONFIG_COMMAND, "--alter", *of_topic, "--add-config", "retention.ms=7000,segment.ms=9000")
    run(broker, CONFIG_COMMAND, "--alter", *of_topic, "--delete-config", "segment.ms")

    shown = run(broker, CONFIG_COMMAND, "--describe", *of_topic)
    assert "retention.ms=7000" in shown
    assert "segment.ms" not in shown
    everything = run(broker, CONFIG_COMMAND, "--describe", "--all", *of_topic)
    assert "cleanup.policy=delete" in everything
    of_broker = run(
        broker, CONFIG_COMMAND, "--describe", "--all", "--entity-type", "brokers", "--entity-name", 1
    )
    assert "log.retention.check.interval.ms=1000" in of_broker


def test_offsets_deleted_records_and_log_directories(broker: Broker, topic: str, tmp_path: Path) -> None:
    create(broker, topic, partitions=2)
    run(broker, CONSOLE_PRODUCER, "--topic", topic, text="a\nb\nc\nd\n")
    counts = [sum(b.record_count for b in on_disk.batches(broker.data, topic, p)) for p in (0, 1)]
    filled = counts.index(4) if 4 in counts else counts.index(max(counts))

    def offsets(*arguments: object) -> dict[int, int]:
        shown = run(broker, GET_OFFSETS, "--topic", topic, *arguments)
        return {int(p): int(o or 0) for _, p, o in (line.split(":") for line in shown.split())}

    assert offsets() == dict(enumerate(counts))
    wanted = {"partitions": [{"topic": topic, "partition": filled, "offset": 1}], "version": 1}
    file = tmp_path / "offsets.json"
    file.write_text(json.dumps(wanted))
    shown = run(broker, DELETE_RECORDS, "--offset-json-file", file)
    assert f"partition: {topic}-{filled}\tlow_watermark: 1" in shown
    assert offsets("--time", "earliest")[filled] == 1

    shown = run(broker, LOG_DIRS, "--describe", "--topic-list", topic)
    described = json.loads(next(line for line in shown.splitlines() if line.startswith("{")))
    sizes = {
        each["partition"]: each["size"]
        for directory in described["brokers"][0]["logDirs"]
        for each in directory["partitions"]
    }
    assert sizes == {
        f"{topic}-{p}": sum(header.size for header in on_disk.batches(broker.data, topic, p)) for p in (0, 1)
    }


def test_the_performance_producer(broker: Broker, topic: str) -> None:
    create(broker, topic)
    started_s = time.monotonic()
    shown = run_tool(
        PRODUCER_PERFORMANCE,
        *("--topic", topic, "--num-records", 50_000, "--record-size", 100, "--throughput", -1),
        *("--producer-props", f"bootstrap.servers={broker.bootstrap}", "compression.type=lz4", "acks=all"),
    ).stdout

    assert re.search(r"50000 records sent", shown)
    assert time.monotonic() - started_s < 30
    assert sum(header.record_count for header in on_disk.batches(broker.data, topic)) == 50_000
    assert on_disk.codecs(broker.data, topic) == {"lz4"}
