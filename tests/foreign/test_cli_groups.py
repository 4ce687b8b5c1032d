"""`penstock group`, `txn` and `consume --group`: the same stories on Penstock and on Apache Kafka.

The brokers are shared with other tests: every story looks at its own topics, groups and transactional ids only.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from penstock.cli.parsing import BOOTSTRAP_VARIABLE
from tests.cli.running import Outcome, Penstock, in_process

pytestmark = [pytest.mark.foreign, pytest.mark.xdist_group("kafka")]


@pytest.fixture(params=[pytest.param("kafka", marks=pytest.mark.needs("kafka")), "broker"])
def address(request: pytest.FixtureRequest) -> str:
    bootstrap: str = request.getfixturevalue(request.param).bootstrap
    return bootstrap


@pytest.fixture
def penstock(
    address: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Penstock:
    monkeypatch.setenv(BOOTSTRAP_VARIABLE, address)
    return in_process(capsys, monkeypatch, tmp_path)


@pytest.fixture
def filled(penstock: Penstock, topic: str) -> str:
    """A topic of two partitions; the second has ten records."""
    assert penstock("topic", "create", topic, "--partitions", 2).code == 0
    assert penstock("produce", topic, "-p", 1, stdin=b"0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n").code == 0
    return topic


@pytest.fixture
def member(address: str, filled: str) -> Iterator[Consumer]:
    """A member of the group that has the topic's name."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": filled,
            "client.id": "the-member",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([filled])
    try:
        assert consumer.poll(60) is not None
        yield consumer
    finally:
        consumer.close()


def rows(outcome: Outcome, title: str) -> list[list[str]]:
    """The rows of the table whose first column has this title."""
    lines = [line.split() for line in outcome.lines]
    start = next(number for number, words in enumerate(lines) if words[:1] == [title])
    return [words for words in lines[start + 1 :] if words]


def listed(penstock: Penstock, group: str, *words: object) -> list[str]:
    """The state of a group in the listing; nothing if it is not in it."""
    found = penstock("group", "list", "--json", *words).document
    return [each["state"] for each in found if each["group"] == group]


def test_a_group_reads_on_where_it_was(penstock: Penstock, filled: str) -> None:
    assert penstock("consume", filled, "-g", filled, "-n", 3).lines == ["0", "1", "2"]
    assert penstock("consume", filled, "-g", filled, "-n", 2).lines == ["3", "4"]
    assert penstock("consume", filled, "-g", filled).lines == ["5", "6", "7", "8", "9"]
    assert penstock("consume", filled, "-g", filled).lines == []


def test_a_group_that_has_never_been_here_can_begin_at_the_end(penstock: Penstock, filled: str) -> None:
    assert penstock("consume", filled, "-g", filled, "--from", "end").lines == []
    penstock("produce", filled, "-p", 1, stdin=b"new\n")
    again = penstock("consume", filled, "-g", filled)
    assert again.lines in (["new"], [str(number) for number in range(10)] + ["new"])


def test_a_group_is_listed_and_described_with_its_lag(penstock: Penstock, filled: str) -> None:
    penstock("consume", filled, "-g", filled, "-n", 4)
    assert listed(penstock, filled) == ["Empty"]
    assert listed(penstock, filled, "--state", "Empty") == ["Empty"]
    assert listed(penstock, filled, "--state", "Stable") == []
    assert listed(penstock, filled, "--type", "consumer") == ["Empty"]
    assert listed(penstock, filled, "--type", "classic") == []
    described = penstock("group", "describe", filled)
    assert described.lines[0] == filled
    assert "  lag       6 records" in described.lines
    assert [filled, "1", "4", "10", "6", "-"] in rows(described, "TOPIC")
    (document,) = penstock("group", "describe", filled, "--json").document
    assert (document["state"], document["protocol"], document["lag"]) == ("Empty", "consumer", 6)
    assert document["offsets"][-1] == {
        "topic": filled,
        "partition": 1,
        "committed": 4,
        "metadata": "",
        "start_offset": 0,
        "end_offset": 10,
        "lag": 6,
        "member": None,
    }


def test_members_are_shown_with_what_they_read(penstock: Penstock, filled: str, member: Consumer) -> None:
    (document,) = penstock("group", "describe", filled, "--json").document
    (shown,) = document["members"]
    assert (shown["client"], shown["topics"]) == ("the-member", [filled])
    assert shown["partitions"] == [f"{filled}-0", f"{filled}-1"]
    described = penstock("group", "describe", filled)
    assert any("the-member" in line for line in described.lines)


def test_a_reset_shows_first_what_it_would_do(penstock: Penstock, filled: str) -> None:
    penstock("consume", filled, "-g", filled)
    preview = penstock("group", "reset", filled, "--to", "beginning")
    assert [filled, "1", "10", "0", "reads", "10", "records", "again"] in rows(preview, "TOPIC")
    assert preview.code == 2
    assert "nothing was changed. --yes does it" in preview.err
    assert penstock("consume", filled, "-g", filled).lines == []
    done = penstock("group", "reset", filled, "--to", "beginning", "--yes")
    assert done.lines[-1] == f"reset group {filled}"
    assert len(penstock("consume", filled, "-g", filled).lines) == 10


@pytest.mark.parametrize(
    ("where", "first", "effect"),
    [
        (("--to", "7"), "7", "reads 1 record again"),
        (("--to", "-3"), "7", "reads 1 record again"),
        (("--by", "-5"), "3", "reads 5 records again"),
        (("--by", "1"), "9", "skips 1 record"),
        (("--to", "-1h"), "0", "reads 8 records again"),
    ],
)
def test_a_group_is_moved_to_an_offset_a_time_or_by_a_distance(
    penstock: Penstock, filled: str, where: tuple[str, str], first: str, effect: str
) -> None:
    penstock("consume", filled, "-g", filled, "-n", 8)
    done = penstock("group", "reset", filled, *where, "--topic", filled, "-p", 1, "--yes")
    assert done.code == 0, done.err
    assert any(line.endswith(effect) for line in done.lines)
    assert penstock("consume", filled, "-g", filled, "-n", 1).lines == [first]


def test_reset_commits_offsets_for_a_group_that_does_not_exist_yet(penstock: Penstock, filled: str) -> None:
    refused = penstock("group", "reset", filled, "--to", "end", "--yes")
    assert refused.code == 1
    assert "has no committed offsets" in refused.err
    assert penstock("group", "reset", filled, "--to", "8", "--topic", filled, "--yes").code == 0
    assert penstock("consume", filled, "-g", filled).lines == ["8", "9"]


def test_a_group_with_members_is_neither_moved_nor_deleted(
    penstock: Penstock, filled: str, member: Consumer
) -> None:
    for words in (("reset", filled, "--to", "end", "--yes"), ("delete", filled)):
        refused = penstock("group", *words)
        assert refused.code == 1
        assert "has 1 member (the-member on 127.0.0.1); stop them first" in refused.err


def test_a_group_is_deleted_with_its_offsets(penstock: Penstock, filled: str) -> None:
    penstock("consume", filled, "-g", filled, "-n", 4)
    assert penstock("group", "delete", filled, "--yes").lines == [f"deleted group {filled}"]
    gone = penstock("group", "describe", filled)
    assert gone.code == 1
    assert gone.err.startswith(f"penstock: there is no group {filled!r}; ")
    assert penstock("group", "delete", filled, "--yes").code == 1
    assert penstock("group", "delete", filled, "--if-exists", "--json").document == {"deleted": []}
    assert len(penstock("consume", filled, "-g", filled).lines) == 10


@pytest.fixture
def transaction(address: str, filled: str) -> Producer:
    """A transaction that is open, of the transactional id that has the topic's name."""
    producer = Producer({"bootstrap.servers": address, "transactional.id": filled})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(filled, b"not yet", partition=1)
    assert producer.flush(60) == 0
    return producer


def test_an_open_transaction_is_listed_described_and_aborted(
    penstock: Penstock, filled: str, transaction: Producer
) -> None:
    open_ones = penstock("txn", "list", "--open", "--json").document
    assert [each["state"] for each in open_ones if each["id"] == filled] == ["Ongoing"]
    assert filled in penstock("txn", "list").out
    described = penstock("txn", "describe", filled)
    assert described.lines[0] == filled
    assert f"  writes to  {filled}-1" in described.lines
    (document,) = penstock("txn", "describe", filled, "--json").document
    assert document["partitions"] == [f"{filled}-1"]
    assert document["open_for_ms"] is not None
    assert penstock("consume", filled, "--committed").lines == [str(number) for number in range(10)]
    assert penstock("consume", filled).lines[-1] == "not yet"
    refused = penstock("txn", "abort", filled)
    assert refused.code == 2
    assert f"this would abort the transaction of {filled} and fence its producer" in refused.err
    assert penstock("txn", "describe", filled, "--json").document[0]["open_for_ms"] is not None
    aborted = penstock("txn", "abort", filled, "--yes")
    assert aborted.lines == [f"aborted the transaction of {filled} (in 1 partition) and fenced its producer"]
    (document,) = penstock("txn", "describe", filled, "--json").document
    assert (document["partitions"], document["open_for_ms"]) == ([], None)
    penstock("produce", filled, "-p", 1, stdin=b"after\n")
    assert penstock("consume", filled, "--committed").lines == [
        *(str(number) for number in range(10)),
        "after",
    ]
    assert penstock("consume", filled, "-g", filled, "--committed").lines[-2:] == ["9", "after"]


def test_only_what_hangs_in_a_partition_is_aborted_there(
    penstock: Penstock, filled: str, transaction: Producer
) -> None:
    (document,) = penstock("txn", "describe", filled, "--json").document
    wrong = penstock("txn", "abort", "--partition", f"{filled}-1", "--producer-id", 123_456_789)
    assert wrong.code == 1
    assert f"producers with an open transaction: {document['producer_id']}" in wrong.err
    where = ("--partition", f"{filled}-1", "--producer-id", document["producer_id"])
    refused = penstock("txn", "abort", *where)
    assert refused.code == 2
    assert f"this would abort the transaction of producer {document['producer_id']}" in refused.err
    ended = penstock("txn", "abort", *where, "--yes")
    assert ended.code == 0, ended.err
    penstock("produce", filled, "-p", 1, stdin=b"after\n")
    assert penstock("consume", filled, "--committed").lines[-2:] == ["9", "after"]


def test_describing_an_unknown_transactional_id_is_an_error(penstock: Penstock, topic: str) -> None:
    unknown = penstock("txn", "describe", topic)
    assert unknown.code == 1
    assert f"there is no transactional id {topic!r}" in unknown.err
