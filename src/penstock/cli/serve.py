"""`penstock serve`: run a broker until it is told to stop."""

import argparse
import asyncio
import gc
import logging
import os
import signal
import sys
import time
from pathlib import Path

from penstock.base.broker_settings import NODE_ID, bound, data_directory
from penstock.base.errors import SettingError, UserError
from penstock.base.listeners import render_address
from penstock.base.load_settings import load_broker_settings, parse_toml
from penstock.base.settings import Settings
from penstock.base.version import VERSION
from penstock.cli.main import FAILED

DEFAULT_LISTEN = "127.0.0.1:9092"
PORTS_TRIED = 100

# New objects until the youngest are looked at, and how often that until the older ones are, and the oldest.
_COLLECTOR_THRESHOLDS = (5_000, 10, 100)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--listen", metavar="HOST:PORT", help="where to accept clients (default 127.0.0.1:9092)"
    )
    parser.add_argument("--data-dir", metavar="DIR", help="where to keep the data (default ./penstock-data)")
    parser.add_argument(
        "--zookeeper",
        metavar="HOSTS",
        help="be one broker of a cluster: its ZooKeeper, HOST:PORT with commas",
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
    parser.add_argument("--verbose", action="store_true", help="log more")


def run(arguments: argparse.Namespace) -> int:
    """Serve until SIGTERM or Ctrl-C; 0 after a clean stop. Where the data directory fails, end by itself, with 1."""
    started_at = time.monotonic()
    if not __debug__:
        raise UserError("python -O switches off the assertions that guard your data; run without -O")
    logging.basicConfig(
        level=logging.DEBUG if arguments.verbose else logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        stream=sys.stderr,
    )
    from penstock.world.real_loop import run as run_loop
    from penstock.world.real_memory import keep_freed_memory

    settings = _settings(arguments)
    keep_freed_memory()
    return run_loop(lambda: _serve(arguments, settings, started_at))


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


def calm_the_collector() -> None:
    """Look at everything that lives only seldom: with ten thousand partitions that takes 200 ms, in one go.

    What a request leaves behind is young and is found soon.
    """
    gc.set_threshold(*_COLLECTOR_THRESHOLDS)
    gc.collect()
    gc.freeze()  # what start-up made stays: the collector need not look at it again


async def _serve(arguments: argparse.Namespace, settings: Settings, started_at: float) -> int:
    from penstock.broker.assemble import start_broker
    from penstock.broker.broker import AddressInUseError

    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
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
        print(f"port {wanted.port} is taken; using {broker.listeners[0].port}", flush=True)
    calm_the_collector()
    took_ms = round((time.monotonic() - started_at) * 1000)
    print(
        f"penstock {VERSION} ready on {broker.bootstrap_servers} (node {settings[NODE_ID]}, "
        f"cluster {broker.services.image.cluster_id}, data {data_directory(settings)}, {took_ms} ms)",
        flush=True,
    )
    broker.failure.add_done_callback(lambda _: stopping.set())
    await stopping.wait()
    if broker.failure.done():
        await broker.abandon()
        # As after kill -9: nothing that is still under way may write or answer anything on its way out.
        os._exit(FAILED)
    print("stopping", flush=True)
    await broker.stop()
    return 0
