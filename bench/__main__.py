"""`python -m bench`: measures both brokers, prints one table, and draws the picture that the README shows.

With `--beside COMMIT` the other broker is Penstock as it was at that commit, instead of Apache Kafka.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.chart import render_chart
from bench.contestants import beside_earlier
from bench.measures import MEASURES, Measure
from bench.rows import Result
from bench.run import Outcome, environment, run_all
from bench.scale import FULL, QUICK, Scale
from bench.table import render_summary, render_table
from bench.usage import raise_open_files_limit
from peers.earlier_penstock import MissingCommitError, install_earlier
from peers.tools import MissingToolError, locate

HERE = Path(__file__).resolve().parent
CHART = HERE.parent / "docs" / "bench.svg"
RAW = HERE / "results"
# These take turns on one broker of each kind; the others start clusters, or Spark, beside Kafka's.
WARM = tuple(measure for measure in MEASURES if measure.is_warm and not measure.is_spark)


def main(words: Sequence[str] | None = None) -> int:
    arguments = _parse(words)
    raise_open_files_limit()
    scale = QUICK if arguments.quick else FULL
    started = time.time()
    try:
        outcome = _measure_all(arguments, scale._replace(**_given(arguments)))
    except (MissingToolError, MissingCommitError) as missing:
        print(f"bench: {missing}", file=sys.stderr)
        return 2
    facts = {**environment(), "scale": "quick" if arguments.quick else "full"}
    if arguments.beside:
        facts["kafka"] = f"not measured; beside Penstock at {arguments.beside}"
    facts["minutes"] = round((time.time() - started) / 60, 1)
    peer = arguments.beside or "Kafka"
    report = _report(outcome, facts, peer)
    _keep(report)
    if arguments.json:
        print(json.dumps(report, indent=1))
    else:
        _print(outcome, facts, peer)
    if arguments.chart is not None:
        arguments.chart.write_text(render_chart(outcome.results, subtitle=_subtitle(facts)))
    return 1 if outcome.failures else 0


def _measure_all(arguments: argparse.Namespace, scale: Scale) -> Outcome:
    if not arguments.beside:
        locate("kafka")
        return run_all(arguments.only or MEASURES, scale)
    with tempfile.TemporaryDirectory(prefix="penstock-earlier-") as folder:
        source = install_earlier(arguments.beside, Path(folder))
        outcome = run_all(arguments.only or WARM, scale, brokers=beside_earlier(arguments.beside, source))
    # Goals are set beside Kafka.
    return outcome._replace(
        results=[each._replace(row=each.row._replace(goal=None)) for each in outcome.results]
    )


def _parse(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--only",
        metavar="NAME",
        type=_measure,
        action="append",
        help=f"only this measure, of: {_names(MEASURES)}",
    )
    parser.add_argument(
        "--beside",
        metavar="COMMIT",
        help=f"beside Penstock at this commit instead of Kafka; without --only: {_names(WARM)}",
    )
    parser.add_argument("--quick", action="store_true", help="a few minutes, more noise")
    parser.add_argument("--rounds", type=int, help="how often each broker has its turn")
    parser.add_argument("--backlog-gb", type=float, help="how large the cold backlog is")
    parser.add_argument("--json", action="store_true", help="print everything as JSON instead of the table")
    parser.add_argument(
        "--chart", type=Path, help=f"where the picture goes; {CHART.name} for a whole full run"
    )
    arguments = parser.parse_args(words)
    if arguments.beside and any(measure not in WARM for measure in arguments.only or ()):
        parser.error(f"--beside measures only: {_names(WARM)}")
    if arguments.chart is None and not (arguments.only or arguments.quick or arguments.beside):
        arguments.chart = CHART
    return arguments


def _names(measures: Sequence[Measure]) -> str:
    return ", ".join(measure.name for measure in measures)


def _measure(name: str) -> Measure:
    for measure in MEASURES:
        if measure.name == name:
            return measure
    raise argparse.ArgumentTypeError(f"there is no measure {name!r}")


def _given(arguments: argparse.Namespace) -> dict[str, Any]:
    given: dict[str, Any] = {}
    if arguments.rounds is not None:
        given["rounds"] = arguments.rounds
    if arguments.backlog_gb is not None:
        given["backlog_bytes"] = int(arguments.backlog_gb * (1 << 30))
    return given


def _subtitle(facts: dict[str, Any]) -> str:
    return (
        f"same machine ({facts['cores']} cores), same run, same load; Kafka {facts['kafka']}; "
        f"Penstock on Python {facts['python']}, validation: {facts['penstock.produce.validation']}"
    )


def _print(outcome: Outcome, facts: dict[str, Any], peer: str) -> None:
    print(render_table(outcome.results, peer=peer))
    print()
    if any(result.row.key.startswith("spark_") for result in outcome.results):
        print("Rows about Spark: the column Kafka is Spark's own connector, on the same broker and topics.")
    if any(result.row.goal for result in outcome.results):
        print(render_summary(outcome.results))
    for failure in outcome.failures:
        print(f"failed: {failure}")
    print(", ".join(f"{name}: {value}" for name, value in facts.items()))


def _report(outcome: Outcome, facts: dict[str, Any], peer: str) -> dict[str, Any]:
    return {
        "environment": facts,
        "rows": [_row(result, peer.lower()) for result in outcome.results],
        "rounds": outcome.rounds,
        "failures": outcome.failures,
    }


def _row(result: Result, peer: str) -> dict[str, Any]:
    row = result.row
    return {
        "key": row.key,
        "title": row.title,
        "unit": row.unit,
        "penstock": result.penstock,
        peer: result.peer,
        "ratio": result.ratio,
        "goal": None if row.goal is None else row.goal.text(row.better),
        "met": result.is_met,
    }


def _keep(report: dict[str, Any]) -> None:
    RAW.mkdir(exist_ok=True)
    name = time.strftime("%Y-%m-%dT%H-%M-%S") + ".json"
    (RAW / name).write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    sys.exit(main())
