"""`penstock cluster up`: ZooKeeper and several brokers on this machine, for development, and one view of them all.

Each is a process with its data and log file below one directory; a second start uses the existing data. Ctrl-C stops
them, brokers first; so does the death of this process (`cluster_guard`).
"""

import os
import signal
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from penstock.base.errors import PenstockError, UserError
from penstock.cli.cluster import as_text, find_lacking, look
from penstock.cli.cluster_guard import Guard
from penstock.cli.cluster_needs import Needs, find_needs
from penstock.cli.output import count_of
from penstock.client.blocking import BlockingClient
from penstock.client.client import ClientSettings

_SERVER = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_START_TIMEOUT_S = 60
_LOOK_EVERY_S = 1.0
_CLEAR = "\x1b[H\x1b[2J"


class Process:
    """One of the cluster's processes; its output goes to a file."""

    def __init__(self, name: str, command: Sequence[str], log: Path) -> None:
        self.name = name
        self.command = list(command)
        self.log = log
        self.pid = 0
        self._guard: Guard | None = None

    def start(self, guard: Guard) -> None:
        self._guard = guard
        self.pid = guard.start(self.name, self.command, self.log)

    @property
    def exit_code(self) -> int | None:
        return None if self._guard is None else self._guard.exit_code(self.name)


def run_cluster(
    *, brokers: int, listen: str, data: Path, output: TextIO, zookeeper_jars: Path | None = None
) -> int:
    """Run until Ctrl-C; returns the exit code."""
    host, _, port = listen.rpartition(":")
    if not host or not port.isdigit():
        raise UserError(f"--listen {listen}: HOST:PORT is expected")
    needs = find_needs(os.environ, jars=zookeeper_jars)
    addresses = [f"{host}:{int(port) + number}" for number in range(brokers)]
    for address in addresses:
        _require_free(address)
    data.mkdir(parents=True, exist_ok=True)
    zookeeper_port = _free_port()
    zookeeper = _zookeeper(needs, data, zookeeper_port)
    members = [
        _broker(data, number, address, f"127.0.0.1:{zookeeper_port}")
        for number, address in enumerate(addresses, start=1)
    ]
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    guard = Guard()
    try:
        print(
            f"starting ZooKeeper and {count_of(brokers, 'broker')}; data and logs are in {data}",
            file=output,
            flush=True,
        )
        zookeeper.start(guard)
        _wait_for(zookeeper, f"127.0.0.1:{zookeeper_port}")
        for member in members:
            member.start(guard)
        for member, address in zip(members, addresses, strict=True):
            _wait_for(member, address)
        print(_pids([zookeeper, *members]), file=output, flush=True)
        print(f"ready: -b {','.join(addresses)}", file=output, flush=True)
        _watch(zookeeper, members, addresses, output)
    except KeyboardInterrupt:
        print("stopping; Ctrl-C again ends them at once", file=output, flush=True)
    finally:
        try:
            guard.stop()
        except KeyboardInterrupt:
            guard.kill()
    return 0


def _pids(processes: Sequence[Process]) -> str:
    return "processes: " + ", ".join(f"{process.name} {process.pid}" for process in processes)


def _broker(data: Path, number: int, address: str, zookeeper: str) -> Process:
    command = [
        *(sys.executable, "-m", "penstock", "serve", "--zookeeper", zookeeper, "--node-id", str(number)),
        *("--listen", address, "--data-dir", str(data / f"broker-{number}")),
    ]
    return Process(f"broker {number}", command, data / f"broker-{number}.log")


def _zookeeper(needs: Needs, data: Path, port: int) -> Process:
    folder = data / "zookeeper"
    folder.mkdir(exist_ok=True)
    configuration = data / "zookeeper.cfg"
    lines = [
        f"dataDir={folder}",
        f"clientPort={port}",
        "clientPortAddress=127.0.0.1",
        "tickTime=500",
        "maxClientCnxns=0",
        "4lw.commands.whitelist=srvr",
    ]
    configuration.write_text("\n".join(lines) + "\n")
    options = ("-Xmx128m", "-XX:+UseSerialGC", "-Dzookeeper.admin.enableServer=false")
    command = [str(needs.java), *options, "-cp", needs.class_path, _SERVER, str(configuration)]
    return Process("ZooKeeper", command, data / "zookeeper.log")


def _wait_for(process: Process, address: str) -> None:
    """Return when the process accepts connections at `address`."""
    host, _, port = address.rpartition(":")
    deadline = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < deadline and process.exit_code is None:
        with suppress(OSError), socket.create_connection((host, int(port)), timeout=1):
            return
        time.sleep(0.05)  # another process: there is no event to await
    raise UserError(f"{process.name} did not start; {process.log} ends with: {_last_line(process.log)}")


def _watch(zookeeper: Process, members: Sequence[Process], addresses: Sequence[str], output: TextIO) -> None:
    """Show the cluster's state until Ctrl-C: redrawn on a terminal, changes only in a file."""
    settings = ClientSettings(client_id="penstock-cli", patience_ms=2_000)
    is_watched = output.isatty()
    shown: list[str] = []
    with BlockingClient(",".join(addresses), settings=settings) as blocking:
        while True:
            lines = [*_state(blocking), *_deaths([zookeeper, *members])]
            if is_watched:
                lines += ["", _pids([zookeeper, *members])]
            if is_watched:
                print(_CLEAR + "\n".join([*lines, "", "Ctrl-C stops them all"]), file=output, flush=True)
            elif lines != shown:
                print("\n".join(lines), file=output, flush=True)
            shown = lines
            time.sleep(_LOOK_EVERY_S)


def _state(blocking: BlockingClient) -> Iterator[str]:
    try:
        cluster, topics = blocking.run(look(blocking.client))
    except PenstockError as error:
        yield f"no broker answers: {error}"
        return
    alive = {broker.node_id for broker in cluster.brokers}
    yield from as_text(cluster, topics, list(find_lacking(topics, alive)))


def _deaths(processes: Sequence[Process]) -> Iterator[str]:
    for process in processes:
        if process.exit_code is not None:
            yield f"{process.name} has ended ({process.exit_code}); its log is {process.log}. To start it again:"
            yield "  " + " ".join(process.command)


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").split("\n") if log.exists() else []
    return next((line for line in reversed(lines) if line.strip()), "nothing")


def _require_free(address: str) -> None:
    host, _, port = address.rpartition(":")
    with suppress(OSError), socket.create_connection((host, int(port)), timeout=1):
        raise UserError(
            f"another program listens on {address} already; choose another first port with --listen"
        )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
