"""The source, with something that goes wrong once in a task that has read half of what it should: for tests only.

It stands in for `format("penstock")`, and takes the options of `tests.spark.sink.crashing`: `crash.at`, one of POINTS,
and `crash.once`.
"""

from collections.abc import Iterator, MutableMapping
from typing import TYPE_CHECKING, Any

from penstock.spark.options import read_settings
from penstock.spark.source import PenstockDataSource
from penstock.spark.stream_reader import StreamReader
from tests.spark.sink import crashing
from tests.spark.sink.crashing import Crash

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POINTS = ("in a read", "hold in a read")


def register_crashing(spark: "SparkSession") -> None:
    """In place of `penstock.spark.register`."""
    import sys

    from pyspark import cloudpickle

    for module in (crashing, sys.modules[__name__]):
        cloudpickle.register_pickle_by_value(module)  # workers cannot import tests
    spark.dataSource.register(CrashingReadSource)


class CrashingReadSource(PenstockDataSource):
    """As the real one; its stream reader crashes."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        self._crash = Crash(options)
        super().__init__({name: value for name, value in options.items() if not name.startswith("crash.")})

    def streamReader(self, schema: Any) -> "CrashingReader":
        return CrashingReader(schema, read_settings(self.options), self._crash)


class CrashingReader(StreamReader):
    def __init__(self, schema: Any, settings: Any, crash: Crash) -> None:
        super().__init__(schema, settings)
        self._crash = crash

    def read(self, partition: Any) -> Iterator[Any]:
        """The ranges of a task are read one after the other, and small ones make no more than one batch each."""
        for batch in super().read(partition):
            yield batch
            if self._crash.is_at("in a read"):
                self._crash.happen()
            if self._crash.is_at("hold in a read"):
                self._crash.hold()
