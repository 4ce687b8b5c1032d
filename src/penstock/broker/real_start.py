"""Starts a broker on the real world: a directory of this machine, its network, its clock."""

from penstock.base.broker_settings import (
    PENSTOCK_MEMORY_BYTES_MAX,
    PENSTOCK_METRICS_LISTEN,
    PENSTOCK_OPEN_FILES_MAX,
    PENSTOCK_WORK_THREADS,
    bound,
    data_directory,
)
from penstock.base.cluster_settings import (
    ZOOKEEPER_CONNECT,
    ZOOKEEPER_CONNECTION_TIMEOUT_MS,
    ZOOKEEPER_SESSION_TIMEOUT_MS,
)
from penstock.base.errors import UserError
from penstock.base.listeners import parse_address
from penstock.base.settings import Settings
from penstock.broker.broker import Broker
from penstock.broker.listen_errors import listen_error
from penstock.broker.start import OpenStore, WorldParts, start_on
from penstock.world import Disk, Loop, Store, Work
from penstock.world.memory_disk import MemoryDisk
from penstock.world.real_disk import RealDisk
from penstock.world.real_entropy import RealEntropy
from penstock.world.real_limits import raise_open_files_limit
from penstock.world.real_loop import RealLoop, check_can_listen
from penstock.world.real_work import RealWork

IN_MEMORY = "memory"  # shown instead of the path of a data directory


async def start_broker(settings: Settings) -> Broker:
    """Start a broker with the data directory that the settings name.

    Settings are checked as far as possible before the directory is created.
    """
    open_store = _zookeeper(settings)
    _check_addresses(settings)
    return await start_on(
        _real_world(real_disk(settings), settings),
        settings,
        log_dir=data_directory(settings),
        open_store=open_store,
    )


def _check_addresses(settings: Settings) -> None:
    addresses = [(listener.host, listener.port, "--listen") for listener in bound(settings)]
    if settings[PENSTOCK_METRICS_LISTEN]:
        addresses.append((*parse_address(settings[PENSTOCK_METRICS_LISTEN]), PENSTOCK_METRICS_LISTEN.name))
    for host, port, option in addresses:
        try:
            check_can_listen(host, port)
        except OSError as error:
            raise listen_error(error, host, port, option=option) from error


def _zookeeper(settings: Settings) -> OpenStore | None:
    """The function that opens a session with the cluster's ZooKeeper; None for a broker that is alone."""
    if not settings[ZOOKEEPER_CONNECT]:
        return None
    try:
        from penstock.cluster.zookeeper import ZooKeeperStore  # only if it is used: importing kazoo is slow
    except ModuleNotFoundError as error:
        raise UserError(
            f'a cluster needs {error.name}, which is not installed: `pip install "penstock-mq[cluster]"` brings it'
        ) from error

    servers, slash, path = settings[ZOOKEEPER_CONNECT].partition("/")

    async def open_store(loop: Loop, work: Work) -> Store:
        return await ZooKeeperStore.connect(
            servers,
            loop=loop,
            work=work,
            root=slash + path.rstrip("/") if path else "/penstock",
            session_timeout_ms=settings[ZOOKEEPER_SESSION_TIMEOUT_MS],
            connect_timeout_ms=settings[ZOOKEEPER_CONNECTION_TIMEOUT_MS],
        )

    return open_store


def real_disk(settings: Settings) -> RealDisk:
    """The disk of the data directory that the settings name."""
    open_files_max = settings[PENSTOCK_OPEN_FILES_MAX] or raise_open_files_limit() // 2
    return RealDisk(data_directory(settings), open_files_max=open_files_max)


def memory_disk(settings: Settings) -> MemoryDisk:
    """A disk in memory, of the size that the settings allow."""
    return MemoryDisk(size_max=settings[PENSTOCK_MEMORY_BYTES_MAX])


def _real_world(disk: Disk, settings: Settings) -> WorldParts:
    return WorldParts(
        loop=RealLoop(),
        disk=disk,
        entropy=RealEntropy(),
        make_work=lambda: RealWork(threads=settings[PENSTOCK_WORK_THREADS]),
    )
