"""Penstock brokers that clients reach through links of limited speed; among themselves brokers have no limit.

The links are a process of their own: what they do must not wait for a client's threads. A limit is one for all
connections to a broker together, and only for what is sent to it.
"""

import asyncio
import multiprocessing
from collections.abc import Mapping
from contextlib import ExitStack
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path

from peers.cluster import PenstockCluster
from peers.penstock import PenstockProcess
from peers.ports import free_ports

_PROCESSES = multiprocessing.get_context("spawn")
_PIECE_BYTES = 64 * 1024
_READY_S = 30


class CappedCluster(PenstockCluster):
    """Brokers 1 to 3, and room for `joining` more, whose links are there already."""

    def __init__(self, *, joining: int, settings: Mapping[str, object]) -> None:
        node_ids = range(1, 3 + joining + 1)
        ports = iter(free_ports(3 * len(node_ids)))
        self._ports = {node_id: (next(ports), next(ports), next(ports)) for node_id in node_ids}
        self._limit = _PROCESSES.Value("d", 0.0)
        self._ready = _PROCESSES.Event()
        self._links = _PROCESSES.Process(
            target=_serve,
            args=([(link, clients) for link, clients, _ in self._ports.values()], self._limit, self._ready),
        )
        super().__init__(settings=settings)

    def broker(
        self, node_id: int, data: Path | None = None, *, settings: Mapping[str, object] | None = None
    ) -> PenstockProcess:
        link, clients, peers = self._ports[node_id]
        own = {
            "listeners": f"PLAINTEXT://127.0.0.1:{clients},PEERS://127.0.0.1:{peers}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{link},PEERS://127.0.0.1:{peers}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,PEERS:PLAINTEXT",
            "inter.broker.listener.name": "PEERS",
        }
        return PenstockProcess(
            data,
            listen="",
            settings={**self._settings, **own, **(settings or {})},
            arguments=["--zookeeper", self.zookeeper.addresses, "--node-id", str(node_id)],
        )

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{self._ports[node_id][0]}" for node_id in self.brokers)

    def limit(self, bytes_per_second: float) -> None:
        """For each broker from now on; 0: none."""
        self._limit.value = bytes_per_second

    def _surround(self, stack: ExitStack) -> None:
        self._links.start()
        stack.callback(self._end_links)
        assert self._ready.wait(_READY_S), "the links do not start"

    def _end_links(self) -> None:
        self._links.terminate()
        self._links.join()


# In the links' own process.


def _serve(ports: list[tuple[int, int]], limit: "Synchronized[float]", ready: "asyncio.Event") -> None:
    async def main() -> None:
        for link, target in ports:
            door = _Door(target, limit)
            await asyncio.start_server(door.connected, "127.0.0.1", link)
        ready.set()
        await asyncio.Event().wait()

    asyncio.run(main())


class _Door:
    """All connections to one broker."""

    def __init__(self, target: int, limit: "Synchronized[float]") -> None:
        self._target = target
        self._limit = limit
        self._free_at_s = 0.0

    async def connected(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        try:
            broker, to_broker = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            to_client.close()
            return
        await asyncio.gather(
            self._pass_on(client, to_broker, limited=True), self._pass_on(broker, to_client, limited=False)
        )

    async def _pass_on(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, *, limited: bool
    ) -> None:
        try:
            while piece := await source.read(_PIECE_BYTES):
                if limited:
                    await self._take_turn(len(piece))
                target.write(piece)
                await target.drain()
        except OSError:
            pass
        finally:
            target.close()

    async def _take_turn(self, size: int) -> None:
        rate = self._limit.value
        if rate > 0:
            now_s = asyncio.get_running_loop().time()
            self._free_at_s = max(now_s, self._free_at_s) + size / rate
            await asyncio.sleep(self._free_at_s - now_s)
