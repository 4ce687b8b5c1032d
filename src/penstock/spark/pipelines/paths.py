"""The paths of a project's state, and the lock that a running pipeline holds.

STATE/checkpoints/FLOW    Spark's checkpoint of a flow
STATE/tables/TABLE        a table
STATE/running             the lock, with the id of the process that holds it
STATE/spark.log           Spark's log, while the display is on the terminal
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.base.errors import UserError
from penstock.spark.pipelines.project import Flow, Project, TableTarget


def checkpoint_of(project: Project, flow: Flow) -> Path:
    return project.state / "checkpoints" / flow.name


def table_of(project: Project, target: TableTarget) -> Path:
    return project.state / "tables" / target.table


def modules_of(project: Project) -> Path:
    return project.state / "modules"


def spark_log(project: Project) -> Path:
    return project.state / "spark.log"


@contextmanager
def locked(project: Project) -> Iterator[None]:
    """Lock the project's state; UserError that names the process if another one holds the lock.

    It is a file lock of the kernel, which ends with the process. The file stays: removing it would let two
    processes lock two files of the same name.
    """
    project.state.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(project.state / "running", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(descriptor, 32).decode("ascii", "replace").strip() or "unknown"
            raise UserError(
                f"pipeline {project.name} is running, as process {holder}: stop that one first (Ctrl-C there, "
                f"or kill {holder})"
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
        os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def running_process(project: Project) -> int | None:
    """The process that runs the pipeline now; None if none does."""
    try:
        descriptor = os.open(project.state / "running", os.O_RDWR)
    except FileNotFoundError:
        return None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return None
        except BlockingIOError:
            return int(os.read(descriptor, 32) or b"0")
    finally:
        os.close(descriptor)
