"""The scenario for groups of all clients: members join, leave, are killed and start again, and so does the broker.

All groups go through it at once, because most of it is waiting. Records are sent before, in and after every change.
"""

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from peers.brokers import Broker
from tests.foreign.members.crew import Crew
from tests.foreign.members.ledger import Ledger
from tests.foreign.target import new_broker

TOPIC = "shared"
PARTITIONS = 6
POURED_TO_EACH = 5
TIMEOUT_S = 60
SETTINGS = {
    "group.initial.rebalance.delay.ms": 500,
    "group.consumer.min.session.timeout.ms": 10_000,
    "group.consumer.session.timeout.ms": 10_000,
}


@dataclass
class Story:
    """The crews, what has been poured for them, and when the third members came and had their share."""

    broker: Broker
    crews: dict[str, Crew]
    poured: set[str] = field(default_factory=set)
    third_came_ns: int = 0
    third_settled_ns: int = 0

    def ledger(self, client: str, strategy: str) -> Ledger:
        return self.crews[client].ledgers[strategy]

    def committed(self, client: str, strategy: str) -> set[int]:
        """The offsets that the group has committed, of all partitions."""
        partitions = [TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)]
        settings = {
            "bootstrap.servers": self.broker.bootstrap,
            "group.id": self.crews[client].groups[strategy],
        }
        deadline_s = time.monotonic() + TIMEOUT_S
        with contextlib.closing(Consumer(settings)) as outsider:
            while True:
                try:
                    return {each.offset for each in outsider.committed(partitions, TIMEOUT_S)}
                except KafkaException:  # a broker that has just started may not have loaded them
                    if time.monotonic() > deadline_s:
                        raise

    def pour(self) -> None:
        """Some records to each partition."""
        producer = Producer({"bootstrap.servers": self.broker.bootstrap, "acks": "all"})
        for number in range(PARTITIONS * POURED_TO_EACH):
            value = str(len(self.poured))
            self.poured.add(value)
            producer.produce(TOPIC, value, partition=number % PARTITIONS)
        assert producer.flush(TIMEOUT_S) == 0

    def settle(self, *, each_owns: int) -> None:
        """Waits for the rebalances to end and for all records to be read."""
        for crew in self.crews.values():
            crew.wait_until_each_owns(each_owns)
        self.pour()
        self.wait_until_read()

    def wait_until_read(self) -> None:
        for crew in self.crews.values():
            crew.wait_until_read(self.poured)


@contextlib.contextmanager
def told(clients: Mapping[str, tuple[Sequence[str], Sequence[str]]]) -> Iterator[Story]:
    """The story at its end, the broker still there. Clients have a program and the strategies it knows."""
    with new_broker(SETTINGS) as broker, contextlib.ExitStack() as stack:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(TIMEOUT_S)
        crews = {
            client: stack.enter_context(
                Crew(client, program, strategies, bootstrap=broker.bootstrap, topic=TOPIC)
            )
            for client, (program, strategies) in clients.items()
        }
        story = Story(broker, crews)
        two_members_share(story)
        a_third_joins(story)
        one_leaves(story)
        one_is_killed_and_comes_again(story)
        the_broker_is_killed(story)
        all_leave(story)
        yield story


def two_members_share(story: Story) -> None:
    story.pour()
    for crew in story.crews.values():
        crew.start("first")
        crew.start("second")
    story.settle(each_owns=3)


def a_third_joins(story: Story) -> None:
    story.third_came_ns = time.monotonic_ns()
    for crew in story.crews.values():
        crew.start("third")
    story.pour()
    story.settle(each_owns=2)
    story.third_settled_ns = time.monotonic_ns()


def one_leaves(story: Story) -> None:
    for crew in story.crews.values():
        crew.ask_to_leave("second")
    story.pour()
    for crew in story.crews.values():
        crew.wait_until_left("second")
    story.settle(each_owns=3)


def one_is_killed_and_comes_again(story: Story) -> None:
    story.pour()
    for crew in story.crews.values():
        crew.kill("first")
        crew.start("first again")
    story.settle(each_owns=3)


def the_broker_is_killed(story: Story) -> None:
    story.pour()
    killed_ns = time.monotonic_ns()
    for crew in story.crews.values():
        crew.enter_broker_killed(killed_ns)
    story.broker.kill()
    story.broker.start()
    story.pour()
    story.wait_until_read()


def all_leave(story: Story) -> None:
    """Their last commits are acknowledged; then the broker is killed once more, with no member left to commit again."""
    for crew in story.crews.values():
        for name in crew.members:
            crew.ask_to_leave(name)
    for crew in story.crews.values():
        for name in crew.members:
            crew.wait_until_left(name)
    story.broker.kill()
    story.broker.start()
