"""Works, then commits: what is being worked on at a crash is done again.
Run it with `python at_least_once.py localhost:9092`.

The usual choice: nothing is lost, and the work must bear being repeated (see the idempotent consumers beside this).
"""

from shared import Fate, arguments, consumer_of, messages, payment_in


def main() -> None:
    asked = arguments("Write a receipt for each payment, at least once.", output="at_least_once.txt")
    fate = Fate(asked.die_at)
    consumer = consumer_of(asked.bootstrap, "at-least-once", asked.topic)
    with asked.output.open("a") as receipts:
        for message in messages(consumer):
            receipts.write(f"{payment_in(message)['id']}\n")
            receipts.flush()
            fate.strike()
            consumer.commit(message, asynchronous=False)
    consumer.close()


if __name__ == "__main__":
    main()
