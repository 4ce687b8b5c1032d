"""What the programs of this folder share: their arguments, a consumer that reads to the end, and a sudden death."""

import argparse
import json
import os
import signal
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message


def arguments(about: str, *, output: str | None = None, topic: str = "payments") -> argparse.Namespace:
    """Those of all programs; `output` is the file that a program writes, and no other program does."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("bootstrap", help="where the broker is, as in localhost:9092")
    parser.add_argument("--topic", default=topic, help="the topic of the messages (default: %(default)s)")
    if output is not None:
        parser.add_argument(
            "--output", type=Path, default=Path(output), help="the file to write (default: %(default)s)"
        )
    parser.add_argument(
        "--die-at", type=int, default=0, metavar="N", help="die at the Nth message, at the worst moment"
    )
    return parser.parse_args()


class Fate:
    """Kills the program as `kill -9` would, at the moment at which `strike` is called the Nth time."""

    def __init__(self, die_at: int) -> None:
        self._left = die_at

    def strike(self) -> None:
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def consumer_of(bootstrap: str, group: str, topic: str, **settings: Any) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            # Of this topic: a static member that comes back for another one is given its old partitions again.
            "group.id": f"{group}-of-{topic}",
            # A static member: when it comes back it takes its old place at once.
            "group.instance.id": group,
            "enable.auto.commit": False,  # each program says itself when a message is done
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            **settings,
        }
    )
    consumer.subscribe([topic])
    return consumer


def messages(consumer: Consumer) -> Iterator[Message]:
    """The messages that are there, one by one; ends at the end of all partitions."""
    ended: set[int] = set()
    while not ended or ended < {each.partition for each in consumer.assignment()}:
        message = consumer.poll(1.0)
        if message is None:
            continue
        error = message.error()
        if error is None:
            ended.discard(message.partition())
            yield message
        elif error.name() == "_PARTITION_EOF":
            ended.add(message.partition())
        else:
            raise KafkaException(error)


def payment_in(message: Message) -> dict[str, Any]:
    payment: dict[str, Any] = json.loads(message.value() or b"")
    return payment


def database(path: Path, tables: str) -> sqlite3.Connection:
    """The SQLite database in the file, with these tables."""
    connection = sqlite3.connect(path)
    connection.executescript(tables)
    return connection
