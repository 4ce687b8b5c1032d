"""Starts a broker on any world: the caller provides the parts of the world, this module the order of the start."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from penstock.base.broker_settings import NODE_ID
from penstock.base.cluster_settings import (
    INITIAL_BROKER_REGISTRATION_TIMEOUT_MS,
    PENSTOCK_FEATURE_LEVELS_MAX,
    ZOOKEEPER_CONNECT,
    ZOOKEEPER_CONNECTION_TIMEOUT_MS,
)
from penstock.base.errors import UserError
from penstock.base.features import PENSTOCK_VERSION, lowered
from penstock.base.ids import format_id
from penstock.base.settings import Settings
from penstock.broker.broker import Broker
from penstock.cluster.embedded_store import EmbeddedStore
from penstock.cluster.image_loading import claim, cluster_id_of
from penstock.cluster.renewable_store import Patience, RenewableStore
from penstock.storage.data_directory import DataDirectory
from penstock.storage.meta_properties import META_PROPERTIES
from penstock.storage.ownership import METADATA, partitions_with_segments
from penstock.world import Disk, Entropy, Loop, Store, Work, World

# Opens a session with the store of a cluster.
OpenStore: TypeAlias = Callable[[Loop, Work], Awaitable[Store]]


@dataclass(frozen=True)
class WorldParts:
    """The parts of a world without the store, which may be on the disk.

    `make_work` is called once the data directory is locked for this broker: before that there is no work.
    """

    loop: Loop
    disk: Disk
    entropy: Entropy
    make_work: Callable[[], Work]


async def start_on(
    parts: WorldParts, settings: Settings, *, log_dir: str, open_store: OpenStore | None = None
) -> Broker:
    """Start a broker. With `open_store`, which opens a session with a store that brokers share, it is a member of a
    cluster; without, it is alone and keeps its metadata in an embedded store on its disk.
    """
    if open_store is None:
        return await _start_alone(parts, settings, log_dir)
    work = parts.make_work()
    try:
        return await _start_member(parts, settings, log_dir, work, lambda: open_store(parts.loop, work))
    except BaseException:
        work.close()
        raise


async def _start_alone(parts: WorldParts, settings: Settings, log_dir: str) -> Broker:
    directory = _open_directory(parts, settings, log_dir, in_cluster=False)
    work = parts.make_work()
    try:
        store = EmbeddedStore.open(directory.disk, METADATA, loop=parts.loop, work=work)
        world = World(parts.loop, directory.disk, store, work, parts.entropy)
        broker = Broker(world, directory, settings, log_dir=log_dir)
        await broker.start()
    except BaseException:
        work.close()
        directory.close({})
        raise
    return broker


async def _start_member(
    parts: WorldParts,
    settings: Settings,
    log_dir: str,
    work: Work,
    open_session: Callable[[], Awaitable[Store]],
) -> Broker:
    patience = Patience(
        parts.loop,
        addresses=settings[ZOOKEEPER_CONNECT],
        first_ms=settings[ZOOKEEPER_CONNECTION_TIMEOUT_MS],
        then_ms=settings[INITIAL_BROKER_REGISTRATION_TIMEOUT_MS],
    )
    store = RenewableStore(await patience.open(open_session), open_session, parts.loop, patience)
    try:
        directory = await _directory_of_cluster(parts, settings, log_dir, store)
        try:
            world = World(parts.loop, directory.disk, store, work, parts.entropy)
            broker = Broker(world, directory, settings, log_dir=log_dir, sessions=store)
            await broker.start()
        except BaseException:
            directory.close({})
            raise
    except BaseException:
        await store.close()
        raise
    return broker


async def _directory_of_cluster(
    parts: WorldParts, settings: Settings, log_dir: str, store: Store
) -> DataDirectory:
    """Open the data directory as one of the cluster whose metadata the store holds."""
    cluster_id = await cluster_id_of(store)
    if cluster_id is None and not parts.disk.exists(META_PROPERTIES):
        supported = lowered(settings[PENSTOCK_FEATURE_LEVELS_MAX])
        cluster_id = await claim(store, format_id(parts.entropy.random_bytes(16)), supported)
    directory = _open_directory(parts, settings, log_dir, cluster_id, in_cluster=True)
    if cluster_id is None and partitions_with_segments(directory.disk):
        # Metadata without topics have none of the partitions in the directory.
        found = directory.meta.cluster_id
        directory.restore_clean_shutdown_file()
        directory.close({})
        raise UserError(
            f"{log_dir}: the data directory has data of cluster {found}, and ZooKeeper knows no cluster: check the "
            "address and the path of ZooKeeper, or begin with an empty directory"
        )
    return directory


def _open_directory(
    parts: WorldParts, settings: Settings, log_dir: str, cluster_id: str | None = None, *, in_cluster: bool
) -> DataDirectory:
    try:
        return DataDirectory.open(
            parts.disk,
            node_id=settings[NODE_ID],
            cluster_id=cluster_id,
            in_cluster=in_cluster,
            entropy=parts.entropy,
            data_version_max=lowered(settings[PENSTOCK_FEATURE_LEVELS_MAX])[PENSTOCK_VERSION].highest,
        )
    except UserError as error:
        raise UserError(f"{log_dir}: {error}") from error
