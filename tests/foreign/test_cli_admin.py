"""`penstock topic config|purge|move`, `broker config` and `produce`'s limits, on Penstock and on Apache Kafka."""

from pathlib import Path

import pytest

from penstock.cli.parsing import BOOTSTRAP_VARIABLE
from tests.cli.running import Penstock, in_process

pytestmark = [pytest.mark.foreign, pytest.mark.xdist_group("kafka")]


@pytest.fixture(params=[pytest.param("kafka", marks=pytest.mark.needs("kafka")), "broker"])
def penstock(
    request: pytest.FixtureRequest,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Penstock:
    monkeypatch.setenv(BOOTSTRAP_VARIABLE, request.getfixturevalue(request.param).bootstrap)
    return in_process(capsys, monkeypatch, tmp_path)


@pytest.fixture
def filled(penstock: Penstock, topic: str) -> str:
    """A topic of two partitions; the second has ten records."""
    assert penstock("topic", "create", topic, "--partitions", 2).code == 0
    assert penstock("produce", topic, "-p", 1, stdin=b"0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n").code == 0
    return topic


def test_configs_are_shown_with_their_source_set_and_unset(penstock: Penstock, filled: str) -> None:
    def source(*words: object) -> list[object]:
        (config,) = penstock("topic", "config", filled, *words, "--json").document["configs"]
        return [config["value"], config["source"]]

    assert source("cleanup.policy") == ["delete", "default"]
    assert source("--set", "retention.ms=60000") == ["60000", "topic"]
    assert source("--unset", "retention.ms") == ["604800000", "default"]
    everything = penstock("topic", "config", filled)
    assert everything.code == 0
    assert any(line.split() == ["cleanup.policy", "delete", "default"] for line in everything.lines)
    assert penstock("topic", "config", filled, "--set", "retention.ms=soon").err.endswith(
        "(INVALID_CONFIG)\n"
    )


def test_a_brokers_settings_are_shown_altered_and_put_back(penstock: Penstock) -> None:
    (broker, *_) = penstock("broker", "list", "--json").document
    name = "leader.replication.throttled.rate"

    def source(*words: object) -> list[object]:
        (config,) = penstock("broker", "config", broker["id"], *words, "--json").document["configs"]
        return [config["value"], config["source"]]

    assert source("--set", f"{name}=1000000") == ["1000000", "broker, altered"]
    done = penstock("broker", "config", broker["id"], "--unset", name)
    assert done.code == 0
    assert (
        "altered" not in done.out
    )  # Kafka hides it, or shows the old value as a default until it has applied that
    assert penstock("broker", "config", 99).err.startswith("penstock: there is no broker 99; ")


def test_records_are_purged_up_to_an_offset_and_up_to_the_end(penstock: Penstock, filled: str) -> None:
    refused = penstock("topic", "purge", filled, "--before", 4)
    assert refused.code == 2
    assert refused.lines[-1].split() == ["1", "0", "4", "4"]
    assert penstock("topic", "purge", filled, "--before", 4, "--yes").code == 0
    assert penstock("consume", filled).lines == ["4", "5", "6", "7", "8", "9"]
    assert penstock("topic", "purge", filled, "--yes").lines[-1] == f"deleted 6 records of topic {filled}"
    assert penstock("consume", filled).lines == []
    assert penstock("topic", "purge", filled).lines == [f"topic {filled} has no records to delete"]
    penstock("topic", "alter", filled, "--config", "cleanup.policy=compact")
    penstock("produce", filled, "-k", ":", "-p", 1, stdin=b"k:v\n")
    compacted = penstock("topic", "purge", filled, "--yes")
    assert compacted.err.endswith("the topic's cleanup.policy does not include delete (POLICY_VIOLATION)\n")


def test_moving_replicas_to_their_own_broker_succeeds_and_to_an_unknown_broker_fails(
    penstock: Penstock, filled: str
) -> None:
    (broker, *_) = penstock("broker", "list", "--json").document
    done = penstock("topic", "move", filled, "--to", broker["id"])
    assert done.lines == [f"moved 2 partitions of topic {filled} to brokers {broker['id']}"], done.err
    assert penstock("topic", "move", filled, "--cancel").lines == [f"cancelled 0 moves of topic {filled}"]
    refused = penstock("topic", "move", f"{filled}:1", "--to", "99")
    assert refused.code == 1
    assert refused.err.startswith(f"penstock: cannot move {filled}-1: ")
    assert refused.err.endswith("(INVALID_REPLICA_ASSIGNMENT)\n")


@pytest.mark.parametrize(("limit", "size"), [(1000, 5000), (1000, 120_000_000), (2_147_483_647, 120_000_000)])
def test_a_record_too_large_is_said_at_once(
    penstock: Penstock, topic: str, tmp_path: Path, limit: int, size: int
) -> None:
    penstock("topic", "create", topic, "--config", f"max.message.bytes={limit}")
    (tmp_path / "lines").write_bytes(b"fits\n" + b"x" * size)
    outcome = penstock("produce", topic, tmp_path / "lines")
    assert outcome.code == 1
    assert f"line 2 of {tmp_path}/lines cannot be sent: it makes a batch of " in outcome.err
    assert ("max.message.bytes" if limit < size else "socket.request.max.bytes") in outcome.err


def test_an_unknown_topic_error_names_the_command_that_creates_it(penstock: Penstock, topic: str) -> None:
    outcome = penstock("produce", topic, stdin=b"x\n")
    assert (outcome.code, outcome.out) == (1, "")
    assert f"`penstock topic create {topic}` creates it" in outcome.err


def test_a_topic_is_not_deleted_without_yes(penstock: Penstock, filled: str) -> None:
    assert penstock("topic", "delete", filled, stdin=b"y\n").code == 2
    assert penstock("group", "delete", filled, "--if-exists").code == 0
    assert penstock("topic", "describe", filled).code == 0
