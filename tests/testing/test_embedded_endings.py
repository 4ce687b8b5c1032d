"""Starts and stops of the embedded broker that fail: no call hangs, no exception is swallowed."""

import asyncio
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

import pytest

from penstock.base.errors import UserError
from penstock.broker.broker import Broker
from penstock.testing import EmbeddedBroker, embedded
from tests.raw_client import RawClient, batch_of

T = TypeVar("T")

PATIENCE_S = 60


def test_start_raises_if_the_event_loop_cannot_be_created(monkeypatch: pytest.MonkeyPatch):
    def no_loop(_main: Any) -> None:
        raise OSError(24, "too many open files")

    monkeypatch.setattr(embedded, "run", no_loop)
    with pytest.raises(OSError, match="too many open files"):
        EmbeddedBroker().start()


def test_an_interrupted_start_returns_and_the_broker_stops(monkeypatch: pytest.MonkeyPatch):
    class Interrupted(Future[T]):
        def result(self, timeout: float | None = None) -> T:
            super().result(timeout)
            raise KeyboardInterrupt

    futures = iter([Future(), Interrupted(), Future()])  # the broker's own, then those of its start
    monkeypatch.setattr(embedded, "Future", lambda: next(futures))
    broker = EmbeddedBroker()
    with pytest.raises(KeyboardInterrupt):
        broker.start()
    with pytest.raises(UserError, match="not running"):
        _ = broker.bootstrap_servers


def test_a_failed_stop_raises_once(monkeypatch: pytest.MonkeyPatch):
    stop = Broker.stop

    async def stop_and_fail(self: Broker) -> None:
        await stop(self)
        raise OSError(5, "the device is broken")

    monkeypatch.setattr(Broker, "stop", stop_and_fail)
    broker = EmbeddedBroker().start()
    with pytest.raises(OSError, match="the device is broken"):
        broker.stop()
    broker.stop()


def produce_for_long(client: RawClient) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        client.produce("t", batch_of(b"x"))


def test_a_broker_whose_log_directory_fails_disconnects_clients_and_its_stop_raises(tmp_path: Path):
    settings = {"log.flush.offset.checkpoint.interval.ms": 100}
    broker = EmbeddedBroker(data_dir=tmp_path, settings=settings).start()
    with RawClient(broker.bootstrap_servers) as client:
        client.create_topic("t")
        client.produce("t", batch_of(b"x"))
        in_the_way = tmp_path / "recovery-point-offset-checkpoint.tmp"
        in_the_way.mkdir()  # no new checkpoint can be written
        with pytest.raises(OSError):
            produce_for_long(client)
    with pytest.raises(OSError, match="has failed before"):
        broker.stop()
    in_the_way.rmdir()
    with EmbeddedBroker(data_dir=tmp_path) as again, RawClient(again.bootstrap_servers) as client:
        assert b"x" in bytes(client.fetch("t", 0).records)


def test_one_that_runs_on_a_loop_cannot_be_started_again():
    async def story() -> None:
        async with EmbeddedBroker() as broker:
            with pytest.raises(UserError, match="running already"):
                broker.start()
            with pytest.raises(UserError, match="running already"):
                await broker.__aenter__()

    asyncio.run(story())
