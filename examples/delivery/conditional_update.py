"""An idempotent consumer: only the next version is taken. Run it with `python conditional_update.py localhost:9092`.

For work that changes rows, where messages know which change of their row they are: one that comes again, or late,
finds a version that it does not fit.
"""

from shared import Fate, arguments, consumer_of, database, messages, payment_in

TABLES = "CREATE TABLE IF NOT EXISTS accounts (account TEXT PRIMARY KEY, balance INTEGER, version INTEGER)"


def main() -> None:
    asked = arguments("Keep the balance of each account, by versions.", output="conditional_update.sqlite")
    fate = Fate(asked.die_at)
    rows = database(asked.output, TABLES)
    consumer = consumer_of(asked.bootstrap, "conditional-update", asked.topic)
    for message in messages(consumer):
        payment = payment_in(message)
        with rows:
            rows.execute("INSERT INTO accounts VALUES (:account, 0, 0) ON CONFLICT DO NOTHING", payment)
            rows.execute(
                "UPDATE accounts SET balance = balance + :amount, version = :version"
                " WHERE account = :account AND version = :version - 1",
                payment,
            )
        fate.strike()
        consumer.commit(message, asynchronous=False)
    consumer.close()


if __name__ == "__main__":
    main()
