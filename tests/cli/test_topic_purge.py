"""`penstock topic purge`: records go, the topic stays."""

import pytest

from tests.cli.running import Penstock


@pytest.fixture
def filled(penstock: Penstock, topic: str) -> str:
    """A topic of two partitions: four records at 1, 2, 3, 4 s, and none."""
    penstock("topic", "create", topic, "--partitions", 2, "--config", "retention.ms=-1")
    lines = "".join(f'{{"value":"{each}","timestamp":{each * 1000},"partition":0}}\n' for each in range(1, 5))
    assert penstock("produce", topic, "--json-lines", stdin=lines.encode()).code == 0
    return topic


def test_what_would_go_is_shown_first_and_nothing_goes_without_yes(penstock: Penstock, filled: str) -> None:
    shown = penstock("topic", "purge", filled)
    assert shown.code == 2
    assert [line.split() for line in shown.lines] == [
        ["PARTITION", "FROM", "TO", "RECORDS"],
        ["0", "0", "4", "4"],
    ]
    assert shown.err == (
        f"penstock: this would delete 4 records of topic {filled}; nothing was changed. --yes does it without asking\n"
    )
    assert len(penstock("consume", filled).lines) == 4
    document = penstock("topic", "purge", filled, "--json").document
    assert document["done"] is False


def test_all_records_go_and_the_topic_stays(penstock: Penstock, filled: str) -> None:
    done = penstock("topic", "purge", filled, "--yes")
    assert (done.code, done.lines[-1]) == (0, f"deleted 4 records of topic {filled}")
    assert penstock("consume", filled).lines == []
    (described,) = penstock("topic", "describe", filled, "--json").document
    assert [(each["start_offset"], each["end_offset"]) for each in described["partitions"]] == [
        (4, 4),
        (0, 0),
    ]
    assert described["configs"] == {"retention.ms": "-1"}
    again = penstock("topic", "purge", filled)
    assert (again.code, again.lines) == (0, [f"topic {filled} has no records to delete"])


@pytest.mark.parametrize(
    ("words", "left"),
    [
        (["--before", "1"], ["2", "3", "4"]),
        (["--before", "3000ms"], ["3", "4"]),
        (["--before", "-1"], ["4"]),
        (["--before", "1970-01-01T00:00:02.5Z"], ["3", "4"]),
        (["--before", "-1h"], []),
        (["-p", "0"], []),
    ],
    ids=" ".join,
)
def test_records_go_up_to_an_offset_or_a_time(
    penstock: Penstock, filled: str, words: list[str], left: list[str]
) -> None:
    done = penstock("topic", "purge", filled, *words, "--yes", "--json").document
    assert done["done"] is True
    assert sum(each["records"] for each in done["partitions"]) == 4 - len(left)
    assert penstock("consume", filled).lines == left


def test_purging_an_unknown_partition_or_a_compacted_topic_is_an_error(
    penstock: Penstock, filled: str
) -> None:
    assert penstock("topic", "purge", filled, "-p", "7").err == (
        f"penstock: topic {filled} has no partition 7; the last one is 1\n"
    )
    penstock("topic", "alter", filled, "--config", "cleanup.policy=compact")
    refused = penstock("topic", "purge", filled, "--yes")
    assert refused.code == 1
    assert refused.err == (
        f"penstock: cannot delete records of {filled}-0: the topic's cleanup.policy does not include delete "
        "(POLICY_VIOLATION)\n"
    )
