"""An idempotent consumer: the database refuses what it has. Run it with `python unique_constraint.py localhost:9092`.

For work that adds rows: a payment that comes again has the id of a row that is there.
"""

from shared import Fate, arguments, consumer_of, database, messages, payment_in

TABLES = "CREATE TABLE IF NOT EXISTS payments (id INTEGER PRIMARY KEY, account TEXT, amount INTEGER)"


def main() -> None:
    asked = arguments(
        "Add each payment to a database, where ids are unique.", output="unique_constraint.sqlite"
    )
    fate = Fate(asked.die_at)
    rows = database(asked.output, TABLES)
    consumer = consumer_of(asked.bootstrap, "unique-constraint", asked.topic)
    for message in messages(consumer):
        with rows:
            rows.execute(
                "INSERT INTO payments VALUES (:id, :account, :amount) ON CONFLICT DO NOTHING",
                payment_in(message),
            )
        fate.strike()
        consumer.commit(message, asynchronous=False)
    consumer.close()


if __name__ == "__main__":
    main()
