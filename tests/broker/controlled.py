"""A broker on its own thread, whose clock and fsyncs the test controls."""

import asyncio
import errno
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from types import TracebackType
from typing import Any, TypeVar

from penstock.base.broker_settings import NODE_ID
from penstock.base.load_settings import load_broker_settings
from penstock.broker.background import Background
from penstock.broker.broker import Broker
from penstock.cluster.embedded_store import EmbeddedStore
from penstock.storage.data_directory import DataDirectory
from penstock.world import Disk, World
from penstock.world.memory_disk import MemoryDisk
from penstock.world.real_entropy import RealEntropy
from penstock.world.real_loop import RealLoop, run
from penstock.world.real_work import RealWork

T = TypeVar("T")
PATIENCE_S = 20


class ShiftedLoop(RealLoop):
    """The real loop with clocks that the test sets forward."""

    def __init__(self) -> None:
        super().__init__()
        self.ahead_ms = 0
        self.time = lambda: time.monotonic() + self.ahead_ms / 1000
        self.now_ns = lambda: self.now_ms() * 1_000_000

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms


class SyncGate:
    """Stops, counts or fails the syncs of files whose path begins with a prefix; can make reads cold."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self._open.set()
        self._held_prefix = "\0"
        self._failing_prefix = "\0"
        self.entered = threading.Semaphore(0)
        self.synced: list[str] = []
        self.cold = False  # whether reads of segments have to wait for the device

    def hold(self, prefix: str) -> None:
        self._held_prefix = prefix
        self._open.clear()

    def release(self) -> None:
        self._open.set()

    def fail(self, prefix: str) -> None:
        self._failing_prefix = prefix

    def wait_until_one_is_held(self) -> None:
        assert self.entered.acquire(timeout=PATIENCE_S), "no sync began"

    def pass_through(self, path: str) -> None:
        if path.startswith(self._failing_prefix):
            raise OSError(errno.EIO, "the device is broken", path)
        if path.startswith(self._held_prefix):
            self.entered.release()
            assert self._open.wait(timeout=PATIENCE_S), "the test forgot to release the sync"
        self.synced.append(path)


class _GatedFile:
    """A file whose syncs and reads go through the gate."""

    def __init__(self, file: Any, gate: SyncGate) -> None:
        self._file = file
        self._gate = gate

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def sync(self) -> None:
        self._gate.pass_through(self._file.path)
        self._file.sync()

    def read_cached(self, position: int, count: int) -> Any:
        if self._gate.cold and self._file.path.endswith(".log"):
            return None
        return self._file.read_cached(position, count)


class GatedDisk:
    """A disk in memory that is as slow as the test wants it."""

    def __init__(self, gate: SyncGate) -> None:
        self._disk = MemoryDisk()
        self._gate = gate

    def __getattr__(self, name: str) -> Any:
        return getattr(self._disk, name)

    def open(self, path: str, *, create: bool = False) -> Any:
        return _GatedFile(self._disk.open(path, create=create), self._gate)

    def sync_all(self) -> bool:
        return False  # file by file, through the gate


class ControlledBroker:
    """`with ControlledBroker() as broker`: `broker.gate` has the syncs, `broker.advance` the clock."""

    def __init__(self, *, settings: Mapping[str, object] | None = None, disk: Disk | None = None) -> None:
        self._settings = load_broker_settings(
            file=settings, file_name="settings", listen="127.0.0.1:0", data_dir="unused"
        )
        self.gate = SyncGate()
        self.disk: Any = disk or GatedDisk(self.gate)
        self.broker: Broker
        self._loop: asyncio.AbstractEventLoop
        self._shifted: ShiftedLoop
        self._stop: asyncio.Event

    @property
    def bootstrap_servers(self) -> str:
        return self.broker.bootstrap_servers

    @property
    def background(self) -> Background:
        assert self.broker._background is not None
        return self.broker._background

    def advance(self, milliseconds: int) -> None:
        self._shifted.ahead_ms += milliseconds

    def run(self, chore: Callable[[], Awaitable[T]]) -> T:
        """Run a coroutine function on the broker's loop."""

        async def story() -> T:
            return await chore()

        return asyncio.run_coroutine_threadsafe(story(), self._loop).result(timeout=PATIENCE_S)

    def __enter__(self) -> "ControlledBroker":
        ready: Future[None] = Future()
        self._thread = threading.Thread(target=lambda: run(lambda: self._live(ready)), daemon=True)
        self._thread.start()
        ready.result(timeout=PATIENCE_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.gate.release()
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(timeout=PATIENCE_S)
        assert not self._thread.is_alive(), "the broker does not stop"

    async def _live(self, ready: "Future[None]") -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        try:
            self.broker = await self._start()
        except BaseException as error:
            ready.set_exception(error)
            return
        ready.set_result(None)
        await self._stop.wait()
        if self.broker.failure.done():
            await self.broker.abandon()
            self._work.close()  # the end of a process would do it
        else:
            await self.broker.stop()

    async def _start(self) -> Broker:
        entropy = RealEntropy()
        directory = DataDirectory.open(self.disk, node_id=self._settings[NODE_ID], entropy=entropy)
        self._shifted = ShiftedLoop()
        work = self._work = RealWork(threads=2)
        store = EmbeddedStore.open(directory.disk, "__metadata", loop=self._shifted, work=work)
        world = World(self._shifted, directory.disk, store, work, entropy)
        broker = Broker(world, directory, self._settings, log_dir="controlled")
        await broker.start()
        return broker
