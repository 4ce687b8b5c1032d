"""The programs of examples/delivery, killed at the worst moment and started again."""

import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from peers.brokers import Broker
from tests.chaos.reading import committed_values, create_topics

pytestmark = pytest.mark.foreign

EXAMPLES = Path(__file__).parents[2] / "examples" / "delivery"
DIES_AT = 4
COUNT = 10
BALANCES = {"alice": 10 + 12 + 14 + 16 + 18, "bob": 11 + 13 + 15 + 17 + 19}
TIMEOUT_S = 60


def run(program: str, *arguments: object) -> int:
    command = [sys.executable, str(EXAMPLES / f"{program}.py"), *map(str, arguments)]
    return subprocess.run(command, timeout=TIMEOUT_S, check=False).returncode


class Example:
    """A program with a topic and an output file of its own."""

    def __init__(self, broker: Broker, name: str, topic: str, folder: Path) -> None:
        self.topic = topic
        self.output = folder / "output"
        self._name = name
        self._bootstrap = broker.bootstrap

    def send_payments(self) -> None:
        create_topics(self._bootstrap, self.topic, f"{self.topic}-receipts", partitions=1)
        assert run("payments", self._bootstrap, "--topic", self.topic) == 0

    def die_and_come_back(self) -> None:
        common = (self._bootstrap, "--topic", self.topic, "--output", self.output)
        assert run(self._name, *common, "--die-at", DIES_AT) == -signal.SIGKILL
        assert run(self._name, *common) == 0

    def receipts(self) -> list[int]:
        return [int(line) for line in self.output.read_text().split()]

    def rows(self, query: str) -> list[tuple[object, ...]]:
        connection = sqlite3.connect(self.output)
        try:
            return connection.execute(query).fetchall()
        finally:
            connection.close()

    def values(self, topic: str) -> list[bytes]:
        return committed_values(self._bootstrap, topic, partitions=1)[0]


@pytest.fixture
def example(request: pytest.FixtureRequest, broker: Broker, topic: str, tmp_path: Path) -> Example:
    return Example(broker, request.param, topic, tmp_path)


@pytest.mark.parametrize("example", ["at_most_once"], indirect=True)
def test_at_most_once_loses_the_message_at_which_it_died(example: Example) -> None:
    example.send_payments()
    example.die_and_come_back()
    assert example.receipts() == [number for number in range(COUNT) if number != DIES_AT - 1]


@pytest.mark.parametrize("example", ["at_least_once"], indirect=True)
def test_at_least_once_repeats_the_message_at_which_it_died(example: Example) -> None:
    example.send_payments()
    example.die_and_come_back()
    assert example.receipts() == sorted([*range(COUNT), DIES_AT - 1])


@pytest.mark.parametrize("example", ["exactly_once"], indirect=True)
def test_exactly_once_has_one_result_for_each_message(example: Example) -> None:
    example.send_payments()
    example.die_and_come_back()
    assert example.values(f"{example.topic}-receipts") == [b"%d" % number for number in range(COUNT)]


@pytest.mark.parametrize("example", ["unique_constraint"], indirect=True)
def test_a_unique_constraint_makes_one_row_of_a_repeated_message(example: Example) -> None:
    example.send_payments()
    example.die_and_come_back()
    assert example.rows("SELECT id FROM payments ORDER BY id") == [(number,) for number in range(COUNT)]
    assert dict(example.rows("SELECT account, sum(amount) FROM payments GROUP BY account")) == BALANCES


@pytest.mark.parametrize("example", ["conditional_update", "record_and_check"], indirect=True)
def test_a_repeated_message_changes_a_balance_once(example: Example) -> None:
    example.send_payments()
    example.die_and_come_back()
    assert dict(example.rows("SELECT account, balance FROM accounts")) == BALANCES


@pytest.mark.parametrize("example", ["outbox"], indirect=True)
def test_an_outbox_loses_no_message_and_sends_none_without_a_row(example: Example, broker: Broker) -> None:
    create_topics(broker.bootstrap, example.topic, partitions=1)
    example.die_and_come_back()
    expected = [
        f"order {order}: {item}" for order, item in example.rows("SELECT id, item FROM orders ORDER BY id")
    ]
    sent = [value.decode() for value in example.values(example.topic)]
    assert list(dict.fromkeys(sent)) == expected
    assert len(sent) == len(expected) + 1, "the one at which it died was sent twice"
    assert example.rows("SELECT * FROM outbox") == []


def test_every_program_says_how_to_run_it_and_is_in_the_table() -> None:
    table = (EXAMPLES / "README.md").read_text()
    for path in EXAMPLES.glob("*.py"):
        assert path.name in table
        if path.name != "shared.py":
            assert f"Run it with `python {path.name} " in path.read_text().split('"""')[1]
