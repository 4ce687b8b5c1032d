"""`PenstockDataSource`, which Spark creates for `format("penstock")` and asks for readers and writers."""

from collections.abc import MutableMapping

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
)
from pyspark.sql.types import StructType

from penstock.base.errors import SettingError, UserError
from penstock.spark.columns import check_schema, schema_of
from penstock.spark.options import INCLUDE_HEADERS, PATH, read_settings, write_settings


class PenstockDataSource(DataSource):
    """Topics of a broker that speaks Kafka's protocol."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)

    @classmethod
    def name(cls) -> str:
        return "penstock"

    def schema(self) -> StructType:
        return schema_of(include_headers=read_settings(self.options)[INCLUDE_HEADERS])

    def reader(self, schema: StructType) -> DataSourceReader:
        from penstock.spark.batch_reader import batch_reader

        settings = read_settings(self.options)
        check_schema(schema)
        if settings[PATH] is not None:
            from penstock.spark.offline import offline_reader

            return offline_reader(schema, settings)
        return batch_reader(schema, settings)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from penstock.spark.stream_reader import StreamReader

        settings = read_settings(self.options)
        if settings[PATH] is not None:
            raise SettingError(
                "path is for batch reads: a stream asks a broker, so give kafka.bootstrap.servers instead, "
                "or use spark.read"
            )
        check_schema(schema)
        return StreamReader(schema, settings)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        from penstock.spark.sink.writers import BatchSink

        if overwrite:
            raise UserError("a topic cannot be overwritten, rows are added to its end: use mode('append')")
        return BatchSink(schema, write_settings(self.options))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: ARG002
        from penstock.spark.sink.writers import StreamSink

        # With outputMode('complete'), the full result of each batch is appended, as in Spark's own sink.
        return StreamSink(schema, write_settings(self.options))
