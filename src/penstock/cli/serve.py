"""`penstock serve`: run a broker until a signal stops it.

SIGTERM, Ctrl-C and a closed terminal (SIGHUP) stop it cleanly, also while it starts; a second signal ends it at once.
docs/broker-settings.md has the exit codes.
"""

import argparse
import asyncio
import gc
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.base.broker_settings import NODE_ID, bound, data_directory
from penstock.base.errors import PenstockError, SettingError, UserError
from penstock.base.listeners import render_address
from penstock.base.load_settings import load_broker_settings, parse_toml
from penstock.base.settings import Settings
from penstock.base.version import VERSION
from penstock.cli.logs import FORMATS, JSON, TEXT, announce, configure_logs
from penstock.cli.main import FAILED
from penstock.world.tasks import cancel_and_wait

if TYPE_CHECKING:  # not imported for `--help`
    from penstock.broker.broker import Broker

DEFAULT_LISTEN = "127.0.0.1:9092"
PORTS_TRIED = 100

# The thresholds of Python's garbage collector for its three generations.
_COLLECTOR_THRESHOLDS = (5_000, 10, 100)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--listen", metavar="HOST:PORT", help="where to accept clients (default 127.0.0.1:9092)"
    )
    parser.add_argument("--data-dir", metavar="DIR", help="where to keep the data (default ./penstock-data)")
    parser.add_argument(
        "--zookeeper",
        metavar="HOSTS",
        help="join the cluster of this ZooKeeper ensemble: HOST:PORT, separated by commas",
    )
    parser.add_argument(
        "--node-id", metavar="N", type=int, help="this broker's number in the cluster (default 1)"
    )
    parser.add_argument("--config", metavar="FILE", help="settings in TOML")
    parser.add_argument(
        "--set", metavar="NAME=VALUE", action="append", default=[], help="one setting; may be repeated"
    )
    parser.add_argument(
        "--or-next-port", action="store_true", help="if the port is taken, use the next free one and say so"
    )
    parser.add_argument(
        "--verbose",
        action="store_true",
        help="log DEBUG lines too: connections, rejected requests, elections, metadata changes",
    )
    parser.add_argument(
        "--log-format",
        choices=FORMATS,
        default=TEXT,
        help=f"{TEXT} (default), or {JSON}: one object per line",
    )


def run(arguments: argparse.Namespace) -> int:
    """Serve until SIGTERM or Ctrl-C; 0 after a clean stop, 1 if the data directory fails."""
    started_at = time.monotonic()
    if not __debug__:
        raise UserError("python -O switches off the assertions that guard your data; run without -O")
    configure_logs(verbose=arguments.verbose, form=arguments.log_format)
    from penstock.world.real_loop import run as run_loop
    from penstock.world.real_memory import keep_freed_memory

    try:
        settings = _settings(arguments)
        keep_freed_memory()
        return run_loop(lambda: _serve(arguments, settings, started_at))
    except PenstockError as error:
        if arguments.log_format != JSON:
            raise
        announce.critical("%s", error)  # so that every line is JSON
        return FAILED


def _settings(arguments: argparse.Namespace, *, listen: str | None = None) -> Settings:
    file = None
    if arguments.config is not None:
        try:
            file = parse_toml(Path(arguments.config).read_text(), file_name=arguments.config)
        except OSError as error:
            raise SettingError(f"cannot read {arguments.config}: {error.strerror}") from error
    return load_broker_settings(
        file=file,
        file_name=arguments.config or "",
        environment=os.environ,
        assignments=arguments.set,
        listen=listen or arguments.listen,
        data_dir=arguments.data_dir,
        node_id=arguments.node_id,
        zookeeper=arguments.zookeeper,
    )


def tune_garbage_collector() -> None:
    """Run full collections seldom: with 10,000 partitions one pauses the broker for 200 ms.

    Garbage of requests is in the youngest generation, which is collected often.
    """
    gc.set_threshold(*_COLLECTOR_THRESHOLDS)
    gc.collect()
    gc.freeze()  # objects of start-up live as long as the broker: exclude them from collections


class _Signals:
    """Handles the signals that stop a broker: the first stops it cleanly, the second ends the process at once."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._told = self._loop.create_future()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:  # keep ignoring SIGHUP under nohup
                self._loop.add_signal_handler(number, self._hear, number)

    @property
    def told(self) -> "asyncio.Future[None]":
        """Wait for the signal to stop."""
        return self._told

    def stop(self) -> None:
        if not self._told.done():
            self._told.set_result(None)

    def _hear(self, number: signal.Signals) -> None:
        if not self._told.done():
            self._told.set_result(None)
            return
        announce.critical(
            "a second %s: ending at once, without closing the logs; the next start recovers them", number.name
        )
        os._exit(128 + number)


async def _serve(arguments: argparse.Namespace, settings: Settings, started_at: float) -> int:
    signals = _Signals()
    broker = await _start(arguments, settings, signals)
    if broker is None:
        announce.info("stopped before it was ready")
        return 0
    tune_garbage_collector()
    if broker.metrics_address is not None:
        address = f"http://{broker.metrics_address}"
        announce.info("metrics are on %s/metrics, health is on %s/healthz", address, address)
    announce.info(
        "penstock %s ready on %s (node %d, cluster %s, data %s, %d ms)",
        VERSION,
        broker.bootstrap_servers,
        settings[NODE_ID],
        broker.services.cluster.image.cluster_id,
        data_directory(settings),
        round((time.monotonic() - started_at) * 1000),
    )
    broker.failure.add_done_callback(lambda _: signals.stop())
    await signals.told
    if broker.failure.done():
        await broker.abandon()
        # As after kill -9: requests in flight must not write or answer any more.
        os._exit(FAILED)
    announce.info("stopping; a second signal ends at once")
    await broker.stop()
    announce.info("stopped" if broker.has_left else "stopped without leaving the cluster")
    return 0 if broker.has_left else FAILED


async def _start(arguments: argparse.Namespace, settings: Settings, signals: _Signals) -> "Broker | None":
    """Start a broker; None if a signal stops it before it is ready."""
    starting = asyncio.ensure_future(_start_on_a_port(arguments, settings))
    both: list[asyncio.Future[Any]] = [starting, signals.told]
    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        announce.info("stopping; a second signal ends at once")
        await cancel_and_wait(starting)
    if starting.cancelled():
        return None
    return starting.result()


async def _start_on_a_port(arguments: argparse.Namespace, settings: Settings) -> "Broker":
    """Start a broker on its port or, with --or-next-port, on the next free one."""
    from penstock.broker.listen_errors import AddressInUseError
    from penstock.broker.real_start import start_broker

    wanted = bound(settings)[0]
    for port in range(wanted.port, wanted.port + PORTS_TRIED):
        try:
            broker = await start_broker(settings)
            break
        except AddressInUseError:
            if not arguments.or_next_port or port + 1 == wanted.port + PORTS_TRIED:
                raise
            settings = _settings(arguments, listen=render_address(wanted.host, port + 1))
    if broker.listeners[0].port != wanted.port and wanted.port:
        announce.info("port %d is taken; using %d", wanted.port, broker.listeners[0].port)
    return broker
