"""Penstock beside Apache Kafka: the same load on both, in one run, on one machine.

contestants   the two brokers, warm, and what their processes have used
spark_sides   two connectors of Spark on one broker: ours, and Spark's own
load          what is sent to them: by librdkafka, or as bytes that were made beforehand
measures      one module per thing measured; each says which rows of the table it fills
rows          figures, goals, and whether a goal is met
table, chart  how the result is shown
scale         how long and how much: the full run, or a quick look

`codec.py` and `sync.py` measure parts of Penstock by themselves and are run on their own.
"""
