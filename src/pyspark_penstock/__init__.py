"""Spark looks for a `DefaultSource` in every installed module whose name begins with `pyspark_`: this is ours, so that
`format("penstock")` works without a call. The code is in `penstock.spark`."""

from penstock.spark.source import PenstockDataSource as DefaultSource

__all__ = ["DefaultSource"]
