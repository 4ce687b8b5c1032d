"""Queries a table's Parquet files with pyarrow, without starting Spark."""

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.base.errors import UserError
from penstock.base.settings import unknown_name
from penstock.spark.tables import conditions
from penstock.spark.tables.conditions import Condition, Value, columns_of
from penstock.spark.tables.declaration import Table
from penstock.spark.tables.manifest import read_manifest

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset


class Query(NamedTuple):
    """A query; no columns mean all columns, and `limit` None means all rows."""

    columns: tuple[str, ...] = ()
    condition: Condition | None = None
    order: tuple[tuple[str, bool], ...] = ()  # columns, and whether in descending order
    limit: int | None = None


class QueryResult(NamedTuple):
    """A result; `is_all` is False if the limit has left rows out."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    is_all: bool


def query(table: Table, wanted: Query) -> QueryResult:
    """Run a query; UserError for an unknown column, or a value that does not have the column's type."""
    try:
        import pyarrow.dataset as datasets
    except ImportError:
        raise UserError('querying tables needs pyarrow: pip install "penstock-mq[spark]"') from None
    manifest = read_manifest(table.folder)
    if manifest.columns is None:
        raise UserError(
            f"table {table.name} has no columns yet: `penstock table refresh {table.name}` fills it"
        )
    known = [each["name"] for each in manifest.columns["fields"]]
    named = (*wanted.columns, *(name for name, _ in wanted.order))
    for name in (*named, *(columns_of(wanted.condition) if wanted.condition else ())):
        if name not in known:
            raise unknown_name("column", name, known)
    shown = wanted.columns or tuple(known)
    if not manifest.files:
        return QueryResult(shown, [], True)
    dataset = datasets.dataset([str(table.folder / each.path) for each in manifest.files], format="parquet")
    limit = wanted.limit if wanted.limit is not None else manifest.row_count
    found = _scan(dataset, wanted, list(dict.fromkeys([*shown, *named])), limit)
    rows = [tuple(row[name] for name in shown) for row in found.slice(0, limit).to_pylist()]
    return QueryResult(shown, rows, found.num_rows <= limit)


def _scan(dataset: "pyarrow.dataset.Dataset", wanted: Query, columns: list[str], limit: int) -> "pa.Table":
    """The rows in order; without an order, reading stops one row after the limit."""
    condition = None if wanted.condition is None else _expression(wanted.condition, dataset.schema)
    if not wanted.order:
        return dataset.head(limit + 1, columns=columns, filter=condition)
    order = [(name, "descending" if reverse else "ascending") for name, reverse in wanted.order]
    return dataset.to_table(columns=columns, filter=condition).sort_by(order)


def _expression(condition: Condition, schema: "pa.Schema") -> Any:
    import pyarrow.compute as pc

    match condition:
        case conditions.IsNull(column):
            return pc.is_null(pc.field(column))
        case conditions.Not(inner):
            return ~_expression(inner, schema)
        case conditions.All(several):
            return _joined(several, schema, lambda one, other: one & other)
        case conditions.Any(several):
            return _joined(several, schema, lambda one, other: one | other)
        case conditions.Comparison(column, operator, values):
            return _compared(pc.field(column), column, operator, values, schema.field(column).type)


def _joined(several: Sequence[Condition], schema: "pa.Schema", join: Any) -> Any:
    first, *others = (_expression(each, schema) for each in several)
    for each in others:
        first = join(first, each)
    return first


def _compared(field: Any, column: str, operator: str, values: Sequence[Value], kind: "pa.DataType") -> Any:
    import pyarrow.compute as pc

    if operator == "like":
        if not isinstance(values[0], str):
            raise UserError(f"like wants 'text', and {values[0]!r} is none")
        return pc.match_like(field, values[0])
    typed = [_typed(column, value, kind) for value in values]
    match operator:
        case "in":
            return _joined_values(field, typed)
        case "=":
            return field == typed[0]
        case "!=":
            return field != typed[0]
        case "<":
            return field < typed[0]
        case "<=":
            return field <= typed[0]
        case ">":
            return field > typed[0]
        case _:
            return field >= typed[0]


def _joined_values(field: Any, typed: Sequence[Any]) -> Any:
    found = field == typed[0]
    for each in typed[1:]:
        found = found | (field == each)
    return found


def _typed(column: str, value: Value, kind: "pa.DataType") -> "pa.Scalar[Any]":
    """A value converted to the column's type; UserError if it has another type."""
    import pyarrow as pa
    from pyarrow import types

    given: Any = value
    try:
        if types.is_timestamp(kind) and isinstance(value, str):
            moment = datetime.fromisoformat(value)
            given = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
            return pa.scalar(given, pa.timestamp("us", "UTC")).cast(pa.timestamp(kind.unit, "UTC")).cast(kind)
        if types.is_date(kind) and isinstance(value, str):
            given = date.fromisoformat(value)
        if isinstance(value, float) and types.is_integer(kind):
            return pa.scalar(value)
        if not _is_of(value, kind):
            raise ValueError(value)
        return pa.scalar(given).cast(kind) if types.is_decimal(kind) else pa.scalar(given, kind)
    except (ValueError, TypeError, pa.ArrowException):
        raise UserError(f"{value!r} cannot be compared with column {column}, which is {kind}") from None


def _is_of(value: Value, kind: "pa.DataType") -> bool:
    from pyarrow import types

    if types.is_boolean(kind):
        return isinstance(value, bool)
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, str)


def parse_order(text: str) -> tuple[tuple[str, bool], ...]:
    """Columns to sort by, as in "day, total desc"; ValueError if it is no such list."""
    order = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\S+)(?:\s+(asc|desc))?\s*", part, re.IGNORECASE)
        if match is None:
            raise ValueError(text)
        order.append((match[1].strip("`"), (match[2] or "").lower() == "desc"))
    return tuple(order)


def plain(value: Any) -> Any:
    """A value that JSON can represent, except bytes."""
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC).isoformat() if value.tzinfo is None else value.isoformat()
    if isinstance(value, date | Decimal):
        return str(value)
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value
