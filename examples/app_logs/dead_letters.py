"""What is late, early or malformed, for the dead-letter topic: as it was, with the reason beside it.

Key and value are the record's own bytes; headers say `reason`, `kind`, and where it came from (`topic`, `partition`,
`offset`), so that a record can be found again, and counted once however often the flow was reset.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from app_logs.parsing import rejected

HEADERS: Final = ("reason", "kind", "topic", "partition", "offset")


def dead_letters(source: DataFrame) -> DataFrame:
    """Records for the dead-letter topic."""
    return rejected(source).select("key", "value", F.array(*map(_header, HEADERS)).alias("headers"))


def _header(name: str) -> Column:
    value = F.col(name).cast("string").cast("binary")
    return F.struct(F.lit(name).alias("key"), value.alias("value"))


def read_back(letters: DataFrame) -> DataFrame:
    """Dead letters as they are read from their topic (with headers), a column for each header, each letter once."""
    named = F.map_from_entries("headers")
    columns = [F.element_at(named, name).cast("string").alias(name) for name in HEADERS]
    return letters.select(*columns, "value").dropDuplicates(["topic", "partition", "offset"])
