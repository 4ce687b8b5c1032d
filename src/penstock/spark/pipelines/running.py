"""A pipeline from start to end: the lock, the session, the loop that looks and shows, signals, and the exit code."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final, TextIO

from penstock.spark.pipelines.display import Display
from penstock.spark.pipelines.lag import LagMeter
from penstock.spark.pipelines.paths import locked, spark_log
from penstock.spark.pipelines.project import Project
from penstock.spark.pipelines.runner import Runner
from penstock.spark.pipelines.session import start_session
from penstock.spark.pipelines.views import FlowView
from penstock.spark.session import check_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOK_INTERVAL_S: Final = 1.0


def run_pipeline(
    project: Project,
    *,
    display: Display,
    once: bool = False,
    duration_s: float | None = None,
    master: str | None = None,
    remote: str | None = None,
) -> list[FlowView]:
    """Run until all flows have ended, the duration is over, or a signal comes; returns the flows' last states."""
    check_spark(remote=remote)
    with locked(project):
        display.say(f"pipeline {project.name}: starting Spark for {', '.join(project.flows)}")
        with LagMeter(project, say=lambda line: display.note(f"penstock: {line}")) as meter:
            meter.look(topic for flow in project.flows.values() for topic in flow.topics)
            return _run_on_spark(project, meter, display, once, duration_s, master, remote)


def _run_on_spark(
    project: Project,
    meter: LagMeter,
    display: Display,
    once: bool,
    duration_s: float | None,
    master: str | None,
    remote: str | None,
) -> list[FlowView]:
    spark = start_session(project, master=master, remote=remote)
    try:
        # After the session has started: PySpark installs a signal handler then.
        with stopped_by_signals() as stopping:
            return watch(
                Runner(project, spark, once=once, meter=meter),
                stopping=stopping,
                show=display.show,
                until=_deadline(duration_s),
            )
    finally:
        display.close()
        stop_session(spark)


def watch(
    runner: Runner,
    *,
    stopping: threading.Event,
    show: Callable[[Sequence[FlowView]], object],
    until: Callable[[], bool] = lambda: False,
) -> list[FlowView]:
    """Start the runner's flows and poll them until they end, a deadline or a signal; returns their last states."""
    runner.start()
    try:
        while True:
            show(runner.poll())
            if runner.ended or until() or stopping.wait(_LOOK_INTERVAL_S):
                break
    finally:
        runner.stop()
    return runner.views()


@contextmanager
def stopped_by_signals() -> Iterator[threading.Event]:
    """An event that SIGINT, SIGTERM and SIGHUP set; the second signal of a kind ends the process at once.

    An ignored signal, as SIGHUP under `nohup`, stays ignored.
    """
    stopping = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stopping
        return
    before = {
        number: handler
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        if (handler := signal.getsignal(number)) is not signal.SIG_IGN
    }

    def stop(number: int, _frame: FrameType | None) -> None:
        stopping.set()
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)

    for number in before:
        signal.signal(number, stop)
    try:
        yield stopping
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def stop_session(spark: "SparkSession") -> None:
    """Stop Spark; an error is printed, not raised."""
    try:
        spark.stop()
    except Exception as error:
        print(f"penstock: Spark did not stop cleanly: {type(error).__name__}", file=sys.stderr)


@contextmanager
def spark_in_a_file(project: Project, *, wanted: bool) -> Iterator[None]:
    """Redirect the output of the JVM and its workers to a file beside the checkpoints: a failed batch logs pages. The
    log of the previous run is kept under another name."""
    if not wanted:
        yield
        return
    path = spark_log(project)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        path.replace(path.with_suffix(".log.1"))
    with _descriptor_in(path) as stderr:
        before, sys.stderr = sys.stderr, stderr
        try:
            yield
        finally:
            sys.stderr = before


@contextmanager
def _descriptor_in(path: Path) -> Iterator[TextIO]:
    """Redirect file descriptor 2, which the JVM inherits, to the file; yields the previous stderr."""
    sys.stderr.flush()
    kept = os.dup(2)
    with path.open("wb") as file:
        os.dup2(file.fileno(), 2)
    try:
        with os.fdopen(kept, "w", encoding="utf-8", errors="backslashreplace", closefd=False) as stream:
            yield stream
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _deadline(duration_s: float | None) -> Callable[[], bool]:
    if duration_s is None:
        return lambda: False
    end_s = time.monotonic() + duration_s
    return lambda: time.monotonic() >= end_s
