"""Topics for Spark, through PySpark and without a jar: `spark.read.format("penstock")`, `.readStream`, `.write`,
`.writeStream`. Works with any broker that speaks Kafka's protocol.

    source        `PenstockDataSource`, which Spark creates and asks for readers and writers
    options       every option, declared once as data
    connecting    from options to a client, and clients that outlive a task

    columns       the columns of the source, and records as Arrow batches
    subscription  the partitions that a query reads
    positions     offsets in options and checkpoints; pure
    planning      from offsets to tasks: limits, ranges, splitting; pure
    pushdown      narrows ranges by a query's filters
    fetching      reads one task's ranges, from the broker to Arrow
    batch_reader, stream_reader   the interfaces that Spark calls
    offline       reading a log directory without a broker
    log_directory the segments in one, and which transactions were aborted
    tables        tables in Parquet that queries write exactly once, and topics as such tables
    session       Spark for a command
    progress      commits finished batches as a group's offsets
    sink          writing, exactly once or at least once

Modules say which process they run in: the *driver* plans and commits, *tasks* read and write. They are different
processes, often on different machines; what passes between them is pickled.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: "SparkSession") -> None:
    """Register `format("penstock")` in a session that does not find it by itself."""
    from penstock.spark.source import PenstockDataSource

    spark.dataSource.register(PenstockDataSource)
