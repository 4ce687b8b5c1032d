"""The simulated network: hosts, the links between them, listening sockets, and network faults.

Order is kept within a connection, not between two. A cut link loses no bytes: they arrive when the link is restored,
unless one side has closed the connection by then. Hosts are reached by their names.
"""

import asyncio
import errno
import socket
from collections.abc import Callable, Iterator
from contextvars import Context
from typing import Any

from penstock.sim.clock import Clock
from penstock.sim.kernel import Kernel, StepKind
from penstock.sim.link import Link
from penstock.sim.process import SimProcess
from penstock.sim.transport import SPLIT_ONE_IN, Pipe, Signal, SimTransport

Factory = Callable[[], asyncio.BaseProtocol]
Made = asyncio.Future[tuple[asyncio.Transport, asyncio.BaseProtocol]]

ANY_ADDRESS = ("0.0.0.0", "::", "")
OWN_ADDRESS = ("localhost", "127.0.0.1", "::1")

# SYN retries: after one second, two, four, and so on; then the connection attempt fails.
CONNECT_RETRY_S = 1.0
CONNECT_S_MAX = 127.0

EPHEMERAL_PORTS_FROM = 40_000


class SimServer:
    """A listening socket."""

    def __init__(self, network: "Network", process: SimProcess, port: int, factory: Factory) -> None:
        self.process = process
        self.port = port
        self.factory = factory
        self._network = network

    def close(self) -> None:
        """Accept no more. Connections that were made stay."""
        self._network.close_server(self)

    async def wait_closed(self) -> None:
        return None

    def is_serving(self) -> bool:
        return self._network.is_serving(self)


class Network:
    """All hosts and the links between them."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self._chance = kernel.random("network")
        self._process = SimProcess("network", host="", clock=Clock(kernel.time))
        self._up: dict[str, bool] = {}
        self._links: dict[tuple[str, str], Link] = {}
        self._servers: dict[tuple[str, int], SimServer] = {}
        self._ends: dict[SimTransport, None] = {}
        self._next_port = EPHEMERAL_PORTS_FROM
        self._connection_count = 0

    # Hosts and links.

    def know_host(self, name: str) -> None:
        self._up.setdefault(name, True)

    def is_up(self, host: str) -> bool:
        return self._up[host]

    def resolve(self, process: SimProcess, host: str) -> str:
        """The host that a name resolves to for a process; `socket.gaierror` if there is none."""
        if host in OWN_ADDRESS or host in ANY_ADDRESS:
            return process.host
        if host not in self._up:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return host

    def link(self, source: str, target: str) -> Link:
        """One direction between two hosts."""
        known = self._links.get((source, target))
        if known is None:
            known = self._links[source, target] = Link(self._chance)
        return known

    # Faults.

    def cut(self, one: str, other: str, *, one_way: bool = False) -> None:
        """Stop all bytes from one host to the other, and back unless `one_way`."""
        self._tell("cut", one, other, one_way)
        for link in self._ways(one, other, one_way):
            link.cut()

    def heal(self, one: str, other: str, *, one_way: bool = False) -> None:
        """Undo `cut`; bytes that were held up arrive now."""
        self._tell("heal", one, other, one_way)
        for link in self._ways(one, other, one_way):
            link.heal()

    def delay(self, one: str, other: str, *, low_s: float, high_s: float) -> None:
        """Delay bytes by `low_s` to `high_s`, each way; connections may overtake each other by the difference."""
        self._tell("delay", one, other, low_s, high_s)
        for link in self._ways(one, other, False):
            link.delay(low_s, high_s)

    def slow(self, one: str, other: str, *, bytes_per_s: float | None) -> None:
        """Limit the rate of each connection, each way; None: no limit."""
        self._tell("slow", one, other, bytes_per_s)
        for link in self._ways(one, other, False):
            link.slow(bytes_per_s)

    def restore(self) -> None:
        """Remove all faults from all links."""
        self._tell("restore")
        for link in self._links.values():
            link.restore()

    def reset(self, one: str, other: str) -> int:
        """Break every connection between two hosts, visibly for both ends; returns how many there were."""
        ends = self._between(one, other)
        self._tell("reset", one, other, len(ends))
        for end in ends:
            end.fail(ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))
        return len(ends) // 2

    def half_open(self, host: str, peer: str) -> int:
        """Break every connection between two hosts visibly for `peer` only: `host` never notices."""
        ends = [end for end in self._between(host, peer) if end.process.host == peer]
        self._tell("half open", host, peer, len(ends))
        for end in ends:
            end.silence()
            end.fail(ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))
        return len(ends)

    def lose_process(self, process: SimProcess, *, silently: bool = False) -> None:
        """A process was killed: its servers are gone, and its connections are closed, unless `silently`."""
        for server in [each for each in self._servers.values() if each.process is process]:
            self.close_server(server)
        for end in [each for each in self._ends if each.process is process]:
            end.vanish(None if silently else self.parting_signal())
            self.forget(end)

    def lose_machine(self, host: str) -> None:
        """A machine is without power: nothing reaches it, and its connections are not closed."""
        self._up[host] = False
        for end in [each for each in self._ends if each.process.host == host]:
            end.vanish(None)
            end.is_silent = False  # the machine, once it is back, does not know the connection
            self.forget(end)
        for server in [each for each in self._servers.values() if each.process.host == host]:
            self.close_server(server)

    def return_machine(self, host: str) -> None:
        self._up[host] = True

    def connection_count(self, one: str, other: str) -> int:
        return len(self._between(one, other)) // 2

    def _between(self, one: str, other: str) -> list[SimTransport]:
        pairs = ((one, other), (other, one))
        return [end for end in self._ends if (end.process.host, end.peer_host) in pairs]

    def _ways(self, one: str, other: str, one_way: bool) -> Iterator[Link]:
        yield self.link(one, other)
        if not one_way:
            yield self.link(other, one)

    def _tell(self, *facts: object) -> None:
        self.kernel.note(StepKind.FAULT, "network", *facts)

    # Listening and connecting.

    def listen(self, process: SimProcess, host: str, port: int, factory: Factory) -> SimServer:
        if self.resolve(process, host) != process.host:
            raise OSError(errno.EADDRNOTAVAIL, f"{host} is not an address of {process.host}")
        if port == 0:
            port = self._take_port()
        if (process.host, port) in self._servers:
            raise OSError(errno.EADDRINUSE, f"{process.host}:{port} is taken")
        server = self._servers[process.host, port] = SimServer(self, process, port, factory)
        return server

    def is_serving(self, server: SimServer) -> bool:
        return self._servers.get((server.process.host, server.port)) is server

    def close_server(self, server: SimServer) -> None:
        if self.is_serving(server):
            del self._servers[server.process.host, server.port]

    def connect(self, process: SimProcess, host: str, port: int, factory: Factory, made: Made) -> None:
        """Fill `made` with a connection, or with the error."""
        try:
            target = self.resolve(process, host)
        except socket.gaierror as error:
            self.soon(process, _fail, made, error)
            return
        self.kernel.note(StepKind.CONNECT, process.name, target, port)
        _Attempt(self, process, (target, port), factory, made).knock()

    def server_at(self, address: tuple[str, int]) -> SimServer | None:
        return self._servers.get(address)

    def pair(
        self, caller: SimProcess, server: SimProcess, address: tuple[str, int]
    ) -> tuple[SimTransport, SimTransport]:
        """A new connection: the caller's end and the server's."""
        self._connection_count += 1
        number = self._connection_count
        source = (caller.host, self._take_port())
        there = Pipe(self, self.link(caller.host, server.host), f"{number} {caller.name}>{server.name}")
        back = Pipe(self, self.link(server.host, caller.host), f"{number} {server.name}>{caller.name}")
        near = SimTransport(self, caller, local=source, peer=address, outgoing=there, incoming=back)
        far = SimTransport(self, server, local=address, peer=source, outgoing=back, incoming=there)
        self._ends[near] = self._ends[far] = None
        return near, far

    def _take_port(self) -> int:
        self._next_port += 1
        return self._next_port

    # For transports.

    def at(self, time: float, callback: Callable[[], object]) -> None:
        """Schedule a callback of the network itself, which no killed process can stop."""
        self.kernel.call_at(time, self._process, self._process.context, callback)

    def soon(self, process: SimProcess, callback: Callable[..., object], *args: Any) -> None:
        """Call back in a process, in a context of its own."""
        context: Context = process.context.copy()
        self.kernel.call_soon(process, context, callback, *args)

    def piece(self, size: int) -> int:
        """How many of the written bytes arrive together."""
        if size > 1 and self._chance.randrange(SPLIT_ONE_IN) == 0:
            return self._chance.randrange(1, size)
        return size

    def parting_signal(self) -> Signal:
        """How a system closes the connection of a process that ended: FIN, or RST if bytes were not read."""
        return Signal.RESET if self._chance.random() < 0.5 else Signal.END

    def forget(self, end: SimTransport) -> None:
        self._ends.pop(end, None)


class _Attempt:
    """One call of `connect`."""

    def __init__(
        self, network: Network, process: SimProcess, address: tuple[str, int], factory: Factory, made: Made
    ) -> None:
        self._network = network
        self._process = process
        self._address = address
        self._factory = factory
        self._made = made
        self._there = network.link(process.host, address[0])
        self._back = network.link(address[0], process.host)
        self._deadline = network.kernel.now + CONNECT_S_MAX
        self._pause_s = CONNECT_RETRY_S

    def knock(self) -> None:
        self._network.at(self._network.kernel.now + self._there.transit_s(), self._arrive)

    def _arrive(self) -> None:
        if self._process.killed or self._made.done():
            return
        if self._there.is_cut or self._back.is_cut or not self._network.is_up(self._address[0]):
            self._try_again()
            return
        server = self._network.server_at(self._address)
        answer_at = self._network.kernel.now + self._back.transit_s()
        if server is None:
            self._network.at(answer_at, self._refuse)
            return
        near, far = self._network.pair(self._process, server.process, self._address)
        self._network.soon(server.process, lambda: far.begin(server.factory()))
        self._network.at(answer_at, lambda: self._network.soon(self._process, self._make, near))

    def _try_again(self) -> None:
        now = self._network.kernel.now
        if now + self._pause_s > self._deadline:
            error = TimeoutError(errno.ETIMEDOUT, "Connection timed out")
            self._network.at(
                self._deadline, lambda: self._network.soon(self._process, _fail, self._made, error)
            )
            return
        self._network.at(now + self._pause_s, self._arrive)
        self._pause_s *= 2

    def _refuse(self) -> None:
        error = ConnectionRefusedError(
            errno.ECONNREFUSED, f"Connect call failed {self._address[0]}:{self._address[1]}"
        )
        self._network.soon(self._process, _fail, self._made, error)

    def _make(self, end: SimTransport) -> None:
        if self._made.done():  # the caller was cancelled
            end.abort()
            return
        protocol = self._factory()
        end.begin(protocol)
        self._made.set_result((end, protocol))


def _fail(made: Made, error: OSError) -> None:
    if not made.done():
        made.set_exception(error)
