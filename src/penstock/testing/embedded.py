"""A broker in this process: on a thread of its own, or on the loop of an asyncio program.

    with EmbeddedBroker() as broker:              # own thread: for confluent-kafka, kafka-python, anything
        Producer({"bootstrap.servers": broker.bootstrap_servers})

    async with EmbeddedBroker() as broker:        # same loop: for aiokafka and other asyncio programs
        AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers)

It is the same broker that `penstock serve` runs, with its data in memory unless a directory is named. Things go wrong
when a test wants it: `broker.faults` has what can fail while it runs, and one on a thread of its own can be killed.

    broker.kill()                                 # as kill -9: clients lose their connections
    broker.restart()                              # on the same port, with the data that kill -9 would have left
"""

import asyncio
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType

from penstock.base.errors import UserError
from penstock.base.load_settings import load_broker_settings
from penstock.base.settings import Settings
from penstock.broker.real_start import IN_MEMORY, memory_disk, real_disk
from penstock.testing.faults import Faults
from penstock.testing.life import Life
from penstock.testing.records import RecordHelpers
from penstock.world.disk import Disk
from penstock.world.real_loop import run

# Other than for a broker that serves. A classic group's first members need not wait for more to come: a test has those
# it has, and would wait three seconds.
DEFAULTS = {"group.initial.rebalance.delay.ms": 0}


class EmbeddedBroker(RecordHelpers):
    """A broker for tests, ready when the `with` block begins and gone when it ends.

    `data_dir` keeps the data in a directory instead of memory; `port` is where it listens, by default on a free one;
    `settings` are the broker's own, by name: `EmbeddedBroker(settings={"num.partitions": "6"})`.
    """

    def __init__(
        self,
        *,
        data_dir: str | Path | None = None,
        port: int = 0,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        self.faults = Faults()
        self._data_dir = None if data_dir is None else str(data_dir)
        self._port = port  # 0: the system's choice
        self._given_settings = settings
        self._settings = self._load_settings(port)
        self._disk: Disk | None = None  # kept from one life to the next, until a clean end
        self._life: Life | None = None
        self._thread: threading.Thread | None = None
        self._end_asked: Future[bool] = Future()  # whether cleanly
        self._problem: BaseException | None = None  # of a thread whose broker could not be stopped cleanly

    def _load_settings(self, port: int) -> Settings:
        return load_broker_settings(
            file={**DEFAULTS, **(self._given_settings or {})},
            file_name="settings",
            listen=f"127.0.0.1:{port}",
            data_dir=self._data_dir,
        )

    @property
    def is_running(self) -> bool:
        return self._life is not None

    @property
    def bootstrap_servers(self) -> str:
        """Where clients connect: "127.0.0.1:PORT"."""
        if self._life is None:
            raise UserError("the embedded broker is not running: use it in a `with` block, or call start()")
        return self._life.broker.bootstrap_servers

    # On a thread of its own.

    def start(self) -> "EmbeddedBroker":
        """Run the broker on its own thread; returns when clients are answered."""
        self._refuse_if_running()
        ready: Future[None] = Future()
        self._end_asked = Future()
        self._thread = threading.Thread(
            target=self._run, args=(ready,), name="penstock-embedded", daemon=True
        )
        self._thread.start()
        try:
            ready.result()
        except BaseException:  # also a KeyboardInterrupt while the broker starts
            self._end_thread(cleanly=True)
            raise
        return self

    def stop(self) -> None:
        """Stop the broker cleanly; fine to repeat. What was in memory is gone, and so is a port that was not chosen."""
        self._end_thread(cleanly=True)
        self._disk = None
        self._settings = self._load_settings(self._port)
        self._raise_problem()

    def kill(self) -> None:
        """End the broker as kill -9 would: nothing is finished, said or synced. What was written stays as it is."""
        if self._thread is None:
            raise UserError(
                "only a running broker on a thread of its own can be killed: use `with EmbeddedBroker()`, not "
                "`async with`, where killing it would kill the program it shares its loop with"
            )
        self._keep_the_port()
        self._end_thread(cleanly=False)
        self._raise_problem()

    def restart(self) -> "EmbeddedBroker":
        """Start again after a kill, or else stop cleanly and start, on the same port and with the same data."""
        if self._thread is not None:
            self._keep_the_port()
            self._end_thread(cleanly=True)
            self._raise_problem()
        return self.start()

    def _keep_the_port(self) -> None:
        """Clients that know the broker find it again."""
        self._settings = self._load_settings(int(self.bootstrap_servers.rpartition(":")[2]))

    def _end_thread(self, *, cleanly: bool) -> None:
        if self._thread is None:
            return
        if not self._end_asked.done():
            self._end_asked.set_result(cleanly)
        self._thread.join()
        self._thread = None
        self._life = None

    def _raise_problem(self) -> None:
        problem, self._problem = self._problem, None
        if problem is not None:
            raise problem

    def _run(self, ready: "Future[None]") -> None:
        try:
            run(lambda: self._live(ready))
        except BaseException as error:
            if ready.done():
                self._problem = error
            else:
                ready.set_exception(error)

    async def _live(self, ready: "Future[None]") -> None:
        self._life = life = await self._begin()
        ready.set_result(None)
        if await asyncio.wrap_future(self._end_asked):
            await life.stop()
        else:
            await life.kill()

    def _refuse_if_running(self) -> None:
        if self._thread is not None or self._life is not None:
            raise UserError("the embedded broker is running already")

    async def _begin(self) -> Life:
        if self._disk is None:
            in_memory = self._data_dir is None
            self._disk = memory_disk(self._settings) if in_memory else real_disk(self._settings)
        return await Life.begin(self._disk, self._settings, self.faults, log_dir=self._data_dir or IN_MEMORY)

    def __enter__(self) -> "EmbeddedBroker":
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # On the loop of the program that uses it.

    async def __aenter__(self) -> "EmbeddedBroker":
        self._refuse_if_running()
        self._life = await self._begin()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        life, self._life, self._disk = self._life, None, None
        assert life is not None
        await life.stop()
