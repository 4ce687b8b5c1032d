"""What a node is doing, derived from its disk and network operations.

A fault is counted by the phase in which it was injected, so that a summary shows which combinations were not tried.
"""

from collections.abc import Callable
from enum import StrEnum
from functools import lru_cache

from penstock.sim.disk_operations import DiskOperation
from penstock.storage import file_names
from penstock.storage.data_directory import CLEAN_SHUTDOWN
from penstock.storage.meta_properties import META_PROPERTIES
from penstock.storage.ownership import METADATA

_STATE_SUFFIXES = (file_names.INDEX, file_names.TIME_INDEX, file_names.SNAPSHOT)


class Phase(StrEnum):
    """What a node is doing."""

    APPEND = "append"
    ROLL = "roll"
    FLUSH = "flush"
    RECOVERY = "recovery"
    COMPACTION = "compaction"
    REMOVAL = "removal"
    CHECKPOINT = "checkpoint"
    METADATA = "metadata"
    READ = "read"
    REQUEST = "request"
    REPLY = "reply"
    STOP = "stop"
    IDLE = "idle"
    DOWN = "down"


class NodePhases:
    """The phase of one node, derived from its disk and network operations."""

    def __init__(self) -> None:
        self._life = Phase.DOWN
        self._doing = Phase.IDLE
        self.listener: Callable[[Phase], None] | None = None  # called with each phase

    @property
    def now(self) -> Phase:
        """The current phase: starting, stopping or down, else what the node did last."""
        return self._doing if self._life is Phase.IDLE else self._life

    def starts(self) -> None:
        self._life, self._doing = Phase.RECOVERY, Phase.IDLE

    def serves(self) -> None:
        self._life = Phase.IDLE

    def stops(self) -> None:
        self._life = Phase.STOP

    def is_down(self) -> None:
        self._life, self._doing = Phase.DOWN, Phase.IDLE

    def on_received(self) -> None:
        """The node received bytes."""
        self._see(Phase.REQUEST)

    def on_sent(self) -> None:
        """The node sent bytes."""
        self._see(Phase.REPLY)

    def on_idle(self) -> None:
        """The node has nothing to run, and no work off the loop is pending."""
        self._doing = Phase.IDLE

    def watch(self, operation: DiskOperation, path: str, count: int) -> None:  # noqa: ARG002
        """An operation on the node's disk is about to happen."""
        phase = phase_of(operation, path)
        if phase is not None:
            self._see(phase)

    def _see(self, phase: Phase) -> None:
        self._doing = phase
        if self.listener is not None:
            self.listener(self.now)


@lru_cache(maxsize=4096)  # the same few files recur
def phase_of(operation: DiskOperation, path: str) -> Phase | None:
    """The phase that a disk operation belongs to; None if it does not tell."""
    name = path.rpartition("/")[2]
    if _is_metadata(path):
        return Phase.METADATA
    if _is_checkpoint(path):
        return Phase.CHECKPOINT
    if name.endswith((file_names.CLEANED, file_names.SWAP)):
        return Phase.COMPACTION
    if operation in (DiskOperation.REMOVE, DiskOperation.REMOVE_TREE) or name.endswith(
        (file_names.DELETED, "-delete")
    ):
        return Phase.REMOVAL
    if operation in (DiskOperation.SYNC, DiskOperation.SYNC_DIR, DiskOperation.SYNC_ALL):
        return Phase.FLUSH
    if operation in (DiskOperation.READ, DiskOperation.READ_CACHED):
        return Phase.READ
    if operation is DiskOperation.CREATE:
        return _phase_of_new_file(name)
    if operation is DiskOperation.APPEND:
        return Phase.APPEND if name.endswith(file_names.LOG) else _phase_of_new_file(name)
    return None


def _is_metadata(path: str) -> bool:
    return path.split("/")[0] == METADATA or path.removesuffix(".tmp") == META_PROPERTIES


def _is_checkpoint(path: str) -> bool:
    """Whether it is a checkpoint file of the data directory; a partition's own files count as its flush."""
    name = path.removesuffix(".tmp")
    return "/" not in name and (name.endswith("-checkpoint") or name == CLEAN_SHUTDOWN)


def _phase_of_new_file(name: str) -> Phase | None:
    if name.endswith((file_names.LOG, *_STATE_SUFFIXES)):
        return Phase.ROLL
    if name.removesuffix(".tmp") == file_names.LEADER_EPOCHS:
        return Phase.FLUSH  # written when a flush is planned
    return Phase.METADATA if name == file_names.PARTITION_METADATA else None
