"""What a replica is given: what all replicas of the broker share, and its opened log."""

from typing import TYPE_CHECKING, NamedTuple, Protocol

from penstock.core.producer_state import ProducerStates
from penstock.services.disk_space import DiskSpace
from penstock.services.flusher import Flusher
from penstock.storage.log import Log
from penstock.world import Disk, World

if TYPE_CHECKING:
    from penstock.services.replicas.replica import Replica


class ReplicaListener(Protocol):
    """Replication, as replicas see it."""

    def replica_changed(self, replica: "Replica") -> None:
        """A replica came, may have another role, or is deleted; its log has failed then."""

    def follower_caught_up(self, replica: "Replica") -> None:
        """A follower of a partition that this broker leads may join the ISR."""

    def cannot_write(self, replica: "Replica") -> None:
        """This broker's log of a partition is full or has failed: another replica could lead."""

    def log_damaged(self, replica: "Replica") -> None:
        """A replica's log has damage that another replica may repair."""


class ReplicaContext:
    """What all replicas of a broker share."""

    __slots__ = ("disk_space", "flusher", "listener", "node_id", "world")

    def __init__(self, world: World, flusher: Flusher, disk_space: DiskSpace, *, node_id: int) -> None:
        self.world = world
        self.flusher = flusher
        self.disk_space = disk_space
        self.node_id = node_id
        self.listener: ReplicaListener | None = None  # None until replication starts


class ReplicaStorage(NamedTuple):
    """A replica's opened log, and what belongs to it."""

    log: Log
    producers: ProducerStates
    disk: Disk
    high_watermark: int = 0  # the checkpointed one; the log may end before it
