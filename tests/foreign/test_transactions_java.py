"""Kafka's own transactional client and its tools for transactions. Each starts a JVM, so stories are few and long."""

import contextlib
import re
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from peers.brokers import Broker
from peers.kafka import java_command, run_tool
from peers.process import WatchedProcess
from tests.chaos.reading import committed_values, create_topics
from tests.foreign.transacting import PATIENCE_S, Confluent

pytestmark = [pytest.mark.foreign, pytest.mark.needs("kafka")]

COPIER = "org.apache.kafka.tools.TransactionalMessageCopier"
TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
PARTITIONS = 2
RECORDS = 2_000  # in each partition


@contextlib.contextmanager
def copier(broker: Broker, topic: str, partition: int, *options: str) -> Iterator[WatchedProcess]:
    arguments = ["--broker-list", broker.bootstrap, "--input-topic", topic]
    arguments += ["--input-partition", str(partition), "--output-topic", f"{topic}-copy"]
    arguments += ["--consumer-group", f"group-{topic}", "--transactional-id", f"{topic}-{partition}"]
    arguments += ["--transaction-size", "20", *options]
    process = WatchedProcess(java_command(COPIER, *arguments))
    try:
        yield process
    finally:
        process.kill()


def has_copied(line: str) -> bool:
    return '"consumed":' in line and '"consumed":0' not in line.replace(" ", "")


def test_the_message_copier_is_killed_and_copies_each_record_once(broker: Broker, topic: str) -> None:
    create_topics(broker.bootstrap, topic, f"{topic}-copy", partitions=PARTITIONS)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    values = [b"%d" % number for number in range(RECORDS * PARTITIONS)]
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=number % PARTITIONS)
    assert producer.flush(PATIENCE_S) == 0

    with copier(broker, topic, 1, "--enable-random-aborts", "--use-group-metadata") as undisturbed:
        with copier(broker, topic, 0) as killed:
            killed.wait_for_line(has_copied, timeout_s=PATIENCE_S)
        with copier(broker, topic, 0) as successor:
            for each in (undisturbed, successor):
                assert each.wait(timeout_s=PATIENCE_S) == 0, each.output

    copied = committed_values(broker.bootstrap, f"{topic}-copy", partitions=PARTITIONS)
    assert sorted(value for part in copied.values() for value in part) == sorted(values)


def test_kafka_transactions_shows_and_ends_open_ones(broker: Broker, topic: str) -> None:
    create_topics(broker.bootstrap, topic, partitions=1)

    def transactions(command: str, *arguments: object) -> str:
        shown: str = run_tool(
            TRANSACTIONS, "--bootstrap-server", broker.bootstrap, command, *arguments
        ).stdout
        return shown

    first, second = (
        Confluent(broker.bootstrap, f"first-{topic}"),
        Confluent(broker.bootstrap, f"second-{topic}"),
    )
    for producer in (first, second):
        producer.begin()
        producer.send(topic, b"left open")

    listed = transactions("list", "--transactional-id-pattern", f"first-{topic}")
    assert re.search(rf"first-{topic}\s+\d+\s+\d+\s+Ongoing", listed)
    assert f"second-{topic}" not in listed
    described = transactions("describe", "--transactional-id", f"first-{topic}")
    assert re.search(rf"Ongoing\s.*\b{topic}-0", described)
    writing = transactions("describe-producers", "--topic", topic, "--partition", 0)
    rows = [line.split() for line in writing.splitlines() if re.match(r"\d", line)]
    assert sorted(row[-1] for row in rows) == ["0", "1"], "where their transactions begin"
    assert topic not in transactions("find-hanging", "--topic", topic, "--max-transaction-timeout", 0)

    transactions("abort", "--topic", topic, "--partition", 0, "--start-offset", 0)
    transactions("forceTerminateTransaction", "--transactionalId", f"second-{topic}")
    third = Confluent(broker.bootstrap, f"third-{topic}")
    third.begin()
    third.send(topic, b"committed")
    third.commit()
    read = Confluent.read(broker.bootstrap, topic, isolation="read_committed", until=b"committed")
    assert read == [b"committed"]
