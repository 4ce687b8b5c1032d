import io
import sys

import pytest

from penstock.cli.main import main
from tests.cli.running import Penstock


def test_a_topic_is_created_listed_described_altered_and_deleted(penstock: Penstock, topic: str) -> None:
    created = penstock("topic", "create", topic, "--partitions", 2, "--config", "retention.ms=60000")
    assert created == (0, f"created topic {topic} with 2 partitions\n", "")
    assert any(line.split() == [topic, "2", "1"] for line in penstock("topic", "list").lines)

    penstock("produce", topic, "-p", "1", stdin=b"one\ntwo\n")
    described = penstock("topic", "describe", topic)
    assert described.code == 0
    assert described.lines[0] == topic
    assert "  config      retention.ms=60000" in described.lines
    titles = next(number for number, line in enumerate(described.lines) if "PARTITION" in line)
    rows = [line.split() for line in described.lines[titles + 1 :]]
    assert [(row[0], row[5], row[6]) for row in rows] == [("0", "0", "0"), ("1", "0", "2")]

    altered = penstock(
        "topic",
        "alter",
        topic,
        "--partitions",
        3,
        "--config",
        "cleanup.policy=compact",
        "--delete-config",
        "retention.ms",
    )
    assert altered == (0, f"altered topic {topic}\n", "")
    (description,) = penstock("topic", "describe", topic, "--json").document
    assert description["configs"] == {"cleanup.policy": "compact"}
    assert len(description["partitions"]) == 3

    assert penstock("topic", "delete", topic, "--yes") == (0, f"deleted topic {topic}\n", "")
    assert topic not in penstock("topic", "list").out


def test_json_has_everything_a_script_needs(penstock: Penstock, topic: str) -> None:
    created = penstock("topic", "create", topic, "--partitions", 1, "--json").document
    assert created["created"] is True
    assert created["partitions"] == 1
    penstock("produce", topic, stdin=b"12345\n")
    (description,) = penstock("topic", "describe", "--json", topic).document
    assert description["id"] == created["id"]
    (partition,) = description["partitions"]
    leader = partition["leader"]
    assert partition["replicas"] == partition["isr"] == [leader]
    assert partition["offline"] == []
    assert (partition["start_offset"], partition["end_offset"]) == (0, 1)
    assert partition["size_bytes"] > 60
    listed = {each["name"]: each for each in penstock("topic", "list", "--json").document}
    assert listed[topic] == {
        "name": topic,
        "id": created["id"],
        "partitions": 1,
        "replication_factor": 1,
        "internal": False,
    }
    assert penstock("topic", "delete", topic, "--yes", "--json").document == {"deleted": [topic]}


def test_a_typo_is_answered_with_the_nearest_topic(penstock: Penstock, topic: str) -> None:
    penstock("topic", "create", topic)
    typo = topic.replace("-", "_", 1)
    for words in (
        ["topic", "describe", typo],
        ["topic", "alter", typo, "--partitions", "9"],
        ["topic", "delete", typo],
        ["consume", typo],
    ):
        expected = f"penstock: there is no topic {typo!r}; did you mean {topic!r}?\n"
        assert penstock(*words) == (1, "", expected)


def test_a_topic_unlike_all_others_is_answered_with_where_to_look(penstock: Penstock) -> None:
    outcome = penstock("topic", "describe", "0")
    assert outcome.err == "penstock: there is no topic '0'; `penstock topic list` lists all\n"


def test_creating_twice_fails_unless_that_is_fine(penstock: Penstock, topic: str) -> None:
    penstock("topic", "create", topic)
    again = penstock("topic", "create", topic)
    assert again.code == 1
    assert again.err.startswith(f"penstock: cannot create topic {topic!r}: ")
    assert "TOPIC_ALREADY_EXISTS" in again.err
    assert penstock("topic", "create", topic, "--if-not-exists") == (0, f"topic {topic} exists already\n", "")


def test_deleting_what_is_gone_fails_unless_that_is_fine(penstock: Penstock, topic: str) -> None:
    assert penstock("topic", "delete", topic).code == 1
    assert penstock("topic", "delete", topic, "--if-exists") == (0, "", "")


def test_a_refused_config_or_name_or_count_is_one_line_with_the_brokers_reason(
    penstock: Penstock, topic: str
) -> None:
    penstock("topic", "create", topic, "--partitions", "2")
    for words, code in (
        (["topic", "create", "a b"], "INVALID_TOPIC_EXCEPTION"),
        (["topic", "create", "x", "--config", "no.such=1"], "INVALID_CONFIG"),
        (["topic", "create", "x", "--replication-factor", "9"], "INVALID_REPLICATION_FACTOR"),
        (["topic", "alter", topic, "--config", "retention.ms=soon"], "INVALID_CONFIG"),
        (["topic", "alter", topic, "--partitions", "1"], "INVALID_PARTITIONS"),
    ):
        outcome = penstock(*words)
        assert outcome.code == 1
        assert outcome.out == ""
        assert outcome.err.endswith(f"({code})\n")
        assert len(outcome.err.splitlines()) == 1


def test_validating_creates_nothing(penstock: Penstock, topic: str) -> None:
    assert penstock("topic", "create", topic, "--validate-only").lines == [f"topic {topic} could be created"]
    assert topic not in penstock("topic", "list").out


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("said", "code"), [("y\n", 0), ("yes\n", 0), ("\n", 1), ("no\n", 1), ("", 1)])
def test_a_person_is_asked_before_anything_is_deleted(
    penstock: Penstock,
    topic: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    said: str,
    code: int,
) -> None:
    penstock("topic", "create", topic)
    monkeypatch.setattr(sys, "stdin", Terminal(said))
    assert main(["topic", "delete", topic]) == code
    assert f"delete topic {topic} and all its records? [y/N]" in capsys.readouterr().err
    assert (topic in penstock("topic", "list").out) == bool(code)


def test_yes_deletes_a_topic_without_asking(
    penstock: Penstock, topic: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    penstock("topic", "create", topic)
    monkeypatch.setattr(sys, "stdin", Terminal(""))
    assert main(["topic", "delete", topic, "--yes"]) == 0
    assert capsys.readouterr() == (f"deleted topic {topic}\n", "")
