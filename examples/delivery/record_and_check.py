"""An idempotent consumer: it writes down what it has done. Run it with `python record_and_check.py localhost:9092`.

For any work in a database: the work and the note that it is done are one transaction of the database. The place of a
message in its topic names it, so that messages need no ids.
"""

from shared import Fate, arguments, consumer_of, database, messages, payment_in

TABLES = """
CREATE TABLE IF NOT EXISTS accounts (account TEXT PRIMARY KEY, balance INTEGER);
CREATE TABLE IF NOT EXISTS done (topic TEXT, partition INTEGER, offset INTEGER, PRIMARY KEY (topic, partition, offset));
"""


def main() -> None:
    asked = arguments(
        "Keep the balance of each account, and which payments are in it.", output="record_and_check.sqlite"
    )
    fate = Fate(asked.die_at)
    rows = database(asked.output, TABLES)
    consumer = consumer_of(asked.bootstrap, "record-and-check", asked.topic)
    for message in messages(consumer):
        place = (message.topic(), message.partition(), message.offset())
        with rows:
            is_new = rows.execute("INSERT INTO done VALUES (?, ?, ?) ON CONFLICT DO NOTHING", place).rowcount
            if is_new:
                rows.execute(
                    "INSERT INTO accounts VALUES (:account, :amount)"
                    " ON CONFLICT DO UPDATE SET balance = balance + :amount",
                    payment_in(message),
                )
        fate.strike()
        consumer.commit(message, asynchronous=False)
    consumer.close()


if __name__ == "__main__":
    main()
