"""Our command line, on Apache Kafka: what it does to a broker that is not Penstock."""

import base64
from pathlib import Path

import pytest

from peers.kafka import ApacheKafka
from penstock.cli.parsing import BOOTSTRAP_VARIABLE
from tests.cli.running import Penstock, in_process

pytestmark = [pytest.mark.foreign, pytest.mark.xdist_group("kafka")]


@pytest.fixture
def penstock(
    kafka: ApacheKafka,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Penstock:
    monkeypatch.setenv(BOOTSTRAP_VARIABLE, kafka.bootstrap)
    return in_process(capsys, monkeypatch, tmp_path)


def test_topics_are_managed_on_apache_kafka(penstock: Penstock, topic: str) -> None:
    created = penstock("topic", "create", topic, "--partitions", 2, "--config", "retention.ms=60000")
    assert created == (0, f"created topic {topic} with 2 partitions\n", "")
    assert penstock("topic", "alter", topic, "--partitions", 3).code == 0
    assert penstock("topic", "alter", topic, "--config", "no.such=1").err.endswith("(INVALID_CONFIG)\n")
    penstock("produce", topic, "-p", 1, stdin=b"one\ntwo\n")
    (description,) = penstock("topic", "describe", topic, "--json").document
    assert description["configs"] == {"retention.ms": "60000"}
    assert [each["end_offset"] for each in description["partitions"]] == [0, 2, 0]
    assert description["partitions"][1]["size_bytes"] > 60
    assert topic in penstock("topic", "list").out
    assert penstock("topic", "describe", topic + "x").err.endswith(f"did you mean {topic!r}?\n")
    assert penstock("topic", "delete", topic, "--yes").code == 0


def test_the_levels_of_apache_kafkas_features_are_shown(penstock: Penstock) -> None:
    features = {each["name"]: each for each in penstock("cluster", "describe", "--json").document["features"]}
    assert features["transaction.version"] == {
        "name": "transaction.version",
        "level": 2,
        "supported": {"1": [0, 2]},
    }
    # A quorum whose voters are given in a file, as the tests', begins with this one at 0.
    preview = penstock("cluster", "upgrade").lines
    assert preview[0] == "kraft.version would be raised from 0 to 1"


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_go_through_apache_kafka(penstock: Penstock, topic: str, codec: str) -> None:
    penstock("topic", "create", topic, "--config", "retention.ms=-1")
    lines = b'{"key":"k","value":{"base64":"/w=="},"headers":[["h",null]],"timestamp":1700000000000}\n{"value":"v"}\n'
    sent = penstock("produce", topic, "--json-lines", "-z", codec, stdin=lines)
    assert sent == (0, f"sent 2 records to {topic} (partition 0: offsets 0-1)\n", "")
    first, second = penstock("consume", topic, "--json").documents
    assert base64.b64decode(first["value"]["base64"]) == b"\xff"
    assert (first["key"], first["headers"], first["timestamp"]) == ("k", [["h", None]], 1_700_000_000_000)
    assert (second["key"], second["value"]) == (None, "v")
    assert penstock("consume", topic, "--from", "-1h").lines == ["v"]
    assert penstock("consume", topic, "--from", -1, "--print", "offset,value").lines == ["1\tv"]


def test_log_describe_reads_what_apache_kafka_wrote(
    penstock: Penstock, topic: str, kafka: ApacheKafka
) -> None:
    penstock("topic", "create", topic, "--config", "segment.bytes=1048576")
    lines = b"".join(b"%0500d\n" % number for number in range(6_000))
    penstock("produce", topic, "-z", "none", stdin=lines)
    outcome = penstock("log", "describe", "--json", kafka.data / f"{topic}-0")
    assert outcome.code == 0
    kinds = {each["kind"] for each in outcome.documents}
    assert kinds == {"batch", "index entry", "time index entry", "producer"}
    records = sum(each["record_count"] for each in outcome.documents if each["kind"] == "batch")
    assert records == 6_000
