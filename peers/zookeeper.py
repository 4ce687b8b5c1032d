"""Apache ZooKeeper on this machine: one server, or an ensemble of several, each in a process of its own.

The jars are those that `make tools` copied.
"""

import socket
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from peers import tools
from peers.home import HERE, Home
from peers.ports import free_ports
from peers.process import ProcessEndedError, WatchedProcess

SERVER = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
JAVA_OPTIONS = (
    *("-Xmx128m", *tools.SHORT_LIVED),
    "-Dzookeeper.admin.enableServer=false",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)
# Sessions may be as short as two ticks.
TICK_MS = 500


class ZooKeeperServer:
    """One server; `quorum` are the ensemble's lines in its configuration, none for a server on its own."""

    READY_TIMEOUT_S = 90

    def __init__(self, folder: Path, *, number: int, port: int, quorum: list[str], home: Home = HERE) -> None:
        self.address = f"{home.host}:{port}"
        self._home = home
        self._port = port
        self._configuration = folder / f"server-{number}.cfg"
        self._process: WatchedProcess | None = None
        data = folder / f"data-{number}"
        data.mkdir()
        (data / "myid").write_text(str(number))
        self._configuration.write_text("\n".join(_configuration(data, host=home.host, port=port) + quorum))

    def start(self) -> None:
        """Start the process; it serves once `wait_until_it_serves` returns."""
        libs = tools.locate("zookeeper")
        command = [tools.java(), *JAVA_OPTIONS, "-cp", f"{libs}/*", SERVER, str(self._configuration)]
        self._process = WatchedProcess([*self._home.prefix, *command])

    def wait_until_it_serves(self) -> None:
        assert self._process is not None, "never started"
        deadline_s = time.monotonic() + self.READY_TIMEOUT_S
        while time.monotonic() < deadline_s and self._process.exit_code is None:
            if self.mode() is not None:
                return
            time.sleep(0.05)  # another process: nothing here could be told
        raise ProcessEndedError(f"ZooKeeper did not start:\n{self._process.output}")

    def mode(self) -> str | None:
        """What the server says it is: standalone, leader or follower; None while it does not serve."""
        try:
            with socket.create_connection((self._home.host, self._port), timeout=1) as connection:
                connection.sendall(b"srvr")
                answer = b"".join(iter(lambda: connection.recv(4096), b"")).decode()
        except OSError:
            return None
        _, mode, rest = answer.partition("Mode: ")
        return rest.split()[0] if mode else None

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop()

    def kill(self) -> None:
        assert self._process is not None, "never started"
        self._process.kill()

    def pause(self) -> None:
        assert self._process is not None, "never started"
        self._process.pause()

    def resume(self) -> None:
        assert self._process is not None, "never started"
        self._process.resume()


class ZooKeeper:
    """Servers on free loopback ports, ready when the `with` block begins, their data in a folder of their own.

    `homes` are where they run, if not here.
    """

    def __init__(self, *, servers: int = 1, homes: Sequence[Home] = ()) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="zookeeper-")
        ports = free_ports(3 * servers)
        homes = homes or [HERE] * servers
        quorum = [
            f"server.{number}={homes[number].host}:{ports[servers + number]}:{ports[2 * servers + number]}"
            for number in range(servers)
        ]
        self.servers = [
            ZooKeeperServer(
                Path(self._folder.name),
                number=number,
                port=ports[number],
                quorum=quorum if servers > 1 else [],
                home=homes[number],
            )
            for number in range(servers)
        ]
        self.addresses = ",".join(server.address for server in self.servers)

    def __enter__(self) -> Self:
        try:
            for server in self.servers:
                server.start()
            for server in self.servers:
                server.wait_until_it_serves()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def _stop(self) -> None:
        for server in self.servers:
            server.stop()
        self._folder.cleanup()


def _configuration(data: Path, *, host: str, port: int) -> list[str]:
    return [
        f"dataDir={data}",
        f"clientPort={port}",
        f"clientPortAddress={host}",
        f"tickTime={TICK_MS}",
        "maxSessionTimeout=60000",
        "initLimit=20",
        "syncLimit=10",
        "maxClientCnxns=0",
        "forceSync=no",  # tests do not cut its power
        "4lw.commands.whitelist=srvr",
    ]
