"""Loads the metadata image from the store, and creates the first nodes of an empty store."""

from collections.abc import Sequence
from contextlib import suppress

from penstock.base.errors import StorageError
from penstock.base.features import SUPPORTED
from penstock.cluster.features import Features, Ranges, first_features
from penstock.cluster.metadata import (
    BROKER_CONFIGS,
    BROKERS,
    CLUSTER,
    CONTROLLER_EPOCH,
    DELETIONS,
    DELTAS,
    FEATURES,
    GROUP_CONFIGS,
    LIVE,
    SUSPECTS,
    TOPICS,
    BrokerRegistration,
    MetadataImage,
    Topic,
    decode_configs,
    encode_number,
    group_of_configs_path,
)
from penstock.cluster.topic_deletions import Deletion
from penstock.world import World
from penstock.world.store import Create, NodeExistsError, NoNodeError, Store

_DEFAULT_KEY = "default"

_PARENTS = (TOPICS, BROKER_CONFIGS, GROUP_CONFIGS, DELETIONS)
_SHARED_PARENTS = (BROKERS, LIVE, DELTAS, SUSPECTS)


async def cluster_id_of(store: Store) -> str | None:
    """The id of the cluster whose metadata the store holds; None if the store is empty."""
    try:
        return (await store.get(CLUSTER)).data.decode()
    except NoNodeError:
        return None


async def claim(store: Store, cluster_id: str, supported: Ranges) -> str:
    """Write the cluster id, and the feature levels that the first broker supports, to an empty store. Returns the
    cluster id that the store then holds: another broker may have written one first.
    """
    if await cluster_id_of(store) is None:
        with suppress(NodeExistsError):
            features = first_features(supported)
            await store.multi([Create(CLUSTER, cluster_id.encode()), Create(FEATURES, features.encode())])
    return (await store.get(CLUSTER)).data.decode()


async def set_up(store: Store, cluster_id: str, *, shared: bool, supported: Ranges = SUPPORTED) -> None:
    """Create the first nodes of a new store; refuse a store that holds another cluster's metadata.

    `shared`: several brokers use the store. `supported`: the feature levels that this broker supports.
    """
    found = await claim(store, cluster_id, supported)
    if found != cluster_id:
        raise StorageError(
            f"the metadata is of cluster {found}, the data directory of cluster {cluster_id}: they do not "
            "belong together; use the data directory that this metadata was made with"
        )
    for path in (*_PARENTS, *(_SHARED_PARENTS if shared else ())):
        await _create(store, path)
    if shared:
        await _create(store, CONTROLLER_EPOCH, encode_number(0))


async def _create(store: Store, path: str, data: bytes = b"") -> None:
    """Create a node, unless it exists."""
    try:
        await store.get(path)
    except NoNodeError:
        try:
            await store.multi([Create(path, data)])
        except NodeExistsError:
            return


async def load_image(world: World, image: MetadataImage) -> None:
    """Load all metadata from the store into an image that is empty, or older."""
    store = world.store
    await read_features(world, image)
    await read_deletions(world, image)
    names = await store.children(TOPICS)
    for name in dict.fromkeys([*names, *(topic.name for topic in image.topics())]):
        await read_topic(world, image, name)
    await read_configs(world, image)
    for node_id in await _children(store, BROKERS):
        await read_broker(world, image, int(node_id))


async def read_topic(world: World, image: MetadataImage, name: str) -> None:
    """Load one topic from the store, or apply that it does not exist."""
    try:
        node = await world.store.get(f"{TOPICS}/{name}")
    except NoNodeError:
        if image.topic(name) is not None:
            image.apply_topic_deleted(name)
        return
    known = image.topic(name)
    try:
        topic = Topic.decode(name, node.data)
    except (ValueError, KeyError, TypeError) as error:
        # Skipping the topic would make it look deleted, and the broker would delete its data.
        raise StorageError(
            f"the metadata of topic {name!r} cannot be read ({error!r}): the node {TOPICS}/{name} is damaged. Nothing "
            "was changed; put back what the node held, or delete it to delete the topic"
        ) from error
    if known is not None and known.topic_id != topic.topic_id:
        image.apply_topic_deleted(name)
    image.apply_topic(topic)


async def read_features(world: World, image: MetadataImage) -> None:
    try:
        node = await world.store.get(FEATURES)
    except NoNodeError:
        return  # metadata of a version without feature levels
    image.apply_features(Features.decode(node.data))


async def read_deletions(world: World, image: MetadataImage) -> None:
    nodes = map(Deletion.of_node, await _children(world.store, DELETIONS))
    image.deletions.add(
        sorted((each for each in nodes if each is not None), key=lambda each: each.number or 0)
    )


async def read_broker(world: World, image: MetadataImage, node_id: int) -> None:
    node = await world.store.get(f"{BROKERS}/{node_id}")
    image.apply_broker(BrokerRegistration.decode(node.data))


async def read_configs(world: World, image: MetadataImage) -> None:
    """Load the configs of brokers and groups."""
    store = world.store
    for key in await store.children(BROKER_CONFIGS):
        node = await store.get(f"{BROKER_CONFIGS}/{key}")
        image.apply_broker_configs("" if key == _DEFAULT_KEY else key, decode_configs(node.data))
    names = {group_of_configs_path(name): name for name in await store.children(GROUP_CONFIGS)}
    for group_id in dict.fromkeys([*image.group_configs, *names]):
        try:
            node = await store.get(f"{GROUP_CONFIGS}/{names[group_id]}")
        except (KeyError, NoNodeError):
            image.apply_group_configs(group_id, {})
        else:
            image.apply_group_configs(group_id, decode_configs(node.data))


async def _children(store: Store, path: str) -> Sequence[str]:
    """The children of a node, none if the node does not exist: a store that is not shared has no `/brokers`."""
    try:
        return await store.children(path)
    except NoNodeError:
        return ()
