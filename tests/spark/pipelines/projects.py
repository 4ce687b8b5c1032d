"""Small projects for tests: their files, their records, and a runner that is looked at until something holds."""

import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.client.blocking import BlockingClient
from penstock.client.producer import NewRecord, Producer
from penstock.client.topics import NewTopic, create_topics
from penstock.spark.pipelines.project import Project, read_project
from penstock.spark.pipelines.runner import Runner
from penstock.spark.pipelines.transforms import ship_modules
from penstock.spark.pipelines.views import FlowView

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATIENCE_S = 90


def make_project(directory: Path, servers: str, flows: str, functions: str, *, settings: str = "") -> Project:
    """A project whose `@M` stands for its module, which has a new name so that no import is cached."""
    module = f"flows_{uuid.uuid4().hex[:8]}"
    directory.mkdir(exist_ok=True)
    (directory / f"{module}.py").write_text(f"from pyspark.sql import functions as F\n\n\n{functions}")
    head = f'name = "p{module[-8:]}"\nbootstrap_servers = "{servers}"\n{settings}\n'
    (directory / "pipeline.toml").write_text(head + flows.replace("@M", module))
    return read_project(directory)


def send(servers: str, topic: str, values: Sequence[str], *, partitions: int = 1) -> None:
    """Records with these values; the topic is made if it is not there."""
    with BlockingClient(servers) as blocking:
        blocking.run(create_topics(blocking.client, [NewTopic(topic, partitions)]))
        if values:
            records = [NewRecord(value.encode(), value.encode()) for value in values]
            blocking.run(Producer(blocking.client).send(topic, records))


def look_until(runner: Runner, holds: Callable[[list[FlowView]], bool]) -> list[FlowView]:
    """Look after the flows until something holds; the views in which it did."""
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        views = runner.poll()
        if holds(views):
            return views
        assert time.monotonic() < deadline_s, f"still {views}"
        time.sleep(0.1)


def run_once(project: Project, spark: "SparkSession") -> list[FlowView]:
    """Every flow reads what is there."""
    ship_modules(spark, project)
    runner = Runner(project, spark, once=True)
    runner.start()
    try:
        look_until(runner, lambda _: runner.ended)
        return runner.views()
    finally:
        runner.stop()
