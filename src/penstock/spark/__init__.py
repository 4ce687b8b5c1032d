"""Topics for Spark, through PySpark and without a jar: `spark.read.format("penstock")`, `.readStream`, `.write`,
`.writeStream`. Works with any broker that speaks Kafka's protocol.

    source        `PenstockDataSource`, which Spark makes and asks for readers and writers
    options       every option, declared once as data
    connecting    from options to a client, and clients that outlive a task

    columns       which columns there are, and records as Arrow batches of them
    subscription  which partitions a query reads
    positions     offsets as options and checkpoints write them; pure
    planning      from offsets to tasks: limits, ranges, splitting; pure
    pushdown      which ranges a filter leaves
    fetching      one task's range, from the broker to Arrow
    batch_reader, stream_reader   what Spark asks
    offline       reading a log directory without a broker
    log_directory what lies in one: segments, and which transactions came to nothing
    tables        tables in Parquet that queries write exactly once, and topics as such tables
    session       Spark for a command
    progress      finished batches as a group's committed offsets
    sink          writing, exactly once or at least once

Modules say which process they run in: the *driver* plans and commits, *tasks* read and write. They are different
processes, often on different machines; what passes between them is pickled.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: "SparkSession") -> None:
    """Make `format("penstock")` known to a session that does not find it by itself."""
    from penstock.spark.source import PenstockDataSource

    spark.dataSource.register(PenstockDataSource)
