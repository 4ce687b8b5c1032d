"""A broker on the real world: a directory of this machine, its network, its clock."""

from penstock.base.broker_settings import (
    NODE_ID,
    PENSTOCK_MEMORY_BYTES_MAX,
    PENSTOCK_OPEN_FILES_MAX,
    PENSTOCK_WORK_THREADS,
    data_directory,
)
from penstock.base.errors import UserError
from penstock.base.settings import Settings
from penstock.broker.broker import Broker
from penstock.cluster.embedded_store import EmbeddedStore
from penstock.storage.directory import DataDirectory
from penstock.world import Disk, World
from penstock.world.memory_disk import MemoryDisk
from penstock.world.real_disk import RealDisk
from penstock.world.real_entropy import RealEntropy
from penstock.world.real_limits import raise_open_files_limit
from penstock.world.real_loop import RealLoop
from penstock.world.real_work import RealWork

METADATA = "__metadata"


async def start_broker(settings: Settings) -> Broker:
    """A running broker that keeps its data in the directory the settings name."""
    path = data_directory(settings)
    open_files_max = settings[PENSTOCK_OPEN_FILES_MAX] or raise_open_files_limit() // 2
    return await _start(RealDisk(path, open_files_max=open_files_max), settings, log_dir=path)


async def start_broker_in_memory(settings: Settings) -> Broker:
    """A running broker whose data is gone when it stops."""
    return await _start(MemoryDisk(size_max=settings[PENSTOCK_MEMORY_BYTES_MAX]), settings, log_dir="memory")


async def _start(disk: Disk, settings: Settings, *, log_dir: str) -> Broker:
    entropy = RealEntropy()
    try:
        directory = DataDirectory.open(disk, node_id=settings[NODE_ID], entropy=entropy)
    except UserError as error:
        raise UserError(f"{log_dir}: {error}") from error
    work = RealWork(threads=settings[PENSTOCK_WORK_THREADS])
    try:
        loop = RealLoop()
        store = EmbeddedStore.open(disk, METADATA, loop=loop, work=work)
        world = World(loop, disk, store, work, entropy)
        broker = Broker(world, directory, settings, log_dir=log_dir)
        await broker.start()
    except BaseException:
        work.close()
        directory.close({})
        raise
    return broker
