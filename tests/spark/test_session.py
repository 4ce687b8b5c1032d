"""What the sessions of Penstock's commands are set to, and what it is good for."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.spark import session
from penstock.spark.pipelines.session import local_master

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = pytest.mark.xdist_group("spark")

BATCHES = 3


def test_batches_start_no_processes_to_look_up_the_files_of_their_checkpoint(
    spark: "SparkSession", links_looked_up: Path, tmp_path: Path
) -> None:
    query = counting(spark).option("checkpointLocation", str(tmp_path)).start()
    try:
        wait_for_batch(query, 0)
        before = links_looked_up.read_text() if links_looked_up.exists() else ""
        wait_for_batch(query, BATCHES)
    finally:
        query.stop()

    after = links_looked_up.read_text() if links_looked_up.exists() else ""
    assert after.removeprefix(before) == ""


def test_a_file_of_a_checkpoint_is_replaced_by_one_rename(spark: "SparkSession", tmp_path: Path) -> None:
    """What Spark replaces (a batch's state that is written again after a crash) is there at any moment."""
    jvm: Any = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path(str(tmp_path / "state"))
    conf = spark._jsparkSession.sessionState().newHadoopConf()
    package = jvm.org.apache.spark.sql.execution.streaming.checkpointing
    manager = package.CheckpointFileManager.create(path, conf)
    assert (
        manager.getClass().getName()
        == session.LOCAL_DEFAULTS["spark.sql.streaming.checkpointFileManagerClass"]
    )

    for text in ("before", "after"):
        stream = manager.createAtomic(path, True)
        stream.writeBytes(text)
        if text == "after":
            assert (tmp_path / "state").read_text() == "before", "until it is closed nothing has changed"
            with (tmp_path / "state").open() as held:
                stream.close()
                assert held.read() == "before", "the file is another one, not the same one written again"
        else:
            stream.close()

    assert (tmp_path / "state").read_text() == "after"


def test_a_flow_that_is_started_in_a_pool_leaves_its_session_as_it_was(spark: "SparkSession") -> None:
    with session.in_a_pool(spark, "monitoring"):
        assert spark.sparkContext.getLocalProperty("spark.scheduler.pool") == "monitoring"
    assert spark.sparkContext.getLocalProperty("spark.scheduler.pool") is None


def test_what_a_project_sets_goes_before_what_sessions_are_set_to() -> None:
    chosen = session.settings_of({"spark.scheduler.mode": "FIFO"}, master="local[2]", remote=None)
    assert chosen["spark.scheduler.mode"] == "FIFO"
    assert chosen["spark.driver.host"] == "127.0.0.1"


def test_a_pipeline_has_a_task_for_each_core_and_for_each_flow() -> None:
    assert local_master(flows=6, cores=2) == "local[6]"
    assert local_master(flows=1, cores=4) == "local[4]"


def test_a_cluster_and_a_connect_server_keep_their_own_file_systems_and_schedulers() -> None:
    cluster = session.settings_of({}, master="spark://here:7077", remote=None)
    connect = session.settings_of({}, master=None, remote="sc://here")
    assert not {*cluster, *connect} & set(session.LOCAL_DEFAULTS)
    assert all(name.startswith("spark.sql.") for name in connect)


def counting(spark: "SparkSession") -> Any:
    """A stateful query with a batch whenever the one before is done, and without Python."""
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    return rows.groupBy("value").count().writeStream.format("noop").outputMode("update")


def wait_for_batch(query: "StreamingQuery", number: int) -> None:
    deadline_s = time.monotonic() + 120
    while True:
        done: Mapping[str, Any] | None = query.lastProgress
        if done is not None and int(done["batchId"]) >= number:
            return
        assert query.isActive, query.exception()
        assert time.monotonic() < deadline_s
        time.sleep(0.02)
