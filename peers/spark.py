"""Spark on this machine, beside the session of a test: a standalone cluster, a Spark Connect server, and the jars of
Spark's own Kafka connector.

The programs are those of the installed PySpark; the connector's jars are those that `make tools` copied. Leaves out
sessions: callers create them, with `environment()` around it if it starts Python workers.
"""

import os
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from peers import tools
from peers.penstock import SOURCE
from peers.ports import free_ports
from peers.process import WatchedProcess

MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
CONNECT_SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"

READY_TIMEOUT_S = 90
# Enough for tests; workers promise it to executors, and 2 of them share a small machine with all the rest.
EXECUTOR_MEMORY = "700m"
# A suite's session compiles so many queries that the 48 MB run out which Java reserves where it compiles less, and what
# is done after that fails. This is what it reserves otherwise.
SHORT_LIVED = " ".join((*tools.SHORT_LIVED, "-XX:ReservedCodeCacheSize=240m"))


def home() -> Path:
    """Where PySpark keeps its programs and jars."""
    import pyspark

    return Path(pyspark.__file__).parent


def connector_jars() -> str:
    """The jars of Spark's Kafka connector, as `spark.jars` wants them."""
    return ",".join(str(jar) for jar in sorted(tools.locate("spark-kafka").glob("*.jar")))


def environment() -> dict[str, str]:
    """For processes of Spark: they stay on this machine, and their Python workers find this tree's Penstock."""
    path = os.pathsep.join(filter(None, [str(SOURCE), os.environ.get("PYTHONPATH")]))
    return {
        **os.environ,
        "PYTHONPATH": path,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "1g",  # also the Spark Connect server's heap, and Spark wants 450 MB at least
        "SPARK_DAEMON_JAVA_OPTS": SHORT_LIVED,
    }


class _Processes:
    """Processes of one Spark, reached at `address`: they get ready one after the other when the `with` block begins,
    and end with it, last first."""

    address = ""

    def __init__(self, prefix: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True)
        self._running: list[WatchedProcess] = []

    def __enter__(self) -> Self:
        tools.java()
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    @property
    def output(self) -> str:
        """The last lines of all of them, for a test that failed."""
        return "".join(process.output for process in self._running)

    def _start(self) -> None:
        raise NotImplementedError

    def _run(self, program: str, *arguments: str, ready: str) -> WatchedProcess:
        """Starts one of PySpark's programs; it is ready when a line of its output has these words."""
        process = self._begin(program, *arguments)
        process.wait_for_line(lambda line: ready in line, timeout_s=READY_TIMEOUT_S)
        return process

    def _begin(self, program: str, *arguments: str) -> WatchedProcess:
        command = [str(home() / "bin" / program), *arguments]
        process = WatchedProcess(command, environment=environment(), directory=Path(self._folder.name))
        self._running.append(process)
        return process

    def _stop(self) -> None:
        while self._running:
            self._running.pop().stop(timeout_s=20)
        self._folder.cleanup()


class SparkCluster(_Processes):
    """A standalone cluster on loopback: a master and workers of one core each, all processes of their own.

    Every worker has a loopback address of its own: Spark runs a task's speculative twin on another host only.
    """

    def __init__(self, *, workers: int = 2) -> None:
        super().__init__("spark-cluster-")
        self._workers = workers
        (self._port,) = free_ports(1)
        self.address = f"spark://127.0.0.1:{self._port}"

    @property
    def executors_started(self) -> int:
        """How many the workers have started, each for its part of a program."""
        return self.output.count("Launching executor")

    def _start(self) -> None:
        place = ("--webui-port", "0", "--host")
        self._run(
            "spark-class", MASTER, *place, "127.0.0.1", "--port", str(self._port), ready="New state: ALIVE"
        )
        size = ("--cores", "1", "--memory", EXECUTOR_MEMORY)
        started = [
            self._begin(
                *("spark-class", WORKER, *place, f"127.0.0.{number + 1}", *size),
                *(*self._work_folder(number), self.address),
            )
            for number in range(self._workers)
        ]
        for worker in started:
            worker.wait_for_line(
                lambda line: "Successfully registered with master" in line, timeout_s=READY_TIMEOUT_S
            )

    def _work_folder(self, number: int) -> tuple[str, str]:
        return "--work-dir", str(Path(self._folder.name) / f"worker-{number}")


class SparkConnect(_Processes):
    """A Spark Connect server on loopback, with a Spark of its own inside, or on a cluster's workers."""

    def __init__(self, *, master: str = "local[2]") -> None:
        super().__init__("spark-connect-")
        self._master = master
        (self._port,) = free_ports(1)
        self.address = f"sc://127.0.0.1:{self._port}"
        self._settings = {
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(self._port),
            "spark.ui.enabled": "false",
        }

    def _start(self) -> None:
        words = ["--master", self._master, "--class", CONNECT_SERVER]
        for name, value in self._settings.items():
            words += ["--conf", f"{name}={value}"]
        self._run("spark-submit", *words, ready="Spark Connect server started")
