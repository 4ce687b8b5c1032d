"""Runs one streaming query per flow on one Spark session: starts, watches, restarts and stops them.

`Runner.poll` does one step and never waits, so the caller decides how often, can draw a display in between, and can
stop at any time. On the driver, in one thread.
"""

import json
import logging
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.base.errors import PenstockError, UserError
from penstock.spark.options import FOREACH_BATCH, FOREACH_BATCH_ID, FOREACH_QUERY_ID
from penstock.spark.pipelines.checkpoint import query_id_of, read_checkpoint
from penstock.spark.pipelines.failures import cause_of, is_late_worker
from penstock.spark.pipelines.lag import LagMeter
from penstock.spark.pipelines.paths import checkpoint_of
from penstock.spark.pipelines.project import RESTARTS_MAX, Flow, Project, TopicTarget
from penstock.spark.pipelines.restarts import Restarts
from penstock.spark.pipelines.transforms import load_transform
from penstock.spark.pipelines.views import FlowView, Rate, State, event_age_ms, has_run
from penstock.spark.positions import Positions, Reached
from penstock.spark.session import in_a_pool

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from penstock.spark.tables import Table

log = logging.getLogger("penstock.pipelines")
log.addHandler(logging.NullHandler())  # the display shows it already

_ENDED = (State.FAILED, State.DONE, State.STOPPED)


class Runner:
    """All flows of a project. `once`: each reads up to the present end offsets, and ends."""

    def __init__(
        self,
        project: Project,
        spark: "SparkSession",
        *,
        once: bool = False,
        meter: LagMeter | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._project = project
        self._clock = clock
        # All functions are imported before the first query starts: an unknown name must not stop half of a pipeline.
        self._flows = [
            _RunningFlow(project, flow, load_transform(project, flow), spark, once=once, clock=clock)
            for flow in project.flows.values()
        ]
        self._lags: list[int | None] = [None] * len(self._flows)
        self._meter = meter or LagMeter(project)
        self._is_meter_ours = meter is None

    def start(self) -> None:
        """Start every flow; UserError, with none running, if Spark rejects one of them."""
        try:
            for flow in self._flows:
                flow.begin()
        except BaseException:
            self.stop()
            raise

    def poll(self) -> list[FlowView]:
        """Check every flow, restart failed ones that are due, and return the state of all."""
        for flow in self._flows:
            flow.poll()
        ends = self._meter.look(topic for flow in self._flows for topic in flow.flow.topics)
        self._lags = [
            None if ends is None else ends.lag(each.flow.topics, each.positions) for each in self._flows
        ]
        return self.views()

    def views(self) -> list[FlowView]:
        """The flows' states at the last poll."""
        now = self._clock()
        return [flow.view(now, lag) for flow, lag in zip(self._flows, self._lags, strict=True)]

    @property
    def ended(self) -> bool:
        """Whether no flow runs any more, and none will be restarted."""
        return all(flow.state in _ENDED for flow in self._flows)

    @property
    def failed(self) -> list[str]:
        """The flows that failed for good."""
        return [flow.flow.name for flow in self._flows if flow.state is State.FAILED]

    def stop(self) -> None:
        """Stop every query. A batch in progress is cancelled, and repeated after the next start."""
        for flow in self._flows:
            flow.stop()
        if self._is_meter_ours:
            self._meter.close()


class _RunningFlow:
    def __init__(
        self,
        project: Project,
        flow: Flow,
        transform: "Callable[[DataFrame], DataFrame]",
        spark: "SparkSession",
        *,
        once: bool,
        clock: Callable[[], float],
    ) -> None:
        self.flow = flow
        self.state = State.STARTING
        kept = read_checkpoint(checkpoint_of(project, flow))
        self.positions: Positions = {} if kept is None else kept.positions
        self._project = project
        self._transform = transform
        self._spark = spark
        self._once = once
        self._clock = clock
        self._query: StreamingQuery | None = None
        self._restarts = Restarts(project.settings)
        self._retry_at_s: float | None = None
        self._problem: str | None = None
        self._rate = Rate(started_at_s=clock())
        self._rows = 0
        self._batch: int | None = None
        self._batch_ms: int | None = None
        self._event_age_ms: int | None = None

    def begin(self) -> None:
        """Start the query for the first time; UserError if Spark rejects it."""
        try:
            self.start()
        except UserError as error:
            if not is_late_worker(str(error)):
                raise
            self._failed(str(error))

    def start(self) -> None:
        """Start the query; UserError if Spark rejects it."""
        try:
            with in_a_pool(self._spark, self.flow.name):
                self._query = self._writer().start()
        except PenstockError:
            raise
        except Exception as error:
            raise UserError(f"flow {self.flow.name} cannot be started: {cause_of(str(error))}") from error
        self.state = State.RUNNING if self._batch is not None else State.STARTING
        self._retry_at_s = None

    def _writer(self) -> "DataStreamWriter":
        rows = (
            self._spark.readStream.format("penstock")
            .options(**self._project.source_options(self.flow))
            .load()
        )
        result: Any = self._transform(rows)
        if not hasattr(result, "writeStream"):
            raise UserError(
                f"flow {self.flow.name}: {self.flow.transform} returned {type(result).__name__} and not a DataFrame; "
                "several outputs are several flows"
            )
        writer = (
            result.writeStream.queryName(f"{self._project.name}.{self.flow.name}")
            .outputMode(self.flow.output_mode)
            .option("checkpointLocation", str(checkpoint_of(self._project, self.flow).absolute()))
        )
        writer = (
            writer.trigger(availableNow=True)
            if self._once
            else writer.trigger(processingTime=self.flow.trigger)
        )
        return _to_target(writer, self._project, self.flow)

    def poll(self) -> None:
        if self.state in _ENDED:
            return
        if self._query is None:
            self._start_again_if_due()
            return
        error: Exception | None
        try:
            is_active = self._query.isActive  # before progress is read: so its last batch is seen too
            self._notice_progress(self._query)
            if is_active:
                return
            error = self._query.exception()
        except Exception as gone:  # the session itself, or the connection to it
            error = gone
        self._query = None
        if error is None:
            self.state = State.DONE if self._once else State.STOPPED
            self._problem = None
        else:
            self._failed(cause_of(str(error)))

    def _start_again_if_due(self) -> None:
        if self._retry_at_s is None or self._clock() < self._retry_at_s:
            return
        try:
            self.start()
        except PenstockError as error:
            self._failed(str(error))

    def _failed(self, problem: str) -> None:
        self._problem = problem
        self._query = None
        self._retry_at_s = self._restarts.failed(self._clock())
        if self._retry_at_s is None:
            self.state = State.FAILED
            often = self._project.settings[RESTARTS_MAX]
            log.error(
                "flow %s failed for good after %d restarts in a row: %s", self.flow.name, often, problem
            )
        else:
            self.state = State.WAITING
            delay_s = self._retry_at_s - self._clock()
            log.warning("flow %s failed and starts again in %.1f s: %s", self.flow.name, delay_s, problem)

    def _notice_progress(self, query: "StreamingQuery") -> None:
        told = [_as_mapping(progress) for progress in query.recentProgress]
        done = [each for each in told if has_run(each) and not self._knows(int(each["batchId"]))]
        for known in done:
            # Added up from the sources: through Spark Connect the sum is missing.
            rows = sum(int(source["numInputRows"] or 0) for source in known.get("sources") or ())
            self._batch = int(known["batchId"])
            self._batch_ms = int(known.get("durationMs", {}).get("triggerExecution", 0))
            self._rows += rows
            self._rate.add(now_s=self._clock(), rows=rows)
        if done:
            self._event_age_ms = event_age_ms(done)
            self._restarts.progressed()
        # The last progress may be of a trigger without a batch: it has the position, and shows that the flow runs.
        if told and (done or not has_run(told[-1])):
            self._notice_position(told[-1])
            self._problem = None
            self.state = State.RUNNING

    def _knows(self, batch: int) -> bool:
        return self._batch is not None and batch <= self._batch

    def _notice_position(self, known: Mapping[str, Any]) -> None:
        offset: object = known["sources"][0].get("endOffset") if known.get("sources") else None
        if isinstance(offset, str):
            offset = json.loads(offset)
        if isinstance(offset, dict):
            self.positions = Reached.from_json(offset).positions

    def view(self, now_s: float, lag: int | None) -> FlowView:
        return FlowView(
            flow=self.flow.name,
            state=self.state,
            rows=self._rows,
            rows_per_second=self._rate.per_second(now_s),
            lag=lag,
            batch=self._batch,
            batch_ms=self._batch_ms,
            restarts=self._restarts.in_all,
            problem=self._problem,
            retry_in_s=None if self._retry_at_s is None else max(0.0, self._retry_at_s - now_s),
            event_age_ms=self._event_age_ms,
        )

    def stop(self) -> None:
        if self._query is not None:
            try:
                self._query.stop()
            except Exception as error:
                log.warning("flow %s did not stop cleanly: %s", self.flow.name, cause_of(str(error)))
            self._query = None
        # A flow that waits for a restart ends as failed.
        if self.state is State.WAITING:
            self.state = State.FAILED
        elif self.state not in _ENDED:
            self.state = State.STOPPED
        self._retry_at_s = None


def _to_target(writer: "DataStreamWriter", project: Project, flow: Flow) -> "DataStreamWriter":
    checkpoint = checkpoint_of(project, flow).absolute()
    if isinstance(flow.to, TopicTarget):
        if flow.output_mode == "update":
            # Spark does not support update mode in Python sinks. Inside foreachBatch it works, exactly once.
            return writer.foreachBatch(partial(_write_records, project.sink_options(flow.to), checkpoint))
        return writer.format("penstock").options(**project.sink_options(flow.to))
    from penstock.spark.tables import ensure_table

    table = ensure_table(project.state / "tables", flow.to.table, keys=flow.to.key)
    return writer.foreachBatch(partial(_write_rows, table, checkpoint))


# Through Spark Connect these two run on the server, in a separate process.


def _write_records(options: Mapping[str, str], checkpoint: Path, rows: "DataFrame", batch_id: int) -> None:
    whose = {
        FOREACH_BATCH.name: "updates",
        FOREACH_QUERY_ID.name: query_id_of(checkpoint),
        FOREACH_BATCH_ID.name: str(batch_id),
    }
    rows.write.format("penstock").options(**options, **whose).mode("append").save()


def _write_rows(table: "Table", checkpoint: Path, rows: "DataFrame", batch_id: int) -> None:
    from penstock.spark.tables import write_batch

    write_batch(rows, batch_id, table, query_id=query_id_of(checkpoint))


def _as_mapping(progress: Any) -> Mapping[str, Any]:
    """Spark's progress as in its JSON, from any of its classes."""
    if isinstance(progress, dict):
        return progress
    found: Mapping[str, Any] = json.loads(progress.json)
    return found
