"""A broker in this process: on a thread of its own, or on the loop of an asyncio program.

    with EmbeddedBroker() as broker:              # own thread: for confluent-kafka, kafka-python, anything
        Producer({"bootstrap.servers": broker.bootstrap_servers})

    async with EmbeddedBroker() as broker:        # same loop: for aiokafka and other asyncio programs
        AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers)

It is the same broker that `penstock serve` runs, with its data in memory unless a directory is named.
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
from penstock.broker.assemble import start_broker, start_broker_in_memory
from penstock.broker.broker import Broker
from penstock.world.real_loop import run


class EmbeddedBroker:
    """A broker for tests, ready when the `with` block begins and gone when it ends.

    `data_dir` keeps the data in a directory instead of memory; `settings` are the broker's own, by name:
    `EmbeddedBroker(settings={"num.partitions": "6"})`.
    """

    def __init__(
        self,
        *,
        data_dir: str | Path | None = None,
        port: int = 0,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        self._settings: Settings = load_broker_settings(
            file=settings,
            file_name="settings",
            listen=f"127.0.0.1:{port}",
            data_dir=None if data_dir is None else str(data_dir),
        )
        self._in_memory = data_dir is None
        self._broker: Broker | None = None
        self._thread: threading.Thread | None = None
        self._stop_asked: Future[None] = Future()
        self._problem: BaseException | None = None  # of a thread whose broker could not be stopped cleanly

    @property
    def bootstrap_servers(self) -> str:
        """Where clients connect: "127.0.0.1:PORT"."""
        if self._broker is None:
            raise UserError("the embedded broker is not running: use it in a `with` block, or call start()")
        return self._broker.bootstrap_servers

    # On a thread of its own.

    def start(self) -> "EmbeddedBroker":
        """Run the broker on its own thread; returns when clients are answered."""
        self._refuse_if_running()
        ready: Future[None] = Future()
        self._stop_asked = Future()
        self._thread = threading.Thread(
            target=self._run, args=(ready,), name="penstock-embedded", daemon=True
        )
        self._thread.start()
        try:
            ready.result()
        except BaseException:  # also of whoever is tired of waiting, while the broker comes up
            self._end_thread()
            raise
        return self

    def stop(self) -> None:
        """Stop the broker cleanly; fine to repeat."""
        self._end_thread()
        problem, self._problem = self._problem, None
        if problem is not None:
            raise problem

    def _end_thread(self) -> None:
        if self._thread is None:
            return
        if not self._stop_asked.done():
            self._stop_asked.set_result(None)
        self._thread.join()
        self._thread = None
        self._broker = None

    def _run(self, ready: "Future[None]") -> None:
        try:
            run(lambda: self._live(ready))
        except BaseException as error:
            if ready.done():
                self._problem = error
            else:
                ready.set_exception(error)

    async def _live(self, ready: "Future[None]") -> None:
        self._broker = await self._start_broker()
        ready.set_result(None)
        await asyncio.wrap_future(self._stop_asked)
        await self._broker.stop()

    def _refuse_if_running(self) -> None:
        if self._thread is not None or self._broker is not None:
            raise UserError("the embedded broker is running already")

    async def _start_broker(self) -> Broker:
        return await (start_broker_in_memory if self._in_memory else start_broker)(self._settings)

    def __enter__(self) -> "EmbeddedBroker":
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # On the loop of the program that uses it.

    async def __aenter__(self) -> "EmbeddedBroker":
        self._refuse_if_running()
        self._broker = await self._start_broker()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        broker, self._broker = self._broker, None
        assert broker is not None
        await broker.stop()
