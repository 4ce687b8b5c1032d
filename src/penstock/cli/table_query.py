"""`penstock table query`: some rows of a table from its files, or SQL over all tables of a warehouse on Spark."""

import sys
from argparse import ArgumentTypeError, Namespace
from collections.abc import Sequence
from typing import Any

from penstock.base.errors import UserError
from penstock.cli.output import json_bytes, print_json, print_lines, readable, table
from penstock.cli.parsing import Parser, UsageError, not_negative
from penstock.spark.tables.conditions import parse_condition
from penstock.spark.tables.declaration import open_table, table_names
from penstock.spark.tables.manifest import read_manifest
from penstock.spark.tables.querying import Query, QueryResult, parse_order, plain, query

_LIMIT_DEFAULT = 100
_CELL_MAX = 60  # characters
_READING = ("SELECT", "WITH", "VALUES", "FROM", "EXPLAIN", "DESCRIBE", "SHOW")


def add_query_arguments(verb: Parser) -> None:
    verb.add_argument("name", metavar="TABLE", nargs="?", help="which")
    verb.add_argument("--select", metavar="COLUMNS", help="only these, as in id,total (default: all)")
    verb.add_argument("--where", metavar="CONDITION", help="as in \"total >= 100 and name like 'A%%'\"")
    verb.add_argument(
        "--order-by", type=_order, metavar="COLUMNS", default=(), help='as in "day, total desc"'
    )
    verb.add_argument(
        "-n",
        "--limit",
        type=not_negative,
        metavar="N",
        default=_LIMIT_DEFAULT,
        help=f"so many rows (default {_LIMIT_DEFAULT}; 0: all)",
    )
    verb.add_argument(
        "--sql", metavar="QUERY", help="instead: SQL over all tables, on Spark, which takes a while"
    )
    verb.add_argument("--master", metavar="URL", default="local[*]", help="Spark's (default local[*])")


def run_query(arguments: Namespace) -> int:
    limit = arguments.limit or None
    if arguments.sql is not None:
        if arguments.name or arguments.select or arguments.where or arguments.order_by:
            raise UsageError(
                "--sql replaces TABLE and the other options: leave out TABLE, --select, --where and --order-by"
            )
        rows = _on_spark(arguments, limit)
    elif arguments.name is None:
        raise UsageError("TABLE or --sql QUERY is required")
    else:
        wanted = Query(
            tuple(part.strip() for part in arguments.select.split(",")) if arguments.select else (),
            parse_condition(arguments.where) if arguments.where else None,
            arguments.order_by,
            limit,
        )
        rows = query(open_table(arguments.warehouse, arguments.name), wanted)
    _print(rows, as_json=arguments.json)
    if not rows.is_all:
        sys.stderr.write(f"penstock: these are the first {limit:,} rows; --limit shows more, --limit 0 all\n")
    return 0


def _on_spark(arguments: Namespace, limit: int | None) -> QueryResult:
    first = (arguments.sql.split() or [""])[0]
    if first.lstrip("(").upper() not in _READING:
        raise UsageError(f"--sql runs queries only, and {first!r} does not begin one")
    from penstock.spark.session import spark_session

    with spark_session("penstock table query", master=arguments.master) as spark:
        from pyspark.errors import PySparkException

        from penstock.spark.tables.reading import register_view

        for name in table_names(arguments.warehouse):
            if read_manifest(open_table(arguments.warehouse, name).folder).columns is not None:
                register_view(spark, arguments.warehouse, name)
        try:
            frame = spark.sql(arguments.sql)
            found = (frame if limit is None else frame.limit(limit + 1)).collect()
        except PySparkException as error:
            told = (str(error).splitlines() or ["it failed"])[0]
            raise UserError(f"Spark rejects the query: {told}") from error
        rows = [tuple(row) for row in found[:limit]]
        return QueryResult(tuple(frame.columns), rows, limit is None or len(found) <= limit)


def _print(rows: QueryResult, *, as_json: bool) -> None:
    if as_json:
        print_json([dict(zip(rows.columns, map(_as_json, row), strict=True)) for row in rows.rows])
    else:
        print_lines(table(rows.columns, ([_cell(value) for value in row] for row in rows.rows)))


def _as_json(value: Any) -> Any:
    value = plain(value)
    if isinstance(value, bytes | bytearray):
        return json_bytes(bytes(value))
    if isinstance(value, list):
        return [_as_json(each) for each in value]
    if isinstance(value, dict):
        return {str(name): _as_json(each) for name, each in value.items()}
    return value


def _cell(value: Any) -> object:
    if isinstance(value, bytes | bytearray):
        value = readable(bytes(value))
    value = plain(value)
    if isinstance(value, bool):
        return str(value).lower()
    text = None if value is None else " ".join(str(value).split())
    return text if text is None or len(text) <= _CELL_MAX else f"{text[: _CELL_MAX - 1]}…"


def _order(text: str) -> Sequence[tuple[str, bool]]:
    try:
        return parse_order(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is no list of columns like day, total desc") from None
