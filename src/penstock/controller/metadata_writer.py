"""Writes changes of the metadata: each is one `multi`, numbered, fenced by the controller epoch, then applied here.

The first operation of the `multi` checks the controller epoch (`controller_fencing`), so a deposed controller cannot
write. The second creates `/deltas/NUMBER`, which holds only what changed (`cluster/metadata_changes.py`). So an error
says which of the two failed: another controller has been elected, or this very change was written before the connection
broke and its answer was lost. That is why a `multi` whose outcome is not known can be sent again, and has to be before
anything else is written.

A large change is written in several parts, with the brokers in the last part: if this controller dies in between, the
next one sees that the brokers are still to be changed, and decides again.
"""

from collections.abc import Iterator
from dataclasses import replace

from penstock.cluster.metadata import MetadataImage, Topic
from penstock.cluster.metadata_changes import Change
from penstock.cluster.metadata_loader import MetadataLoader, MetadataPublisher, delta_path
from penstock.controller.controller_fencing import FencedStore
from penstock.world import World
from penstock.world.store import Check, Create, Delete, Operation

DELTAS_KEPT = 500
# Of one change: a topic can be of a hundred kilobytes, and ZooKeeper takes a megabyte at a time.
_TOPICS_MAX = 50
_PARTITIONS_MAX = 3_000


class MetadataWriter:
    """Writes what the controller decides. `epoch_version` is None where no other broker can be the controller."""

    def __init__(
        self,
        world: World,
        image: MetadataImage,
        loader: MetadataLoader,
        publisher: MetadataPublisher,
        *,
        epoch_version: int | None,
    ) -> None:
        self._image = image
        self._loader = loader
        self._publisher = publisher
        self._epoch_version = epoch_version
        self._store = FencedStore(world, epoch_version=epoch_version)

    @property
    def is_deposed(self) -> bool:
        return self._store.is_deposed

    def depose(self) -> None:
        """Write nothing more: another controller is elected, or will be."""
        self._store.is_deposed = True

    async def publish(self, change: Change, *, checks: tuple[Check, ...] = ()) -> None:
        """Write a change and apply it on this broker. `checks` must hold as well (BadVersionError).

        StorageError if it is written and cannot be applied on this broker, which is alone. In a cluster the other
        brokers apply it, and it stands.
        """
        for part in _parts(change):
            async with self._loader.turn:
                await self._write(part, checks)
                if self._epoch_version is None:
                    await self._publisher.apply(part)
                else:
                    await self._publisher.follow(part)
        if self._publisher.has_unprepared_topics:
            self._loader.follow()

    async def publish_elsewhere(self, change: Change) -> None:
        """Write a change without applying it here: it takes back one that could not be applied."""
        async with self._loader.turn:
            await self._write(change, ())

    async def write(self, operations: list[Operation]) -> None:
        """Write what is no change of the metadata image."""
        await self._store.write(operations)

    async def _write(self, change: Change, checks: tuple[Check, ...]) -> None:
        operations: list[Operation] = []
        number = self._loader.number + 1
        if self._epoch_version is not None:
            operations.append(Create(delta_path(number), change.encode(self._image)))
            if number - self._loader.oldest >= DELTAS_KEPT:
                operations.append(Delete(delta_path(self._loader.oldest)))
        operations += checks
        operations += change.operations(self._image)
        await self._store.write(operations)
        self._image.deletions.add(change.deleted.values())
        if self._epoch_version is not None:
            if number - self._loader.oldest >= DELTAS_KEPT:
                self._loader.oldest += 1
            self._loader.number = number


def _parts(change: Change) -> Iterator[Change]:
    """The same change in pieces that the store can take. Brokers come last: if this controller dies half-way, the next
    one sees that the brokers are still to be changed, and decides again.
    """
    names = list(change.topics)
    first = replace(change, topics={}, brokers={})
    part: dict[str, Topic] = {}
    partitions = 0
    for name in names:
        topic = change.topics[name]
        if part and (len(part) >= _TOPICS_MAX or partitions + len(topic.partitions) > _PARTITIONS_MAX):
            yield replace(first, topics=part)
            first, part, partitions = Change(), {}, 0
        part[name] = topic
        partitions += len(topic.partitions)
    yield replace(first, topics=part, brokers=change.brokers)
