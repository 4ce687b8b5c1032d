"""How a broker keeps up with the metadata: it reads all of it once, and then the deltas, in the order of their numbers.

There is one watch, on the list of deltas, however many topics there are. Who misses a number, because the oldest ones
are deleted, reads everything again and applies the difference.
"""

import asyncio
import json
import logging
from collections.abc import Callable
from typing import Any, Protocol

from penstock.cluster.changes import Change, difference
from penstock.cluster.image import (
    load_image,
    read_broker,
    read_configs,
    read_deletions,
    read_features,
    read_topic,
)
from penstock.cluster.metadata import DELTAS, MetadataImage
from penstock.cluster.store_watcher import StoreWatcher
from penstock.world import World
from penstock.world.store import NoNodeError

log = logging.getLogger("penstock.metadata")

_TRY_AGAIN_STORING_S = 1.0


class MetadataPublisher(Protocol):
    """Whoever makes a change true on this broker, its image included."""

    async def apply(self, change: Change) -> None:
        """StorageError if this broker cannot do its part: it can be taken back then."""
        ...

    async def follow(self, change: Change) -> None:
        """A change that others have made, or that others have heard of: what cannot be done here now is owed."""
        ...

    @property
    def owes(self) -> bool: ...

    async def try_again(self) -> None:
        """Do what is owed, if it can be done now."""
        ...


def delta_path(number: int) -> str:
    return f"{DELTAS}/{number:010}"


class MetadataLoader:
    """The image of one broker, and how many changes it has seen."""

    def __init__(self, world: World, image: MetadataImage, publisher: MetadataPublisher) -> None:
        self._world = world
        self._image = image
        self._publisher = publisher
        self.turn = asyncio.Lock()  # of who makes the next change, by reading it or by deciding it
        self.number = 0  # of the last delta that is in the image
        self.oldest = 1  # delta that the store still has
        self._watcher = StoreWatcher(world, self._look, name="follow the metadata")
        self._debts = StoreWatcher(world, self._pay, name="apply what is owed")

    def follow(self) -> None:
        """Begin to look for news, at once and whenever there are some; after a new session, call it again."""
        self._watcher.ask()

    async def stop(self) -> None:
        await self._watcher.stop()
        await self._debts.stop()

    async def _look(self) -> bool:
        await self.catch_up(watch=self.follow)
        if self._publisher.owes:
            self._debts.ask()
        return True

    async def _pay(self) -> bool:
        await self._world.loop.sleep(_TRY_AGAIN_STORING_S)
        async with self.turn:
            await self._publisher.try_again()
        return not self._publisher.owes

    async def catch_up(self, *, watch: Callable[[], None] | None = None) -> None:
        """Apply all that there is."""
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
                return  # deleted since: look again
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
        """Fill the image, at start-up; nobody is told."""
        self.number = await read_all(self._world, self._image)


async def read_all(world: World, image: MetadataImage) -> int:
    """Fill an empty image with what the store holds; the number of the last delta that is in it.

    The nodes are read one by one while others change them, so what the deltas of that time name is read again, until no
    new ones have come.
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
                await load_image(world, image)  # so many changes that the first are gone: all of it again
            else:
                await _read_again(world, image, json.loads(node.data))
        number = newer[-1]


async def _read_again(world: World, image: MetadataImage, delta: dict[str, Any]) -> None:
    """Read whatever a delta names."""
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
