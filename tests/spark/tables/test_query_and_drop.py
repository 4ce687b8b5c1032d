"""`penstock table query` and `drop`, on files that pyarrow has written: no Spark is needed for either."""

import json
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.spark.tables import create_table
from penstock.spark.tables.declaration import APPEND, Declaration
from penstock.spark.tables.manifest import DataFile, Manifest, Retired, replace_manifest
from tests.cli.running import Outcome, Penstock, in_process

ROWS = {
    "id": pa.array([1, 2, 3, 4, None], pa.int64()),
    "name": pa.array(["Ann", "Bob", "Ada", None, "Eve"], pa.string()),
    "total": pa.array([10.5, 200.0, 30.25, 99.0, 0.0], pa.float64()),
    "paid": pa.array([True, False, True, None, False], pa.bool_()),
    "at": pa.array([datetime(2026, 11, day, tzinfo=UTC) for day in range(1, 6)], pa.timestamp("us", "UTC")),
    "raw": pa.array([b"a", b"\xff", None, b"", b"e"], pa.binary()),
}
TYPES = {
    "id": "long",
    "name": "string",
    "total": "double",
    "paid": "boolean",
    "at": "timestamp",
    "raw": "binary",
}


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    """The folder of a table of five rows in two files, with one retired file, as writers leave them."""
    table = create_table(tmp_path / "tables", "orders", Declaration(APPEND))
    whole = pa.table(ROWS)
    files = []
    for number, part in enumerate((whole.slice(0, 3), whole.slice(3), whole.slice(0, 1))):
        folder = table.folder / "data" / f"batch-{number}-{uuid.uuid4().hex}"
        folder.mkdir()
        path = folder / "part-0.parquet"
        pq.write_table(part, path)
        for bookkeeping in ("_SUCCESS", "._SUCCESS.crc", ".part-0.parquet.crc"):
            (folder / bookkeeping).touch()
        files.append(DataFile(path.relative_to(table.folder).as_posix(), part.num_rows, path.stat().st_size))
    columns = {
        "type": "struct",
        "fields": [
            {"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in TYPES.items()
        ],
    }
    retired = (Retired(files[2].path, 0),)
    replace_manifest(table.folder, Manifest(1, columns, tuple(files[:2]), (), retired))
    (table.folder / "checkpoint" / "offsets").mkdir(parents=True)
    return table.folder


@pytest.fixture
def penstock(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Penstock:
    return in_process(capsys, monkeypatch, tmp_path)


@pytest.fixture
def table(penstock: Penstock, tmp_path: Path, orders: Path) -> Callable[..., Outcome]:
    """`penstock table VERB`, where the table is."""
    return lambda *words: penstock("table", *words, "--warehouse", tmp_path / "tables")


@pytest.mark.parametrize(
    ("words", "ids"),
    [
        ([], [1, 2, 3, 4, None]),
        (["--where", "total >= 30"], [2, 3, 4]),
        (["--where", "total >= 30 and name like 'A%'"], [3]),
        (["--where", "name is null or paid = true"], [1, 3, 4]),
        (["--where", "not paid = true"], [2, None]),
        (["--where", "id in (1, 4) or name = 'Eve'"], [1, 4, None]),
        (["--where", "at < '2026-11-03' and at >= '2026-11-01T12:00'"], [2]),
        (["--where", "id > 1.5 and id <= 3"], [2, 3]),
        (["--order-by", "total desc", "--limit", "2"], [2, 4]),
        (["--order-by", "paid, total DESC", "--where", "id is not null", "--limit", "0"], [2, 3, 1, 4]),
        (["-n", "1"], [1]),
    ],
    ids=lambda value: " ".join(map(str, value)),
)
def test_rows_are_chosen_sorted_and_limited(
    table: Callable[..., Outcome], words: list[str], ids: list[int | None]
) -> None:
    outcome = table("query", "orders", *words, "--json")
    assert outcome.code == 0, outcome.err
    assert [row["id"] for row in outcome.document] == ids


def test_people_see_a_table_and_programs_json(table: Callable[..., Outcome]) -> None:
    shown = table("query", "orders", "--select", "name, total,paid,raw", "-n", 2)
    assert [line.split() for line in shown.lines] == [
        ["name", "total", "paid", "raw"],
        ["Ann", "10.5", "true", "a"],
        ["Bob", "200.0", "false", "\ufffd"],
    ]
    assert shown.err == "penstock: these are the first 2 rows; --limit shows more, --limit 0 all\n"
    (_, second, *_) = table("query", "orders", "--json").document
    assert second == {
        "id": 2,
        "name": "Bob",
        "total": 200.0,
        "paid": False,
        "at": "2026-11-02T00:00:00+00:00",
        "raw": {"base64": "/w=="},
    }


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["orders", "--select", "nam"], 1, "unknown column 'nam'; did you mean name?"),
        (["orders", "--where", "totl > 1"], 1, "unknown column 'totl'; did you mean total?"),
        (
            ["orders", "--where", "total > 'much'"],
            1,
            "'much' cannot be compared with column total, which is double",
        ),
        (["orders", "--where", "name = 1"], 1, "1 cannot be compared with column name, which is string"),
        (["orders", "--where", "at > 'yesterday'"], 1, "'yesterday' cannot be compared with column at"),
        (["orders", "--where", "total >"], 1, "the condition 'total >' cannot be read"),
        (["order"], 1, "there is no table order in"),
        ([], 2, "TABLE or --sql QUERY is required"),
        (["orders", "--sql", "SELECT 1"], 2, "--sql replaces TABLE and the other options"),
        (["--sql", "DROP TABLE orders"], 2, "--sql runs queries only, and 'DROP' does not begin one"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_an_invalid_query_is_reported_in_one_line(
    table: Callable[..., Outcome], words: list[str], code: int, told: str
) -> None:
    outcome = table("query", *words)
    assert (outcome.code, outcome.out) == (code, "")
    assert told in outcome.err
    assert outcome.err.count("\n") == 1


def test_a_table_is_dropped_with_its_files_after_a_confirmation(
    table: Callable[..., Outcome], orders: Path
) -> None:
    refused = table("drop", "orders")
    assert refused.code == 2
    assert refused.err.startswith("penstock: this would drop table orders with 5 rows in 2 files (")
    assert table("query", "orders", "--json").code == 0
    dropped = table("drop", "orders", "--yes")
    assert dropped.lines == ["dropped table orders: 3 files deleted"]
    assert not orders.exists()
    assert table("list", "--json").document == []


def test_what_is_not_the_tables_stays(table: Callable[..., Outcome], orders: Path) -> None:
    mine = [orders / "notes.txt", orders / "data" / "mine.parquet", orders / "data" / "batch-0-mine" / "x"]
    mine.append(next((orders / "data").glob("batch-1-*")) / "extra.parquet")
    for path in mine:
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
    dropped = table("drop", "orders", "--yes", "--json").document
    assert dropped["files"] == 3
    assert {str(path) for path in mine} <= set(dropped["left"])
    assert [path.read_text() for path in mine] == ["mine"] * 4
    assert not list(orders.rglob("part-*.parquet"))
    assert table("list", "--json").document == []


def test_nothing_is_deleted_if_the_manifest_names_files_elsewhere(
    table: Callable[..., Outcome], orders: Path, tmp_path: Path
) -> None:
    (tmp_path / "precious").write_text("mine")
    manifest = json.loads((orders / "manifest.json").read_text())
    manifest["files"].append(["../../precious", 1, 4, None])
    (orders / "manifest.json").write_text(json.dumps(manifest))
    refused = table("drop", "orders", "--yes")
    assert refused.code == 1
    assert "names ../../precious, which is not below data/" in refused.err
    assert (tmp_path / "precious").exists()
    assert len(list(orders.rglob("part-*.parquet"))) == 3


def test_a_drop_that_was_interrupted_is_finished_by_the_next(
    table: Callable[..., Outcome], orders: Path
) -> None:
    (orders / "table.json").rename(orders / "table.json.dropped")
    next(orders.rglob("part-*.parquet")).unlink()
    assert table("list", "--json").document == []
    assert table("drop", "orders", "--yes").lines == ["dropped table orders: 2 files deleted"]
    assert not orders.exists()
