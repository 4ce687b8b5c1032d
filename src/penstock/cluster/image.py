"""Loading the metadata image from the store, and setting an empty store up."""

from collections.abc import Sequence

from penstock.base.errors import StorageError
from penstock.cluster.metadata import (
    BROKER_CONFIGS,
    CLUSTER,
    GROUP_CONFIGS,
    TOPICS,
    MetadataImage,
    Topic,
    decode_configs,
    group_of_configs_path,
)
from penstock.world import World
from penstock.world.store import Create, NoNodeError

_DEFAULT_KEY = "default"


async def load_image(world: World, cluster_id: str) -> MetadataImage:
    """Everything the store holds; a new store gets its first nodes."""
    store = world.store
    try:
        stored_id = (await store.get(CLUSTER)).data.decode()
    except NoNodeError:
        stored_id = cluster_id
        await store.multi([Create(CLUSTER, cluster_id.encode()), Create(TOPICS), Create(BROKER_CONFIGS)])
    if stored_id != cluster_id:
        raise StorageError(
            f"the metadata is of cluster {stored_id}, the data directory of cluster {cluster_id}: they do not "
            "belong together; use the data directory that this metadata was made with"
        )
    image = MetadataImage(cluster_id)
    for name in await store.children(TOPICS):
        node = await store.get(f"{TOPICS}/{name}")
        image.apply_topic(Topic.decode(name, node.data))
    for key in await store.children(BROKER_CONFIGS):
        node = await store.get(f"{BROKER_CONFIGS}/{key}")
        image.apply_broker_configs("" if key == _DEFAULT_KEY else key, decode_configs(node.data))
    for name in await _children_or_new(world, GROUP_CONFIGS):
        node = await store.get(f"{GROUP_CONFIGS}/{name}")
        image.apply_group_configs(group_of_configs_path(name), decode_configs(node.data))
    return image


async def _children_or_new(world: World, path: str) -> Sequence[str]:
    """What is below a path; older stores do not have it yet."""
    try:
        return await world.store.children(path)
    except NoNodeError:
        await world.store.multi([Create(path)])
        return ()
