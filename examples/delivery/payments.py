"""Sends ten payments for the other programs to work on. Run it with `python payments.py localhost:9092`."""

import json
from typing import Any

from confluent_kafka import Producer
from shared import arguments

ACCOUNTS = ("alice", "bob")


def payments(count: int) -> list[dict[str, Any]]:
    """Each knows its id, and which change of its account it is and to what."""
    balances = dict.fromkeys(ACCOUNTS, 0)
    versions = dict.fromkeys(ACCOUNTS, 0)
    made = []
    for number in range(count):
        account = ACCOUNTS[number % len(ACCOUNTS)]
        amount = 10 + number
        balances[account] += amount
        versions[account] += 1
        made.append(
            {
                "id": number,
                "account": account,
                "amount": amount,
                "version": versions[account],
                "balance": balances[account],
            }
        )
    return made


def main() -> None:
    asked = arguments("Send ten payments.")
    # Idempotent: however often an answer is lost, each payment is in the topic once.
    producer = Producer({"bootstrap.servers": asked.bootstrap, "enable.idempotence": True})
    for payment in payments(10):
        producer.produce(asked.topic, json.dumps(payment), key=payment["account"])
    producer.flush()


if __name__ == "__main__":
    main()
