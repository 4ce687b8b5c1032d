"""The whole story, as `make run` tells it: a broker, a generator with bursts, the pipelines on Spark, and a report.

    python -m app_logs.story --duration 90        # with examples/ on the path

The broker runs at once; Spark is installed meanwhile if it has to be. Then one request of the story's own goes through
all flows, since a query's first batch takes Spark ten times as long as the next ones. When every flow has read it the
generator starts. With a duration it stops after that, the pipelines read what is left, and all is counted again from
topics and tables: produced = analysed + dead-lettered, and nothing twice; the exit code is 1 if that does not hold.
Without one it goes on until Ctrl-C. Without Spark or Java the broker runs, and a line says what is missing.
"""

import argparse
import importlib
import json
import logging
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from app_logs.logs import ALERTS_TOPIC, DEAD_LETTERS_TOPIC, TOPIC, TRACES_TOPIC
from app_logs.story_processes import Broker, Generator
from penstock.base.errors import PenstockError, UserError
from penstock.base.ids import TopicPartition
from penstock.client.blocking import BlockingClient
from penstock.client.producer import NewRecord, Producer
from penstock.client.topics import NewTopic, create_topics
from penstock.spark.java import find_java, have_pyspark
from penstock.spark.pipelines.display import Display
from penstock.spark.pipelines.lag import LagMeter
from penstock.spark.pipelines.paths import locked, spark_log, table_of
from penstock.spark.pipelines.project import Project, TableTarget, read_project
from penstock.spark.pipelines.units import duration
from penstock.spark.pipelines.views import FlowView

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from app_logs.accounting import Recount

_PARTITIONS: Final = {TOPIC: 4, ALERTS_TOPIC: 1, TRACES_TOPIC: 2, DEAD_LETTERS_TOPIC: 1}
_LOOK_INTERVAL_S: Final = 1.0
_PAGE_INTERVAL_S: Final = 5.0
_DRAIN_TIMEOUT_S: Final = 600.0
_ALERTS_MAX: Final = 5_000
_SHOWN_FOR: Final = timedelta(hours=1)
_CLOSING_AHEAD_MS: Final = 20_000


def main(given: Sequence[str] | None = None) -> int:
    arguments = _parser().parse_args(given)
    # Also while something is installed or started: what was started is ended.
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGHUP, _interrupt)
    try:
        return _tell(arguments)
    except KeyboardInterrupt:
        print("\nstopped")
        return 0
    except PenstockError as error:
        print(f"penstock: {error}", file=sys.stderr)
        return 1


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="app_logs.story", description="A broker, logs, pipelines, a report."
    )
    parser.add_argument("--listen", default="127.0.0.1:9092", help="of the broker; else the next free port")
    parser.add_argument("--data", type=Path, default=Path("data"), help="the broker's data")
    parser.add_argument(
        "--out", type=Path, default=Path("report"), help="the page, tables, checkpoints, logs"
    )
    parser.add_argument("--duration", type=float, help="seconds of logs; else until Ctrl-C")
    parser.add_argument("--rate", type=float, default=200.0, help="logs per second, ten times that in bursts")
    parser.add_argument("--seed", type=int, help="the same seed, the same logs")
    parser.add_argument(
        "--trigger", help="how often batches begin, instead of what pipeline.toml says for each flow"
    )
    parser.add_argument("--setup", help="a command that installs what its last word names: spark, or java")
    return parser


def _tell(arguments: argparse.Namespace) -> int:
    out: Path = arguments.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    with Broker(listen=arguments.listen, data=arguments.data, log=out / "broker.log") as broker:
        try:
            _have_spark(arguments.setup)
        except UserError as error:
            print(f"penstock: {error}. The broker runs without; Ctrl-C ends it.", flush=True)
            threading.Event().wait(arguments.duration)
            return 1
        return Story(arguments, broker, out).tell()


def _have_spark(setup: str | None) -> None:
    """UserError if there is no PySpark, or no Java, and neither can be installed."""
    for what, check in (("spark", have_pyspark), ("java", find_java)):
        try:
            check()
        except UserError:
            if setup is None or subprocess.run([*shlex.split(setup), what], check=False).returncode:
                raise
            importlib.invalidate_caches()
            check()


class Story:
    """From a broker that runs to the last line."""

    def __init__(self, arguments: argparse.Namespace, broker: Broker, out: Path) -> None:
        self._arguments = arguments
        self._broker = broker
        self._out = out
        project = read_project(Path(__file__).parent, bootstrap_servers=broker.bootstrap_servers)
        # Of this cluster: another cluster has new topics, and these checkpoints would be wrong for them.
        project = replace(project, state=out / f"state-{broker.cluster_id}")
        if arguments.trigger:
            flows = {name: replace(flow, trigger=arguments.trigger) for name, flow in project.flows.items()}
            project = replace(project, flows=flows)
        self._project = project
        # A flow may have nothing to do for one trigger, and something for the next.
        self._quiet_s = 2 * max(_seconds(flow.trigger) for flow in project.flows.values()) + 2
        self._display = Display(sys.stdout)
        self._page = out / "index.html"

    def tell(self) -> int:
        from penstock.spark.pipelines.running import spark_in_a_file, stop_session, stopped_by_signals
        from penstock.spark.pipelines.session import start_session

        logging.getLogger("py4j").setLevel(logging.CRITICAL)
        _make_topics(self._broker.bootstrap_servers)
        with LagMeter(self._project) as first_look:
            before = _produced(
                first_look
            )  # before anything is sent: afterwards it is unknown what is in flight
        with (
            locked(self._project),
            spark_in_a_file(self._project, wanted=True),
            LagMeter(self._project) as meter,
        ):
            watching = _Watching(self._project, meter, self._display, self._page, before=before)
            self._display.say(
                "Spark is starting; the services begin to write when every flow has done its first batch. "
                f"The report: {self._page}"
            )
            spark = start_session(self._project)
            try:
                with stopped_by_signals() as stopping:
                    return self._run(spark, watching, stopping)
            finally:
                self._display.close()
                stop_session(spark)

    def _run(self, spark: "SparkSession", watching: "_Watching", stopping: threading.Event) -> int:
        from penstock.spark.pipelines.runner import Runner

        runner = Runner(self._project, spark)
        runner.start()
        drained = False
        try:
            if self._get_ready(runner, watching, stopping):
                drained = self._write_logs(runner, watching, stopping)
        finally:
            runner.stop()
        self._display.close()
        for view in runner.views():
            if view.problem is not None:
                self._display.say(f"{view.flow}: {view.problem} (Spark's log: {spark_log(self._project)})")
        if not drained:
            watching.write_page()
            self._display.say(f"{watching.acknowledged:,} logs were sent. The report: {self._page}")
            return 0 if stopping.is_set() and not runner.failed else 1
        return self._recount(spark, watching)

    def _get_ready(self, runner: Any, watching: "_Watching", stopping: threading.Event) -> bool:
        """Until every flow is ready; False if one is given up, or the story is stopped, before that."""
        self._send_own(watching)
        while not runner.failed and not stopping.wait(_LOOK_INTERVAL_S):
            views = runner.poll()
            watching.look(views)
            if all(is_ready(view) for view in views):
                return True
        return False

    def _write_logs(self, runner: Any, watching: "_Watching", stopping: threading.Event) -> bool:
        """While the generator runs, and after it until all is read; whether all was."""
        with Generator(
            bootstrap_servers=self._broker.bootstrap_servers,
            rate=self._arguments.rate,
            duration_s=self._arguments.duration,
            seed=int(time.time()) if self._arguments.seed is None else self._arguments.seed,
            log=self._out / "generator.log",
        ) as generator:
            watching.writing_begins(generator)
            self._display.say("every flow is ready: the services write now")
            while generator.is_running and not runner.failed and not stopping.wait(_LOOK_INTERVAL_S):
                watching.look(runner.poll())
        if not self._arguments.duration or runner.failed or stopping.is_set():
            return False
        return self._drain(runner, watching, stopping)

    def _send_own(self, watching: "_Watching", *, ahead_ms: int = 0) -> None:
        _send_request(self._broker.bootstrap_servers, ahead_ms=ahead_ms)
        watching.sent_itself += 1

    def _drain(self, runner: Any, watching: "_Watching", stopping: threading.Event) -> bool:
        """Until every flow has read everything, the traces that wait for more have given up waiting, and nothing has
        happened for a while."""
        self._display.say("no more logs are sent; the flows read what is left")
        deadline_s = time.monotonic() + _DRAIN_TIMEOUT_S
        closed = False
        batches: list[int | None] = []
        quiet_since_s = time.monotonic()
        while time.monotonic() < deadline_s and not runner.failed and not stopping.wait(_LOOK_INTERVAL_S):
            views = runner.poll()
            watching.look(views)
            now = [view.batch for view in views]
            if now != batches or any(view.lag != 0 for view in views):
                batches, quiet_since_s = now, time.monotonic()
            if not closed and all(view.lag == 0 for view in views):
                # Traces that wait for spans that never arrive wait for younger events: there are none after the last.
                self._send_own(watching, ahead_ms=_CLOSING_AHEAD_MS)
                closed = True
                quiet_since_s = time.monotonic()
            elif closed and time.monotonic() - quiet_since_s >= self._quiet_s:
                return True
        late = [view.flow for view in runner.views() if view.lag != 0]
        self._display.say(f"not all was read: {', '.join(late) or 'the last batches'} did not come to an end")
        return False

    def _recount(self, spark: "SparkSession", watching: "_Watching") -> int:
        self._display.say("counting again, from topics and tables")
        sent = watching.before + watching.acknowledged + watching.sent_itself
        counted, letters_twice = recount_all(spark, self._project)
        lines = [
            *counted.lines(),
            f"acknowledged to the generator, with what was there before: {sent:,} "
            f"{'=' if sent == counted.produced else '≠'} {counted.produced:,} in the topic",
            f"dead letters twice: {letters_twice:,}",
        ]
        good = counted.is_balanced and sent == counted.produced and letters_twice == 0
        watching.write_page(summary=lines, is_balanced=good)
        for line in [*lines, f"The report: {self._page}"]:
            self._display.say(line)
        return 0 if good else 1


class _Watching:
    """What is shown while the flows run, and kept for the page."""

    def __init__(
        self,
        project: Project,
        meter: LagMeter,
        display: Display,
        page: Path,
        *,
        before: int,
    ) -> None:
        from app_logs.story_page import History

        self._project = project
        self._meter = meter
        self._generator: Generator | None = None
        self._display = display
        self._page = page
        self._history = History()
        self._started_at = datetime.now().astimezone()  # the clock of those who look at the page
        self._started_at_s = time.monotonic()
        self._writing_since_s: float | None = None
        self._page_at_s = 0.0
        self._alerts: dict[str, dict[str, Any]] = {}
        self._alert_count = 0
        self._letter_count = 0
        self._read: dict[TopicPartition, int] = {}
        self.sent_itself = 0
        self.before = before

    @property
    def acknowledged(self) -> int:
        return 0 if self._generator is None else self._generator.acknowledged

    def writing_begins(self, generator: Generator) -> None:
        self._generator = generator
        self._writing_since_s = time.monotonic() - self._started_at_s

    def look(self, views: Sequence[FlowView]) -> None:
        from app_logs.story_page import Sample

        elapsed_s = time.monotonic() - self._started_at_s
        self._history.add(Sample(elapsed_s, _produced(self._meter), tuple(views)))
        self._display.show(views, below=[self._below(views)])
        if elapsed_s >= self._page_at_s:
            self.write_page(is_running=True)
            self._page_at_s = time.monotonic() - self._started_at_s + _PAGE_INTERVAL_S

    def _below(self, views: Sequence[FlowView]) -> str:
        if self._generator is None:
            waiting = ", ".join(view.flow for view in views if not is_ready(view))
            return f"the services write when every flow has done its first batch; waiting for {waiting or 'none'}"
        told = self._generator.told
        return (
            f"generator: {told['acknowledged']:,} sent, the last ones acknowledged "
            f"{duration(told['behind_ms'] / 1000)} after they were due; {self._alert_count:,} alerts"
        )

    def write_page(
        self, *, is_running: bool = False, summary: Sequence[str] = (), is_balanced: bool | None = None
    ) -> None:
        """Written beside and put in place: a browser never sees half a page."""
        from app_logs.story_page import Facts, alerts_told, render_page

        self._read_alerts()
        self._letter_count += sum(1 for _ in self._new_values(DEAD_LETTERS_TOPIC))
        facts = Facts(
            started_at=self._started_at,
            writing_since_s=self._writing_since_s,
            history=self._history.samples,
            alerts=list(self._alerts.values()),
            endpoint_minutes=self._rows("bi", since=datetime.now(UTC) - _SHOWN_FOR),
            call_graph=self._rows("call_graph"),
            dead_letter_count=self._letter_count,
            is_running=is_running,
            summary=summary,
            is_balanced=is_balanced,
        )
        self._alert_count = len(alerts_told(facts))
        beside = self._page.with_suffix(".new")
        beside.write_text(render_page(facts), encoding="utf-8")
        beside.replace(self._page)

    def _read_alerts(self) -> None:
        for value in self._new_values(ALERTS_TOPIC):
            alert = json.loads(value)
            self._alerts.pop(alert["alert_id"], None)
            self._alerts[alert["alert_id"]] = alert
        while len(self._alerts) > _ALERTS_MAX:
            self._alerts.pop(next(iter(self._alerts)))

    def _new_values(self, topic: str) -> Iterator[bytes]:
        """The values that were not there the last time."""
        ends = self._meter.look([topic])
        for partition, end in ({} if ends is None else ends.ends).items():
            yield from read_values(self._project, partition, self._read.get(partition, 0), end)
            self._read[partition] = end

    def _rows(self, flow: str, *, since: datetime | None = None) -> list[dict[str, Any]]:
        import pyarrow as pa
        from pyarrow import compute, parquet

        from penstock.spark.tables.manifest import read_manifest

        target = self._project.flows[flow].to
        assert isinstance(target, TableTarget)
        folder = table_of(self._project, target)
        rows: list[dict[str, Any]] = []
        for file in read_manifest(folder).files:
            table = parquet.read_table(folder / file.path)
            if since is not None:
                # Spark's files have times in a kind that Arrow reads without a zone.
                minutes = table["minute"].cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))
                table = table.filter(compute.greater_equal(minutes, pa.scalar(since)))
            rows += table.to_pylist()
        return rows


def is_ready(view: FlowView) -> bool:
    """Whether a batch has brought rows, which the first one need not, and nothing is left for the next one."""
    return view.rows > 0 and view.lag == 0


def read_values(project: Project, partition: TopicPartition, start: int, end: int) -> Iterator[bytes]:
    """The values of committed records of a stretch, without Spark."""
    if start >= end:
        return
    from pyspark.sql.types import BinaryType, StructField, StructType

    from penstock.spark.batch_reader import read_rules
    from penstock.spark.connecting import cluster_of
    from penstock.spark.fetching import read_ranges
    from penstock.spark.options import read_settings
    from penstock.spark.planning import OffsetRange
    from penstock.spark.subscription import TopicSelection

    settings = read_settings(project.source_options(next(iter(project.flows.values()))))
    rules = read_rules(settings, TopicSelection(settings))
    schema = StructType([StructField("value", BinaryType())])
    wanted = [OffsetRange(partition, start, end)]
    for batch in read_ranges(cluster_of(settings), wanted, rules, schema):
        yield from (each.as_py() for each in batch.column(0))


def recount_all(spark: "SparkSession", project: Project) -> "tuple[Recount, int]":
    """The accounts, and how many dead letters are there more than once."""
    from app_logs.accounting import recount
    from penstock.spark.tables import read

    def topic(name: str) -> "DataFrame":
        reader = spark.read.format("penstock").option("kafka.bootstrap.servers", project.bootstrap_servers)
        return reader.option("subscribe", name).option("includeHeaders", "true").load()

    tables = project.state / "tables"
    letters = topic(DEAD_LETTERS_TOPIC)
    counted = recount(
        logs=topic(TOPIC),
        dead_letters=letters,
        alerts=topic(ALERTS_TOPIC),
        endpoint_minutes=read(spark, tables, "endpoint_minutes"),
        traces=read(spark, tables, "traces"),
        call_graph=read(spark, tables, "call_graph"),
    )
    return counted, letters.count() - sum(counted.dead_lettered.values())


def _produced(meter: LagMeter) -> int:
    """How much the topic of logs holds: there are no transactions in it, so offsets count records."""
    ends = meter.look([TOPIC])
    return 0 if ends is None else sum(ends.ends.values())


def _seconds(trigger: str) -> float:
    """What the project's file was checked to say: a number and a unit."""
    number, unit = trigger.split()
    return int(number) * {"m": 0.001 if unit.startswith("milli") else 60, "s": 1, "h": 3600}[unit[0]]


def _make_topics(bootstrap_servers: str) -> None:
    """Those that are there stay as they are."""
    with BlockingClient(bootstrap_servers) as blocking:
        new = [NewTopic(name, partitions) for name, partitions in _PARTITIONS.items()]
        blocking.run(create_topics(blocking.client, new))


def _send_request(bootstrap_servers: str, *, ahead_ms: int) -> None:
    """One request that is a trace by itself, of a moment to come if it is ahead."""
    at_ms = time.time_ns() // 1_000_000 + ahead_ms
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    name = f"story-{at_ms}"
    event = {
        "event_id": name,
        "trace_id": name,
        "span_id": name,
        "parent_span_id": None,
        "service": "gateway",
        "endpoint": "GET /health",
        "status": 200,
        "latency_ms": 1.0,
        "calls": 0,
        "event_time": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "message": "from the story itself",
    }
    record = NewRecord(name.encode(), json.dumps(event).encode(), timestamp=at_ms)
    with BlockingClient(bootstrap_servers) as blocking:
        blocking.run(Producer(blocking.client).send(TOPIC, [record]))


if __name__ == "__main__":
    sys.exit(main())
