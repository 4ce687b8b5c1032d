"""Keeps a broker's metadata image up to date: loads the whole metadata once, then applies the deltas in order.

There is one watch, on the list of deltas, whatever the number of topics. The controller deletes the oldest deltas, so
a broker may miss some: it then reads the whole metadata again, and applies the difference from its image.
"""

import asyncio
import json
import logging
from collections.abc import Callable
from typing import Any, Protocol

from penstock.cluster.image_loading import (
    load_image,
    read_broker,
    read_configs,
    read_deletions,
    read_features,
    read_topic,
)
from penstock.cluster.metadata import DELTAS, MetadataImage
from penstock.cluster.metadata_changes import Change, difference
from penstock.cluster.store_watcher import StoreWatcher
from penstock.world import World
from penstock.world.store import NoNodeError

log = logging.getLogger("penstock.metadata")

_TRY_AGAIN_STORING_S = 1.0


class MetadataPublisher(Protocol):
    """Applies changes of the metadata on this broker: to its replicas, its configs and its image."""

    async def apply(self, change: Change) -> None:
        """Apply a change that can still be undone; StorageError if this broker cannot apply it."""
        ...

    async def follow(self, change: Change) -> None:
        """Apply a change that stands, since other brokers apply it too. What fails here now is kept for `try_again`."""
        ...

    @property
    def has_unprepared_topics(self) -> bool: ...

    async def try_again(self) -> None:
        """Apply what failed before, as far as that is possible now."""
        ...


def delta_path(number: int) -> str:
    return f"{DELTAS}/{number:010}"


class MetadataLoader:
    """Loads the image of one broker, and counts the deltas applied to it."""

    def __init__(self, world: World, image: MetadataImage, publisher: MetadataPublisher) -> None:
        self._world = world
        self._image = image
        self._publisher = publisher
        self.turn = asyncio.Lock()  # held while a change is applied, whether it was read or decided here
        self.number = 0  # of the last delta that the image includes
        self.oldest = 1  # number of a delta that the store still has
        self._watcher = StoreWatcher(world, self._look, name="follow the metadata")
        self._retries = StoreWatcher(world, self._retry_unprepared, name="prepare topics again")

    def follow(self) -> None:
        """Look for deltas now and whenever the watch fires. Call it again for each new session."""
        self._watcher.ask()

    async def stop(self) -> None:
        await self._watcher.stop()
        await self._retries.stop()

    async def _look(self) -> bool:
        await self.catch_up(watch=self.follow)
        if self._publisher.has_unprepared_topics:
            self._retries.ask()
        return True

    async def _retry_unprepared(self) -> bool:
        await self._world.loop.sleep(_TRY_AGAIN_STORING_S)
        async with self.turn:
            await self._publisher.try_again()
        return not self._publisher.has_unprepared_topics

    async def catch_up(self, *, watch: Callable[[], None] | None = None) -> None:
        """Apply all deltas that the store holds."""
        async with self.turn:
            while True:
                names = await self._world.store.children(DELTAS, watch=watch)
                watch = None
                numbers = [int(name) for name in names]
                newer = [number for number in numbers if number > self.number]
                self.oldest = min(numbers, default=self.number + 1)
                if not newer:
                    break
                if newer[0] != self.number + 1:
                    await self._read_all_again()
                    continue
                await self._apply(newer)

    async def _apply(self, numbers: list[int]) -> None:
        for number in numbers:
            try:
                node = await self._world.store.get(delta_path(number))
            except NoNodeError:
                return  # deleted meanwhile: the next look reads all metadata again
            log.debug("applying metadata delta %d: %s", number, node.data.decode(errors="replace"))
            change = Change.decode(node.data, self._image)
            self._image.deletions.add(change.deleted.values())
            await self._publisher.follow(change)
            self.number = number

    async def _read_all_again(self) -> None:
        log.warning("missed metadata deltas after number %d; reloading the whole metadata image", self.number)
        fresh = MetadataImage(self._image.cluster_id)
        number = await read_all(self._world, fresh)
        await read_deletions(self._world, self._image)
        await self._publisher.follow(difference(self._image, fresh))
        self.number = number

    async def read_first(self) -> None:
        """Load the image at start-up, without calling the publisher."""
        self.number = await read_all(self._world, self._image)


async def read_all(world: World, image: MetadataImage) -> int:
    """Load all metadata into an empty image; returns the number of the last delta that it includes.

    The controller may change nodes while they are read one by one. So everything that new deltas name is read again,
    until there are no new deltas.
    """
    number = max(map(int, await world.store.children(DELTAS)), default=0)
    await load_image(world, image)
    while True:
        newer = [each for each in map(int, await world.store.children(DELTAS)) if each > number]
        if not newer:
            return number
        for each in newer:
            try:
                node = await world.store.get(delta_path(each))
            except NoNodeError:
                await load_image(world, image)  # the oldest of these deltas are deleted: read all again
            else:
                await _read_again(world, image, json.loads(node.data))
        number = newer[-1]


async def _read_again(world: World, image: MetadataImage, delta: dict[str, Any]) -> None:
    """Read all topics, brokers and configs again that a delta names."""
    names = [*delta.get("deleted", ()), *(topic["name"] for topic in delta.get("topics", ()))]
    if delta.get("deleted"):
        await read_deletions(world, image)
    for name in dict.fromkeys(names):
        await read_topic(world, image, name)
    for broker in delta.get("brokers", ()):
        await read_broker(world, image, broker["node_id"])
    if delta.keys() & {"broker_configs", "group_configs"}:
        await read_configs(world, image)
    if "features" in delta:
        await read_features(world, image)
