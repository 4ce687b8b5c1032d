"""Batches into tables: what comes again goes in once, and readers see whole batches."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.base.errors import UserError
from penstock.spark import tables
from penstock.spark.tables import writing
from penstock.spark.tables.manifest import MANIFEST, read_manifest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.xdist_group("spark")


class PlugPulledError(Exception):
    """Stands for a crash at a point where nothing is caught."""


def frame(spark: "SparkSession", rows: list[tuple[Any, ...]], columns: str) -> "DataFrame":
    return spark.createDataFrame(rows, columns)


def rows_of(spark: "SparkSession", warehouse: Path, name: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in tables.read(spark, warehouse, name).collect())


def test_a_batch_that_comes_again_is_appended_once(spark: "SparkSession", tmp_path: Path) -> None:
    table = tables.ensure_table(tmp_path, "events")
    first = frame(spark, [(1, "a"), (2, "b")], "id int, name string")
    assert tables.write_batch(first, 0, table, query_id="q")
    assert not tables.write_batch(first.repartition(3), 0, table, query_id="q")
    assert tables.write_batch(frame(spark, [(3, "c")], "id int, name string"), 1, table, query_id="q")
    assert rows_of(spark, tmp_path, "events") == [(1, "a"), (2, "b"), (3, "c")]


def test_another_query_has_batches_of_its_own(spark: "SparkSession", tmp_path: Path) -> None:
    table = tables.ensure_table(tmp_path, "events")
    for query_id in ("one", "other"):
        assert tables.write_batch(frame(spark, [(7,)], "id int"), 0, table, query_id=query_id)
    assert rows_of(spark, tmp_path, "events") == [(7,), (7,)]


def test_a_writer_removes_what_killed_writers_left_and_nothing_that_a_person_put_there(
    spark: "SparkSession", tmp_path: Path
) -> None:
    table = tables.ensure_table(tmp_path, "events")
    data = table.folder / "data"
    left = data / f"batch-7-{'0' * 32}"
    ours = data / "photos" / "notes.txt"
    for folder in (left, ours.parent):
        folder.mkdir()
    ours.write_text("mine")
    (data / "note.txt").write_text("mine")
    (left / "part-0.parquet").write_bytes(b"half")

    assert tables.write_batch(frame(spark, [(1,)], "id int"), 0, table, query_id="q")

    assert not left.exists()
    assert ours.read_text() == (data / "note.txt").read_text() == "mine"


@pytest.mark.parametrize("keys", [(), ("id",)])
def test_a_crash_before_the_manifest_leaves_nothing_and_the_next_writer_tidies_up(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: tuple[str, ...]
) -> None:
    table = tables.ensure_table(tmp_path, "events", keys=keys)
    rows = frame(spark, [(1, "a"), (2, "b")], "id int, name string")

    def pull_the_plug(*_: object) -> None:
        raise PlugPulledError

    with monkeypatch.context() as patched:
        patched.setattr(writing, "replace_manifest", pull_the_plug)
        with pytest.raises(PlugPulledError):
            tables.write_batch(rows, 0, table, query_id="q")
    (left,) = (table.folder / "data").iterdir()
    with pytest.raises(UserError, match="nothing was ever written"):
        tables.read(spark, tmp_path, "events")
    assert tables.write_batch(rows, 0, table, query_id="q")
    assert rows_of(spark, tmp_path, "events") == [(1, "a"), (2, "b")]
    assert not left.exists()


def test_a_latest_table_has_one_row_per_key_and_deletes_where_it_is_told(
    spark: "SparkSession", tmp_path: Path
) -> None:
    table = tables.ensure_table(tmp_path, "users", keys=("id",), order=("at",), settings={"buckets": "3"})
    columns = "id int, name string, at int, _deleted boolean"
    first = [(n, f"user {n}", 1, False) for n in range(10)] + [(3, "older", 0, False)]
    tables.write_batch(frame(spark, first, columns), 0, table, query_id="q")
    second = [
        (1, None, 2, True),
        (2, "new", 2, False),
        (3, "late", 0, False),
        (77, None, 2, True),
        (4, None, 0, True),
    ]
    tables.write_batch(frame(spark, second, columns), 1, table, query_id="q")
    expected = {n: (n, f"user {n}", 1) for n in range(10) if n != 1} | {2: (2, "new", 2)}
    assert rows_of(spark, tmp_path, "users") == sorted(expected.values())
    manifest = read_manifest(table.folder)
    assert len(manifest.files) == len({each.bucket for each in manifest.files}) <= 3
    assert manifest.row_count == 9


def test_keys_may_be_null_and_several(spark: "SparkSession", tmp_path: Path) -> None:
    table = tables.ensure_table(tmp_path, "pairs", keys=("left", "right"))
    columns = "left string, right string, n int"
    tables.write_batch(frame(spark, [("a", None, 1), ("a", "b", 2)], columns), 0, table, query_id="q")
    tables.write_batch(frame(spark, [("a", None, 3), (None, None, 4)], columns), 1, table, query_id="q")
    found = {tuple(row) for row in tables.read(spark, tmp_path, "pairs").collect()}
    assert found == {("a", None, 3), ("a", "b", 2), (None, None, 4)}


def test_only_the_buckets_of_a_batchs_keys_are_rewritten(spark: "SparkSession", tmp_path: Path) -> None:
    table = tables.ensure_table(tmp_path, "users", keys=("id",), settings={"buckets": "4"})
    tables.write_batch(frame(spark, [(n, 0) for n in range(50)], "id int, n int"), 0, table, query_id="q")
    before = {each.path for each in read_manifest(table.folder).files}
    tables.write_batch(frame(spark, [(5, 1)], "id int, n int"), 1, table, query_id="q")
    after = {each.path for each in read_manifest(table.folder).files}
    assert len(before) == len(after) == 4
    assert len(before & after) == 3


def test_a_query_that_began_before_reads_what_it_saw(spark: "SparkSession", tmp_path: Path) -> None:
    table = tables.ensure_table(tmp_path, "users", keys=("id",), settings={"buckets": "1"})
    tables.write_batch(frame(spark, [(1, "old")], "id int, name string"), 0, table, query_id="q")
    before = tables.read(spark, tmp_path, "users")
    tables.write_batch(frame(spark, [(1, "new")], "id int, name string"), 1, table, query_id="q")
    assert [row.name for row in before.collect()] == ["old"]
    assert rows_of(spark, tmp_path, "users") == [(1, "new")]


def test_replaced_files_go_when_their_time_is_over(spark: "SparkSession", tmp_path: Path) -> None:
    settings = {"buckets": "1", "retired.keep.ms": "0"}
    table = tables.ensure_table(tmp_path, "users", keys=("id",), settings=settings)
    for batch in range(4):
        tables.write_batch(frame(spark, [(1, batch)], "id int, n int"), batch, table, query_id="q")
    manifest = read_manifest(table.folder)
    named = {each.path for each in (*manifest.files, *manifest.retired)}
    assert {str(each.relative_to(table.folder)) for each in table.folder.glob("data/*/*.parquet")} == named
    assert len(named) == 2


def test_small_files_are_merged(spark: "SparkSession", tmp_path: Path) -> None:
    table = tables.ensure_table(tmp_path, "events", settings={"small.files.max": "3"})
    for batch in range(5):
        tables.write_batch(frame(spark, [(batch,)], "id int").coalesce(1), batch, table, query_id="q")
    assert len(read_manifest(table.folder).files) == 2
    assert rows_of(spark, tmp_path, "events") == [(n,) for n in range(5)]


def test_a_batch_with_other_columns_is_refused(spark: "SparkSession", tmp_path: Path) -> None:
    table = tables.ensure_table(tmp_path, "events")
    tables.write_batch(frame(spark, [(1,)], "id int"), 0, table, query_id="q")
    with pytest.raises(
        UserError, match=r"has the columns struct<id:int>, and the batch has struct<id:string>"
    ):
        tables.write_batch(frame(spark, [("1",)], "id string"), 1, table, query_id="q")
    with pytest.raises(UserError, match="is an append table, and a latest table by id is wanted"):
        tables.ensure_table(tmp_path, "events", keys=("id",))


def test_a_cleared_table_accepts_batches_from_0_again(spark: "SparkSession", tmp_path: Path) -> None:
    table = tables.ensure_table(tmp_path, "events")
    tables.write_batch(frame(spark, [(1,)], "id int"), 4, table, query_id="q")
    tables.clear(table)
    assert read_manifest(table.folder).row_count == 0
    assert tables.write_batch(frame(spark, [(2,)], "id int"), 0, table, query_id="q")
    assert rows_of(spark, tmp_path, "events") == [(2,)]


def test_a_streaming_query_needs_to_say_nothing_but_the_batch(spark: "SparkSession", tmp_path: Path) -> None:
    table = tables.ensure_table(tmp_path / "warehouse", "lines")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "one.txt").write_text("a\nb\n")
    query = (
        spark.readStream.text(str(tmp_path / "in"))
        .writeStream.foreachBatch(lambda rows, batch_id: tables.write_batch(rows, batch_id, table) and None)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(60)
    assert read_manifest(table.folder).applied == {query.id: 0}
    tables.register_view(spark, tmp_path / "warehouse", "lines")
    assert spark.sql("select count(*) from lines").first()[0] == 2


def test_outside_of_a_query_a_name_for_it_has_to_be_given(spark: "SparkSession", tmp_path: Path) -> None:
    table = tables.ensure_table(tmp_path, "events")
    with pytest.raises(UserError, match="call it in foreachBatch, or give query_id"):
        tables.write_batch(frame(spark, [(1,)], "id int"), 0, table)


def test_what_is_no_table_is_said_so(spark: "SparkSession", tmp_path: Path) -> None:
    table = tables.ensure_table(tmp_path, "events")
    with pytest.raises(UserError, match=r"there is no table event in .*; did you mean events"):
        tables.read(spark, tmp_path, "event")
    (table.folder / MANIFEST).write_text(json.dumps({"penstock-manifest": 1}))
    with pytest.raises(UserError, match=r"manifest.json is no manifest of a table"):
        tables.read(spark, tmp_path, "events")
    with pytest.raises(UserError, match="cannot be called"):
        tables.ensure_table(tmp_path, "../events")


def test_a_batch_of_a_query_with_state_comes_again_and_the_query_goes_on(
    spark: "SparkSession", tmp_path: Path
) -> None:
    """Spark fails a query whose batch does not keep its state: the rows are computed though they are in."""
    table = tables.ensure_table(tmp_path / "tables", "counts", keys=("word",))
    checkpoint = tmp_path / "checkpoint"

    def run(words: str) -> None:
        (tmp_path / "words").mkdir(exist_ok=True)
        (tmp_path / "words" / f"{len(words)}.txt").write_text("\n".join(words))
        stream = spark.readStream.text(str(tmp_path / "words"))
        counts = stream.groupBy(stream["value"].alias("word")).count()
        writer = counts.writeStream.outputMode("update").option("checkpointLocation", str(checkpoint))
        query = (
            writer.foreachBatch(lambda rows, batch_id: tables.write_batch(rows, batch_id, table) and None)
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)

    run("aab")
    for file in (
        checkpoint / "commits"
    ).iterdir():  # as if it had been killed before it wrote down that it was done
        file.unlink()
    run("a")
    assert rows_of(spark, tmp_path / "tables", "counts") == [("a", 3), ("b", 1)]
