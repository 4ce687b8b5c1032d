"""The Spark session of a project."""

import os
from typing import TYPE_CHECKING

from penstock.spark.pipelines.project import Project
from penstock.spark.pipelines.transforms import ship_modules
from penstock.spark.session import open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def start_session(
    project: Project, *, master: str | None = None, remote: str | None = None
) -> "SparkSession":
    """Start a session with the project's modules; UserError if PySpark, Java or the cluster is missing."""
    master = master or local_master(flows=len(project.flows), cores=os.cpu_count() or 1)
    spark = open_session(f"penstock pipeline {project.name}", project.spark, master=master, remote=remote)
    if remote is None:
        spark.sparkContext.setLogLevel(project.spark.get("spark.log.level", "WARN"))
    ship_modules(spark, project)
    return spark


def local_master(*, flows: int, cores: int) -> str:
    """The local master, with a task slot per core and at least one per flow: tasks are not interrupted, and a small
    flow should not wait for the long tasks of others."""
    return f"local[{max(flows, cores)}]"
