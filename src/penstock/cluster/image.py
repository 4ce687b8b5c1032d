"""Reading the metadata image from the store, and setting an empty store up."""

from collections.abc import Sequence
from contextlib import suppress

from penstock.base.errors import StorageError
from penstock.base.features import SUPPORTED
from penstock.cluster.deletions import Deletion
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
from penstock.world import World
from penstock.world.store import Create, NodeExistsError, NoNodeError, Store

_DEFAULT_KEY = "default"

_PARENTS = (TOPICS, BROKER_CONFIGS, GROUP_CONFIGS, DELETIONS)
_SHARED_PARENTS = (BROKERS, LIVE, DELTAS, SUSPECTS)


async def cluster_id_of(store: Store) -> str | None:
    """The cluster whose metadata the store has; None if it is empty."""
    try:
        return (await store.get(CLUSTER)).data.decode()
    except NoNodeError:
        return None


async def claim(store: Store, cluster_id: str, supported: Ranges) -> str:
    """Make an empty store that of a cluster, with all the features that its first broker supports; the id of the
    cluster it then is of, for somebody may have been faster.
    """
    if await cluster_id_of(store) is None:
        with suppress(NodeExistsError):
            features = first_features(supported)
            await store.multi([Create(CLUSTER, cluster_id.encode()), Create(FEATURES, features.encode())])
    return (await store.get(CLUSTER)).data.decode()


async def set_up(store: Store, cluster_id: str, *, shared: bool, supported: Ranges = SUPPORTED) -> None:
    """Give a new store its first nodes; one with another cluster's metadata is refused.

    `shared`: brokers find each other in it. `supported`: by the broker that sets it up.
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
    """A node, unless it is there."""
    try:
        await store.get(path)
    except NoNodeError:
        try:
            await store.multi([Create(path, data)])
        except NodeExistsError:
            return


async def load_image(world: World, image: MetadataImage) -> None:
    """Everything the store holds, into an image that knows nothing, or less."""
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
    """A topic as it is in the store, or its absence."""
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
        # Without it the topic would seem to be gone, and its data would be deleted.
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
        return  # metadata from before there were levels
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
    """The configs of brokers and groups."""
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
    """What is below a path, if it is there: a store that is not shared has no brokers."""
    try:
        return await store.children(path)
    except NoNodeError:
        return ()
