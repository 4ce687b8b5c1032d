"""Writing changes of the metadata: each is one `multi`, numbered, fenced by the controller's epoch, then made true
here.

The check of the epoch comes first and the numbered delta second. So a refusal says which of the two it was: another
controller has been elected, or this very change was written before the link broke and its answer was lost. That is why
a `multi` whose outcome is not known can be sent again, and has to be before anything else is written.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import replace

from penstock.base.errors import PenstockError
from penstock.cluster.changes import Change
from penstock.cluster.metadata import CONTROLLER_EPOCH, MetadataImage, Topic
from penstock.cluster.metadata_loader import MetadataLoader, MetadataPublisher, delta_path
from penstock.world import World
from penstock.world.store import (
    BadVersionError,
    Check,
    ConnectionLossError,
    Create,
    Delete,
    NodeExistsError,
    Operation,
    SessionExpiredError,
)

DELTAS_KEPT = 500
# Of one change: a topic can be of a hundred kilobytes, and ZooKeeper takes a megabyte at a time.
_TOPICS_MAX = 50
_PARTITIONS_MAX = 3_000
_TRY_AGAIN_S = 0.1


class NotControllerError(PenstockError):
    """This broker may not change the metadata (any more)."""


class MetadataWriter:
    """Writes what the controller decides. `epoch_version` is None where nobody else can be the controller."""

    def __init__(
        self,
        world: World,
        image: MetadataImage,
        loader: MetadataLoader,
        publisher: MetadataPublisher,
        *,
        epoch_version: int | None,
    ) -> None:
        self._world = world
        self._image = image
        self._loader = loader
        self._publisher = publisher
        self._epoch_version = epoch_version
        self.is_deposed = False

    async def publish(self, change: Change, *, checks: tuple[Check, ...] = ()) -> None:
        """Make a change, here and for everybody. `checks` must hold as well (BadVersionError).

        StorageError if it is written, and cannot be made true on this broker, which is alone. Among several the others
        have heard of it, and it stands.
        """
        for part in _parts(change):
            async with self._loader.turn:
                await self._write(part, checks)
                if self._epoch_version is None:
                    await self._publisher.apply(part)
                else:
                    await self._publisher.follow(part)
        if self._publisher.owes:
            self._loader.follow()

    async def publish_elsewhere(self, change: Change) -> None:
        """Take back what could not be made true here."""
        async with self._loader.turn:
            await self._write(change, ())

    async def write(self, operations: list[Operation]) -> None:
        """Write what nobody has to hear of."""
        await self._insist([*self._fence(), *operations])

    async def _write(self, change: Change, checks: tuple[Check, ...]) -> None:
        operations: list[Operation] = [*self._fence()]
        number = self._loader.number + 1
        if self._epoch_version is not None:
            operations.append(Create(delta_path(number), change.encode(self._image)))
            if number - self._loader.oldest >= DELTAS_KEPT:
                operations.append(Delete(delta_path(self._loader.oldest)))
        operations += checks
        operations += change.operations(self._image)
        await self._insist(operations)
        self._image.deletions.add(change.deleted.values())
        if self._epoch_version is not None:
            if number - self._loader.oldest >= DELTAS_KEPT:
                self._loader.oldest += 1
            self._loader.number = number

    def _fence(self) -> list[Check]:
        return [] if self._epoch_version is None else [Check(CONTROLLER_EPOCH, self._epoch_version)]

    async def _insist(self, operations: list[Operation]) -> None:
        """Have operations carried out once, however often the link breaks meanwhile."""
        task = self._world.loop.create_task(self._try(operations))
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            # Who asked is gone. The next change needs to know what became of this one.
            await asyncio.wait([task])
            task.exception()  # nobody is left to hear of it
            raise

    async def _try(self, operations: list[Operation]) -> None:
        in_doubt = False
        while True:
            if self.is_deposed:
                raise NotControllerError("this broker is not the controller any more")
            try:
                await self._world.store.multi(operations)
                return
            except ConnectionLossError:
                in_doubt = True
                await self._world.loop.sleep(_TRY_AGAIN_S)
            except SessionExpiredError as error:
                raise self._deposed("its session with the metadata store has expired") from error
            except NodeExistsError:
                if in_doubt:
                    return
                raise
            except BadVersionError as error:
                if await self._has_successor():
                    raise self._deposed("another one has been elected") from error
                raise

    async def _has_successor(self) -> bool:
        if self._epoch_version is None:
            return False
        while True:
            try:
                return (await self._world.store.get(CONTROLLER_EPOCH)).version != self._epoch_version
            except ConnectionLossError:
                await self._world.loop.sleep(_TRY_AGAIN_S)
            except SessionExpiredError:
                return True

    def _deposed(self, why: str) -> NotControllerError:
        self.is_deposed = True
        return NotControllerError(f"this broker is not the controller any more: {why}")


def _parts(change: Change) -> Iterator[Change]:
    """The same change in pieces that the store can take. Brokers come last: whoever goes on after a controller that
    died half-way sees that there is something left to do.
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
