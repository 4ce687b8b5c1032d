"""The programs of examples/delivery, killed at the worst moment and started again."""

import re
import shutil
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
        common: tuple[object, ...] = (self._bootstrap, "--topic", self.topic)
        if self._name != "exactly_once":
            common += ("--output", self.output)
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


def test_the_programs_run_one_after_another_in_one_folder_as_their_first_lines_say(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    create_topics(broker.bootstrap, topic, f"{topic}-receipts", f"{topic}-orders", partitions=1)
    programs = [path for path in EXAMPLES.glob("*.py") if path.name != "shared.py"]
    programs.sort(key=lambda path: (path.name != "payments.py", path.name))
    for _ in range(2):
        for path in programs:
            command = documented_command(path).replace("localhost:9092", broker.bootstrap)
            own_topic = f"{topic}-orders" if path.name == "outbox.py" else topic
            ran = in_folder(tmp_path, f"{command} --topic {own_topic}")
            assert ran.returncode == 0, f"{command}: {ran.stderr}"
    assert len(list(tmp_path.iterdir())) == 6, "one output file for each program that writes one"


def test_the_commands_of_the_readme_show_the_payment_that_has_two_receipts(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    create_topics(broker.bootstrap, topic, partitions=1)
    (block,) = re.findall(
        r"```\ncd examples/delivery\n(.*?)```", (EXAMPLES / "README.md").read_text(), re.DOTALL
    )
    *commands, look = block.splitlines()
    for command in commands:
        in_folder(tmp_path, command.replace("localhost:9092", f"{broker.bootstrap} --topic {topic}"))
    assert in_folder(tmp_path, look).stdout == "2\n"


def test_an_outbox_does_not_send_orders_to_the_topic_of_payments() -> None:
    told = in_folder(EXAMPLES, "python outbox.py --help").stdout
    assert "default: orders" in told


def documented_command(path: Path) -> str:
    found = re.search(r"Run it with `([^`]+)`", path.read_text())
    assert found is not None
    return found[1]


def in_folder(folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    """Run a documented command there, with this Python and the programs where they are."""
    command = re.sub(r"^python (\S+)", rf"{sys.executable} {EXAMPLES}/\1", command)
    shell = shutil.which("sh") or "sh"
    return subprocess.run(
        [shell, "-c", command], cwd=folder, timeout=TIMEOUT_S, check=False, capture_output=True, text=True
    )
