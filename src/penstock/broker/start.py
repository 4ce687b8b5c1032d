"""A broker on any world: what the world is made of comes from outside, the order of the start is here."""

from collections.abc import Callable
from dataclasses import dataclass

from penstock.base.broker_settings import NODE_ID
from penstock.base.errors import UserError
from penstock.base.settings import Settings
from penstock.broker.broker import Broker
from penstock.cluster.embedded_store import EmbeddedStore
from penstock.storage.directory import DataDirectory
from penstock.world import Disk, Entropy, Loop, Store, Work, World

METADATA = "__metadata"


@dataclass(frozen=True)
class WorldParts:
    """What a world consists of, without the store, which can live on the disk.

    `make_work` is called when the data directory is the broker's own: before that there is nothing to work on.
    """

    loop: Loop
    disk: Disk
    entropy: Entropy
    make_work: Callable[[], Work]


async def start_on(
    parts: WorldParts, settings: Settings, *, log_dir: str, store: Store | None = None
) -> Broker:
    """A running broker. Without a `store` it keeps its metadata on its disk."""
    try:
        directory = DataDirectory.open(parts.disk, node_id=settings[NODE_ID], entropy=parts.entropy)
    except UserError as error:
        raise UserError(f"{log_dir}: {error}") from error
    work = parts.make_work()
    try:
        if store is None:
            store = EmbeddedStore.open(parts.disk, METADATA, loop=parts.loop, work=work)
        world = World(parts.loop, parts.disk, store, work, parts.entropy)
        broker = Broker(world, directory, settings, log_dir=log_dir)
        await broker.start()
    except BaseException:
        work.close()
        directory.close({})
        raise
    return broker
