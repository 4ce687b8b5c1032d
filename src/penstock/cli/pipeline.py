"""`penstock pipeline`: init, run, describe, reset."""

import logging
import os
import sys
from argparse import ArgumentTypeError, Namespace
from collections.abc import Sequence
from pathlib import Path

from penstock.cli.confirm import add_yes, confirm
from penstock.cli.output import count_of, format_bytes, print_json, print_lines, table
from penstock.cli.parsing import (
    BOOTSTRAP_VARIABLE,
    Parser,
    UsageError,
    add_json,
    add_verb,
    add_verbs,
    run_verb,
)
from penstock.spark.pipelines.description import PipelineDescription, describe_project, description_as_json
from penstock.spark.pipelines.display import Display
from penstock.spark.pipelines.paths import spark_log
from penstock.spark.pipelines.project import FILE_NAME, Project, read_project
from penstock.spark.pipelines.reset import Removed, plan_reset, reset
from penstock.spark.pipelines.views import FlowView, State

run = run_verb

_SERVERS_DEFAULT = "localhost:9092"


def add_arguments(parser: Parser) -> None:
    parser.usage = f"{parser.prog} VERB [options]"
    verbs = add_verbs(parser)
    verb = add_verb(verbs, "init", "write a small project that runs as it is", "NAME [options]")
    verb.add_argument("name", metavar="NAME", help="its directory, and the module in it")
    verb.add_argument("--topic", metavar="TOPIC", default="events", help="what it reads (default events)")
    _finish(verb, _init)

    verb = add_verb(verbs, "run", "run a project's flows on Spark until Ctrl-C", "[DIR] [options]")
    _add_directory(verb)
    verb.add_argument(
        "--flow", metavar="FLOW", action="append", default=[], help="only this one; may be repeated"
    )
    verb.add_argument("--once", action="store_true", help="read up to the present end offsets, and end")
    verb.add_argument("--duration", type=_seconds, metavar="S", help="end after so many seconds")
    verb.add_argument("--master", metavar="M", help="Spark's master (default: this machine)")
    verb.add_argument("--remote", metavar="URL", help="a Spark Connect server: sc://host:port")
    verb.add_argument("--verbose", action="store_true", help="Spark's own log to stderr, not to a file")
    _finish(verb, _run)

    verb = add_verb(verbs, "describe", "show flows, positions, lag and tables", "[DIR] [options]")
    _add_directory(verb)
    _finish(verb, _describe)

    verb = add_verb(
        verbs,
        "reset",
        "reset a flow to the beginning",
        "FLOW [DIR] [options]",
    )
    verb.add_argument(
        "flow", metavar="FLOW", help="the flow; the flows that read what it writes are reset with it"
    )
    _add_directory(verb)
    verb.add_argument("--alone", action="store_true", help="not the flows that read what it writes")
    add_yes(verb)
    _finish(verb, _reset)


def _add_directory(verb: Parser) -> None:
    verb.add_argument(
        "directory", metavar="DIR", nargs="?", default=".", help=f"where {FILE_NAME} is (default here)"
    )


def _finish(verb: Parser, act: object) -> None:
    """Add -b without localhost as its default: `pipeline.toml` has the broker's address."""
    verb.add_argument(
        "-b",
        "--bootstrap-server",
        "--bootstrap-servers",
        metavar="ADDRESS",
        default=os.environ.get(BOOTSTRAP_VARIABLE) or None,
        help=f"host:port of a broker; overrides {BOOTSTRAP_VARIABLE} and {FILE_NAME}",
    )
    add_json(verb)
    verb.set_defaults(act=act)


def _init(arguments: Namespace) -> int:
    from penstock.spark.pipelines.template import write_template

    directory = Path(arguments.name)
    written = write_template(
        directory,
        name=directory.name,
        topic=arguments.topic,
        bootstrap_servers=arguments.bootstrap_server or _SERVERS_DEFAULT,
    )
    if arguments.json:
        print_json({"directory": str(directory), "files": [str(each) for each in written]})
    else:
        print_lines(f"wrote {each}" for each in written)
        print_lines([f"next: `penstock pipeline run {directory}`"])
    return 0


def _run(arguments: Namespace) -> int:
    from penstock.spark.pipelines.running import run_pipeline, spark_in_a_file

    if arguments.master and arguments.remote:
        raise UsageError("--master and --remote exclude each other")
    project = _project(arguments).only(arguments.flow)
    # PySpark logs a traceback for each failed batch, which is shown in one line already.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    with spark_in_a_file(project, wanted=not arguments.verbose):
        views = run_pipeline(
            project,
            # With --json, stdout has the JSON alone.
            display=Display(sys.stderr if arguments.json else sys.stdout),
            once=arguments.once,
            duration_s=arguments.duration,
            master=arguments.master,
            remote=arguments.remote,
        )
    if arguments.json:
        print_json([_view_as_json(each) for each in views])
    else:
        print_lines(_closing_lines(views))
    failed = [view for view in views if view.state is State.FAILED]
    if failed and not arguments.verbose:
        print(f"penstock: Spark's own log is in {spark_log(project)}", file=sys.stderr)
    return 1 if failed else 0


def _describe(arguments: Namespace) -> int:
    description = describe_project(_project(arguments))
    if arguments.json:
        print_json(description_as_json(description))
    else:
        _print_description(description)
    return 0


def _reset(arguments: Namespace) -> int:
    project = _project(arguments)
    plan = plan_reset(project, project.flow(arguments.flow), alone=arguments.alone)
    confirm(arguments, f"reset {plan} to the beginning")
    removed = reset(project, plan)
    if arguments.json:
        print_json({"flows": [each._asdict() for each in removed], "emptied": plan.topics})
        return 0
    print_lines(f"emptied topic {each}" for each in plan.topics)
    for each in removed:
        print_lines([_what_went(each), *each.notes])
    return 0


def _what_went(removed: Removed) -> str:
    gone = [
        "its checkpoint" if removed.checkpoint else None,
        f"table {removed.table}" if removed.table else None,
        f"group {removed.group}" if removed.group else None,
    ]
    return f"reset {removed.flow}: removed {', '.join(each for each in gone if each) or 'nothing'}"


def _project(arguments: Namespace) -> Project:
    return read_project(Path(arguments.directory), bootstrap_servers=arguments.bootstrap_server)


def _print_description(description: PipelineDescription) -> None:
    project = description.project
    state = f"running as process {description.running_as}" if description.running_as else "not running"
    answers = "" if description.broker_answers else ", which does not answer"
    print_lines(
        [
            f"{project.name}: {state}",
            f"  broker  {project.bootstrap_servers}{answers}",
            f"  state   {project.state}",
        ]
    )
    rows = []
    for each in description.flows:
        batches = each.checkpoint.batches_done if each.checkpoint else 0
        size = "-" if each.table_bytes is None else format_bytes(each.table_bytes)
        rows.append(
            (
                each.flow.name,
                ",".join(each.flow.topics),
                str(each.flow.to),
                batches,
                each.lag,
                each.table_rows,
                size,
                each.flow.group,
            )
        )
    print_lines(table(("FLOW", "FROM", "TO", "BATCHES", "LAG", "ROWS", "SIZE", "GROUP"), rows, indent="  "))
    positions = [
        (each.flow.name, str(partition), offset)
        for each in description.flows
        for partition, offset in sorted((each.checkpoint.positions if each.checkpoint else {}).items())
    ]
    if positions:
        print_lines(["", *table(("FLOW", "PARTITION", "POSITION"), positions, indent="  ")])


def _closing_lines(views: Sequence[FlowView]) -> list[str]:
    return [
        f"{view.flow}: {view.state.value}, {count_of(view.rows, 'row')}"
        + (f", {count_of(view.restarts, 'restart')}" if view.restarts else "")
        + (f": {view.problem}" if view.state is State.FAILED else "")
        for view in views
    ]


def _view_as_json(view: FlowView) -> dict[str, object]:
    return {
        "flow": view.flow,
        "state": view.state.value,
        "rows": view.rows,
        "lag": view.lag,
        "batch": view.batch,
        "batch_ms": view.batch_ms,
        "restarts": view.restarts,
        "problem": view.problem,
    }


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e9:
        raise ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return seconds
