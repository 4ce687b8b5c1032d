"""Topics as tables: what is in a topic is in its table, once, and what does not fit is kept beside it."""

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.base.errors import UserError
from penstock.client.producer import NewRecord
from penstock.spark import tables
from penstock.spark.tables.ddl import parse_columns
from penstock.spark.tables.declaration import Table, TopicFeed
from penstock.spark.tables.manifest import locked, read_manifest
from penstock.spark.tables.topic_tables import avro_schema, json_schema, plain_schema
from penstock.testing import EmbeddedBroker
from tests.spark.tables.test_schemas import SCHEMA, order
from tests.spark.writing import Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")

PLAIN = plain_schema(value="string", key="string")


@pytest.fixture
def topics(broker: EmbeddedBroker) -> Topics:
    return Topics(broker.bootstrap_servers)


class TopicTable:
    """A table of one topic."""

    def __init__(self, spark: "SparkSession", table: Table) -> None:
        self.spark = spark
        self.table = table

    def refresh(self) -> Any:
        return tables.refresh(self.spark, self.table)

    def rows(self, *names: str) -> list[tuple[Any, ...]]:
        frame = tables.read(self.spark, self.table.folder.parent, self.table.name)
        return sorted(tuple(row) for row in frame.select(*names).collect())


@pytest.fixture
def table_of(spark: "SparkSession", broker: EmbeddedBroker, tmp_path: Path) -> Any:
    def make(topic: str, schema: dict[str, Any], kind: str = "append", **settings: str) -> TopicTable:
        feed = TopicFeed(topic, broker.bootstrap_servers, schema)
        named = {name.replace("_", "."): value for name, value in settings.items()}
        return TopicTable(spark, tables.create_topic_table(tmp_path, "t", feed, kind=kind, settings=named))

    return make


def test_every_record_is_a_row_once_however_often_the_table_is_refreshed(
    topics: Topics, topic: str, table_of: Any
) -> None:
    topics.create(topic, 2)
    topics.write_values(topic, ["a", "b"])
    topics.write_values(topic, ["c"], partition=1)
    table = table_of(topic, PLAIN)
    assert table.refresh()[:2] == (1, 3)
    assert table.refresh().row_change == 0
    topics.transact(topic, ["gone"], commit=False)
    topics.write_values(topic, ["d"])
    assert table.refresh().row_change == 1
    assert table.rows("value", "_topic", "_partition", "_offset") == [
        ("a", topic, 0, 0),
        ("b", topic, 0, 1),
        ("c", topic, 1, 0),
        ("d", topic, 0, 4),
    ]
    assert read_manifest(table.table.folder).offsets == {topic: {"0": 5, "1": 1}}


def test_json_becomes_columns_and_what_does_not_fit_is_kept_with_the_reason(
    spark: "SparkSession", topics: Topics, topic: str, table_of: Any, tmp_path: Path
) -> None:
    topics.create(topic)
    values = [
        b'{"id": 1, "who": {"name": "Ada"}}',
        b'{"id": "x"}',
        b"{",
        b"",
        b"[1]",
        b"\xff",
        None,
        b"{}",
        b'"t"',
    ]
    topics.write(topic, [NewRecord(b"k", value) for value in values])
    topics.write(topic, [NewRecord(b"\xff", b'{"id": 2}')])
    table = table_of(topic, json_schema(parse_columns("id BIGINT, who STRUCT<name: STRING>"), key="string"))
    done = table.refresh()
    assert table.rows("_offset", "id", "who.name", "_key") == [
        (0, 1, "Ada", "k"),
        (6, None, None, "k"),
        (7, None, None, "k"),
    ]
    rejected = tables.read_rejected(spark, tmp_path, "t")
    assert rejected is not None
    reasons = {row._offset: row.reason for row in rejected.collect()}
    assert reasons == {
        1: "the value is no JSON that fits the table's columns",
        2: "the value is no JSON that fits the table's columns",
        3: "the value is no JSON object",
        4: "the value is no JSON object",
        5: "the value is not UTF-8",
        8: "the value is no JSON object",
        9: "the key is not UTF-8",
    }
    assert (done.rows, done.rejected) == (3, 7)


def test_avro_becomes_columns(
    spark: "SparkSession", topics: Topics, topic: str, table_of: Any, tmp_path: Path
) -> None:
    topics.create(topic)
    values = [order(number=n, note=None if n else "é", tags=("x",) * n) for n in range(3)]
    topics.write(topic, [NewRecord(None, value) for value in [*values, b"\x02", None]])
    table = table_of(topic, avro_schema(SCHEMA, framing="plain", key="binary"))
    table.refresh()
    assert table.rows("_offset", "id", "note", "state", "who.name", "sum", "_key")[0][:5] == (
        0,
        0,
        "é",
        "DONE",
        "Ada",
    )
    assert [row[0] for row in table.rows("_offset")] == [0, 1, 2, 4]
    tagged = table.rows("_offset", "tags", "amounts")[2]
    assert (list(tagged[1]), tagged[2]) == (["x", "x"], {"a": 3})
    rejected = tables.read_rejected(spark, tmp_path, "t")
    assert rejected is not None
    (bad,) = rejected.collect()
    assert (bad._offset, bytes(bad._value)) == (3, b"\x02")
    assert "not of the table's Avro schema: the value ends after 1 bytes" in bad.reason


def test_the_latest_value_per_key_stays_and_a_null_deletes(topics: Topics, topic: str, table_of: Any) -> None:
    topics.create(topic, 1)
    first = [
        NewRecord(b"a", b"1", timestamp=200),
        NewRecord(b"b", b"1"),
        NewRecord(b"a", b"2", timestamp=100),
    ]
    topics.write(topic, [*first, NewRecord(b"c", b"1"), NewRecord(None, b"no key"), NewRecord(b"d", None)])
    table = table_of(topic, PLAIN, "latest", buckets="2")
    assert table.refresh()[1:3] == (3, 1)
    assert table.rows("_key", "value") == [("a", "2"), ("b", "1"), ("c", "1")]  # by offset, not by timestamp
    topics.write(topic, [NewRecord(b"b", None), NewRecord(b"c", b"2", timestamp=1), NewRecord(b"e", b"1")])
    table.refresh()
    assert table.rows("_key", "value") == [("a", "2"), ("c", "2"), ("e", "1")]
    topics.grow(topic, 2)
    topics.write(
        topic, [NewRecord(b"e", b"older", timestamp=5, partition=1), NewRecord(b"c", b"3", partition=1)]
    )
    table.refresh()
    assert table.rows("_key", "value") == [("a", "2"), ("c", "3"), ("e", "1")]  # elsewhere, by timestamp


def test_a_lost_checkpoint_costs_nothing(topics: Topics, topic: str, table_of: Any) -> None:
    topics.create(topic)
    topics.write_values(topic, ["a", "b"])
    table = table_of(topic, PLAIN)
    table.refresh()
    shutil.rmtree(table.table.folder / "checkpoint")
    topics.grow(topic, 2)
    topics.write_values(topic, ["c"], partition=0)
    topics.write_values(topic, ["d"], partition=1)
    assert table.refresh().row_change == 2
    assert table.rows("value") == [("a",), ("b",), ("c",), ("d",)]


def test_batches_are_bounded_and_small_files_are_merged(topics: Topics, topic: str, table_of: Any) -> None:
    topics.create(topic)
    topics.write_values(topic, [f"{n:02}" for n in range(12)])
    table = table_of(topic, PLAIN, batch_offsets_max="3", small_files_max="2")
    assert table.refresh().batches == 4
    assert len(read_manifest(table.table.folder).files) <= 2
    assert table.rows("value") == [(f"{n:02}",) for n in range(12)]


def test_one_refresh_at_a_time(topics: Topics, topic: str, table_of: Any) -> None:
    topics.create(topic)
    table = table_of(topic, PLAIN)
    with (
        locked(table.table.folder / ".refresh", wait_ms=0, told=""),
        pytest.raises(UserError, match="another process"),
    ):
        table.refresh()


def test_a_refresh_that_fails_says_why_in_one_line(topics: Topics, topic: str, table_of: Any) -> None:
    table = table_of(topic, PLAIN)
    with pytest.raises(UserError) as told:
        table.refresh()
    assert f"topic {topic} does not exist" in str(told.value)
    assert "\n" not in str(told.value)


def test_a_table_of_a_pipeline_is_not_refreshed(spark: "SparkSession", tmp_path: Path) -> None:
    with pytest.raises(UserError, match="run the pipeline"):
        tables.refresh(spark, tables.ensure_table(tmp_path, "results"))


def test_sql_sees_a_table(
    spark: "SparkSession", topics: Topics, topic: str, table_of: Any, tmp_path: Path
) -> None:
    topics.create(topic)
    topics.write(
        topic, [NewRecord(None, json.dumps({"n": n, "even": n % 2 == 0}).encode()) for n in range(10)]
    )
    table = table_of(topic, json_schema(parse_columns("n INT, even BOOLEAN"), key="string"))
    table.refresh()
    tables.register_view(spark, tmp_path, "t", "numbers")
    found = spark.sql("SELECT even, sum(n) AS total FROM numbers GROUP BY even ORDER BY even").collect()
    assert [(row.even, row.total) for row in found] == [(False, 25), (True, 20)]
