"""Spark's Python daemon with the data source imported before it forks workers, which saves each half a second of CPU
time. Spark starts it (`spark.python.daemon.module`, set by `session`).
"""

import pyspark.daemon

import penstock.spark.fetching
import penstock.spark.sink.task
import penstock.spark.sink.writers
import penstock.spark.source
import penstock.spark.stream_reader  # noqa: F401

if __name__ == "__main__":
    pyspark.daemon.manager()
