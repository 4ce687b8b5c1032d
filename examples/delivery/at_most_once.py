"""Commits, then works: what is being worked on at a crash is lost. Run it with `python at_most_once.py localhost:9092`.

For what may be missing and must not happen twice: a reading of a sensor, a page for the one on call.
"""

from shared import Fate, arguments, consumer_of, messages, payment_in


def main() -> None:
    asked = arguments("Write a receipt for each payment, at most once.", output="at_most_once.txt")
    fate = Fate(asked.die_at)
    consumer = consumer_of(asked.bootstrap, "at-most-once", asked.topic)
    with asked.output.open("a") as receipts:
        for message in messages(consumer):
            consumer.commit(message, asynchronous=False)
            fate.strike()
            receipts.write(f"{payment_in(message)['id']}\n")
            receipts.flush()
    consumer.close()


if __name__ == "__main__":
    main()
