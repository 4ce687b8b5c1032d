"""From topic to topic in transactions: each payment has one receipt.
Run it with `python exactly_once.py localhost:9092`.

The receipt and the offset that says "this payment is done" are committed together, or neither is. A reader of the
receipts must read committed ones only. This holds for work whose result is a message; for work in a database see the
idempotent consumers beside this.
"""

from confluent_kafka import Producer, TopicPartition
from shared import Fate, arguments, consumer_of, messages, payment_in


def main() -> None:
    asked = arguments("Send a receipt for each payment to the topic NAME-receipts, exactly once.")
    fate = Fate(asked.die_at)
    producer = Producer(
        {
            "bootstrap.servers": asked.bootstrap,
            # The same after a crash: what the one before has left open is aborted, and it can do no more.
            "transactional.id": f"receipts-of-{asked.topic}",
            "metadata.recovery.strategy": "none",
        }
    )
    producer.init_transactions()
    consumer = consumer_of(asked.bootstrap, "exactly-once", asked.topic)
    for message in messages(consumer):
        done = TopicPartition(asked.topic, message.partition(), message.offset() + 1)
        producer.begin_transaction()
        producer.produce(f"{asked.topic}-receipts", str(payment_in(message)["id"]))
        producer.flush()
        producer.send_offsets_to_transaction([done], consumer.consumer_group_metadata())
        fate.strike()
        producer.commit_transaction()
    consumer.close()


if __name__ == "__main__":
    main()
