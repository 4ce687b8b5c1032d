"""A service's test with a real broker: no container, no mock. Run it with `pytest examples/test_orders.py`.

The fixture `penstock_broker` comes with penstock; nothing has to be imported or configured.
"""

import json

from confluent_kafka import Consumer, Producer, TopicPartition


def place_order(producer: Producer, customer: str, amount: int) -> None:
    """The code under test: sends one event, keyed by customer."""
    producer.produce("orders", key=customer, value=json.dumps({"amount": amount}))
    producer.flush()


def test_an_order_becomes_an_event_keyed_by_its_customer(penstock_broker):
    place_order(Producer({"bootstrap.servers": penstock_broker.bootstrap_servers}), "alice", 42)

    consumer = Consumer(
        {
            "bootstrap.servers": penstock_broker.bootstrap_servers,
            "group.id": "test",
            "enable.auto.commit": False,  # nothing to remember: read by assignment
        }
    )
    consumer.assign([TopicPartition("orders", 0, 0)])
    event = consumer.poll(10)
    consumer.close()

    assert event.key() == b"alice"
    assert json.loads(event.value()) == {"amount": 42}
