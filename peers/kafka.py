"""Apache Kafka on this machine: KRaft nodes in processes of their own, alone or as a cluster, and Kafka's Java tools.

The jars are those that `make tools` copied.
"""

import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from peers import tools
from peers.ports import free_ports
from peers.process import ProcessEndedError, WatchedProcess
from peers.tools import SHORT_LIVED

CLUSTER_ID = "5PcSGZ3uQnKjxW8RZ1VqTA"

TOPIC_COMMAND = "org.apache.kafka.tools.TopicCommand"
CONSOLE_PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
CONFIG_COMMAND = "kafka.admin.ConfigCommand"
GET_OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
DELETE_RECORDS = "org.apache.kafka.tools.DeleteRecordsCommand"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
PRODUCER_PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"
BROKER_API_VERSIONS = "org.apache.kafka.tools.BrokerApiVersionsCommand"
DUMP_LOG_SEGMENTS = "org.apache.kafka.tools.DumpLogSegments"
FEATURES = "org.apache.kafka.tools.FeatureCommand"
STORAGE_TOOL = "kafka.tools.StorageTool"


def java_command(class_name: str, *arguments: str, options: Sequence[str] = SHORT_LIVED) -> list[str]:
    return [tools.java(), *options, "-cp", f"{tools.locate('kafka')}/*", class_name, *arguments]


def run_tool(
    class_name: str, *arguments: object, text: str | None = None, timeout_s: float = 60, check: bool = True
) -> subprocess.CompletedProcess[str]:
    """Runs one of Kafka's tools to its end; `text` is its standard input."""
    command = java_command(class_name, *map(str, arguments))
    done = subprocess.run(
        command, input=text or "", capture_output=True, text=True, timeout=timeout_s, check=False
    )
    if check and done.returncode != 0:
        shown = f"{done.stdout}{done.stderr}"[-4000:]
        raise AssertionError(
            f"{class_name} {' '.join(map(str, arguments))[:400]} ended with {done.returncode}:\n{shown}"
        )
    return done


class ApacheKafka:
    """A broker on free loopback ports, its data in a folder of its own.

    `settings` go to its properties; `features` are levels other than this version's own. `listeners` are further ones
    beside the plain one, as name and security protocol; `users` are those of SCRAM, with their passwords. A node of a
    cluster gets the `voters`: all nodes' ids with the ports of their controllers.
    """

    READY_TIMEOUT_S = 90

    def __init__(
        self,
        *,
        settings: Mapping[str, object] | None = None,
        features: Mapping[str, int] | None = None,
        listeners: Mapping[str, str] | None = None,
        users: Mapping[str, str] | None = None,
        java_options: Sequence[str] = ("-Xmx512m", *SHORT_LIVED),
        node_id: int = 1,
        voters: Mapping[int, int] | None = None,
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="kafka-")
        self.data = Path(self._folder.name) / "data"
        self._java_options = java_options
        self._features = dict(features or {})
        self._users = dict(users or {})
        more = dict(listeners or {})
        self._port, free_port, *ports = free_ports(2 + len(more))
        voters = voters or {node_id: free_port}
        controller_port = voters[node_id]
        self.bootstrap = f"127.0.0.1:{self._port}"
        self.bootstraps = {name: f"127.0.0.1:{port}" for name, port in zip(more, ports, strict=True)}
        self.cluster_id = CLUSTER_ID
        self._properties = {
            **_properties(node_id=node_id, port=self._port, voters=voters, data=self.data),
            **_listener_properties(self.bootstrap, controller_port, self.bootstraps, more),
            **(settings or {}),
        }
        self._process: WatchedProcess | None = None

    def __enter__(self) -> Self:
        self.format()
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self._folder.cleanup()

    def destroy(self) -> None:
        """Kill it if it runs, and delete what it has."""
        if self._process is not None:
            self._process.kill()
        self._folder.cleanup()

    def format(self) -> None:
        text = "".join(f"{name}={value}\n" for name, value in self._properties.items())
        self._properties_file.write_text(text)
        levels = [part for name, level in self._features.items() for part in ("--feature", f"{name}={level}")]
        users = [
            part
            for name, password in self._users.items()
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
            for part in ("--add-scram", f"{mechanism}=[name={name},password={password}]")
        ]
        run_tool(STORAGE_TOOL, "format", "-t", CLUSTER_ID, "-c", self._properties_file, *levels, *users)

    def start(self) -> None:
        self.launch()
        self.wait_until_it_answers()

    def launch(self) -> None:
        """Start the process; one node of several gets ready only with the others."""
        command = java_command("kafka.Kafka", str(self._properties_file), options=self._java_options)
        self._process = WatchedProcess(command)

    def stop(self, *, timeout_s: float = 30) -> int:
        return 0 if self._process is None else self._process.stop(timeout_s=timeout_s)

    def kill(self) -> int:
        assert self._process is not None, "never started"
        return self._process.kill()

    def pause(self) -> None:
        assert self._process is not None, "never started"
        self._process.pause()

    def resume(self) -> None:
        assert self._process is not None, "never started"
        self._process.resume()

    def restart(self) -> None:
        self.stop()
        self.start()

    @property
    def pid(self) -> int:
        assert self._process is not None, "never started"
        return self._process.pid

    @property
    def output(self) -> str:
        return "" if self._process is None else self._process.output

    @property
    def _properties_file(self) -> Path:
        return Path(self._folder.name) / "server.properties"

    def wait_until_it_answers(self) -> None:
        """The ports open, one after the other, when the broker is unfenced, which is when it can be used."""
        deadline_s = time.monotonic() + self.READY_TIMEOUT_S
        assert self._process is not None
        while time.monotonic() < deadline_s:
            if self._process.exit_code is not None:
                break
            try:
                for address in (self.bootstrap, *self.bootstraps.values()):
                    host, _, port = address.partition(":")
                    socket.create_connection((host, int(port)), timeout=1).close()
                return
            except OSError:
                time.sleep(0.05)  # another process: nothing here could be told
        self._process.kill()
        raise ProcessEndedError(f"Apache Kafka did not start:\n{self._process.output}")


class ApacheKafkaCluster:
    """Nodes 1 to `brokers`, each a broker and a controller, ready when the `with` block begins."""

    def __init__(
        self,
        *,
        brokers: int = 3,
        settings: Mapping[str, object] | None = None,
        java_options: Sequence[str] = ("-Xmx512m", *SHORT_LIVED),
    ) -> None:
        node_ids = range(1, brokers + 1)
        voters = dict(zip(node_ids, free_ports(brokers), strict=True))
        replicated = {
            f"{topic}.{name}": count
            for topic in ("transaction.state.log", "share.coordinator.state.topic")
            for name, count in (("replication.factor", brokers), ("min.isr", min(2, brokers)))
        }
        given = {"offsets.topic.replication.factor": brokers, **replicated, **(settings or {})}
        self.brokers = {
            node_id: ApacheKafka(settings=given, java_options=java_options, node_id=node_id, voters=voters)
            for node_id in node_ids
        }

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.bootstrap for broker in self.brokers.values())

    def __enter__(self) -> Self:
        try:
            for broker in self.brokers.values():
                broker.format()
            for broker in self.brokers.values():
                broker.launch()
            for broker in self.brokers.values():
                broker.wait_until_it_answers()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Killed: a node that stops in peace waits for a majority of controllers, which is going away as well.
        for broker in self.brokers.values():
            broker.destroy()


def _listener_properties(
    plain: str, controller_port: int, bootstraps: Mapping[str, str], protocols: Mapping[str, str]
) -> dict[str, object]:
    if not protocols:
        return {}
    advertised = ["PLAINTEXT://" + plain, *(f"{name}://{address}" for name, address in bootstraps.items())]
    kinds = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT", **protocols}
    return {
        "listeners": ",".join([*advertised, f"CONTROLLER://127.0.0.1:{controller_port}"]),
        "advertised.listeners": ",".join(advertised),
        "listener.security.protocol.map": ",".join(f"{name}:{kind}" for name, kind in kinds.items()),
        "inter.broker.listener.name": "PLAINTEXT",
    }


def _properties(*, node_id: int, port: int, voters: Mapping[int, int], data: Path) -> dict[str, object]:
    return {
        "process.roles": "broker,controller",
        "node.id": node_id,
        "controller.quorum.voters": ",".join(f"{each}@127.0.0.1:{at}" for each, at in voters.items()),
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{voters[node_id]}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": data,
        "offsets.topic.replication.factor": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "share.coordinator.state.topic.replication.factor": 1,
        "share.coordinator.state.topic.min.isr": 1,
    }
