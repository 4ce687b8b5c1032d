"""Apache Kafka's tools for groups against a broker process. Each starts a JVM, so stories are few and long."""

import json
from collections import defaultdict
from collections.abc import Iterable

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from peers.brokers import Broker
from peers.kafka import CONFIG_COMMAND, CONSOLE_CONSUMER, run_tool

pytestmark = [pytest.mark.foreign, pytest.mark.needs("kafka")]

CONSUMER_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
GROUPS = "org.apache.kafka.tools.GroupsCommand"
VERIFIABLE_PRODUCER = "org.apache.kafka.tools.VerifiableProducer"
VERIFIABLE_CONSUMER = "org.apache.kafka.tools.VerifiableConsumer"

TIMEOUT_S = 60
HOUR_MS = 3_600_000
BASE_MS = 1_700_000_000_000  # 2023-11-14T22:13:20Z


def run(broker: Broker, tool: str, *arguments: object) -> str:
    return run_tool(tool, "--bootstrap-server", broker.bootstrap, *arguments).stdout


@pytest.fixture
def filled(broker: Broker, topic: str) -> str:
    """A topic of two partitions; the second has ten records, an hour apart."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    created = admin.create_topics([NewTopic(topic, 2, 1, config={"retention.ms": "-1"})])
    created[topic].result(TIMEOUT_S)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(10):
        producer.produce(topic, str(number), partition=1, timestamp=BASE_MS + number * HOUR_MS)
    assert producer.flush(TIMEOUT_S) == 0
    return topic


def read(broker: Broker, topic: str, count: int, *, protocol: str) -> list[str]:
    """What the console consumer gets as a member of the group that has the topic's name."""
    of_group = ("--topic", topic, "--group", topic, "--max-messages", count, "--timeout-ms", 30_000)
    properties = (f"group.protocol={protocol}", "auto.offset.reset=earliest")
    options = [part for each in properties for part in ("--command-property", each)]
    return run(broker, CONSOLE_CONSUMER, *of_group, *options).split()


def table(shown: str, *columns: str) -> list[tuple[str, ...]]:
    """These columns of the first table in a tool's output."""
    lines = [line.split() for line in shown.splitlines() if line.strip()]
    start = next(number for number, words in enumerate(lines) if "GROUP" in words)
    where = [lines[start].index(column) for column in columns]
    return [tuple(line[index] for index in where) for line in lines[start + 1 :] if len(line) > max(where)]


def test_a_group_is_described_moved_and_deleted(broker: Broker, filled: str) -> None:
    of_group = ("--group", filled)
    assert read(broker, filled, 10, protocol="classic") == [str(number) for number in range(10)]

    def moved(*where: object) -> dict[str, str]:
        shown = run(broker, CONSUMER_GROUPS, *of_group, "--reset-offsets", "--topic", filled, *where)
        return dict(table(shown, "PARTITION", "NEW-OFFSET"))

    assert moved("--to-offset", 4, "--execute") == {"0": "0", "1": "4"}
    assert moved("--to-earliest", "--dry-run")["1"] == "0"
    described = run(broker, CONSUMER_GROUPS, "--describe", *of_group)
    assert sorted(table(described, "PARTITION", "CURRENT-OFFSET", "LAG")) == [
        ("0", "0", "0"),
        ("1", "4", "6"),
    ]
    assert moved("--to-datetime", "2023-11-15T03:00:00.000", "--execute")["1"] == "5"
    assert read(broker, filled, 2, protocol="consumer") == ["5", "6"]
    assert moved("--to-earliest", "--execute")["1"] == "0"
    assert read(broker, filled, 1, protocol="consumer") == ["0"]

    assert "was successful" in run(broker, CONSUMER_GROUPS, "--delete", *of_group)
    assert filled not in run(broker, CONSUMER_GROUPS, "--list").split()


def events(shown: str) -> dict[str, list[dict[str, object]]]:
    """What a verifiable client said, by the names of the events."""
    said = defaultdict(list)
    for line in shown.splitlines():
        if line.startswith("{"):
            event = json.loads(line)
            said[event["name"]].append(event)
    return said


def total(said: Iterable[dict[str, object]]) -> int:
    return sum(int(str(each["count"])) for each in said)


def test_the_verifiable_clients_and_kafka_groups(broker: Broker, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(topic, 3, 1)])[topic].result(TIMEOUT_S)
    sent = events(run(broker, VERIFIABLE_PRODUCER, "--topic", topic, "--max-messages", 600))
    assert len(sent["producer_send_success"]) == 600

    for protocol in ("classic", "consumer"):
        of_group = ("--group-id", f"{topic}-{protocol}", "--group-protocol", protocol)
        reading = ("--topic", topic, "--max-messages", 600, "--reset-policy", "earliest")
        got = events(run(broker, VERIFIABLE_CONSUMER, *reading, *of_group))
        assert [len(each["partitions"]) for each in got["partitions_assigned"]] == [3]  # type: ignore[arg-type]
        assert total(got["records_consumed"]) == 600
        assert all(each["success"] for each in got["offsets_committed"])

    listed = [line.split() for line in run(broker, GROUPS, "--list").splitlines()]
    assert [f"{topic}-classic", "Classic", "consumer"] in [line[:3] for line in listed]
    assert [f"{topic}-consumer", "Consumer", "consumer"] in [line[:3] for line in listed]


def test_kafka_configs_of_a_group(broker: Broker, topic: str) -> None:
    of_group = ("--entity-type", "groups", "--entity-name", topic)
    setting = ("--add-config", "consumer.session.timeout.ms=50000")
    run(broker, CONFIG_COMMAND, "--alter", *of_group, *setting)
    assert "consumer.session.timeout.ms=50000" in run(broker, CONFIG_COMMAND, "--describe", *of_group)
    run(broker, CONFIG_COMMAND, "--alter", *of_group, "--delete-config", "consumer.session.timeout.ms")
    assert "50000" not in run(broker, CONFIG_COMMAND, "--describe", *of_group)
