"""An outbox: a row and its message, or neither. Run it with `python outbox.py localhost:9092`.

A program that writes to a database and then sends may die in between, and the message is never sent. Here the message
is a row as well, of the same transaction. Who sends what lies in the outbox may die and be started again: the message
at which it died is then sent twice, under the same id, and nothing is missing.
"""

import sqlite3

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from shared import Fate, arguments, database

TABLES = """
CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, item TEXT);
CREATE TABLE IF NOT EXISTS outbox (id INTEGER PRIMARY KEY, message TEXT);
"""
ITEMS = ("pipe", "valve", "gate", "pump", "gauge")


def place_order(rows: sqlite3.Connection, item: str) -> None:
    with rows:
        order = rows.execute("INSERT INTO orders (item) VALUES (?)", (item,)).lastrowid
        rows.execute("INSERT INTO outbox VALUES (?, ?)", (order, f"order {order}: {item}"))


def send_outbox(rows: sqlite3.Connection, producer: Producer, topic: str, fate: Fate) -> None:
    """Send in order; what the broker has confirmed leaves the outbox."""
    for order, text in rows.execute("SELECT id, message FROM outbox ORDER BY id").fetchall():
        producer.produce(topic, text, key=str(order), on_delivery=_raise_if_refused)
        producer.flush()
        fate.strike()
        with rows:
            rows.execute("DELETE FROM outbox WHERE id = ?", (order,))


def _raise_if_refused(error: KafkaError | None, _: Message) -> None:
    if error is not None:
        raise KafkaException(error)


def main() -> None:
    asked = arguments(
        "Place five orders if there are none, then send what the outbox holds.",
        output="outbox.sqlite",
        topic="orders",
    )
    rows = database(asked.output, TABLES)
    if not rows.execute("SELECT 1 FROM orders").fetchone():
        for item in ITEMS:
            place_order(rows, item)
    producer = Producer({"bootstrap.servers": asked.bootstrap, "enable.idempotence": True})
    send_outbox(rows, producer, asked.topic, Fate(asked.die_at))


if __name__ == "__main__":
    main()
