"""A word count with Kafka Streams and exactly_once_v2: it runs, is killed with its broker, and goes on."""

import time
from collections import defaultdict
from pathlib import Path

import pytest
from confluent_kafka import Producer

from peers.brokers import Broker
from peers.process import WatchedProcess
from tests.chaos.reading import committed_values, create_topics
from tests.foreign.members.java_program import compiled

pytestmark = pytest.mark.foreign

PROGRAM = Path(__file__).parent / "programs" / "WordCount.java"
PARTITIONS = 2
LINES = ("the gate holds the water", "the water turns the wheel", "the wheel turns")
ROUNDS = 20
TIMEOUT_S = 90.0


class WordCount:
    """The program and its two topics, and what it should have counted by now."""

    def __init__(self, broker: Broker, name: str, folder: Path) -> None:
        self._bootstrap = broker.bootstrap
        self._input, self._output = f"{name}-lines", f"{name}-counts"
        create_topics(broker.bootstrap, self._input, self._output, partitions=PARTITIONS)
        arguments = [broker.bootstrap, name, str(folder / "state"), self._input, self._output]
        self._command = [*compiled(PROGRAM, folder), *arguments]
        self._expected: dict[str, int] = defaultdict(int)
        self.process = self.started()

    def started(self) -> WatchedProcess:
        self.process = WatchedProcess(self._command)
        return self.process

    def pour(self) -> None:
        producer = Producer({"bootstrap.servers": self._bootstrap, "enable.idempotence": True})
        for number in range(ROUNDS * len(LINES)):
            line = LINES[number % len(LINES)]
            producer.produce(self._input, line, partition=number % PARTITIONS)
            for word in line.split():
                self._expected[word] += 1
        assert producer.flush(TIMEOUT_S) == 0

    def wait_for_more(self) -> None:
        """Until there are counts that were not there when asked."""
        before = self._counted()
        deadline_s = time.monotonic() + TIMEOUT_S
        while self._counted() == before:
            assert time.monotonic() < deadline_s, self.process.output

    def counts(self) -> dict[str, list[int]]:
        """All counts of each word, once as many are there as there should be."""
        deadline_s = time.monotonic() + TIMEOUT_S
        while self._counted() < sum(self._expected.values()):
            assert time.monotonic() < deadline_s, self.process.output
        counts: dict[str, list[int]] = defaultdict(list)
        for values in self._values().values():
            for value in values:
                word, count = value.decode().split()
                counts[word].append(int(count))
        return counts

    def expected(self) -> dict[str, list[int]]:
        return {word: list(range(1, count + 1)) for word, count in self._expected.items()}

    def _counted(self) -> int:
        return sum(map(len, self._values().values()))

    def _values(self) -> dict[int, list[bytes]]:
        return committed_values(self._bootstrap, self._output, partitions=PARTITIONS)


@pytest.mark.needs("kafka", "jdk")
def test_a_word_count_is_killed_and_goes_on_exactly(own_broker: Broker, topic: str, tmp_path: Path) -> None:
    count = WordCount(own_broker, topic[-20:], tmp_path)
    try:
        count.pour()
        count.wait_for_more()
        count.pour()
        count.process.kill()
        count.pour()
        count.started()
        count.wait_for_more()
        count.pour()
        own_broker.kill()
        own_broker.start()
        count.pour()

        assert count.counts() == count.expected()
    finally:
        count.process.kill()
