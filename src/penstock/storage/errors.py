"""Errors of logs, segments and indexes."""

from penstock.base.errors import StorageError


class CorruptionError(StorageError):
    """The log is damaged at this place. Other offsets can still be read."""


class DamagedBatchError(CorruptionError):
    """There is no valid batch at this position of a segment's file, where one should be."""

    def __init__(self, path: str, position: int, why: str) -> None:
        super().__init__(f"{path} is damaged at position {position}: {why}")
        self.path = path
        self.position = position


class DamagedIndexError(CorruptionError):
    """An index contradicts the batches. It can be rebuilt from them."""

    def __init__(self, path: str, why: str, *, base_offset: int) -> None:
        super().__init__(f"{path} is damaged: {why}")
        self.base_offset = base_offset  # of its segment


class LogFailedError(StorageError):
    """The log is offline after a disk error: it rejects writes until the broker is restarted."""


class NoRoomError(StorageError):
    """The disk is full. Nothing was written, and the log stays online: there may be space later."""
