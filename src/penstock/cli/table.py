"""`penstock table`: list, describe, create, refresh, query, drop. `refresh` and `query --sql` run Spark."""

import json
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.base.errors import PenstockError, SettingError, UserError
from penstock.base.ids import TopicPartition
from penstock.cli.confirm import add_yes, confirm
from penstock.cli.output import count_of, format_bytes, print_json, print_lines, table
from penstock.cli.parsing import (
    Parser,
    UsageError,
    add_connection,
    add_json,
    add_verb,
    add_verbs,
    name_and_value,
    run_verb,
)
from penstock.cli.session import connected, find_topics
from penstock.cli.table_query import add_query_arguments, run_query
from penstock.client.blocking import BlockingClient
from penstock.client.client import ClientSettings
from penstock.spark.tables import avro_schemas, ddl, schemas, topic_tables
from penstock.spark.tables.declaration import APPEND, KINDS, Table, TopicFeed, open_table, table_names
from penstock.spark.tables.describing import TableState, describe, topic_ends
from penstock.spark.tables.dropping import drop, open_for_dropping
from penstock.spark.tables.inference import infer_columns

if TYPE_CHECKING:
    from penstock.spark.tables.refreshing import Refreshed

run = run_verb

_WAREHOUSE_DEFAULT = "tables"
_PATIENCE_MS = 5_000


def add_arguments(parser: Parser) -> None:
    parser.usage = f"{parser.prog} VERB [options]"
    verbs = add_verbs(parser)
    verb = add_verb(verbs, "list", "list the tables of a warehouse", "[options]")
    _finish(verb, _list)

    verb = add_verb(verbs, "describe", "show columns, rows, files, offsets and lag", "[TABLE ...] [options]")
    verb.add_argument("names", metavar="TABLE", nargs="*", default=[], help="which; all if none is named")
    _finish(verb, _describe)

    verb = add_verb(verbs, "create", "declare a table of a topic", "TABLE [options]")
    verb.add_argument("name", metavar="TABLE", help="letters, digits, '.', '_' and '-'")
    verb.add_argument(
        "--topic", metavar="TOPIC", help="the topic that it reads (default: the one with the table's name)"
    )
    verb.add_argument(
        "--kind",
        choices=KINDS,
        default=APPEND,
        help="a row per record, or the latest per key (default append)",
    )
    verb.add_argument(
        "--format",
        choices=schemas.SCHEMA_KINDS,
        default="json",
        help="the format of the values (default json)",
    )
    verb.add_argument(
        "--schema",
        metavar="COLUMNS",
        help="of JSON: 'id BIGINT, name STRING'; inferred from the topic's first records if not given",
    )
    verb.add_argument("--schema-file", metavar="FILE", type=Path, help="of Avro: the schema, as JSON (.avsc)")
    verb.add_argument(
        "--framing",
        choices=avro_schemas.FRAMINGS,
        default=avro_schemas.PLAIN,
        help="of Avro: confluent if the five bytes of a schema registry come first (default plain)",
    )
    for what in ("key", "value"):
        verb.add_argument(
            f"--{what}",
            choices=(schemas.TEXT, schemas.BYTES),
            default=schemas.TEXT,
            help=f"what the column {'_key' if what == 'key' else 'value of format plain'} is (default string)",
        )
    verb.add_argument(
        "--config",
        type=name_and_value,
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="a setting of the table; may be repeated",
    )
    verb.add_argument(
        "--option",
        type=name_and_value,
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="an option of the source, as for format('penstock'); may be repeated",
    )
    add_connection(verb)
    _finish(verb, _create)

    verb = add_verb(verbs, "refresh", "read new records from the topics into tables", "[TABLE ...] [options]")
    verb.add_argument(
        "names",
        metavar="TABLE",
        nargs="*",
        default=[],
        help="which; all that are fed from topics if none is named",
    )
    verb.add_argument("--master", metavar="URL", default="local[*]", help="Spark's (default local[*])")
    _finish(verb, _refresh)

    verb = add_verb(verbs, "query", "show rows of a table", "TABLE | --sql QUERY [options]")
    add_query_arguments(verb)
    _finish(verb, run_query)

    verb = add_verb(verbs, "drop", "delete a table with its files; the topic stays", "TABLE [options]")
    verb.add_argument("name", metavar="TABLE", help="which")
    add_yes(verb)
    _finish(verb, _drop)


def _finish(verb: Parser, act: Any) -> None:
    verb.add_argument(
        "--warehouse",
        metavar="DIR",
        type=Path,
        default=Path(_WAREHOUSE_DEFAULT),
        help=f"where the tables are (default ./{_WAREHOUSE_DEFAULT})",
    )
    add_json(verb)
    verb.set_defaults(act=act)


def _list(arguments: Namespace) -> int:
    states = [describe(open_table(arguments.warehouse, name)) for name in table_names(arguments.warehouse)]
    if arguments.json:
        print_json([_summary(state) for state in states])
    else:
        rows = (
            (state.table.name, state.table.declaration.kind, _topic(state.table), state.rows, state.files,
             format_bytes(state.bytes_count), state.rejected)
            for state in states
        )  # fmt: skip
        print_lines(table(("TABLE", "KIND", "TOPIC", "ROWS", "FILES", "SIZE", "REJECTED"), rows))
    return 0


def _describe(arguments: Namespace) -> int:
    names = arguments.names or table_names(arguments.warehouse)
    described = [_with_ends(open_table(arguments.warehouse, name)) for name in names]
    if arguments.json:
        print_json([_description(state, problem) for state, problem in described])
        return 0
    for number, (state, problem) in enumerate(described):
        print_lines([""] if number else [])
        _print_description(state, problem)
    return 0


def _create(arguments: Namespace) -> int:
    topic = arguments.topic or arguments.name
    _check_arguments(arguments)
    with connected(arguments) as blocking:
        blocking.run(find_topics(blocking.client, [topic]))
        schema = _schema(arguments, topic, blocking)
    feed = TopicFeed(topic, arguments.bootstrap_server, schema, dict(arguments.option))
    _check_options(feed)
    made = topic_tables.create_topic_table(
        arguments.warehouse, arguments.name, feed, kind=arguments.kind, settings=dict(arguments.config)
    )
    if arguments.json:
        print_json(_description(describe(made), None))
    else:
        columns = ddl.render_columns(schemas.value_columns(schema))
        print_lines([f"created {arguments.kind} table {made.name} of topic {topic}: {columns}"])
    return 0


def _refresh(arguments: Namespace) -> int:
    every = [
        open_table(arguments.warehouse, name) for name in arguments.names or table_names(arguments.warehouse)
    ]
    wanted = every if arguments.names else [each for each in every if each.declaration.feed is not None]
    if not wanted:
        raise UserError(
            f"there are no tables of topics in {arguments.warehouse}; `penstock table create` makes one"
        )
    from penstock.spark.session import spark_session

    results = {}
    with spark_session("penstock table refresh", master=arguments.master) as spark:
        from penstock.spark.tables.refreshing import refresh

        for each in wanted:
            done = results[each.name] = refresh(spark, each)
            if not arguments.json:
                print_lines([_told(each, done)])
    if arguments.json:
        print_json([{"name": name, **done._asdict()} for name, done in results.items()])
    return 0


def _drop(arguments: Namespace) -> int:
    found = open_for_dropping(arguments.warehouse, arguments.name)
    state = describe(found)
    again = "" if found.declaration.feed else "; the query that fills it does not write them again"
    confirm(
        arguments,
        f"drop table {found.name} with {count_of(state.rows, 'row')} in {count_of(state.files, 'file')} "
        f"({format_bytes(state.bytes_count)}){again}",
    )
    dropped = drop(found)
    left = [str(path) for path in dropped.left]
    if arguments.json:
        print_json({"dropped": found.name, "files": dropped.files, "left": left})
        return 0
    print_lines([f"dropped table {found.name}: {count_of(dropped.files, 'file')} deleted"])
    if left:
        more = f" and {len(left) - 3} more" if len(left) > 3 else ""
        print_lines([f"not the table's, and still there: {', '.join(left[:3])}{more}"])
    return 0


def _told(found: Table, done: "Refreshed") -> str:
    batches = "1 batch" if done.batches == 1 else f"{done.batches:,} batches"
    return (
        f"table {found.name}: {count_of(done.rows, 'row')} ({done.row_change:+,}), "
        f"{done.rejected:,} rejected ({done.rejected_change:+,}), {batches}"
    )


# Arguments of `create`.


def _check_arguments(arguments: Namespace) -> None:
    if arguments.format != schemas.JSON_KIND and arguments.schema is not None:
        raise UsageError(
            "--schema is for JSON values; Avro needs --schema-file, and plain values have no schema"
        )
    if (arguments.format == schemas.AVRO_KIND) != (arguments.schema_file is not None):
        raise UsageError("--format avro needs --schema-file, and the other way round")


def _schema(arguments: Namespace, topic: str, blocking: BlockingClient) -> dict[str, Any]:
    match arguments.format:
        case "json":
            if arguments.schema is not None:
                columns = ddl.parse_columns(arguments.schema)
            else:
                columns = infer_columns(blocking.run(topic_tables.sample_values(blocking.client, topic)))
            return topic_tables.json_schema(columns, key=arguments.key)
        case "avro":
            return topic_tables.avro_schema(
                _avro_schema(arguments.schema_file), framing=arguments.framing, key=arguments.key
            )
        case _:
            return topic_tables.plain_schema(value=arguments.value, key=arguments.key)


def _avro_schema(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text())
    except ValueError as error:
        raise SettingError(f"{path} holds no Avro schema: {error}") from None
    if not isinstance(content, dict):
        raise SettingError(f"{path} holds no Avro schema of a record")
    return content


def _check_options(feed: TopicFeed) -> None:
    """Reject unknown options of the source now, not at the first refresh."""
    from penstock.spark.options import read_settings

    read_settings(
        {"kafka.bootstrap.servers": feed.bootstrap_servers, "subscribe": feed.topic, **feed.options}
    )


# Output.


def _with_ends(found: Table) -> tuple[TableState, str | None]:
    """A table's state with its topic's end offsets, or the error why those are unknown."""
    feed = found.declaration.feed
    if feed is None:
        return describe(found), None
    settings = ClientSettings(client_id="penstock-cli", patience_ms=_PATIENCE_MS)
    ends: dict[TopicPartition, int] | None = None
    problem = None
    try:
        with BlockingClient(feed.bootstrap_servers, settings=settings) as blocking:
            ends = blocking.run(topic_ends(blocking.client, feed.topic))
    except PenstockError as error:
        problem = str(error)
    return describe(found, ends), problem


def _topic(found: Table) -> str | None:
    feed = found.declaration.feed
    return None if feed is None else feed.topic


def _summary(state: TableState) -> dict[str, object]:
    return {
        "name": state.table.name,
        "kind": state.table.declaration.kind,
        "topic": _topic(state.table),
        "rows": state.rows,
        "files": state.files,
        "bytes": state.bytes_count,
        "rejected": state.rejected,
    }


def _description(state: TableState, problem: str | None) -> dict[str, object]:
    feed = state.table.declaration.feed
    return {
        **_summary(state),
        "folder": str(state.table.folder),
        "format": None if feed is None else feed.schema["kind"],
        "keys": list(state.table.declaration.keys),
        "columns": {name: ddl.render_type(kind) for name, kind in state.columns},
        "version": state.version,
        "lag": state.lag,
        "partitions": [
            {
                "topic": each.partition.topic,
                "partition": each.partition.partition,
                "next_offset": each.next_offset,
                "end_offset": each.end_offset,
                "lag": each.lag,
            }
            for each in state.partitions
        ],
        "problem": problem,
    }


def _print_description(state: TableState, problem: str | None) -> None:
    declaration = state.table.declaration
    feed = declaration.feed
    source = (
        "" if feed is None else f" of topic {feed.topic} ({feed.schema['kind']}, {feed.bootstrap_servers})"
    )
    lag = f", lag {state.lag:,}" if state.lag is not None else ""
    print_lines(
        [
            f"{state.table.name}: {declaration.kind} table{source}",
            f"  {count_of(state.rows, 'row')} in {count_of(state.files, 'file')}, {format_bytes(state.bytes_count)}; "
            f"{state.rejected:,} rejected{lag}",
        ]
    )
    columns = ((name, ddl.render_type(kind)) for name, kind in state.columns)
    print_lines(table(("COLUMN", "TYPE"), columns, indent="  "))
    if state.partitions:
        rows = (
            (each.partition.partition, each.next_offset, each.end_offset, each.lag)
            for each in state.partitions
        )
        print_lines(table(("PARTITION", "NEXT OFFSET", "END OFFSET", "LAG"), rows, indent="  "))
    if problem is not None:
        print_lines([f"  the topic's end offsets are unknown: {problem}"])
