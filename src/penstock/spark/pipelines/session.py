"""The Spark session of a project."""

from typing import TYPE_CHECKING

from penstock.spark.pipelines.project import Project
from penstock.spark.pipelines.transforms import ship_modules
from penstock.spark.session import open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def start_session(
    project: Project, *, master: str | None = None, remote: str | None = None
) -> "SparkSession":
    """A session that knows the project's modules; UserError if PySpark, Java or the cluster is missing."""
    spark = open_session(f"penstock pipeline {project.name}", project.spark, master=master, remote=remote)
    if remote is None:
        spark.sparkContext.setLogLevel(project.spark.get("spark.log.level", "WARN"))
    ship_modules(spark, project)
    return spark
